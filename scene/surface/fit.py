"""Which surface lies under a patch: a plane, or a height field where that is clearly better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scene.camera import Camera
from scene.errors import InputError
from scene.surface.depth import depth_cluster, depth_quantile, unproject
from scene.surface.heightfield import HeightField, fit_height_field
from scene.surface.plane import DoubleArray, Plane, PlaneFit, fit_plane

_FLAT_SHARE = 0.60
_CLEARLY_SMALLER = 0.60
_MAX_POINTS = 20_000
_FEWEST_FOR_HEIGHTS = 200
_STEEPEST_DEG = 65.0
_HIT_SHARE = 0.98
_THRESHOLD_OF_SIZE = 0.02


@dataclass(frozen=True, eq=False)
class SurfaceFit:
    """A surface and how well it holds.

    surface: its normals face the camera. plane: the plane fit, whichever was chosen.
    residual: median distance of all points from the surface, world units (of a height field: of
    the half that it was not fitted to); plane_residual: from the best plane.
    threshold: the plane's inlier distance.
    """

    surface: Plane | HeightField
    plane: PlaneFit
    residual: float
    plane_residual: float
    threshold: float

    @property
    def summary(self) -> str:
        """One line for the user: which surface, and its residual."""
        share = f"{self.plane.inlier_share:.0%} of the points within {self.threshold:.3g}"
        text = f"{self.surface.kind}, median residual {self.residual:.3g}"
        if self.surface.kind == "plane":
            return f"{text} ({share})"
        return f"{text}, against {self.plane_residual:.3g} for a plane ({share})"


def fit_surface(
    points: ArrayLike,
    threshold: float,
    rng: np.random.Generator,
    viewpoint: ArrayLike | None = None,
) -> SurfaceFit:
    """A plane; under 60 % inliers a height field, if its residual is clearly smaller.

    Clearly smaller: fitted to one half of the points, the height field's median distance of the
    other half is under 60 % of the plane's. It must also be one sheet that all rays from
    `viewpoint` to the points hit, nowhere much steeper than 65 degrees.

    points: (N, 3), rows with NaN are ignored.
    threshold: inlier distance, world units; 2 % of the patch's size.
    viewpoint: (3,) the camera that normals shall face. Raises InputError for too few points.
    """
    points = np.asarray(points, dtype=np.float64).reshape(-1, 3)
    points = points[np.isfinite(points).all(axis=1)]
    if len(points) > _MAX_POINTS:
        points = points[rng.choice(len(points), _MAX_POINTS, replace=False)]
    flat = fit_plane(points, threshold, rng, viewpoint)
    residual = _median_distance(flat.plane, points)
    if flat.inlier_share >= _FLAT_SHARE or len(points) < _FEWEST_FOR_HEIGHTS:
        return SurfaceFit(flat.plane, flat, residual, residual, threshold)
    # RANSAC's plane may be one facet of a bend; this one is through all points
    base = fit_plane(points, float(np.ptp(points, axis=0).max()), rng, viewpoint).plane
    plane = min((flat.plane, base), key=lambda p: _median_distance(p, points))
    plane_residual = _median_distance(plane, points)
    half = rng.permutation(len(points)) < len(points) // 2
    curved = _median_distance(fit_height_field(points[half], base), points[~half])
    if curved < _CLEARLY_SMALLER * _median_distance(plane, points[~half]):
        surface = fit_height_field(points, base)
        if _is_single_sheet(surface, points, viewpoint):
            return SurfaceFit(surface, flat, curved, plane_residual, threshold)
    return SurfaceFit(plane, flat, plane_residual, plane_residual, threshold)


def _is_single_sheet(
    surface: HeightField, points: DoubleArray, viewpoint: ArrayLike | None
) -> bool:
    """Whether nothing is too steep to lie a patch on, and the rays to the points hit."""
    cosines = surface.normal_at(points) @ surface.plane.normal
    if np.quantile(cosines, 0.05) < np.cos(np.radians(_STEEPEST_DEG)):
        return False
    if viewpoint is None:
        return True
    origin = np.asarray(viewpoint, dtype=np.float64)
    return bool(surface.intersect(origin, points - origin)[1].mean() >= _HIT_SHARE)


def fit_masked_surface(
    mask: NDArray[np.bool_],
    alpha: ArrayLike,
    median_depth: ArrayLike,
    camera: Camera,
    rng: np.random.Generator,
    rule: Literal["cluster", "quantile"] = "cluster",
) -> SurfaceFit:
    """The surface under a patch's mask (H, W) in the anchor view `camera`.

    Only pixels with alpha > 0.5 count; of these the nearest depth cluster ("cluster", method.md's
    `inspector`) or those up to the 40 % depth quantile ("quantile", its `paper`).
    alpha, median_depth: (H, W) of the clean anchor render. Raises InputError where the mask covers
    nothing solid.
    """
    solid = np.asarray(mask, dtype=bool) & (np.asarray(alpha) > 0.5)
    depth = np.asarray(median_depth, dtype=np.float64)
    depths = depth[solid]
    member = depth_cluster(depths)[0] if rule == "cluster" else depth_quantile(depths)
    if member.sum() < 3:
        raise InputError(
            f"the patch mask covers {int(member.sum())} solid pixels of the scene; place it on "
            f"something that the reconstruction shows as solid"
        )
    points: DoubleArray = unproject(depth, camera)[solid][member]
    focal = float(np.sqrt(camera.K[0, 0] * camera.K[1, 1]))
    size = float(np.sqrt(np.count_nonzero(mask)) * np.median(depths[member]) / focal)
    return fit_surface(points, _THRESHOLD_OF_SIZE * size, rng, camera.center)


def _median_distance(surface: Plane | HeightField, points: DoubleArray) -> float:
    return float(np.median(np.abs(surface.distance(points))))
