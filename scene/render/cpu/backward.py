"""Kernels: a region of tiles drawn to planes, and its gradients taken back to moments.

A region is a rectangle of whole tiles (clipped to the picture): the whole picture for the trainer,
the tiles around the patch for `PatchView`. Pictures are planar, float32 (4, height, width): red,
green, blue with the background, and alpha.

Tiles may resume from stored states, in which what stands in front is blended already; gradients
end with a tile's last entry that is wanted.

Tiles are dealt out to the threads by number, not by who is free first: sums then come out the
same in every run with the same number of threads.
"""

from __future__ import annotations

import numpy as np

from scene.render.cpu.backward_simd import (
    MOMENTS,
    PREFIX,
    SEED,
    SUMS_FLOATS,
    TOTAL,
    collect_moments,
    gradient_blocks,
)
from scene.render.cpu.cache import helper, kernel
from scene.render.cpu.records import DEPTH, LANES, RECORD_FLOATS
from scene.render.cpu.simd import prefetch
from scene.render.cpu.simd_blend import CHUNK, PLANE_RED, blend_blocks_color, prepare
from scene.render.cpu.simd_tile import (
    ALL_BLOCKS,
    BLOCK_FLOATS,
    BLOCKS,
    SCRATCH_FLOATS,
    TILE,
    live_blocks,
)

_AHEAD = 8
STATE_FLOATS = BLOCKS * BLOCK_FLOATS
"""Floats of a tile's state."""
_f = np.float32

# Entries of a region: int64 (REGION_NUMBERS,).
REGION_TOP = 0  # first pixel row
REGION_LEFT = 1  # first pixel column
REGION_HEIGHT = 2  # pixels, clipped to the picture
REGION_WIDTH = 3
REGION_TILES_X = 4  # tiles per row
REGION_TILES = 5  # tiles in all
REGION_NUMBERS = 6


@kernel
def draw_region(  # type: ignore[no-untyped-def]
    records, starts, entries, region, resume, states, background, thread, threads, planes
):
    """Blend a thread's share of a region's tiles.

    records: flat float32. starts: int64 (tiles + 1,). entries: int32 record numbers, each tile's
    in depth order. resume: whether tiles start from states[tile], float32 (tiles, STATE_FLOATS).
    background: float32 (3,). planes: float32 (4, height, width), written.
    """
    state = np.empty(STATE_FLOATS, np.float32)
    scratch = np.empty(CHUNK * SCRATCH_FLOATS, np.float32)
    masks = np.empty(CHUNK, np.int32)
    offsets = np.empty(CHUNK, np.int64)
    for tile in range(thread, region[REGION_TILES], threads):
        row, column, rows, columns = _tile_bounds(region, tile)
        if resume:
            state[:] = states[tile]
            live = live_blocks(state)
        else:
            state[:] = _f(0)
            live = _start_transmittance(state, rows, columns)
        tile_x = _f(region[REGION_LEFT] + column) + _f(0.5)
        tile_y = _f(region[REGION_TOP] + row) + _f(0.5)
        first, last = starts[tile], starts[tile + 1]
        while first < last and live != 0:
            _prepare_chunk(
                records, entries, first, last, tile_x, tile_y, live, scratch, masks, offsets
            )
            live = blend_blocks_color(state, scratch, masks, records, offsets, live)
            first += CHUNK
        for y in range(rows):
            for x in range(columns):
                k = _state_index(x, y)
                left = abs(state[k])
                for channel in range(3):
                    seen = state[k + np.uint64((PLANE_RED + channel) * LANES)]
                    planes[channel, row + y, column + x] = seen + left * background[channel]
                planes[3, row + y, column + x] = _f(1) - left


@kernel
def blend_front(records, starts, entries, region, limits, fronts, states, needed):  # type: ignore[no-untyped-def]
    """What stands in front of a depth, blended once: states to resume from.

    limits: float32 (tiles,), depth. fronts: int64 (tiles,), written: how many of a tile's entries
    are nearer than its limit and blended into its states[tile]. needed: int64 (tiles,), written:
    how many entries matter at all; after these, no pixel of the tile is live.
    """
    scratch = np.empty(CHUNK * SCRATCH_FLOATS, np.float32)
    masks = np.empty(CHUNK, np.int32)
    offsets = np.empty(CHUNK, np.int64)
    state = np.empty(STATE_FLOATS, np.float32)
    for tile in range(region[REGION_TILES]):
        row, column, rows, columns = _tile_bounds(region, tile)
        tile_x = _f(region[REGION_LEFT] + column) + _f(0.5)
        tile_y = _f(region[REGION_TOP] + row) + _f(0.5)
        state[:] = _f(0)
        live = _start_transmittance(state, rows, columns)
        first, end = starts[tile], starts[tile + 1]
        front = first
        while front < end:
            depth = records[np.int64(entries[front]) * RECORD_FLOATS + DEPTH]
            if depth >= limits[tile]:
                break
            front += 1
        fronts[tile] = front - first
        for last in (front, end):
            while first < last and live != 0:
                _prepare_chunk(
                    records, entries, first, last, tile_x, tile_y, live, scratch, masks, offsets
                )
                live = blend_blocks_color(state, scratch, masks, records, offsets, live)
                first += CHUNK
            first = min(first, last)
            if last == front:
                states[tile, :] = state
        needed[tile] = max(first, front) - starts[tile]


