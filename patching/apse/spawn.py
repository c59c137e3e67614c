"""New Gaussians for the patch (G_new), spawned from the anchor's masked pixels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from patching.anchor import Anchor
from patching.apse.settings import ApseSettings
from scene.camera import Camera
from scene.gaussians import SH_C0, Gaussians, matrices_to_quaternions
from scene.surface import Surface

DoubleArray = NDArray[np.float64]
FloatArray = NDArray[np.float32]

LAYERS = np.array([[0, 8, 2, 10], [12, 4, 14, 6], [3, 11, 1, 9], [15, 7, 13, 5]]) / 15.0
"""4x4 ordered (Bayer) pattern: neighbours lie in layers far apart, so each overlapping pair keeps
its depth order when the camera crosses the normal."""


@dataclass(frozen=True, eq=False)
class Spawn:
    """Spawned Gaussians at their start, and the frames that clamps are measured in.

    centers: (n, 3) world. frames: (n, 3, 3), columns t1, t2, normal (unit, outward).
    scales: (n, 3) world, along those columns. colors: (n, 3) sRGB. pixels: (n, 2) anchor xy.
    stride: one stride in world units at the patch's depth.
    """

    centers: DoubleArray
    frames: DoubleArray
    scales: DoubleArray
    colors: FloatArray
    pixels: DoubleArray
    stride: float

    def gaussians(self, opacity: float) -> Gaussians:
        """As Gaussians of SH degree 0."""
        return Gaussians(
            self.centers.astype(np.float32),
            matrices_to_quaternions(self.frames),
            self.scales.astype(np.float32),
            np.full(len(self.centers), opacity, np.float32),
            ((self.colors - 0.5) / SH_C0)[:, None, :],
        )


def spawn_new(anchor: Anchor, patch_depth: float, settings: ApseSettings) -> Spawn:
    """One Gaussian per stride inside the anchor's mask, on its pixel's ray.

    patch_depth: median camera z of the clean scene under the mask; sets the world size of a
    stride. The in-plane sigma follows the Jacobian from pixels to the surface, so that a tilted
    patch is covered without gaps.
    """
    camera, surface = anchor.camera, anchor.surface
    pixel_size = patch_depth / camera.K[0, 0]
    stride = settings.stride_px * pixel_size
    pixels, cells = _grid(anchor.mask, settings.stride_px)
    layer = (2 * LAYERS[cells[:, 1] % 4, cells[:, 0] % 4] - 1) * settings.layer_strides * stride
    offset = settings.offset_px * pixel_size + layer
    centers, steps, hit = _centers_and_steps(surface, camera, pixels, offset)
    centers, steps, pixels = centers[hit], steps[hit], pixels[hit]
    frames, spread = _frames(surface, camera, centers, steps)
    sigma = settings.sigma_strides * settings.stride_px
    edge = _edge_distance(anchor.mask, pixels) <= settings.stride_px
    spread = spread * np.where(edge, settings.edge_sigma, 1.0)[:, None]
    thin = np.full((len(centers), 1), settings.thinness * sigma * pixel_size)
    return Spawn(
        centers, frames, np.concatenate([sigma * spread, thin], axis=1),
        _bilinear(anchor.image, pixels), pixels, stride,
    )  # fmt: skip


def _grid(mask: NDArray[np.bool_], stride: float) -> tuple[DoubleArray, NDArray[np.int64]]:
    """Pixel positions (n, 2) xy about a stride apart inside the mask, and their cells (n, 2).

    The spacing divides the mask's extent, so that the outermost ones lie half of it inside every
    edge: a remainder left at one side would blur that edge.
    """
    rows, columns = np.nonzero(mask)
    x = _spaced(columns.min(), columns.max() + 1, stride)
    y = _spaced(rows.min(), rows.max() + 1, stride)
    grid = np.stack(np.meshgrid(x, y), axis=-1)
    cells = np.stack(np.meshgrid(np.arange(len(x)), np.arange(len(y))), axis=-1)
    inside = mask[grid[..., 1].astype(int), grid[..., 0].astype(int)]
    return grid[inside], cells[inside]


def _spaced(low: float, high: float, stride: float) -> DoubleArray:
    """Centres of equal cells of about `stride` that fill [low, high]."""
    count = max(1, round((high - low) / stride))
    return np.asarray(low + (np.arange(count) + 0.5) * (high - low) / count)


def _centers_and_steps(
    surface: Surface, camera: Camera, pixels: DoubleArray, offset: DoubleArray
) -> tuple[DoubleArray, DoubleArray, NDArray[np.bool_]]:
    """Where pixels' rays meet the surface, and how far that moves per anchor pixel.

    offset: (n,) of the surface towards the camera, world units. Returns centres (n, 3), steps
    (n, 3, 2) along x and y, and which rays and their neighbours all meet it.
    """
    centers, hit = surface.intersect(camera.center, camera.rays(pixels), offset)
    steps = []
    for axis in ([0.5, 0.0], [0.0, 0.5]):
        ahead, hit_ahead = surface.intersect(camera.center, camera.rays(pixels + axis), offset)
        behind, hit_behind = surface.intersect(
            camera.center, camera.rays(pixels - np.asarray(axis)), offset
        )
        steps.append(ahead - behind)
        hit = hit & hit_ahead & hit_behind
    return centers, np.stack(steps, axis=-1), hit


def _frames(
    surface: Surface, camera: Camera, centers: DoubleArray, steps: DoubleArray
) -> tuple[DoubleArray, DoubleArray]:
    """Frames (n, 3, 3) and world size per anchor pixel (n, 2) along their first two columns."""
    left, singular, _ = np.linalg.svd(steps, full_matrices=False)
    normals = surface.normal_at(centers)
    facing = np.sign(np.einsum("ni,ni->n", normals, camera.center - centers))
    normals = normals * np.where(facing == 0, 1.0, facing)[:, None]
    t1 = left[..., 0] - np.einsum("ni,ni->n", left[..., 0], normals)[:, None] * normals
    t1 = t1 / np.linalg.norm(t1, axis=1, keepdims=True)
    return np.stack([t1, np.cross(normals, t1), normals], axis=-1), singular


def _edge_distance(mask: NDArray[np.bool_], pixels: DoubleArray) -> DoubleArray:
    """(n,) distance in pixels from each position's pixel to the nearest one outside the mask."""
    from scipy.ndimage import distance_transform_edt

    distance = distance_transform_edt(np.pad(mask, 1))[1:-1, 1:-1]
    columns, rows = pixels.astype(int).T
    return np.asarray(distance[rows, columns])


def _bilinear(image: FloatArray, pixels: DoubleArray) -> FloatArray:
    """(n, 3) colors of the picture at pixel positions (n, 2) xy."""
    from scipy.ndimage import map_coordinates

    at = [pixels[:, 1] - 0.5, pixels[:, 0] - 0.5]
    channels = [map_coordinates(image[..., c], at, order=1, mode="nearest") for c in range(3)]
    return np.stack(channels, axis=-1).astype(np.float32)
