"""Depth pictures: to points, and which of their pixels belong to the nearest thing."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scene.camera import Camera

DoubleArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

_GAP = 1.10
_SHARE = 0.20
_QUANTILE = 0.40
_QUANTILE_SLACK = 1.02


def unproject(depth: ArrayLike, camera: Camera) -> DoubleArray:
    """(H, W) camera z to (H, W, 3) world points; NaN where the depth is 0 (nothing there)."""
    z = np.asarray(depth, dtype=np.float64)
    if z.shape != (camera.height, camera.width):
        raise ValueError(f"depth: wanted {(camera.height, camera.width)}, found {z.shape}")
    points = camera.center + z[..., None] * camera.rays(camera.pixel_centers())
    points[~(z > 0)] = np.nan
    return points


def depth_cluster(depths: ArrayLike, largest_gap: float = np.inf) -> tuple[BoolArray, float]:
    """The nearest depth cluster that holds at least 20 % of `depths`; clusters part at 10 % gaps.

    depths: (N,) camera z; values <= 0 or NaN belong to no cluster and are not counted.
    largest_gap: world units; clusters part at gaps above this too.
    Returns the (N,) membership and the nearest depth behind the cluster (inf when there is none).
    """
    z = np.asarray(depths, dtype=np.float64)
    rows = np.flatnonzero(z > 0)
    member = np.zeros(len(z), dtype=bool)
    if len(rows) == 0:
        return member, np.inf
    rows = rows[np.argsort(z[rows], kind="stable")]
    ordered = z[rows]
    allowed = np.minimum((_GAP - 1) * ordered[:-1], largest_gap)
    starts = np.append(0, np.flatnonzero(np.diff(ordered) > allowed) + 1)
    ends = np.append(starts[1:], len(rows))
    # when no cluster is that large, the largest one is the best guess
    large = np.flatnonzero(ends - starts >= _SHARE * len(rows))
    chosen = large[0] if len(large) else int(np.argmax(ends - starts))
    member[rows[starts[chosen] : ends[chosen]]] = True
    behind = ordered[ends[chosen]] if ends[chosen] < len(rows) else np.inf
    return member, float(behind)


def depth_quantile(depths: ArrayLike) -> BoolArray:
    """The paper's rule: (N,) membership of depths at or below the 40 % quantile plus 2 %."""
    z = np.asarray(depths, dtype=np.float64)
    solid = z > 0
    if not solid.any():
        return solid
    return solid & (z <= np.quantile(z[solid], _QUANTILE) * _QUANTILE_SLACK)


def incidence_deg(points: ArrayLike, normals: ArrayLike, camera: Camera) -> DoubleArray:
    """(...,) angle in degrees between surface normals and the direction to the camera, 0-180.

    points, normals: (..., 3). Above 90 degrees the camera is behind the surface.
    """
    to_camera = camera.center - np.asarray(points, dtype=np.float64)
    to_camera = to_camera / np.linalg.norm(to_camera, axis=-1, keepdims=True)
    cosine = (to_camera * np.asarray(normals, dtype=np.float64)).sum(axis=-1)
    return np.degrees(np.arccos(np.clip(cosine, -1, 1)))