@kernel
def gradients_of_region(  # type: ignore[no-untyped-def]
    records,
    starts,
    ends,
    entries,
    region,
    resume,
    states,
    planes,
    seeds,
    first_wanted,
    thread,
    threads,
    moments,
):
    """Moments of the Gaussians in a thread's share of a region's tiles.

    ends: int64 (tiles,), where each tile's last wanted entry ends. planes: as `draw_region` left
    them. seeds: float32 (3 or 4, height, width), dL/dplanes. first_wanted: records from this
    number on are differentiated; record first_wanted + i has row i of `moments`, float32
    (rows, MOMENTS), which is overwritten.
    """
    state = np.empty(STATE_FLOATS, np.float32)
    scratch = np.empty(CHUNK * SCRATCH_FLOATS, np.float32)
    sums = np.zeros(CHUNK * SUMS_FLOATS, np.float32)
    masks = np.empty(CHUNK, np.int32)
    offsets = np.empty(CHUNK, np.int64)
    wanted = np.empty(CHUNK, np.int64)
    flat = moments.reshape(-1)
    flat[:] = _f(0)
    for tile in range(thread, region[REGION_TILES], threads):
        first, last = starts[tile], ends[tile]
        if first >= last:
            continue
        row, column, rows, columns = _tile_bounds(region, tile)
        if resume:
            state[:] = states[tile]
            live = live_blocks(state)
        else:
            state[:] = _f(0)
            live = _start_transmittance(state, rows, columns)
        _put_seeds(state, planes, seeds, row, column, rows, columns)
        tile_x = _f(region[REGION_LEFT] + column) + _f(0.5)
        tile_y = _f(region[REGION_TOP] + row) + _f(0.5)
        while first < last and live != 0:
            _prepare_chunk(
                records, entries, first, last, tile_x, tile_y, live, scratch, masks, offsets
            )
            count = min(CHUNK, last - first)
            for slot in range(count):
                wanted[slot] = np.int64(entries[np.uint64(first + slot)]) - first_wanted
                if wanted[slot] >= 0 and masks[slot] != 0:
                    prefetch(flat, wanted[slot] * MOMENTS)
            live = gradient_blocks(
                state, scratch, masks, wanted, sums, records, offsets, live, tile_x, tile_y
            )
            for slot in range(count):
                if wanted[slot] >= 0 and masks[slot] != 0:
                    collect_moments(sums, slot, flat, wanted[slot])
            first += CHUNK


@helper
def _tile_bounds(region, tile):  # type: ignore[no-untyped-def]
    """First row and column of a tile within the region, and how many of each are in it."""
    row = tile // region[REGION_TILES_X] * TILE
    column = tile % region[REGION_TILES_X] * TILE
    rows = min(TILE, region[REGION_HEIGHT] - row)
    columns = min(TILE, region[REGION_WIDTH] - column)
    return row, column, rows, columns


@helper
def _state_index(x, y):  # type: ignore[no-untyped-def]
    """Where pixel (x, y) of a tile stands in plane 0 of the tile's state."""
    block = (y >> 2) * 4 + (x >> 2)
    return np.uint64(block * BLOCK_FLOATS + (y & 3) * 4 + (x & 3))


@helper
def _start_transmittance(state, rows, columns):  # type: ignore[no-untyped-def]
    """Plane 0 to 1 inside the picture and -1 (finished) outside; the mask of live blocks."""
    for block in range(BLOCKS):
        for pixel in range(LANES):
            state[np.uint64(block * BLOCK_FLOATS + pixel)] = _f(1)
    if rows == TILE and columns == TILE:
        return np.int32(ALL_BLOCKS)
    for y in range(TILE):
        for x in range(TILE):
            if y >= rows or x >= columns:
                state[_state_index(x, y)] = _f(-1)
    return live_blocks(state)


@helper
def _put_seeds(state, planes, seeds, row, column, rows, columns):  # type: ignore[no-untyped-def]
    """Turn a tile's colors so far into its planes PREFIX, TOTAL and SEED.

    Alpha is 1 - transmittance, that is, minus the weight of the background: dL/dalpha enters the
    total as a background of that much less.
    """
    for y in range(rows):
        for x in range(columns):
            k = _state_index(x, y)
            total, prefix = _f(0), _f(0)
            for channel in range(3):
                seed = seeds[channel, row + y, column + x]
                total += seed * planes[channel, row + y, column + x]
                prefix += seed * state[k + np.uint64((PLANE_RED + channel) * LANES)]
            if seeds.shape[0] == 4:
                left = _f(1) - planes[3, row + y, column + x]
                total -= seeds[3, row + y, column + x] * left
            state[k + np.uint64(PREFIX * LANES)] = prefix
            state[k + np.uint64(TOTAL * LANES)] = total
            for channel in range(3):
                seed = seeds[channel, row + y, column + x]
                state[k + np.uint64((SEED + channel) * LANES)] = seed


@helper
def _prepare_chunk(records, entries, first, last, tile_x, tile_y, live, scratch, masks, offsets):  # type: ignore[no-untyped-def]
    """Exponents, masks and offsets of the next CHUNK entries of a tile."""
    count = min(CHUNK, last - first)
    for slot in range(count):
        entry = np.uint64(first + slot)
        if first + slot + _AHEAD < last:
            prefetch(records, np.int64(entries[entry + np.uint64(_AHEAD)]) * RECORD_FLOATS)
        offset = np.int64(entries[entry]) * RECORD_FLOATS
        offsets[slot] = offset
        prepare(scratch, masks, slot, records, offset, tile_x, tile_y, live)
    for slot in range(count, CHUNK):
        masks[slot] = 0
