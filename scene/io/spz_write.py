"""Writing SPZ version 3 (gzip), what most viewers read."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scene.errors import InputError
from scene.gaussians import Gaussians
from scene.io.atomic import atomic_write
from scene.io.spz import COLOR_SCALE, FLIP, HEADER, MAGIC, MAX_POINTS, OTHER_PARTS, SH_SIGNS

FloatArray = NDArray[np.float32]

_VERSION = 3
_MOST_FRACTIONAL_BITS = 20
_LARGEST_FIXED = (1 << 23) - 1
_BLOCK_ROWS = 1 << 16
# gzip's level 6 costs twice the time of 4 for 1 % of the size
_GZIP_LEVEL = 4


def save_spz(gaussians: Gaussians, path: str | Path) -> None:
    """Write SPZ version 3, order kept, in SPZ's right-up-back frame. Raises InputError.

    Rounds: positions to 24-bit fixed point, with as many fractional bits (20 at most) as the
    farthest Gaussian leaves; log scales to 1/16 within [-10, 5.94]; quaternion parts to 1/723;
    opacities to 1/255; colors to 1/135 within 0.5 +- 0.94; other harmonics to 1/128 within +-1.
    """
    if len(gaussians) > MAX_POINTS:
        raise InputError(f"{path}: SPZ holds at most {MAX_POINTS} Gaussians, not {len(gaussians)}")
    farthest = float(np.abs(gaussians.means).max())
    bits = min(_MOST_FRACTIONAL_BITS, int(np.floor(np.log2(_LARGEST_FIXED / max(farthest, 1e-30)))))
    if bits < 0:
        raise InputError(
            f"{path}: SPZ holds positions up to {_LARGEST_FIXED}, found {farthest:.3g}; remove far "
            f"Gaussians or write .ply"
        )
    header = HEADER.pack(MAGIC, _VERSION, len(gaussians), gaussians.sh_degree, bits, 0, 0)
    with atomic_write(path) as file:
        # no time of writing: equal scenes give equal bytes
        with gzip.GzipFile("", "wb", _GZIP_LEVEL, file, mtime=0) as packed:
            packed.write(header)
            for stream in (_positions, _opacities, _colors, _scales, _rotations, _harmonics):
                for first in range(0, len(gaussians), _BLOCK_ROWS):
                    rows = slice(first, first + _BLOCK_ROWS)
                    packed.write(stream(gaussians, rows, bits).tobytes())


def _bytes(values: NDArray) -> NDArray[np.uint8]:
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)


def _positions(gaussians: Gaussians, rows: slice, bits: int) -> NDArray[np.uint8]:
    """(n, 9): three little-endian signed 24-bit numbers."""
    fixed = np.rint(gaussians.means[rows] * FLIP.astype(np.float64) * (1 << bits)).astype("<i4")
    return np.ascontiguousarray(fixed).view(np.uint8).reshape(-1, 3, 4)[..., :3]


def _opacities(gaussians: Gaussians, rows: slice, _: int) -> NDArray[np.uint8]:
    return _bytes(gaussians.opacities[rows] * np.float32(255))


def _colors(gaussians: Gaussians, rows: slice, _: int) -> NDArray[np.uint8]:
    return _bytes(gaussians.sh[rows, 0] * np.float32(COLOR_SCALE * 255) + np.float32(127.5))


def _scales(gaussians: Gaussians, rows: slice, _: int) -> NDArray[np.uint8]:
    return _bytes((np.log(gaussians.scales[rows]) + 10) * 16)


def _rotations(gaussians: Gaussians, rows: slice, _: int) -> NDArray[np.uint32]:
    """(n,) words: which of xyzw is largest, then sign and 9 bits of size of the three others."""
    xyzw = gaussians.quats[rows][:, [1, 2, 3, 0]] * np.append(FLIP, np.float32(1))
    largest = np.abs(xyzw).argmax(axis=1)
    positive = np.take_along_axis(xyzw, largest[:, None], axis=1) >= 0
    small = np.take_along_axis(np.where(positive, xyzw, -xyzw), OTHER_PARTS[largest], axis=1)
    sizes = np.clip(np.rint(np.abs(small) * (511 * np.sqrt(2))), 0, 511).astype(np.uint32)
    fields = sizes | (small < 0).astype(np.uint32) << np.uint32(9)
    words = largest.astype(np.uint32) << np.uint32(30)
    for i, shift in enumerate((20, 10, 0)):
        words |= fields[:, i] << np.uint32(shift)
    return words.astype("<u4")


def _harmonics(gaussians: Gaussians, rows: slice, _: int) -> NDArray[np.uint8]:
    rest = gaussians.sh[rows, 1:]
    return _bytes(rest * SH_SIGNS[: rest.shape[1], None] * np.float32(128) + np.float32(128))
