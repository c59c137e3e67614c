"""Lenses that OpenCV does not have: their formulas, and the flat picture inside theirs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

DoubleArray = NDArray[np.float64]
Coefficients = tuple[float, ...]

_STEPS = 40
_NEAR_ENOUGH = 1e-9
_NUDGE = 1e-6
# Points along each side of the photo that decide how much of it a flat picture can show.
_SIDE_POINTS = 33


def distort(model: str, coefficients: Coefficients, flat: ArrayLike) -> DoubleArray:
    """Where lens `model` draws directions: pinhole coordinates x/z, y/z (..., 2) to its own.

    Both are on an image plane of focal length 1. Parameter orders are COLMAP's: "fov" omega;
    "thin_prism_fisheye" k1 k2 p1 p2 k3 k4 sx1 sy1; "rad_tan_thin_prism_fisheye" k0-k5 p0 p1 s0-s3;
    "division" k; "eucm" alpha beta. NaN where the lens cannot see.
    """
    return _MODELS[model](coefficients, np.asarray(flat, dtype=np.float64))


def flatten(model: str, coefficients: Coefficients, drawn: ArrayLike) -> DoubleArray:
    """Inverse of `distort`, by Newton's method; NaN where it finds none."""
    drawn = np.asarray(drawn, dtype=np.float64)
    flat = _first_guess(model, drawn)
    with np.errstate(all="ignore"):
        for _ in range(_STEPS):
            error = distort(model, coefficients, flat) - drawn
            columns = [
                (distort(model, coefficients, flat + step) - error - drawn) / _NUDGE
                for step in np.eye(2) * _NUDGE
            ]
            a, c = columns[0][..., 0], columns[0][..., 1]
            b, d = columns[1][..., 0], columns[1][..., 1]
            step = np.stack(
                [d * error[..., 0] - b * error[..., 1], a * error[..., 1] - c * error[..., 0]], -1
            )
            flat = flat - step / (a * d - b * c)[..., None]
        found = np.abs(distort(model, coefficients, flat) - drawn).max(axis=-1) < _NEAR_ENOUGH
    return np.where(found[..., None], flat, np.nan)


def inner_pinhole(
    model: str, coefficients: Coefficients, K: DoubleArray, width: int, height: int
) -> DoubleArray:
    """(3, 3) intrinsics of the largest flat picture of that size without an empty pixel.

    K: (3, 3) of the photo; the centre of the first pixel is at (0.5, 0.5) in both. NaN where the
    photo's border cannot be flattened.
    """
    across = np.linspace(0.5, width - 0.5, _SIDE_POINTS)
    along = np.linspace(0.5, height - 0.5, _SIDE_POINTS)

    def side(x: ArrayLike, y: ArrayLike) -> DoubleArray:
        pixels = np.stack(np.broadcast_arrays(x, y), axis=-1)
        drawn = (pixels - K[:2, 2]) / K[[0, 1], [0, 1]]
        return flatten(model, coefficients, drawn)

    left, right = side(0.5, along)[:, 0].max(), side(width - 0.5, along)[:, 0].min()
    top, bottom = side(across, 0.5)[:, 1].max(), side(across, height - 0.5)[:, 1].min()
    with np.errstate(all="ignore"):
        fx, fy = (width - 1) / (right - left), (height - 1) / (bottom - top)
    return np.array([[fx, 0, 0.5 - left * fx], [0, fy, 0.5 - top * fy], [0, 0, 1]])


def _first_guess(model: str, drawn: DoubleArray) -> DoubleArray:
    if model in ("division", "eucm"):
        return drawn
    angle = np.minimum(np.linalg.norm(drawn, axis=-1, keepdims=True), 1.5)
    return drawn * np.where(angle > 1e-9, np.tan(angle) / np.maximum(angle, 1e-9), 1.0)


def _by_angle(flat: DoubleArray) -> DoubleArray:
    """Equidistant fisheye coordinates: as far from the centre as the angle in radians."""
    r = np.linalg.norm(flat, axis=-1, keepdims=True)
    return flat * np.where(r > 1e-9, np.arctan(r) / np.maximum(r, 1e-9), 1.0)


def _fov(coefficients: Coefficients, flat: DoubleArray) -> DoubleArray:
    (omega,) = coefficients
    if abs(omega) < 1e-6:
        return flat
    r = np.linalg.norm(flat, axis=-1, keepdims=True)
    limit = 2 * np.tan(omega / 2) / omega
    factor = np.arctan(2 * r * np.tan(omega / 2)) / (np.maximum(r, 1e-9) * omega)
    return flat * np.where(r > 1e-9, factor, limit)


def _tangential(
    x: DoubleArray, y: DoubleArray, p_x: float, p_y: float
) -> tuple[DoubleArray, DoubleArray]:
    """Decentering: p_x shifts along x, p_y along y."""
    r2 = x * x + y * y
    return p_x * (r2 + 2 * x * x) + 2 * p_y * x * y, p_y * (r2 + 2 * y * y) + 2 * p_x * x * y


def _thin_prism(coefficients: Coefficients, flat: DoubleArray) -> DoubleArray:
    k1, k2, p1, p2, k3, k4, sx, sy = coefficients
    x, y = np.moveaxis(_by_angle(flat), -1, 0)
    r2 = x * x + y * y
    radial = 1 + r2 * (k1 + r2 * (k2 + r2 * (k3 + r2 * k4)))
    shift_x, shift_y = _tangential(x, y, p2, p1)
    return np.stack([x * radial + shift_x + sx * r2, y * radial + shift_y + sy * r2], axis=-1)


def _rad_tan_thin_prism(coefficients: Coefficients, flat: DoubleArray) -> DoubleArray:
    *k, p0, p1, s0, s1, s2, s3 = coefficients
    x, y = np.moveaxis(_by_angle(flat), -1, 0)
    r2 = x * x + y * y
    radial = 1 + sum(c * r2 ** (i + 1) for i, c in enumerate(k))
    x, y = x * radial, y * radial
    r2 = x * x + y * y
    shift_x, shift_y = _tangential(x, y, p0, p1)
    return np.stack([x + shift_x + r2 * (s0 + s1 * r2), y + shift_y + r2 * (s2 + s3 * r2)], axis=-1)


def _division(coefficients: Coefficients, flat: DoubleArray) -> DoubleArray:
    (k,) = coefficients
    r2 = (flat**2).sum(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        return 2 * flat / (1 + np.sqrt(1 - 4 * k * r2))


def _eucm(coefficients: Coefficients, flat: DoubleArray) -> DoubleArray:
    alpha, beta = coefficients
    r2 = (flat**2).sum(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        return flat / (alpha * np.sqrt(beta * r2 + 1) + 1 - alpha)


_MODELS: dict[str, Callable[[Coefficients, DoubleArray], DoubleArray]] = {
    "fov": _fov,
    "thin_prism_fisheye": _thin_prism,
    "rad_tan_thin_prism_fisheye": _rad_tan_thin_prism,
    "division": _division,
    "eucm": _eucm,
}
