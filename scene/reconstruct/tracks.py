"""Matched keypoints joined to tracks, and tracks to points in space."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scene.reconstruct.matching import EPIPOLAR_PIXELS, DoubleArray, Features, IntArray

_SMALLEST_ANGLE_DEG = 1.5  # between the outermost rays; below, depth is a guess
_TRIES = 4


@dataclass(frozen=True, eq=False)
class Triangulated:
    """points: (P, 3) world. colors: (P, 3) sRGB. errors: (P,) mean reprojection error, pixels."""

    points: DoubleArray
    colors: NDArray[np.float32]
    errors: DoubleArray


def triangulate(features: list[Features], matches: list[tuple[int, int, IntArray]]) -> Triangulated:
    """Points of all tracks seen in two or more photos that agree to within EPIPOLAR_PIXELS."""
    sizes = [len(photo.xy) for photo in features]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    photo_of = np.repeat(np.arange(len(features)), sizes)
    xy = np.concatenate([photo.xy for photo in features])
    colors = np.concatenate([photo.colors for photo in features])
    projections = np.array([p.camera.K @ p.camera.camera_from_world[:3] for p in features])
    centers = np.array([photo.camera.center for photo in features])
    points, errors, firsts = [], [], []
    for members in _tracks(starts, matches):
        solved = _solve(xy[members], projections[photo_of[members]], members)
        if solved is None:
            continue
        point, error, used = solved
        rays = centers[photo_of[used]] - point
        rays /= np.linalg.norm(rays, axis=1, keepdims=True)
        if (rays @ rays.T).min() > np.cos(np.radians(_SMALLEST_ANGLE_DEG)):
            continue
        points.append(point)
        errors.append(error)
        firsts.append(used[0])
    return Triangulated(
        np.array(points).reshape(-1, 3), colors[np.array(firsts, dtype=int)], np.array(errors)
    )


def _tracks(starts: IntArray, matches: list[tuple[int, int, IntArray]]) -> list[IntArray]:
    """Keypoint numbers (over all photos) that matches connect, two or more each."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    count = int(starts[-1])
    first = np.concatenate([starts[i] + pairs[:, 0] for i, _, pairs in matches] or [np.zeros(0)])
    second = np.concatenate([starts[j] + pairs[:, 1] for _, j, pairs in matches] or [np.zeros(0)])
    links = coo_matrix((np.ones(len(first)), (first.astype(int), second.astype(int))), (count,) * 2)
    _, labels = connected_components(links, directed=False)
    order = np.argsort(labels, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
    return [group for group in groups if len(group) >= 2]


def _solve(
    xy: DoubleArray, projections: DoubleArray, members: IntArray
) -> tuple[DoubleArray, float, IntArray] | None:
    """Linear triangulation; drops the observations that disagree and tries again."""
    for _ in range(_TRIES):
        if len(members) < 2:
            return None
        rows = xy[:, :, None] * projections[:, 2:3] - projections[:, :2]
        system = rows.reshape(-1, 4)
        system = system / np.linalg.norm(system, axis=1, keepdims=True)
        point = np.linalg.svd(system)[2][-1]
        if abs(point[3]) < 1e-12:
            return None
        point = point / point[3]
        seen = projections @ point
        behind = seen[:, 2] <= 0
        depth = np.where(behind, 1.0, seen[:, 2])
        errors = np.linalg.norm(seen[:, :2] / depth[:, None] - xy, axis=1)
        errors[behind] = np.inf
        if errors.max() < EPIPOLAR_PIXELS:
            return point[:3], float(errors.mean()), members
        kept = errors < max(EPIPOLAR_PIXELS, float(np.median(errors)))
        if kept.sum() < 2 or kept.all():
            kept = np.arange(len(errors)) != errors.argmax()
        xy, projections, members = xy[kept], projections[kept], members[kept]
    return None
