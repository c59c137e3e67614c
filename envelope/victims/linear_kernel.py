"""OpenCV's INTER_LINEAR of 8-bit pictures, bit for bit where both axes shrink.

It works in whole numbers: weights of 11 bits along rows, cut by 4 bits, weights of 11 bits along
columns, cut by 16, and rounded at the last 2. A network sees the level that this takes off: up to
0.003 of a NanoDet's confidence. Where it enlarges, one pixel in 300 differs by a level.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from scene.render.cpu.cache import kernel

Taps = NDArray[np.int64]
"""(4, wanted): two source cells and their weights, of 2048."""


@kernel
def _linear_into(
    image: NDArray[np.uint8], out: NDArray[np.uint8], rows: Taps, columns: Taps
) -> None:
    for y in range(out.shape[0]):
        upper, lower = image[rows[0, y]], image[rows[1, y]]
        for x in range(out.shape[1]):
            left, right = columns[0, x], columns[1, x]
            for c in range(3):
                above = upper[left, c] * columns[2, x] + upper[right, c] * columns[3, x]
                below = lower[left, c] * columns[2, x] + lower[right, c] * columns[3, x]
                total = (rows[2, y] * (above >> 4) >> 16) + (rows[3, y] * (below >> 4) >> 16)
                out[y, x, c] = np.uint8((total + 2) >> 2)


def linear_into(image: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
    """Resize (H, W, 3) into out (h, w, 3), which may be a part of a larger picture."""
    rows, columns = _taps(image.shape[0], out.shape[0]), _taps(image.shape[1], out.shape[1])
    _linear_into(np.require(image, requirements="C"), out, rows, columns)


@lru_cache(maxsize=64)
def _taps(source: int, wanted: int) -> Taps:
    at = ((np.arange(wanted) + 0.5) * (source / wanted) - 0.5).astype(np.float32)
    first = np.floor(at).astype(np.int64)
    share = at - first.astype(np.float32)
    outside = (first < 0) | (first >= source - 1)
    first = np.clip(first, 0, source - 1)
    share[outside] = 0
    second = np.minimum(first + 1, source - 1)
    weights = np.rint(np.stack([1 - share, share]) * np.float32(2048)).astype(np.int64)
    return np.concatenate([[first], [second], weights])
