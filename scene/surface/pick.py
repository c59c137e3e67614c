"""What lies under a click: through a rendered depth, or straight through the Gaussians."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scene.camera import Camera
from scene.errors import InputError
from scene.gaussians import Gaussians
from scene.render.api import Renderer
from scene.surface.plane import DoubleArray, fit_plane

_WINDOW_SHARE = 0.01
_SAME_SURFACE = 0.03
_PLANE_THRESHOLD = 0.005
_ALPHA_CUT = 1 / 255
_ALPHA_MAX = 0.999


@dataclass(frozen=True, eq=False)
class SurfaceHit:
    """A point on a surface. point, normal: (3,), normal unit and towards the camera.

    depth: camera z of the point.
    """

    point: DoubleArray
    normal: DoubleArray
    depth: float


def pick(renderer: Renderer, camera: Camera, pixel_xy: ArrayLike) -> SurfaceHit:
    """The surface at `pixel_xy` (2,) of the view `camera`, by median depth.

    The normal is that of a robust plane through the pixels around it. Raises InputError outside
    the picture or where nothing solid is.
    """
    x, y = np.asarray(pixel_xy, dtype=np.float64)
    if not (0 <= x < camera.width and 0 <= y < camera.height):
        raise InputError(
            f"pixel ({x:g}, {y:g}) is outside the {camera.width}x{camera.height} picture"
        )
    rendered = renderer.render(camera, outputs=frozenset({"median_depth"}))
    depth = np.asarray(rendered.median_depth, dtype=np.float64)
    return hit_in_depth(depth, camera, (int(x), int(y)))


def hit_in_depth(depth: DoubleArray, camera: Camera, pixel: tuple[int, int]) -> SurfaceHit:
    """`pick` for a median depth (H, W) that is already rendered; pixel: column, row."""
    column, row = pixel
    z = float(depth[row, column])
    if not z > 0:
        raise InputError(f"nothing solid at pixel ({column}, {row}): click on a surface")
    reach = max(3, round(_WINDOW_SHARE * max(camera.width, camera.height)))
    rows, columns = np.nonzero(np.abs(depth - z) <= _SAME_SURFACE * z)
    close = (np.abs(rows - row) <= reach) & (np.abs(columns - column) <= reach)
    rows, columns = rows[close], columns[close]
    rays = camera.rays(np.stack([columns, rows], axis=1) + 0.5)
    points = camera.center + depth[rows, columns, None] * rays
    fit = fit_plane(points, _PLANE_THRESHOLD * z, np.random.default_rng(0), camera.center)
    center = camera.center + z * camera.rays([column + 0.5, row + 0.5])
    return SurfaceHit(center, fit.plane.normal, z)


def pick_along_ray(
    gaussians: Gaussians, origin: ArrayLike, direction: ArrayLike
) -> DoubleArray | None:
    """The point (3,) where a ray from `origin` (3,) first meets something solid, or None.

    Each Gaussian counts with its largest value on the ray, opacity * exp(-d^2 / 2); front to back,
    the first one behind which the transmittance is under 0.5 is hit, at that largest value.
    """
    start = np.asarray(origin, dtype=np.float64)
    along = np.asarray(direction, dtype=np.float64)
    length = np.linalg.norm(along)
    if not length > 0:
        raise ValueError("direction: wanted a direction, found zero")
    along = along / length
    near = _near_ray(gaussians, start, along)
    t, alpha = _peaks(gaussians.select(near), start, along)
    seen = (t > 0) & (alpha >= _ALPHA_CUT)
    order = np.argsort(t[seen], kind="stable")
    t, alpha = t[seen][order], np.minimum(alpha[seen][order], _ALPHA_MAX)
    dark = np.flatnonzero(np.cumprod(1 - alpha) < 0.5)
    return None if len(dark) == 0 else start + t[dark[0]] * along


def _near_ray(gaussians: Gaussians, start: DoubleArray, along: DoubleArray) -> NDArray[np.int64]:
    """Gaussians whose circumscribed sphere, at the cut-off of the most opaque, meets the ray."""
    offset = gaussians.means - start.astype(np.float32)
    ahead = offset @ along.astype(np.float32)
    offset -= ahead[:, None] * along.astype(np.float32)
    squared = np.einsum("ij,ij->i", offset, offset)
    cutoff = np.float32(2 * np.log(1 / _ALPHA_CUT))
    reach = gaussians.scales.max(axis=1)
    return np.flatnonzero(squared <= cutoff * reach * reach * np.float32(1.001))


def _peaks(
    gaussians: Gaussians, start: DoubleArray, along: DoubleArray
) -> tuple[DoubleArray, DoubleArray]:
    """Distance (M,) along the ray of each Gaussian's largest value, and that value (M,)."""
    to_local = np.swapaxes(gaussians.rotations().astype(np.float64), 1, 2)
    to_local = to_local / gaussians.scales[:, :, None]
    offset = np.einsum("nij,nj->ni", to_local, gaussians.means - start)
    ray = to_local @ along
    t = (offset * ray).sum(axis=1) / (ray * ray).sum(axis=1)
    miss = offset - t[:, None] * ray
    return t, gaussians.opacities * np.exp(-0.5 * (miss * miss).sum(axis=1))
