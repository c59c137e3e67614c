"""Where a placed patch falls in a view: rays through sub-pixels, met with the patch's surface.

The one geometry behind the attacked anchor, footprints and the ground truth that embeddings are
judged by; on a plane it equals the homography between patch and picture.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from patching.patch import Patch
from scene.camera import Camera
from scene.surface import Surface

FloatArray = NDArray[np.float32]
DoubleArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

SUPERSAMPLE = 4
"""Sub-pixel rays per pixel and axis."""

BAND_ROWS = 32
"""Rows of rays that are worked at a time: their arrays stay in the cache."""

OUTLINE_STEPS = 8
"""Points per edge by which the patch's window in a picture is found."""

CORNERS_UV = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0))
"""The unit square's corners: top left, top right, bottom right, bottom left."""

DEPTH_TOLERANCE = 0.03
"""Share of the depth by which the scene may lie before the patch without hiding it: Gaussians of
one surface scatter about it (the same 3 % as APSE's reuse band)."""

SIZE_TOLERANCE = 0.25
"""Upper limit of that distance, in patch widths, so that from afar a hand still hides a patch."""


class Laid(Protocol):
    """A texture that lies on a surface: a placement, or an anchor's own pixels."""

    @property
    def surface(self) -> Surface:
        """What rays meet."""
        ...

    @property
    def width(self) -> float:
        """Of the texture, world units."""
        ...

    def to_uv(self, points: DoubleArray) -> DoubleArray:
        """World points (..., 3) to texture coordinates (..., 2), 0..1 from the top left corner."""
        ...

    def outward_at(self, points: DoubleArray) -> DoubleArray:
        """(..., 3) unit normals of the surface on the printed side."""
        ...

    def corners(self) -> DoubleArray:
        """(4, 3) world corners, from the top left one clockwise."""
        ...

    def outline(self, steps: int = 1) -> DoubleArray:
        """(4 * steps, 3) world points around the edge."""
        ...


@dataclass(frozen=True, eq=False)
class PatchRays:
    """Sub-pixel rays of the window of a picture that the patch may touch.

    rows, columns: the window in whole pixels, half open.
    supersample: rays per pixel and axis; array sizes below are (h * ss, w * ss).
    uv: patch coordinates, (0, 0) at its top left and (1, 1) at its bottom right corner.
    inside: the ray meets the patch's front side.
    depth: camera z of the surface, world units.
    sampled_size: (width, height) of the patch in sub-pixels, for filtering its texture.
    """

    rows: slice
    columns: slice
    supersample: int
    uv: DoubleArray
    inside: BoolArray
    depth: DoubleArray
    sampled_size: tuple[float, float]

    def pooled(self, values: NDArray[np.floating]) -> FloatArray:
        """Mean over each pixel's rays: (h * ss, w * ss, ...) to (h, w, ...)."""
        ss = self.supersample
        h, w = values.shape[0] // ss, values.shape[1] // ss
        blocks = values.reshape(h, ss, w, ss, *values.shape[2:])
        return np.asarray(blocks.mean(axis=(1, 3)), dtype=np.float32)


def cast_patch(laid: Laid, camera: Camera, supersample: int = SUPERSAMPLE) -> PatchRays | None:
    """Rays of `camera` against the placed patch; None where no part of it can be in the picture."""
    window = patch_window(laid, camera)
    if window is None:
        return None
    rows, columns = window
    x, y = sub_pixels(columns, supersample), sub_pixels(rows, supersample)
    size = (len(y), len(x))
    uv, inside, depth = np.empty((*size, 2)), np.empty(size, bool), np.empty(size)
    for start in range(0, len(y), BAND_ROWS):
        band = slice(start, start + BAND_ROWS)
        uv[band], inside[band], depth[band] = _cast(laid, camera, x, y[band])
    if not inside.any():
        return None
    extent = _edge_lengths(laid, camera)
    sampled = (extent[0] * supersample, extent[1] * supersample)
    return PatchRays(rows, columns, supersample, uv, inside, depth, sampled)


def _cast(
    laid: Laid, camera: Camera, x: DoubleArray, y: DoubleArray
) -> tuple[DoubleArray, BoolArray, DoubleArray]:
    """uv, inside and depth (see `PatchRays`) of the rays through columns x and rows y."""
    directions = camera.rays(np.stack(np.meshgrid(x, y), axis=-1))
    points, hit = laid.surface.intersect(camera.center, directions)
    depth = (points - camera.center) @ camera.forward
    uv = laid.to_uv(points)
    u, v = uv[..., 0], uv[..., 1]
    inside = np.asarray(hit & (u >= 0) & (u <= 1) & (v >= 0) & (v <= 1) & (depth > 0))
    met = points[inside]
    inside[inside] = np.einsum("ni,ni->n", laid.outward_at(met), camera.center - met) > 0
    return uv, inside, depth


def visible_rays(rays: PatchRays, laid: Laid, median_depth: FloatArray) -> BoolArray:
    """Rays that meet the patch with nothing of the scene in front of it.

    median_depth: (H, W) camera z of the scene without the patch, 0 where there is nothing.
    """
    ss = rays.supersample
    scene = median_depth[rays.rows, rays.columns].repeat(ss, axis=0).repeat(ss, axis=1)
    slack = np.minimum(DEPTH_TOLERANCE * scene, SIZE_TOLERANCE * laid.width)
    return rays.inside & ((scene <= 0) | (rays.depth <= scene + slack))


