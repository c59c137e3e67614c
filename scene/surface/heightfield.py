"""A smooth curved surface: heights over a plane, as a penalised cubic B-spline (P-spline)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scene.surface.plane import BoolArray, DoubleArray, Plane

# Coarse and stiff on purpose: paper bridges folds and does not follow noise.
_CELLS = 4
_KNOTS = _CELLS + 3
_SMOOTHING = 1e-4
_MARGIN = 0.05
_ROBUST_ROUNDS = 4
_NEWTON_STEPS = 12


@dataclass(frozen=True, eq=False)
class HeightField:
    """Heights along `plane.normal` over the rectangle of the points that it was fitted to.

    axes: (2, 3) unit rows u, v that span the plane. low, extent: (2,) the rectangle in u, v.
    coefficients: (7, 7) B-spline heights, world units. Beyond the rectangle heights stay as at
    its edge.
    """

    plane: Plane
    axes: DoubleArray
    low: DoubleArray
    extent: DoubleArray
    coefficients: DoubleArray

    def __post_init__(self) -> None:
        if self.coefficients.shape != (_KNOTS, _KNOTS):
            raise ValueError(
                f"coefficients: wanted a {_KNOTS}x{_KNOTS} table, found {self.coefficients.shape}"
            )

    @property
    def kind(self) -> str:
        """Always "height field"."""
        return "height field"

    def distance(self, points: ArrayLike) -> DoubleArray:
        """See `Surface.distance`; to first order in the slope."""
        uv, w = self._local(np.asarray(points, dtype=np.float64))
        height, gradient = self._evaluate(uv)
        return (w - height) / np.sqrt(1 + (gradient**2).sum(axis=-1))

    def normal_at(self, points: ArrayLike) -> DoubleArray:
        """See `Surface.normal_at`."""
        uv, _ = self._local(np.asarray(points, dtype=np.float64))
        _, gradient = self._evaluate(uv)
        normals = self.plane.normal - gradient @ self.axes
        return normals / np.linalg.norm(normals, axis=-1, keepdims=True)

    def intersect(
        self, origins: ArrayLike, directions: ArrayLike, offset: ArrayLike = 0.0
    ) -> tuple[DoubleArray, BoolArray]:
        """See `Surface.intersect`; Newton steps from the base plane, a miss where they fail."""
        origins = np.asarray(origins, dtype=np.float64)
        directions = np.asarray(directions, dtype=np.float64)
        points, hit = self.plane.intersect(origins, directions, offset)
        duv, dw = directions @ self.axes.T, directions @ self.plane.normal
        lengths = np.linalg.norm(directions, axis=-1)
        points = np.where(hit[..., None], points, self.plane.point)
        gap = np.zeros(hit.shape)
        for _ in range(_NEWTON_STEPS):
            uv, w = self._local(points)
            height, gradient = self._evaluate(uv)
            gap = w - height - offset * np.sqrt(1 + (gradient**2).sum(axis=-1))
            slope = dw - (gradient * duv).sum(axis=-1)
            steep = np.abs(slope) > 1e-6 * lengths
            step = np.where(steep, -gap / np.where(steep, slope, 1.0), 0.0)
            points = points + step[..., None] * directions
        ahead = ((points - origins) * directions).sum(axis=-1) > 0
        hit = hit & ahead & (np.abs(gap) < 1e-6 * self.extent.max())
        return np.where(hit[..., None], points, np.nan), hit

    def _local(self, points: DoubleArray) -> tuple[DoubleArray, DoubleArray]:
        offset = points - self.plane.point
        return offset @ self.axes.T, offset @ self.plane.normal

    def _evaluate(self, uv: DoubleArray) -> tuple[DoubleArray, DoubleArray]:
        """Heights (...) and their gradients (..., 2) by u and v."""
        unit = (uv - self.low) / self.extent
        inside = (unit >= 0) & (unit <= 1)
        cell, weights, slopes = _basis(np.clip(unit, 0, 1))
        rows = cell[..., 0, None, None] + np.arange(4)[:, None]
        columns = cell[..., 1, None, None] + np.arange(4)
        local = self.coefficients[rows, columns]
        u, v = weights[..., 0, :], weights[..., 1, :]
        height = np.einsum("...i,...ij,...j->...", u, local, v)
        by_u = np.einsum("...i,...ij,...j->...", slopes[..., 0, :], local, v)
        by_v = np.einsum("...i,...ij,...j->...", u, local, slopes[..., 1, :])
        gradient = np.stack([by_u, by_v], axis=-1) * _CELLS / self.extent
        return height, np.where(inside, gradient, 0.0)


def fit_height_field(points: DoubleArray, plane: Plane) -> HeightField:
    """Robust smooth heights of `points` (N, 3) over `plane`; rough or lone points weigh little."""
    axes = np.linalg.svd(plane.normal[None])[2][1:]
    offset = points - plane.point
    uv, w = offset @ axes.T, offset @ plane.normal
    extent = np.maximum(np.ptp(uv, axis=0), 1e-12) * (1 + 2 * _MARGIN)
    low = uv.min(axis=0) - extent * _MARGIN / (1 + 2 * _MARGIN)
    design = _design((uv - low) / extent)
    penalty = _roughness() * _SMOOTHING * len(points)
    robust = np.ones(len(points))
    solution = np.zeros(_KNOTS * _KNOTS)
    for _ in range(_ROBUST_ROUNDS):
        weighted = design.multiply(robust[:, None]).tocsr()
        normal = (weighted.T @ design).toarray() + penalty
        solution = np.linalg.solve(normal + 1e-9 * np.eye(len(normal)), weighted.T @ w)
        residual = np.abs(w - design @ solution)
        # Cauchy weights at the residuals' own scale
        scale = max(1.4826 * float(np.median(residual)), 1e-12)
        robust = 1 / (1 + (residual / (2.385 * scale)) ** 2)
    return HeightField(plane, axes, low, extent, solution.reshape(_KNOTS, _KNOTS))


def _design(unit: DoubleArray):  # type: ignore[no-untyped-def]  # scipy has no stubs
    """Sparse (N, 49) B-spline weights of points at `unit` (N, 2) in [0, 1]."""
    from scipy.sparse import csr_matrix

    cell, weights, _ = _basis(unit)
    values = weights[:, 0, :, None] * weights[:, 1, None, :]
    rows = (cell[:, 0, None, None] + np.arange(4)[:, None]) * _KNOTS
    columns = rows + cell[:, 1, None, None] + np.arange(4)
    index = np.repeat(np.arange(len(unit)), 16)
    shape = (len(unit), _KNOTS * _KNOTS)
    return csr_matrix((values.ravel(), (index, columns.ravel())), shape=shape)


def _roughness() -> DoubleArray:
    """(49, 49) squared second differences of the coefficients along both axes."""
    second = np.diff(np.eye(_KNOTS), n=2, axis=0)
    bend = second.T @ second
    eye = np.eye(_KNOTS)
    return np.kron(bend, eye) + np.kron(eye, bend)


def _basis(unit: DoubleArray) -> tuple[NDArray[np.int64], DoubleArray, DoubleArray]:
    """Uniform cubic B-spline: cells (..., 2), weights and slopes per cell width (..., 2, 4)."""
    scaled = unit * _CELLS
    cell = np.clip(np.floor(scaled), 0, _CELLS - 1).astype(np.int64)
    t = scaled - cell
    weights = np.stack(
        [(1 - t) ** 3, 3 * t**3 - 6 * t**2 + 4, -3 * t**3 + 3 * t**2 + 3 * t + 1, t**3], axis=-1
    )
    slopes = np.stack(
        [-3 * (1 - t) ** 2, 9 * t**2 - 12 * t, -9 * t**2 + 6 * t + 3, 3 * t**2], axis=-1
    )
    return cell, weights / 6, slopes / 6
