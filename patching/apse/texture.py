"""The patch as the anchor saw it: a texture that the anchor's rays fix to the surface.

Every anchor has one, also an outside pair that brings no placement. It can be laid into another
view as a placed patch can (`patching.raycast.composite`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patching.anchor import Anchor
from patching.patch import Patch
from patching.raycast import CORNERS_UV, cast_patch, outline_uv
from scene.camera import Camera

DoubleArray = NDArray[np.float64]
FloatArray = NDArray[np.float32]


class AnchorTexture:
    """The bounding box of the anchor's mask, projected from the anchor camera onto the surface."""

    def __init__(self, anchor: Anchor) -> None:
        rows, columns = np.nonzero(anchor.mask)
        self.surface = anchor.surface
        self._camera = anchor.camera
        self._low = np.array([columns.min(), rows.min()], dtype=np.float64)
        self._size = np.array([columns.max(), rows.max()]) + 1.0 - self._low
        box = (slice(rows.min(), rows.max() + 1), slice(columns.min(), columns.max() + 1))
        shape = anchor.mask[box].astype(np.float32)
        self.patch = Patch(
            np.concatenate([np.clip(anchor.image[box], 0, 1), shape[..., None]], axis=2), "anchor"
        )
        ends = self.corners()
        self.width = float(np.linalg.norm(ends[1] - ends[0]))

    def to_uv(self, points: DoubleArray) -> DoubleArray:
        """World points (..., 3) to coordinates (..., 2) in the mask's box."""
        pixels, _ = self._camera.project(points)
        return np.asarray((pixels - self._low) / self._size)

    def from_uv(self, uv: ArrayLike) -> DoubleArray:
        """Box coordinates (..., 2) to points (..., 3) on the surface."""
        pixels = self._low + np.asarray(uv, dtype=np.float64) * self._size
        points, _ = self.surface.intersect(self._camera.center, self._camera.rays(pixels))
        return np.asarray(points)

    def corners(self) -> DoubleArray:
        """(4, 3) corners of the box on the surface: top left, then clockwise."""
        return self.from_uv(CORNERS_UV)

    def outline(self, steps: int = 1) -> DoubleArray:
        """(4 * steps, 3) points around the box, from the top left corner clockwise."""
        return self.from_uv(outline_uv(steps))

    def outward_at(self, points: DoubleArray) -> DoubleArray:
        """(..., 3) unit normals of the surface, towards the anchor camera."""
        normals = self.surface.normal_at(points)
        sign = np.sign(np.einsum("...i,...i", normals, self._camera.center - points))
        return np.asarray(normals * np.where(sign == 0, 1.0, sign)[..., None])

    def coverage(self, camera: Camera, supersample: int = 2) -> FloatArray:
        """(H, W) in [0, 1]: the mask as `camera` would see it were nothing in front."""
        covered = np.zeros((camera.height, camera.width), np.float32)
        rays = cast_patch(self, camera, supersample)
        if rays is not None:
            uv = np.where(rays.inside[..., None], rays.uv, 0)
            height, width = self.patch.alpha.shape
            columns = np.minimum((uv[..., 0] * width).astype(int), width - 1)
            rows = np.minimum((uv[..., 1] * height).astype(int), height - 1)
            shown = rays.inside & (self.patch.alpha[rows, columns] > 0.5)
            covered[rays.rows, rays.columns] = rays.pooled(shown.astype(np.float32))
        return covered
