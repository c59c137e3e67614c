"""Planes, and finding one robustly among points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scene.errors import InputError

DoubleArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

_HYPOTHESES = 256
_SCORED_POINTS = 4096
_REFINEMENTS = 4


class Surface(Protocol):
    """Something that a patch can lie on; its normals point to the camera that it was found from."""

    @property
    def kind(self) -> str:
        """What it is: "plane" or "height field"."""
        ...

    def intersect(
        self, origins: ArrayLike, directions: ArrayLike, offset: ArrayLike = 0.0
    ) -> tuple[DoubleArray, BoolArray]:
        """Where rays meet the surface moved by `offset` along its normals.

        origins, directions: (..., 3), broadcast; offset: world units, broadcasts to (...).
        Returns points (..., 3), NaN where missed, and the (...) hit mask.
        """
        ...

    def normal_at(self, points: ArrayLike) -> DoubleArray:
        """(..., 3) unit normals of the surface at (next to) `points` (..., 3)."""
        ...

    def distance(self, points: ArrayLike) -> DoubleArray:
        """(...,) signed distance of `points` (..., 3), positive towards the camera."""
        ...


@dataclass(frozen=True, eq=False)
class Plane:
    """A plane through `point` (3,) with unit `normal` (3,)."""

    point: DoubleArray
    normal: DoubleArray

    def __post_init__(self) -> None:
        normal = np.array(self.normal, dtype=np.float64)
        length = np.linalg.norm(normal)
        if not length > 0:
            raise ValueError("normal: wanted a direction, found zero")
        object.__setattr__(self, "point", np.array(self.point, dtype=np.float64))
        object.__setattr__(self, "normal", normal / length)

    @property
    def kind(self) -> str:
        """Always "plane"."""
        return "plane"

    def intersect(
        self, origins: ArrayLike, directions: ArrayLike, offset: ArrayLike = 0.0
    ) -> tuple[DoubleArray, BoolArray]:
        """See `Surface.intersect`."""
        origins = np.asarray(origins, dtype=np.float64)
        directions = np.asarray(directions, dtype=np.float64)
        slope = directions @ self.normal
        gap = np.asarray(offset, dtype=np.float64) - (origins - self.point) @ self.normal
        parallel = np.abs(slope) <= 1e-9 * np.linalg.norm(directions, axis=-1)
        t = gap / np.where(parallel, 1.0, slope)
        hit = ~parallel & (t > 0)
        points = origins + t[..., None] * directions
        return np.where(hit[..., None], points, np.nan), hit

    def normal_at(self, points: ArrayLike) -> DoubleArray:
        """See `Surface.normal_at`."""
        return np.broadcast_to(self.normal, np.shape(points)).copy()

    def distance(self, points: ArrayLike) -> DoubleArray:
        """See `Surface.distance`."""
        return (np.asarray(points, dtype=np.float64) - self.point) @ self.normal

    def facing(self, viewpoint: ArrayLike) -> Plane:
        """The same plane with its normal towards `viewpoint` (3,)."""
        return self if self.distance(viewpoint) >= 0 else Plane(self.point, -self.normal)


@dataclass(frozen=True, eq=False)
class PlaneFit:
    """A plane among points.

    inliers: (N,) mask. residual: RMS distance of the inliers, world units.
    """

    plane: Plane
    inliers: BoolArray
    residual: float

    @property
    def inlier_share(self) -> float:
        """Inliers over all points, in [0, 1]."""
        return float(self.inliers.mean())


def fit_plane(
    points: ArrayLike,
    threshold: float,
    rng: np.random.Generator,
    viewpoint: ArrayLike | None = None,
) -> PlaneFit:
    """RANSAC, then least squares on the inliers; the same `rng` state gives the same plane.

    points: (N, 3). threshold: largest distance of an inlier, world units.
    viewpoint: the normal will point to it. Raises InputError for fewer than 3 points, or a line.
    """
    points = np.asarray(points, dtype=np.float64).reshape(-1, 3)
    if len(points) < 3:
        raise InputError(f"a plane needs at least 3 points, found {len(points)}: choose a larger "
                         f"or more solid surface")  # fmt: skip
    plane = _best_hypothesis(points, threshold, rng)
    inliers = np.abs(plane.distance(points)) <= threshold
    for _ in range(_REFINEMENTS):
        plane = _least_squares(points[inliers])
        refined = np.abs(plane.distance(points)) <= threshold
        if refined.sum() < 3 or np.array_equal(refined, inliers):
            break
        inliers = refined
    if viewpoint is not None:
        plane = plane.facing(viewpoint)
    residual = float(np.sqrt(np.mean(plane.distance(points[inliers]) ** 2)))
    return PlaneFit(plane, inliers, residual)


def _best_hypothesis(points: DoubleArray, threshold: float, rng: np.random.Generator) -> Plane:
    triples = points[rng.integers(0, len(points), size=(_HYPOTHESES, 3))]
    normals = np.cross(triples[:, 1] - triples[:, 0], triples[:, 2] - triples[:, 0])
    lengths = np.linalg.norm(normals, axis=1)
    extent = np.ptp(points, axis=0).max()
    usable = lengths > 1e-9 * max(extent, 1e-30) ** 2
    if not usable.any():
        return _least_squares(points)
    normals = normals[usable] / lengths[usable, None]
    anchors = triples[usable, 0]
    scored = points
    if len(points) > _SCORED_POINTS:
        scored = points[rng.choice(len(points), _SCORED_POINTS, replace=False)]
    distances = np.abs(scored @ normals.T - (anchors * normals).sum(axis=1))
    # a truncated squared cost, so that of two planes with equal inliers the closer one wins
    cost = np.minimum(distances / threshold, 1.0) ** 2
    best = int(np.argmin(cost.sum(axis=0)))
    return Plane(anchors[best], normals[best])


def _least_squares(points: DoubleArray) -> Plane:
    center = points.mean(axis=0)
    _, spread, axes = np.linalg.svd(points - center, full_matrices=len(points) < 3)
    if not spread[1] > 1e-9 * max(spread[0], 1e-30):
        raise InputError(
            "a plane needs points that do not lie on one line: choose a larger surface"
        )
    return Plane(center, axes[2])
