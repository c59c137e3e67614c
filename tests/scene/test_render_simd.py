"""The vector building blocks, each in a tiny kernel of its own."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from llvmlite import ir
from numba import types

from scene.render.cpu.simd import (
    INT64,
    Floats,
    float_bits,
    for_each_bit,
    int64,
    intrinsic,
    take_ticket,
)
from scene.render.cpu.simd_math import exp2, transposed


def vector_function(work):
    """A compiled f(source, target) that runs `work(source, target)` at emit time."""

    @intrinsic
    def run(typing_context, source, target):
        def emit(context, builder, signature, arguments):
            pointers = (
                Floats.of(context, builder, signature.args[i], arguments[i]) for i in (0, 1)
            )
            work(*pointers)
            return context.get_dummy_value()

        return types.void(source, target), emit

    @numba.njit
    def kernel(source, target):
        run(source, target)

    return kernel


@pytest.mark.parametrize("count", [8, 16])
def test_exp2_is_good_to_two_ulps(count):
    kernel = vector_function(lambda source, target: target.put(0, exp2(source.vec(0, count))))
    inputs = np.linspace(-30.0, 3.0, 6400, dtype=np.float32).reshape(-1, count)
    target = np.zeros(count, np.float32)
    worst = 0.0
    for row in inputs:
        kernel(row.copy(), target)
        exact = 2.0 ** row.astype(np.float64)
        worst = max(worst, float(np.abs(target / exact - 1).max()))
    assert worst < 2.4e-7


def test_transpose():
    def work(source, target):
        for lane, row in enumerate(transposed([source.vec(16 * i) for i in range(16)])):
            target.put(16 * lane, row)

    matrix, target = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    vector_function(work)(matrix, target)
    assert np.array_equal(target.reshape(16, 16), matrix.reshape(16, 16).T)


def test_sum_select_and_comparisons_treat_nan_as_false():
    def work(source, target):
        x = source.vec(0)
        target.put(0, (x > 2.0).select(x, -1.0))
        target.put(16, x.clamp(1.0, 3.0))
        target.put(32, (1.0 - x).sqrt())
        target.put_scalar(48, source.vec(16).sum())
        target.put(49, x.with_sign_set())

    source = np.concatenate([np.arange(16), np.arange(1, 17)]).astype(np.float32)
    source[5] = np.nan
    target = np.zeros(65, np.float32)
    vector_function(work)(source, target)
    assert target[:8].tolist() == [-1, -1, -1, 3, 4, -1, 6, 7]
    assert target[16:21].tolist() == [1, 1, 2, 3, 3]
    assert target[32] == 1.0
    assert np.isnan(target[34])
    assert target[48] == 136.0
    assert target[49 + 3] == -3.0


def test_every_set_bit_is_visited_once_in_order():
    def work(source, target):
        builder = source.builder
        bits = (source.vec(0) > 0.0).bits()
        place = builder.alloca(INT64)
        builder.store(int64(0), place)

        def visit(bit):
            at = builder.load(place)
            target.put_scalar(at, builder.sitofp(bit, ir.FloatType()))
            builder.store(builder.add(at, int64(1)), place)

        for_each_bit(builder, bits, visit)

    source = np.zeros(16, np.float32)
    source[[1, 4, 15]] = 1.0
    target = np.full(16, -1.0, np.float32)
    vector_function(work)(source, target)
    assert target[:4].tolist() == [1.0, 4.0, 15.0, -1.0]


def test_scalar_kernel_functions():
    @numba.njit
    def kernel(counter, x):
        return take_ticket(counter), take_ticket(counter), float_bits(x)

    counter = np.array([7], np.int64)
    assert kernel(counter, np.float32(1.5)) == (7, 8, np.float32(1.5).view(np.uint32))
    assert counter[0] == 9
