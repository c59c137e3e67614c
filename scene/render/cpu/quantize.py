"""Kernels: sRGB values as the bytes of a picture, whole or in some of its tiles."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scene.render.cpu.cache import exact_helper, exact_kernel
from scene.render.cpu.simd_tile import TILE


@exact_helper
def _byte(value):  # type: ignore[no-untyped-def]
    """255 times the value, limited to [0, 1], as the nearest byte (ties to even); NaN is 0."""
    value = value if value > np.float32(0.0) else np.float32(0.0)
    value = value if value < np.float32(1.0) else np.float32(1.0)
    return np.uint8(np.int32(np.rint(value * np.float32(255.0))))


@exact_kernel
def quantize(values: NDArray[np.float32], found: NDArray[np.uint8]) -> None:
    """Bytes of all values. values: (N,). found: (N,), written."""
    for i in range(len(values)):
        found[i] = _byte(values[i])


@exact_kernel
def quantize_tiles(
    rgb: NDArray[np.float32], tiles: NDArray[np.int32], picture: NDArray[np.uint8]
) -> None:
    """Bytes of the named tiles alone. rgb: (H, W, 3). picture: (H, W, 3), written there."""
    height, width = rgb.shape[0], rgb.shape[1]
    across = (width + TILE - 1) // TILE
    for tile in tiles:
        x, y = (tile % across) * TILE, (tile // across) * TILE
        for row in range(y, min(y + TILE, height)):
            for column in range(x, min(x + TILE, width)):
                for channel in range(3):
                    picture[row, column, channel] = _byte(rgb[row, column, channel])


@exact_kernel
def take_red(
    rgb: NDArray[np.float32], tiles: NDArray[np.int32], found: NDArray[np.float32]
) -> None:
    """The first channel in the named tiles. rgb: (H, W, 3). found: (H, W), written there."""
    height, width = found.shape
    across = (width + TILE - 1) // TILE
    for tile in tiles:
        x, y = (tile % across) * TILE, (tile // across) * TILE
        for row in range(y, min(y + TILE, height)):
            for column in range(x, min(x + TILE, width)):
                found[row, column] = rgb[row, column, 0]
