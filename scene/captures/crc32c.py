"""CRC-32C (Castagnoli), the checksum of TFRecord files, at numpy's speed."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_POLYNOMIAL = 0x82F63B78
_LANE_BYTES = 1024
_MASK_DELTA = 0xA282EAD8


def masked_crc32c(data: bytes | memoryview) -> int:
    """The checksum as TFRecord stores it: rotated and shifted, so that it can cover itself."""
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF


def crc32c(data: bytes | memoryview) -> int:
    """CRC-32C of `data`.

    Lanes of 1 KB run side by side; a CRC is linear, so that theirs add up once each is moved on
    by the bytes that follow it.
    """
    view = np.frombuffer(data, np.uint8)
    lanes = len(view) // _LANE_BYTES
    state = 0xFFFFFFFF
    if lanes:
        words = view[: lanes * _LANE_BYTES].view("<u4").reshape(lanes, _LANE_BYTES // 4)
        crc = np.zeros(lanes, np.uint32)
        low, high = _past_a_word()
        for column in np.ascontiguousarray(words.T):
            crc ^= column
            crc = low[crc & np.uint32(0xFFFF)] ^ high[crc >> np.uint32(16)]
        a, b, c, d = _past_a_lane()
        for lane in crc.tolist():
            state = a[state & 255] ^ b[state >> 8 & 255] ^ c[state >> 16 & 255] ^ d[state >> 24]
            state ^= lane
    steps = _table().tolist() if len(view) % _LANE_BYTES else []
    for byte in view[lanes * _LANE_BYTES :].tolist():
        state = steps[(state ^ byte) & 0xFF] ^ (state >> 8)
    return state ^ 0xFFFFFFFF


@lru_cache(maxsize=1)
def _table() -> NDArray[np.uint32]:
    """(256,) the effect of one byte."""
    crc = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        crc = np.where(crc & 1, (crc >> np.uint32(1)) ^ np.uint32(_POLYNOMIAL), crc >> np.uint32(1))
    return crc.astype(np.uint32)


@lru_cache(maxsize=1)
def _past_a_lane() -> list[list[int]]:
    """Four tables of 256: what each byte of a state becomes after a lane of zero bytes."""
    state = np.arange(256, dtype=np.uint32)[None] << np.array([[0], [8], [16], [24]], np.uint32)
    return _past_zeros(state, _LANE_BYTES).tolist()


@lru_cache(maxsize=1)
def _past_a_word() -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Two tables of 65536: what each half of a state becomes after four zero bytes."""
    half = np.arange(1 << 16, dtype=np.uint32)
    return _past_zeros(half, 4), _past_zeros(half << np.uint32(16), 4)


def _past_zeros(state: NDArray[np.uint32], count: int) -> NDArray[np.uint32]:
    table = _table()
    for _ in range(count):
        state = table[state & 0xFF] ^ (state >> np.uint32(8))
    return state
