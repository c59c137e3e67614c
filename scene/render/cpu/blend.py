"""Kernels: tiles of a picture from their lists of records."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scene.render.cpu.cache import helper, kernel
from scene.render.cpu.records import LANES, RECORD_FLOATS, FloatArray, Int32Array, IntArray
from scene.render.cpu.simd import prefetch, take_ticket
from scene.render.cpu.simd_blend import (
    CHUNK,
    PLANE_DEPTH_SUM,
    PLANE_MEDIAN_DEPTH,
    PLANE_RED,
    blend_blocks_color,
    blend_blocks_depths,
    prepare,
)
from scene.render.cpu.simd_tile import (
    ALL_BLOCKS,
    BLOCK,
    BLOCK_FLOATS,
    BLOCKS,
    SCRATCH_FLOATS,
    TILE,
    live_blocks,
)

_PREFETCH_AHEAD = 8
_CACHE_LINE_FLOATS = 16
_STATE_FLOATS = BLOCKS * BLOCK_FLOATS
_BLOCKS_X = TILE // BLOCK
_RED = np.uint64(PLANE_RED * LANES)
_GREEN = np.uint64((PLANE_RED + 1) * LANES)
_BLUE = np.uint64((PLANE_RED + 2) * LANES)
_DEPTH_SUM = np.uint64(PLANE_DEPTH_SUM * LANES)
_MEDIAN = np.uint64(PLANE_MEDIAN_DEPTH * LANES)


@kernel
def blend_color(
    records: FloatArray,
    lists: Int32Array,
    starts: IntArray,
    tiles: Int32Array,
    background: FloatArray,
    tickets: IntArray,
    rgb: FloatArray,
    alpha: FloatArray,
) -> None:
    """Draw tiles until none is left: rgb (H, W, 3) with background, alpha (H, W).

    records: flat, in depth order. lists[starts[k]:starts[k + 1]]: records of tile tiles[k]; other
    tiles of the picture are left as they are. tickets: int64, [0] is the next k that no thread has
    taken.
    """
    height, width = alpha.shape
    tiles_x = (width + TILE - 1) // TILE
    state, scratch = _aligned(_STATE_FLOATS), _aligned(CHUNK * SCRATCH_FLOATS)
    masks, offsets = np.empty(CHUNK, np.int32), np.empty(CHUNK, np.int64)
    while True:
        turn = take_ticket(tickets)
        if turn >= len(tiles):
            break
        tile = np.int64(tiles[turn])
        x, y = (tile % tiles_x) * TILE, (tile // tiles_x) * TILE
        live = _clear(state, x, y, width, height)
        at, end = starts[turn], starts[turn + 1]
        while at < end and live != 0:
            count = min(CHUNK, end - at)
            _prepare_chunk(records, lists, at, count, end, x, y, live, scratch, masks, offsets)
            live = blend_blocks_color(state, scratch, masks, records, offsets, live)
            at += count
        _store_color(state, x, y, background, rgb, alpha)


@kernel
def blend_depths(
    records: FloatArray,
    lists: Int32Array,
    starts: IntArray,
    tiles: Int32Array,
    background: FloatArray,
    tickets: IntArray,
    rgb: FloatArray,
    alpha: FloatArray,
    expected: FloatArray,
    median: FloatArray,
    wanted: NDArray[np.uint8],
) -> None:
    """As `blend_color`, and expected depth and median depth (H, W), 0 where there is none.

    wanted: one per k, 0 where tiles[k] is to be drawn without depths: they stay as they are.
    """
    height, width = alpha.shape
    tiles_x = (width + TILE - 1) // TILE
    state, scratch = _aligned(_STATE_FLOATS), _aligned(CHUNK * SCRATCH_FLOATS)
    masks, offsets = np.empty(CHUNK, np.int32), np.empty(CHUNK, np.int64)
    while True:
        turn = take_ticket(tickets)
        if turn >= len(tiles):
            break
        tile = np.int64(tiles[turn])
        x, y = (tile % tiles_x) * TILE, (tile // tiles_x) * TILE
        live = _clear(state, x, y, width, height)
        at, end = starts[turn], starts[turn + 1]
        while at < end and live != 0:
            count = min(CHUNK, end - at)
            _prepare_chunk(records, lists, at, count, end, x, y, live, scratch, masks, offsets)
            if wanted[turn] != 0:
                live = blend_blocks_depths(state, scratch, masks, records, offsets, live)
            else:
                live = blend_blocks_color(state, scratch, masks, records, offsets, live)
            at += count
        _store_color(state, x, y, background, rgb, alpha)
        if wanted[turn] != 0:
            _store_depths(state, x, y, expected, median)


@helper
def _aligned(size: int) -> FloatArray:
    """A float32 array that starts on a cache line."""
    raw = np.empty(size + _CACHE_LINE_FLOATS, np.float32)
    skip = ((64 - (raw.ctypes.data & 63)) & 63) >> 2
    return raw[skip : skip + size]


@helper
def _clear(state: FloatArray, x: int, y: int, width: int, height: int) -> Any:
    """Start a tile at pixel x, y; returns the mask of blocks that have a pixel in the picture."""
    for block in range(BLOCKS):
        start = np.uint64(block * BLOCK_FLOATS)
        for i in range(LANES):
            state[start + np.uint64(i)] = np.float32(1.0)
        for i in range(LANES, BLOCK_FLOATS):
            state[start + np.uint64(i)] = np.float32(0.0)
    if x + TILE <= width and y + TILE <= height:
        return np.int32(ALL_BLOCKS)
    for j in range(TILE):
        for i in range(TILE):
            if x + i >= width or y + j >= height:
                state[_state_index(i, j)] = np.float32(-1.0)
    return live_blocks(state)


@helper
def _state_index(i: int, j: int) -> Any:
    """Where the transmittance of pixel i, j of a tile stands in its state."""
    block = (j // BLOCK) * _BLOCKS_X + i // BLOCK
    return np.uint64(block * BLOCK_FLOATS + (j % BLOCK) * BLOCK + i % BLOCK)


@helper
def _prepare_chunk(
    records: FloatArray,
    lists: Int32Array,
    at: int,
    count: int,
    end: int,
    x: int,
    y: int,
    live: Any,
    scratch: FloatArray,
    masks: Int32Array,
    offsets: IntArray,
) -> None:
    center_x, center_y = np.float32(x) + np.float32(0.5), np.float32(y) + np.float32(0.5)
    for slot in range(count):
        place = at + slot
        if place + _PREFETCH_AHEAD < end:
            prefetch(records, np.int64(lists[place + _PREFETCH_AHEAD]) * RECORD_FLOATS)
        offset = np.int64(lists[place]) * RECORD_FLOATS
        offsets[slot] = offset
        prepare(scratch, masks, slot, records, offset, center_x, center_y, live)
    for slot in range(count, CHUNK):
        masks[slot] = 0


@helper
def _store_color(
    state: FloatArray,
    x: int,
    y: int,
    background: FloatArray,
    rgb: FloatArray,
    alpha: FloatArray,
) -> None:
    height, width = alpha.shape
    flat_rgb, flat_alpha = rgb.reshape(-1), alpha.reshape(-1)
    red, green, blue = background[0], background[1], background[2]
    for block in range(BLOCKS):
        left, top = x + block % _BLOCKS_X * BLOCK, y + block // _BLOCKS_X * BLOCK
        columns = min(BLOCK, width - left)
        for j in range(min(BLOCK, height - top)):
            # unsigned: without the check for negative indices the loop is vectorized
            at = np.uint64(block * BLOCK_FLOATS + j * BLOCK)
            pixel = np.uint64((top + j) * width + left)
            for i in range(columns):
                a, p = at + np.uint64(i), pixel + np.uint64(i)
                transmittance = abs(state[a])
                flat_alpha[p] = np.float32(1.0) - transmittance
                p *= np.uint64(3)
                flat_rgb[p] = state[a + _RED] + transmittance * red
                flat_rgb[p + np.uint64(1)] = state[a + _GREEN] + transmittance * green
                flat_rgb[p + np.uint64(2)] = state[a + _BLUE] + transmittance * blue


@helper
def _store_depths(
    state: FloatArray, x: int, y: int, expected: FloatArray, median: FloatArray
) -> None:
    height, width = expected.shape
    flat_expected, flat_median = expected.reshape(-1), median.reshape(-1)
    for block in range(BLOCKS):
        left, top = x + block % _BLOCKS_X * BLOCK, y + block // _BLOCKS_X * BLOCK
        columns = min(BLOCK, width - left)
        for j in range(min(BLOCK, height - top)):
            at = np.uint64(block * BLOCK_FLOATS + j * BLOCK)
            pixel = np.uint64((top + j) * width + left)
            for i in range(columns):
                a, p = at + np.uint64(i), pixel + np.uint64(i)
                weight = np.float32(1.0) - abs(state[a])
                total = state[a + _DEPTH_SUM]
                drawn = weight > np.float32(0.0)
                flat_expected[p] = total / weight if drawn else np.float32(0.0)
                flat_median[p] = state[a + _MEDIAN]
