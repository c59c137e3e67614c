"""Kernels: a texture looked up between its texels, all channels at once, and pasted upright."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from scene.render.cpu.cache import exact_kernel


@exact_kernel
def _look_up(
    texture: NDArray[np.float32], row: float, column: float, found: NDArray[np.float32]
) -> None:
    """One bilinear value; found: (C,), written."""
    height, width, channels = texture.shape
    y = min(max(row, 0.0), height - 1.0)
    x = min(max(column, 0.0), width - 1.0)
    top, left = math.floor(y), math.floor(x)
    down, right = y - top, x - left
    bottom, beside = min(top + 1, height - 1), min(left + 1, width - 1)
    for c in range(channels):
        total = np.float64(texture[top, left, c]) * (1.0 - down) * (1.0 - right)
        total += np.float64(texture[top, beside, c]) * (1.0 - down) * right
        total += np.float64(texture[bottom, left, c]) * down * (1.0 - right)
        total += np.float64(texture[bottom, beside, c]) * down * right
        found[c] = total


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
    for i in range(len(rows)):
        _look_up(texture, rows[i], columns[i], samples[i])


@exact_kernel
def paste_texture(
    texture: NDArray[np.float32],
    picture: NDArray[np.float32],
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    turn: tuple[float, float],
    size: tuple[float, float],
    supersample: int,
) -> None:
    """Lay a turned rectangle of texture over a picture, averaged over each pixel's sub-pixels.

    texture: (h, w, 4) premultiplied RGBA. picture: (H, W, 3), changed. x: (W * supersample,) and
    y: (H * supersample,) sub-pixels' places from the rectangle's centre, pixels. turn: cosine and
    sine of the clockwise angle. size: (width, height) of the rectangle, pixels.
    """
    height, width = texture.shape[:2]
    cosine, sine = turn
    share = np.float32(supersample * supersample)
    mean, found = np.empty(4, np.float32), np.empty(4, np.float32)
    for row in range(picture.shape[0]):
        for column in range(picture.shape[1]):
            mean[:] = 0
            met = False
            for i in range(row * supersample, (row + 1) * supersample):
                for j in range(column * supersample, (column + 1) * supersample):
                    u = (cosine * x[j] + sine * y[i]) / size[0] + 0.5
                    v = (cosine * y[i] - sine * x[j]) / size[1] + 0.5
                    if 0 <= u <= 1 and 0 <= v <= 1:
                        met = True
                        _look_up(texture, v * height - 0.5, u * width - 0.5, found)
                        for c in range(4):
                            mean[c] += found[c]
            if met:
                clear = np.float32(1) - mean[3] / share
                for c in range(3):
                    picture[row, column, c] = mean[c] / share + clear * picture[row, column, c]
