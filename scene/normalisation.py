"""The change of frame that a trainer made before it trained: rigid, then a scale; and back."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scene.camera import Camera
from scene.errors import InputError
from scene.gaussians import Gaussians, matrices_to_quaternions
from scene.harmonics import rotate_harmonics

DoubleArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Normalisation:
    """Original frame to normalised frame: p' = scale * (R p + t), nerfstudio's order.

    transform: (3, 4) rigid [R | t], float64, t in original units. scale: > 0.

    The `apply_to_*` methods go from original to normalised; `inverse()` gives the way back.
    Lengths (depths, metres per original unit) are multiplied by `scale`.
    """

    transform: DoubleArray
    scale: float = 1.0

    def __post_init__(self) -> None:
        transform = np.array(self.transform, dtype=np.float64)
        if transform.shape != (3, 4) or not np.isfinite(transform).all():
            raise InputError("transform: wanted 3x4 finite numbers [R | t]")
        rotation = transform[:, :3]
        if not np.allclose(rotation @ rotation.T, np.eye(3), atol=1e-4) or (
            np.linalg.det(rotation) < 0
        ):
            raise InputError("transform: wanted a rotation, found scale, shear or a mirror")
        if not (np.isfinite(self.scale) and self.scale > 0):
            raise InputError(f"scale: wanted a number > 0, found {self.scale}")
        transform.flags.writeable = False
        object.__setattr__(self, "transform", transform)
        object.__setattr__(self, "scale", float(self.scale))

    @property
    def rotation(self) -> DoubleArray:
        """(3, 3) normalised_from_original rotation."""
        return self.transform[:, :3]

    def inverse(self) -> Normalisation:
        """The same change of frame the other way: normalised to original."""
        rotation = self.rotation.T
        shift = -self.scale * rotation @ self.transform[:, 3]
        return Normalisation(np.column_stack([rotation, shift]), 1 / self.scale)

    def apply_to_points(self, points: ArrayLike) -> DoubleArray:
        """(..., 3) points."""
        turned = np.asarray(points, dtype=np.float64) @ self.rotation.T
        return self.scale * (turned + self.transform[:, 3])

    def apply_to_direction(self, direction: ArrayLike) -> DoubleArray:
        """(..., 3) directions, for example an up axis; lengths stay."""
        return np.asarray(direction, dtype=np.float64) @ self.rotation.T

    def apply_to_camera(self, camera: Camera) -> Camera:
        """The camera that takes the same picture of the changed scene; depths scale."""
        pose = np.eye(4)
        pose[:3, :3] = camera.camera_from_world[:3, :3] @ self.rotation.T
        pose[:3, 3] = -pose[:3, :3] @ self.apply_to_points(camera.center)
        return replace(camera, camera_from_world=pose)

    def apply_to_gaussians(self, gaussians: Gaussians) -> Gaussians:
        """Means, shapes and harmonics together; opacities stay, and so does the order."""
        turn = matrices_to_quaternions(self.rotation[None])[0]
        return replace(
            gaussians,
            means=self.apply_to_points(gaussians.means).astype(np.float32),
            quats=_product(turn, gaussians.quats),
            scales=gaussians.scales * np.float32(self.scale),
            sh=rotate_harmonics(gaussians.sh, self.rotation),
        )


def _product(left: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.float32]:
    """Quaternion (4,) wxyz times quaternions (N, 4): first `right` turns, then `left`."""
    w, x, y, z = left.tolist()
    matrix = np.array([[w, -x, -y, -z], [x, w, -z, y], [y, z, w, -x], [z, -y, x, w]])
    product = right.astype(np.float64) @ matrix.T
    return np.asarray(product / np.linalg.norm(product, axis=1, keepdims=True), dtype=np.float32)
