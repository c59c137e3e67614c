"""Kernels: for every tile, the list of records that touch it, in depth order.

Depth-ordered records are split into contiguous slices, one per thread. Every thread lists the
(tile, record) pairs of its slice and counts them per tile; a prefix sum over tiles and threads says
where each thread's part of each tile's list begins; every thread then moves its pairs there. The
order within a tile is therefore the depth order, whatever the number of threads.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from scene.render.cpu.cache import helper, kernel
from scene.render.cpu.records import (
    CONIC_A,
    CONIC_B,
    CONIC_C,
    EXTENT2,
    EXTENT_X,
    EXTENT_Y,
    LOG2_E,
    MEAN_X,
    MEAN_Y,
    RECORD_FLOATS,
    SLOPE_Y,
    FloatArray,
    Int32Array,
    IntArray,
)
from scene.render.cpu.simd_tile import TILE

_HALF = np.float32(0.5)
_SLACK = np.float32(0.001)  # pixels; rounding must not lose a pixel that the blend would draw
_CUT_FACTOR = np.float32(-2.0 * LOG2_E)
_TILE_BITS = 4
_ROW_MASK = 0xFFFFFFFF


@kernel
def list_pairs(
    records: FloatArray,
    first: int,
    last: int,
    width: int,
    height: int,
    pairs: IntArray,
    tile_counts: Int32Array,
) -> int:
    """List the pairs of the records first to last; returns how many there are (or may be).

    records: flat, in depth order. pairs: int64, tile << 32 | record. tile_counts: int32, one per
    tile, overwritten. If the result exceeds len(pairs) the list is incomplete: call again with
    that much room.
    """
    tiles_x = (width + TILE - 1) // TILE
    tile_counts[:] = 0
    room = len(pairs)
    used = 0
    needed = 0
    for record in range(first, last):
        row = np.uint64(record * RECORD_FLOATS)
        x, y = records[row + np.uint64(MEAN_X)], records[row + np.uint64(MEAN_Y)]
        reach_x, reach_y = records[row + np.uint64(EXTENT_X)], records[row + np.uint64(EXTENT_Y)]
        left, right = _pixels_between(x - reach_x, x + reach_x, width)
        top, bottom = _pixels_between(y - reach_y, y + reach_y, height)
        if left > right or top > bottom:
            continue
        tile_left, tile_right = left >> _TILE_BITS, right >> _TILE_BITS
        tile_top, tile_bottom = top >> _TILE_BITS, bottom >> _TILE_BITS
        most = (tile_right - tile_left + 1) * (tile_bottom - tile_top + 1)
        if needed + most > room:
            needed += most
            continue
        if tile_top == tile_bottom or tile_left == tile_right:
            for tile_y in range(tile_top, tile_bottom + 1):
                start = tile_y * tiles_x
                used = _add_tiles(
                    pairs, tile_counts, used, start + tile_left, start + tile_right, record
                )
        else:
            used = _add_ellipse(
                records,
                row,
                record,
                tile_top,
                tile_bottom,
                tiles_x,
                width,
                pairs,
                tile_counts,
                used,
            )
        needed = max(needed, used)
    return needed


@helper
def _pixels_between(low: Any, high: Any, size: int) -> tuple[int, int]:
    """First and last pixel whose centre lies in [low, high], clipped to the picture."""
    # clipped before rounding: a huge Gaussian's reach does not fit an integer
    first = math.ceil(max(low - _HALF, np.float32(0.0)))
    last = math.floor(min(high - _HALF, np.float32(size - 1)))
    return first, last


@helper
def _add_tiles(
    pairs: IntArray,
    tile_counts: Int32Array,
    used: int,
    first_tile: int,
    last_tile: int,
    record: int,
) -> int:
    for tile in range(first_tile, last_tile + 1):
        pairs[np.uint64(used)] = (np.int64(tile) << 32) | record
        tile_counts[np.uint64(tile)] += np.int32(1)
        used += 1
    return used


@helper
def _add_ellipse(
    records: FloatArray,
    row: Any,
    record: int,
    tile_top: int,
    tile_bottom: int,
    tiles_x: int,
    width: int,
    pairs: IntArray,
    tile_counts: Int32Array,
    used: int,
) -> int:
    """Add, in every row of tiles, those that the ellipse alpha >= cut meets at pixel centres.

    For an offset dy the ellipse spans dx = (-B dy +- sqrt(D dy^2 + 4 A cut)) / (2 A) with
    D = B^2 - 4 A C. It reaches farthest right at dy = SLOPE_Y * EXTENT_X, farthest left at minus
    that; both clipped to the row.
    """
    x, y = records[row + np.uint64(MEAN_X)], records[row + np.uint64(MEAN_Y)]
    reach_x, reach_y = records[row + np.uint64(EXTENT_X)], records[row + np.uint64(EXTENT_Y)]
    a, b, c = (
        records[row + np.uint64(CONIC_A)],
        records[row + np.uint64(CONIC_B)],
        records[row + np.uint64(CONIC_C)],
    )
    half_inverse = _HALF / a
    discriminant = b * b - np.float32(4.0) * a * c
    at_center = _CUT_FACTOR * a * records[row + np.uint64(EXTENT2)]
    rightmost = records[row + np.uint64(SLOPE_Y)] * reach_x
    for tile_y in range(tile_top, tile_bottom + 1):
        first_center = np.float32(tile_y * TILE) + _HALF - y
        low = max(first_center, -reach_y)
        high = min(first_center + np.float32(TILE - 1), reach_y)
        right_y = min(max(rightmost, low), high)
        left_y = min(max(-rightmost, low), high)
        right_root = math.sqrt(max(discriminant * right_y * right_y + at_center, np.float32(0.0)))
        left_root = math.sqrt(max(discriminant * left_y * left_y + at_center, np.float32(0.0)))
        # A < 0, so subtracting the root gives the right end
        right = x + (-b * right_y - right_root) * half_inverse
        left = x + (-b * left_y + left_root) * half_inverse
        first, last = _pixels_between(left - _SLACK, right + _SLACK, width)
        if first <= last:
            start = tile_y * tiles_x
            used = _add_tiles(
                pairs,
                tile_counts,
                used,
                start + (first >> _TILE_BITS),
                start + (last >> _TILE_BITS),
                record,
            )
    return used


@kernel
def tile_starts(tile_counts: Int32Array, starts: IntArray) -> int:
    """Counts (threads, tiles) to each thread's place in each list; fills starts (tiles + 1,)."""
    threads, tiles = tile_counts.shape
    total = 0
    for tile in range(tiles):
        starts[tile] = total
        for thread in range(threads):
            here = tile_counts[thread, tile]
            tile_counts[thread, tile] = total
            total += here
    starts[tiles] = total
    return total


@kernel
def scatter_pairs(pairs: IntArray, count: int, places: Int32Array, lists: Int32Array) -> None:
    """Move a thread's pairs into the tiles' lists (int32 records); advances `places`."""
    for i in range(count):
        pair = pairs[np.uint64(i)]
        tile = np.uint64(pair >> 32)
        place = places[tile]
        lists[np.uint64(place)] = np.int32(pair & _ROW_MASK)
        places[tile] = place + np.int32(1)
