"""Kernels of `PatchView`: a few changing Gaussians merged into many that stand still."""

from __future__ import annotations

import numpy as np

from scene.render.cpu.backward import (
    REGION_LEFT,
    REGION_TILES,
    REGION_TILES_X,
    REGION_TOP,
)
from scene.render.cpu.backward_geometry import (
    GRAD_MEAN,
    GRAD_OPACITY,
    GRAD_SCALE,
    GRADIENTS,
    WORK_FLOATS,
    project_backward,
)
from scene.render.cpu.backward_simd import MOMENTS, SUM_BLUE, SUM_GREEN, SUM_RED
from scene.render.cpu.cache import helper, kernel
from scene.render.cpu.records import DEPTH, RECORD_FLOATS
from scene.render.cpu.simd_tile import TILE


@kernel
def lists_of_region(lists, starts, tiles_x, region, region_starts, region_lists):  # type: ignore[no-untyped-def]
    """Cut the tiles of a region out of a picture's tile lists; returns the number of entries.

    lists, starts, tiles_x: of the whole picture. region_starts: int64 (tiles + 1,), written.
    region_lists: int32, written; with length 0 the entries are only counted.
    """
    used = 0
    for tile in range(region[REGION_TILES]):
        region_starts[tile] = used
        picture_tile = _picture_tile(region, tile, tiles_x)
        for place in range(starts[picture_tile], starts[picture_tile + 1]):
            if used < len(region_lists):
                region_lists[used] = lists[place]
            used += 1
    region_starts[region[REGION_TILES]] = used
    return used


@kernel
def merge_lists(  # type: ignore[no-untyped-def]
    records,
    fixed,
    fixed_lists,
    fixed_starts,
    lists,
    starts,
    tiles_x,
    region,
    merged_starts,
    merged_ends,
    merged,
):
    """Merge, tile by tile, the fixed records with the editable ones; returns editable entries.

    records: flat float32, `fixed` fixed records in depth order, then the editable ones in depth
    order. fixed_lists, fixed_starts: of the region's tiles. lists, starts: of the editable
    records, numbered from 0, for the whole picture of `tiles_x` tiles per row.

    Written: merged_starts int64 (tiles + 1,) and merged int32; merged_ends int64 (tiles,), the
    place after a tile's last editable entry. At equal depth the fixed record comes first.
    """
    used = 0
    taken = 0
    for tile in range(region[REGION_TILES]):
        merged_starts[tile] = used
        merged_ends[tile] = used
        picture_tile = _picture_tile(region, tile, tiles_x)
        here, here_end = fixed_starts[tile], fixed_starts[tile + 1]
        there, there_end = starts[picture_tile], starts[picture_tile + 1]
        taken += there_end - there
        while there < there_end:
            editable = np.int64(lists[there]) + fixed
            depth = _depth(records, editable)
            while here < here_end:
                candidate = np.int64(fixed_lists[here])
                if _depth(records, candidate) > depth:
                    break
                merged[np.uint64(used)] = candidate
                used += 1
                here += 1
            merged[np.uint64(used)] = editable
            used += 1
            there += 1
            merged_ends[tile] = used
        while here < here_end:
            merged[np.uint64(used)] = fixed_lists[here]
            used += 1
            here += 1
    merged_starts[region[REGION_TILES]] = used
    return taken


@helper
def _depth(records, number):  # type: ignore[no-untyped-def]
    return records[np.uint64(number * RECORD_FLOATS + DEPTH)]


@helper
def _picture_tile(region, tile, tiles_x):  # type: ignore[no-untyped-def]
    row = region[REGION_TOP] // TILE + tile // region[REGION_TILES_X]
    column = region[REGION_LEFT] // TILE + tile % region[REGION_TILES_X]
    return row * tiles_x + column


@kernel
def editable_gradients(  # type: ignore[no-untyped-def]
    camera,
    antialiased,
    means,
    rotations,
    scales,
    opacities,
    records,
    fixed,
    ids,
    moments,
    mean_gradients,
    scale_gradients,
    opacity_gradients,
    color_gradients,
):
    """From moments to dL/d(means, scales, opacities, colors) of the editable Gaussians.

    records: flat; editable record i is number fixed + i and belongs to Gaussian ids[i].
    moments: float32 (len(ids), MOMENTS). The four outputs must be zero where nothing is visible.
    """
    work = np.empty(WORK_FLOATS, np.float32)
    out = np.empty(GRADIENTS, np.float32)
    rows = records.reshape(-1, RECORD_FLOATS)
    rotation, scale = np.empty(9, np.float32), np.empty(3, np.float32)
    total = np.empty(MOMENTS, np.float32)
    for i in range(len(ids)):
        gaussian = ids[i]
        for k in range(9):
            rotation[k] = rotations[gaussian, k]
        for k in range(3):
            scale[k] = scales[gaussian, k]
        for k in range(MOMENTS):
            total[k] = moments[i, k]
        project_backward(
            camera,
            means[gaussian, 0],
            means[gaussian, 1],
            means[gaussian, 2],
            rotation,
            scale,
            antialiased,
            rows,
            fixed + i,
            total,
            work,
            out,
        )
        for k in range(3):
            mean_gradients[gaussian, k] = out[GRAD_MEAN + k]
            scale_gradients[gaussian, k] = out[GRAD_SCALE + k]
        opacity_gradients[gaussian] = out[GRAD_OPACITY] / opacities[gaussian]
        color_gradients[gaussian, 0] = moments[i, SUM_RED]
        color_gradients[gaussian, 1] = moments[i, SUM_GREEN]
        color_gradients[gaussian, 2] = moments[i, SUM_BLUE]
