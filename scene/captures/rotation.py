"""Rotations as files state them: rounded, and sometimes no rotation at all."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_MOST_STRETCH = 1e-2


def nearest_rotation(matrix: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """(3, 3) exact rotation that a finite, rounded one means; None for scale, shear or a mirror."""
    u, stretch, v = np.linalg.svd(matrix)
    if not np.allclose(stretch, 1, atol=_MOST_STRETCH) or np.linalg.det(matrix) < 0:
        return None
    return np.asarray(u @ v, dtype=np.float64)
