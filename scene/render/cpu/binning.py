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
    EXTENT_X,
    EXTENT_Y,
    MEAN_X,
    MEAN_Y,
    RECORD_FLOATS,
    FloatArray,
    Int32Array,
    IntArray,
)
from scene.render.cpu.simd_bin import ROWS, row_spans
from scene.render.cpu.simd_tile import TILE

_HALF = np.float32(0.5)
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
    spans = np.empty(2 * ROWS, np.int32)
    room = len(pairs)
    used = 0
    missing = 0
    for record in range(first, last):
        row = np.uint64(record * RECORD_FLOATS)
        x, y = records[row + np.uint64(MEAN_X)], records[row + np.uint64(MEAN_Y)]
        reach_x, reach_y = records[row + np.uint64(EXTENT_X)], records[row + np.uint64(EXTENT_Y)]
        left, right = _pixels_between(x - reach_x, x + reach_x, width)
        top, bottom = _pixels_between(y - reach_y, y + reach_y, height)
        if left > right or top > bottom:
            continue
        tile_x, tile_y = left >> _TILE_BITS, top >> _TILE_BITS
        wider, taller = (right >> _TILE_BITS) - tile_x, (bottom >> _TILE_BITS) - tile_y
        most = max(4, (wider + 1) * (taller + 1))
        if used + most > room:
            missing += most
        elif wider <= 1 and taller <= 1:
            tile = tile_y * tiles_x + tile_x
            used = _add_square(pairs, tile_counts, used, record, tile, tiles_x, wider, taller)
        else:
            for upper in range(tile_y, tile_y + taller + 1, ROWS):
                center_y = np.float32(upper * TILE) + _HALF
                row_spans(records, np.int64(row), center_y, np.float32(width), spans)
                rows = min(ROWS, tile_y + taller + 1 - upper)
                used = _add_rows(
                    pairs, tile_counts, used, record, upper * tiles_x, tiles_x, spans, rows
                )
    return used + missing


@helper
def _pixels_between(low: Any, high: Any, size: int) -> tuple[int, int]:
    """First and last pixel whose centre lies in [low, high], clipped to the picture."""
    # clipped before rounding: a huge Gaussian's reach does not fit an integer
    first = math.ceil(max(low - _HALF, np.float32(0.0)))
    last = math.floor(min(high - _HALF, np.float32(size - 1)))
    return first, last


@helper
def _add_square(
    pairs: IntArray,
    tile_counts: Int32Array,
    used: int,
    record: int,
    tile: int,
    tiles_x: int,
    wider: int,
    taller: int,
) -> int:
    """Add the 1x1 to 2x2 tiles from `tile` on; `wider` and `taller` are 0 or 1.

    Most Gaussians are that small. All four are written, and those that count are kept: a branch
    per tile would be guessed wrong as often as not, which costs more.
    """
    both = wider & taller
    pairs[np.uint64(used)] = (np.int64(tile) << 32) | record
    pairs[np.uint64(used + 1)] = (np.int64(tile + 1) << 32) | record
    used += 1 + wider
    pairs[np.uint64(used)] = (np.int64(tile + tiles_x) << 32) | record
    used += taller
    pairs[np.uint64(used)] = (np.int64(tile + tiles_x + 1) << 32) | record
    used += both
    tile_counts[np.uint64(tile)] += np.int32(1)
    tile_counts[np.uint64(tile + wider)] += np.int32(wider)
    tile_counts[np.uint64(tile + taller * tiles_x)] += np.int32(taller)
    tile_counts[np.uint64(tile + both * (tiles_x + 1))] += np.int32(both)
    return used


@helper
def _add_rows(
    pairs: IntArray,
    tile_counts: Int32Array,
    used: int,
    record: int,
    first_tile: int,
    tiles_x: int,
    spans: Int32Array,
    rows: int,
) -> int:
    """Add the tiles of the spans that `row_spans` found; first_tile starts the first row."""
    for i in range(rows):
        start = first_tile + i * tiles_x
        for tile in range(start + spans[np.uint64(i)], start + spans[np.uint64(ROWS + i)] + 1):
            pairs[np.uint64(used)] = (np.int64(tile) << 32) | record
            tile_counts[np.uint64(tile)] += np.int32(1)
            used += 1
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
