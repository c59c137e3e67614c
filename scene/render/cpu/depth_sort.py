"""Kernels: records into depth order."""

from __future__ import annotations

from typing import Any

import numpy as np

from scene.render.cpu.cache import helper, kernel
from scene.render.cpu.records import RECORD_FLOATS, FloatArray, Int32Array, IntArray, UInt32Array
from scene.render.cpu.simd import prefetch
from scene.render.cpu.simd_project import copy_record

_DIGIT_BITS = 11
_DIGITS = 1 << _DIGIT_BITS
_PASSES = 3
_PREFETCH_AHEAD = 16


@kernel
def depth_order(
    keys: UInt32Array,
    ids: Int32Array,
    starts: IntArray,
    counts: IntArray,
    keys_a: UInt32Array,
    order_a: Int32Array,
    keys_b: UInt32Array,
    order_b: Int32Array,
) -> int:
    """Rows by ascending depth key, equal keys by ascending id; returns the number of rows.

    The rows are starts[t] to starts[t] + counts[t] for every thread t. keys: uint32, bits of
    positive floats. The result is in order_b; keys_a, order_a, keys_b, order_b are working memory.
    Radix sort, lowest digit first.
    """
    histogram = np.zeros((_PASSES, _DIGITS), np.int32)
    mask = np.uint32(_DIGITS - 1)
    for part in range(len(starts)):
        for row in range(starts[part], starts[part] + counts[part]):
            key = keys[row]
            histogram[0, key & mask] += 1
            histogram[1, (key >> np.uint32(_DIGIT_BITS)) & mask] += 1
            histogram[2, key >> np.uint32(2 * _DIGIT_BITS)] += 1
    for digit_pass in range(_PASSES):
        total = 0
        for digit in range(_DIGITS):
            here = histogram[digit_pass, digit]
            histogram[digit_pass, digit] = total
            total += here
    n = 0
    for part in range(len(starts)):
        n += counts[part]
        for row in range(starts[part], starts[part] + counts[part]):
            key = keys[row]
            place = np.uint32(histogram[0, key & mask])
            histogram[0, key & mask] += 1
            keys_b[place] = key
            order_b[place] = row
    _radix_pass(keys_b, order_b, keys_a, order_a, histogram[1], np.uint32(_DIGIT_BITS), n)
    _radix_pass(keys_a, order_a, keys_b, order_b, histogram[2], np.uint32(2 * _DIGIT_BITS), n)
    _order_ties(keys_b, order_b, ids, n)
    return n


@helper
def _radix_pass(
    keys: UInt32Array,
    order: Int32Array,
    keys_out: UInt32Array,
    order_out: Int32Array,
    place_of: Int32Array,
    shift: Any,
    n: int,
) -> None:
    mask = np.uint32(_DIGITS - 1)
    for i in range(n):
        key = keys[np.uint64(i)]
        digit = (key >> shift) & mask
        place = np.uint32(place_of[digit])
        place_of[digit] += 1
        keys_out[place] = key
        order_out[place] = order[np.uint64(i)]


@helper
def _order_ties(keys: UInt32Array, order: Int32Array, ids: Int32Array, n: int) -> None:
    """Within runs of equal keys, put rows in the scene's order (coplanar scenes have long runs)."""
    i = 1
    while i < n:
        if keys[i] != keys[i - 1]:
            i += 1
            continue
        first = i - 1
        while i < n and keys[i] == keys[first]:
            i += 1
        run = order[first:i].copy()
        run_ids = np.empty(len(run), np.int32)
        for j in range(len(run)):
            run_ids[j] = ids[run[j]]
        by_id = np.argsort(run_ids)
        for j in range(len(run)):
            order[first + j] = run[by_id[j]]


@kernel
def gather_records(
    records: FloatArray, order: Int32Array, first: int, last: int, out: FloatArray
) -> None:
    """Rows order[first:last] of flat `records`, written to the rows first to last of `out`."""
    for i in range(first, last):
        if i + _PREFETCH_AHEAD < last:
            prefetch(records, np.int64(order[i + _PREFETCH_AHEAD]) * RECORD_FLOATS)
        copy_record(records, np.int64(order[i]), out, i)
