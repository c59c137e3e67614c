"""The CPU kernel that shrinks an 8-bit picture into a victim's input, channels interleaved.

Does what torch's anti-aliased bilinear resize does to the same picture as floats, to 4e-7: its
reference is `torch_tools.letterboxed_tensor`. Rows first, so that memory is read once, in order.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from scene.render.cpu.cache import kernel

FloatArray = NDArray[np.float32]


@kernel
def resize_into(
    image: NDArray[np.uint8],
    out: FloatArray,
    row_first: NDArray[np.int64],
    row_weights: FloatArray,
    column_first: NDArray[np.int64],
    column_weights: FloatArray,
) -> None:
    """Resize (H, W, 3) uint8 into out (h, w, 3) float32, values as weighted (see `taps`)."""
    height, width = out.shape[0], out.shape[1]
    source_width = image.shape[1]
    line = np.empty((source_width, 3), np.float32)
    for y in range(height):
        line[:] = np.float32(0)
        for k in range(row_weights.shape[1]):
            weight = row_weights[y, k]
            if weight != 0:
                source = image[row_first[y] + k]
                for x in range(source_width):
                    for c in range(3):
                        line[x, c] += weight * np.float32(source[x, c])
        for x in range(width):
            first = column_first[x]
            red = green = blue = np.float32(0)
            for k in range(column_weights.shape[1]):
                weight = column_weights[x, k]
                if weight != 0:
                    red += weight * line[first + k, 0]
                    green += weight * line[first + k, 1]
                    blue += weight * line[first + k, 2]
            out[y, x, 0] = red
            out[y, x, 1] = green
            out[y, x, 2] = blue


@lru_cache(maxsize=64)
def taps(source: int, wanted: int) -> tuple[NDArray[np.int64], FloatArray]:
    """First source cell (wanted,) and weights (wanted, k) of the triangle filter that torch uses.

    Weights beyond the last cell are zero, so `first + k` is only read where a weight is not.
    """
    scale = np.float32(source / wanted)  # single precision, as torch computes it
    reach = max(scale, np.float32(1))
    centers = (np.arange(wanted, dtype=np.float32) + np.float32(0.5)) * scale
    first = np.maximum((centers - reach + np.float32(0.5)).astype(np.int64), 0)
    last = np.minimum((centers + reach + np.float32(0.5)).astype(np.int64), source)
    cells = first[:, None] + np.arange(int((last - first).max()))
    apart = (cells.astype(np.float32) - centers[:, None] + np.float32(0.5)) / reach
    weights = np.clip(1 - np.abs(apart), 0, None)
    weights[cells >= last[:, None]] = 0
    return first, (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
