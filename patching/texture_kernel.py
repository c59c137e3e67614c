"""Kernel: a texture looked up between its texels, all channels at once."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from scene.render.cpu.cache import exact_kernel


@exact_kernel
def sample_texture(
    texture: NDArray[np.float32],
    rows: NDArray[np.float64],
    columns: NDArray[np.float64],
    samples: NDArray[np.float32],
) -> None:
    """Bilinear values at texel positions (texel centres are whole numbers), edges continued.

    texture: (h, w, C). rows, columns: (n,). samples: (n, C), written. The sums run in the order
    and precision of `scipy.ndimage.map_coordinates`, so that both give the same bits.
    """
    height, width, channels = texture.shape
    for i in range(len(rows)):
        y = min(max(rows[i], 0.0), height - 1.0)
        x = min(max(columns[i], 0.0), width - 1.0)
        top, left = math.floor(y), math.floor(x)
        down, right = y - top, x - left
        bottom, beside = min(top + 1, height - 1), min(left + 1, width - 1)
        for c in range(channels):
            total = np.float64(texture[top, left, c]) * (1.0 - down) * (1.0 - right)
            total += np.float64(texture[top, beside, c]) * (1.0 - down) * right
            total += np.float64(texture[bottom, left, c]) * down * (1.0 - right)
            total += np.float64(texture[bottom, beside, c]) * down * right
            samples[i, c] = total
