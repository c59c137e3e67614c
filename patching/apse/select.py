"""Which clean Gaussians an embedding reuses (G_old), and which it fades before the surface."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from patching.apse.settings import ApseSettings
from scene.camera import Camera
from scene.gaussians import Gaussians
from scene.surface import Surface

DoubleArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


MIN_KEPT = 0.1
"""Share of the reusable Gaussians that must stay behind the patch, or no depth is cut."""


@dataclass(frozen=True, eq=False)
class OldSelection:
    """Rows of the clean scene, disjoint and ascending.

    reused: (n,) color and opacity move. faded: (m,) opacity becomes 0.
    """

    reused: IntArray
    faded: IntArray


def select_old(
    gaussians: Gaussians,
    camera: Camera,
    mask: NDArray[np.bool_],
    median_depth: NDArray[np.float32],
    surface: Surface,
    stride: float,
    settings: ApseSettings,
) -> OldSelection:
    """Clean Gaussians under the patch.

    Their centre projects inside `mask` and lies within `reuse_depth` of the clean median depth
    there. inspector: those in front of the surface are faded whatever their opacity (half of them
    are faint, and they smear the patch off the anchor), and those close behind it, which come
    first when the camera moves; the rest is as in the paper. Never all: without those behind, the
    scene's depth goes wrong under the patch. Nothing is faded where nothing new replaces it.
    """
    none = np.zeros(0, dtype=np.int64)
    if not settings.use_old:
        return OldSelection(none, none)
    near = np.flatnonzero(_under_mask(gaussians, camera, mask, median_depth, settings.reuse_depth))
    opaque = gaussians.opacities[near] >= settings.reuse_opacity
    if not (settings.fade_front and settings.use_new):
        return OldSelection(near[opaque], none)
    points = gaussians.means[near].astype(np.float64)
    front = in_front(points, surface, camera, settings.fade_depth * stride)
    if (opaque & ~front).sum() < MIN_KEPT * opaque.sum():
        # a thin layer: as deep a cut would leave nothing behind the patch
        front = in_front(points, surface, camera)
    return OldSelection(near[opaque & ~front], near[front])


def _under_mask(
    gaussians: Gaussians,
    camera: Camera,
    mask: NDArray[np.bool_],
    median_depth: NDArray[np.float32],
    band: float,
) -> NDArray[np.bool_]:
    pixels, z = camera.project(gaussians.means)
    with np.errstate(invalid="ignore"):
        inside = (
            (z > 0)
            & (pixels >= 0).all(axis=-1)
            & (pixels[:, 0] < camera.width)
            & (pixels[:, 1] < camera.height)
        )
    columns, rows = np.where(inside[:, None], pixels, 0).astype(np.int64).T
    depth = median_depth[rows, columns]
    return np.asarray(
        inside & mask[rows, columns] & (depth > 0) & (np.abs(z - depth) <= band * depth)
    )


def in_front(
    points: DoubleArray, surface: Surface, camera: Camera, margin: float = 0.0
) -> NDArray[np.bool_]:
    """(n,) which points lie before the surface, along their own rays from the camera.

    margin: world units; points up to so far behind the surface count as before it.
    """
    directions = points - camera.center
    met, hit = surface.intersect(camera.center, directions, -margin)
    beyond = np.einsum("ni,ni->n", met - points, directions) > 0
    return np.asarray(hit & beyond)
