"""Vector functions built from `simd`'s operations: 2^x, and the transpose of a 16x16 matrix."""

from __future__ import annotations

import numpy as np
from llvmlite import ir

from scene.render.cpu.records import LANES
from scene.render.cpu.simd import INTS, Vec, int32, int_constant


def exp2(x: Vec) -> Vec:
    """2^x for |x| < 126, relative error 1.1e-7 (degree-5 polynomial, checked by a test)."""
    builder, count = x.builder, x.count
    # adding 1.5 * 2^23 rounds to the nearest integer and leaves it in the low bits
    rounder = Vec.constant(builder, 12582912.0, count).value
    shifted = Vec(builder, builder.fadd(x.value, rounder))
    whole = Vec(builder, builder.fsub(shifted.value, rounder))
    fraction = Vec(builder, builder.fsub(x.value, whole.value))
    result = Vec.constant(builder, EXP2_POLYNOMIAL[-1], count)
    for coefficient in EXP2_POLYNOMIAL[-2::-1]:
        result = result * fraction + float(coefficient)
    exponent = builder.shl(shifted.as_ints(), int_constant(23, count))
    bits = builder.add(result.as_ints(), exponent)
    return Vec(builder, builder.bitcast(bits, x.value.type))


def transposed(rows: list[Vec]) -> list[Vec]:
    """Sixteen vectors as a 16x16 matrix, transposed in registers."""
    builder = rows[0].builder
    rows = list(rows)
    for step in (1, 2, 4, 8):
        # swap the off-diagonal halves of every 2x2 group of `step`-sized blocks
        upper = [(LANES + lane - step) if lane & step else lane for lane in range(LANES)]
        lower = [(LANES + lane) if lane & step else lane + step for lane in range(LANES)]
        for i in range(LANES):
            if not i & step:
                a, b = rows[i].value, rows[i + step].value
                for target, picks in ((i, upper), (i + step, lower)):
                    chosen = ir.Constant(INTS, [int32(pick) for pick in picks])
                    rows[target] = Vec(builder, builder.shuffle_vector(a, b, chosen))
    return rows


def _fit_exp2(degree: int) -> list[float]:
    """Near-minimax coefficients of 2^f on [-0.5, 0.5], relative error, lowest power first."""
    nodes = 4000
    x = 0.5 * np.cos(np.pi * (np.arange(nodes) + 0.5) / nodes)  # Chebyshev
    weight = 1.0 / np.sqrt(np.sqrt(1.0 - (2.0 * x) ** 2) + 1e-3)
    powers = np.stack([x**i for i in range(degree + 1)], axis=1) / (2.0**x)[:, None]
    return np.linalg.lstsq(powers * weight[:, None], weight, rcond=None)[0].tolist()


EXP2_POLYNOMIAL = _fit_exp2(5)
"""Coefficients of exp2 on [-0.5, 0.5], lowest power first."""
