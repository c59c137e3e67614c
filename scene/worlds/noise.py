"""Tileable noise: the ingredient of every procedural texture."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]


@lru_cache(maxsize=64)
def fractal_noise(size: int, seed: int, coarsest: int = 2, octaves: int = 7) -> FloatArray:
    """(size, size) tileable value noise in [0, 1], read-only.

    coarsest: cells of the first octave across the picture; each octave doubles them, at half the
    strength.
    """
    rng = np.random.default_rng(seed)
    total = np.zeros((size, size))
    for octave in range(octaves):
        cells = coarsest << octave
        if cells > size:
            break
        total += 0.5**octave * _smooth_lattice(rng.random((cells, cells)), size)
    total -= total.min()
    noise = (total / total.max()).astype(np.float32)
    noise.flags.writeable = False
    return noise


def _smooth_lattice(values: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Periodic smooth interpolation of (n, n) lattice values to (size, size)."""
    cells = len(values)
    position = np.arange(size) * cells / size
    low = position.astype(np.int64)
    fraction = position - low
    fraction = fraction * fraction * (3 - 2 * fraction)
    high = (low + 1) % cells
    columns = values[:, low] * (1 - fraction) + values[:, high] * fraction
    mixed: NDArray[np.float64] = (
        columns[low] * (1 - fraction)[:, None] + columns[high] * fraction[:, None]
    )
    return mixed
