"""Kernel: the tile lists of a frame in which a few records are marked, replaced or added."""

from __future__ import annotations

import numpy as np

from scene.render.cpu.cache import helper, kernel
from scene.render.cpu.records import DEPTH, RECORD_FLOATS, FloatArray, Int32Array, IntArray


@kernel
def touched_lists(
    records: FloatArray,
    ids: Int32Array,
    lists: Int32Array,
    starts: IntArray,
    flags: np.ndarray,
    drop: bool,
    added_ids: Int32Array,
    added_lists: Int32Array,
    added_starts: IntArray,
    tiles: Int32Array,
    touched_starts: IntArray,
    touched: Int32Array,
) -> int:
    """Lists of the tiles that hold a flagged or an added record; returns how many there are.

    records: flat, len(ids) records in depth order, then len(added_ids) more in depth order.
    lists, starts: of the former, per tile. flags: uint8, one per former record. drop: flagged ones
    are left out; else what follows the last flagged or added one is. added_lists, added_starts: of
    the latter, numbered from 0.

    Written: tiles, the touched tiles' numbers; touched_starts and touched, their lists, nearest
    first and by id where depths are equal.
    """
    fixed = len(ids)
    used = 0
    count = 0
    for tile in range(len(starts) - 1):
        here, here_end = starts[tile], starts[tile + 1]
        there, there_end = added_starts[tile], added_starts[tile + 1]
        is_touched = there < there_end
        if not is_touched:
            for place in range(here, here_end):
                if flags[lists[place]] != 0:
                    is_touched = True
                    break
        if not is_touched:
            continue
        tiles[count] = tile
        touched_starts[count] = used
        count += 1
        ends = used
        for place in range(here, here_end):
            record = np.int64(lists[place])
            if drop and flags[record] != 0:
                continue
            while there < there_end and _before(
                records, fixed + added_lists[there], added_ids[added_lists[there]],
                record, ids[record],
            ):  # fmt: skip
                touched[used] = fixed + added_lists[there]
                used += 1
                there += 1
                ends = used
            touched[used] = record
            used += 1
            if flags[record] != 0:
                ends = used
        while there < there_end:
            touched[used] = fixed + added_lists[there]
            used += 1
            there += 1
            ends = used
        if not drop:
            used = ends
    touched_starts[count] = used
    return count


@helper
def _before(records, a, id_a, b, id_b):  # type: ignore[no-untyped-def]
    """Whether record a is drawn before record b."""
    depth_a = records[np.uint64(np.int64(a) * RECORD_FLOATS + DEPTH)]
    depth_b = records[np.uint64(np.int64(b) * RECORD_FLOATS + DEPTH)]
    return depth_a < depth_b or (depth_a == depth_b and id_a < id_b)