def sample_patch(patch: Patch, rays: PatchRays) -> FloatArray:
    """(h * ss, w * ss, 4) premultiplied RGBA of the patch at each ray, 0 outside.

    The texture is first averaged down to the sampling rate, so that fine print does not alias.
    """
    from patching.texture_kernel import sample_texture

    texture = averaged_down(premultiplied(patch), rays.sampled_size)
    height, width = texture.shape[:2]
    at = rays.uv[rays.inside]
    rows, columns = at[:, 1] * height - 0.5, at[:, 0] * width - 0.5
    found = np.empty((len(at), texture.shape[2]), np.float32)
    sample_texture(np.ascontiguousarray(texture, np.float32), rows, columns, found)
    samples = np.zeros((*rays.inside.shape, 4), dtype=np.float32)
    samples[rays.inside] = found
    return samples


def premultiplied(patch: Patch) -> FloatArray:
    """(h, w, 4) with the colors multiplied by alpha."""
    return np.concatenate([patch.rgb * patch.alpha[..., None], patch.rgba[..., 3:]], axis=2)


def averaged_down(texture: FloatArray, size: tuple[float, float]) -> FloatArray:
    """Area-averaged copy of at most `size` = (width, height) texels; never enlarged."""
    from PIL import Image

    width = int(np.clip(np.ceil(size[0]), 1, texture.shape[1]))
    height = int(np.clip(np.ceil(size[1]), 1, texture.shape[0]))
    if (height, width) == texture.shape[:2]:
        return texture
    planes = [
        np.asarray(
            Image.fromarray(np.ascontiguousarray(texture[..., c])).resize(
                (width, height), Image.Resampling.BOX
            )
        )
        for c in range(texture.shape[2])
    ]
    return np.stack(planes, axis=-1)


def composite(
    laid: Laid,
    patch: Patch,
    camera: Camera,
    clean: FloatArray,
    median_depth: FloatArray | None = None,
    supersample: int = SUPERSAMPLE,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Lay the patch, flat in sRGB, over a clean picture of the same camera.

    median_depth: of the clean scene; given, what lies before the patch hides it.
    Returns the picture (H, W, 3), the patch's coverage (H, W) in [0, 1] and the camera z of its
    surface (H, W), 0 where coverage is 0.
    """
    shape = (camera.height, camera.width)
    picture = np.array(clean, dtype=np.float32)
    coverage, depth = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    rays = cast_patch(laid, camera, supersample)
    if rays is None:
        return picture, coverage, depth
    shown = rays.inside
    if median_depth is not None:
        shown = visible_rays(rays, laid, median_depth)
    samples = sample_patch(patch, rays) * shown[..., None]
    pooled = rays.pooled(samples)
    where = (rays.rows, rays.columns)
    coverage[where] = pooled[..., 3]
    picture[where] = pooled[..., :3] + (1 - pooled[..., 3:]) * picture[where]
    weight = rays.pooled(samples[..., 3] * rays.depth)
    depth[where] = np.where(pooled[..., 3] > 0, weight / np.maximum(pooled[..., 3], 1e-9), 0)
    return picture, coverage, depth


def sub_pixels(span: slice, supersample: int) -> DoubleArray:
    """Positions of the sub-pixel rays of a span of pixels."""
    count = (span.stop - span.start) * supersample
    return np.asarray(span.start + (np.arange(count) + 0.5) / supersample)


def patch_window(laid: Laid, camera: Camera) -> tuple[slice, slice] | None:
    """Pixel rows and columns that the patch's outline spans.

    The whole picture where part of the patch is beside or behind the camera, or its outline is
    not wholly known.
    """
    pixels, z = camera.project(laid.outline(OUTLINE_STEPS))
    if (z <= 0).all():
        return None
    if (z <= 1e-3 * laid.width).any() or not np.isfinite(pixels).all():
        return slice(0, camera.height), slice(0, camera.width)
    low = np.floor(pixels.min(axis=0)).astype(int) - 2
    high = np.ceil(pixels.max(axis=0)).astype(int) + 2
    x0, y0 = np.maximum(low, 0)
    x1, y1 = np.minimum(high, (camera.width, camera.height))
    if x0 >= x1 or y0 >= y1:
        return None
    return slice(int(y0), int(y1)), slice(int(x0), int(x1))


def _edge_lengths(laid: Laid, camera: Camera) -> tuple[float, float]:
    """Width and height of the patch in pixels: its longer projected edge each way."""
    pixels, _ = camera.project(laid.corners())
    if not np.isfinite(pixels).all():
        return float(camera.width), float(camera.height)
    top_left, top_right, bottom_right, bottom_left = pixels
    width = max(np.hypot(*(top_right - top_left)), np.hypot(*(bottom_right - bottom_left)))
    height = max(np.hypot(*(bottom_left - top_left)), np.hypot(*(bottom_right - top_right)))
    return float(width), float(height)


def outline_uv(steps: int) -> DoubleArray:
    """(4 * steps, 2) points around the unit square, from the top left corner clockwise."""
    t = np.arange(steps) / steps
    zero, one = np.zeros(steps), np.ones(steps)
    edges = [(t, zero), (one, t), (1 - t, one), (zero, 1 - t)]
    return np.concatenate([np.stack(edge, axis=-1) for edge in edges])
