"""The real spherical harmonics of 3DGS: their values, and how coefficients turn with a scene."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

DoubleArray = NDArray[np.float64]

_BLOCKS = ((0, 1), (1, 4), (4, 9), (9, 16))


def harmonics(directions: ArrayLike, degree: int = 3) -> DoubleArray:
    """(N, (degree + 1)^2) values of the basis at unit `directions` (N, 3), in 3DGS's order."""
    x, y, z = np.asarray(directions, dtype=np.float64).T
    xx, yy, zz = x * x, y * y, z * z
    columns = [np.full_like(x, 0.28209479177387814)]
    if degree > 0:
        columns += [0.4886025119029199 * v for v in (-y, z, -x)]
    if degree > 1:
        columns += [
            1.0925484305920792 * x * y,
            -1.0925484305920792 * y * z,
            0.31539156525252005 * (2 * zz - xx - yy),
            -1.0925484305920792 * x * z,
            0.5462742152960396 * (xx - yy),
        ]
    if degree > 2:
        columns += [
            -0.5900435899266435 * y * (3 * xx - yy),
            2.890611442640554 * x * y * z,
            -0.4570457994644658 * y * (4 * zz - xx - yy),
            0.3731763325901154 * z * (2 * zz - 3 * xx - 3 * yy),
            -0.4570457994644658 * x * (4 * zz - xx - yy),
            1.445305721320277 * z * (xx - yy),
            -0.5900435899266435 * x * (xx - 3 * yy),
        ]
    return np.stack(columns, axis=1)


def rotate_harmonics(sh: NDArray[np.float32], rotation: ArrayLike) -> NDArray[np.float32]:
    """Coefficients of the same colors after the scene is turned by `rotation` (3, 3).

    sh: (N, K, 3), K = (degree + 1)^2. A turned Gaussian looks along `rotation @ d` as it did
    along d; each degree turns within itself.
    """
    degree = round(sh.shape[1] ** 0.5) - 1
    directions = np.random.default_rng(0).normal(size=(64, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    there = harmonics(directions, degree)
    before = harmonics(directions @ np.asarray(rotation, dtype=np.float64), degree)
    turned = np.array(sh, dtype=np.float32)
    for first, last in _BLOCKS[1 : degree + 1]:
        # 64 values determine at most 7 unknowns exactly, so least squares has no residual
        matrix = np.linalg.lstsq(there[:, first:last], before[:, first:last], rcond=None)[0]
        turned[:, first:last] = matrix.astype(np.float32) @ sh[:, first:last]
    return turned
