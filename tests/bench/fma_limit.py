"""How fast this machine multiplies and adds, and how much of that a picture needs at least."""

from __future__ import annotations

import time

import numpy as np
from numba import njit, types
from numba.core import cgutils

from scene.render.cpu.records import (
    ALPHA_MAX,
    CONIC_A,
    CONIC_B,
    CONIC_C,
    LOG2_OPACITY,
    MEAN_X,
    MEAN_Y,
    RECORD_FLOATS,
    TRANSMITTANCE_STOP,
)
from scene.render.cpu.simd import REGISTER_LANES, Floats, Register, intrinsic
from scene.render.cpu.simd_tile import LOG2_ALPHA_CUT, TILE

_CHAINS = 10  # independent multiply-adds, enough to fill the pipelines
_ROUNDS = 2_000_000


def flops_per_second() -> float:
    """Measured rate of one core's packed fused multiply-adds, two operations each."""
    sums = np.full(2 * REGISTER_LANES, 0.5, np.float32)
    _multiply_add(sums, 10)
    seconds = []
    for _ in range(9):
        start = time.process_time()
        _multiply_add(sums, _ROUNDS)
        seconds.append(time.process_time() - start)
    return _ROUNDS * _CHAINS * REGISTER_LANES * 2 / min(seconds)


@njit(fastmath=True)
def count_useful_blends(records, lists, starts, width, height):
    """Pairs of a pixel that is still live and a Gaussian with alpha >= the cut there."""
    tiles_x = (width + TILE - 1) // TILE
    useful = 0
    for tile in range(len(starts) - 1):
        top, left = tile // tiles_x * TILE, tile % tiles_x * TILE
        for y in range(top, min(top + TILE, height)):
            for x in range(left, min(left + TILE, width)):
                transmittance = 1.0
                for i in range(starts[tile], starts[tile + 1]):
                    at = lists[i] * RECORD_FLOATS
                    dx, dy = x + 0.5 - records[at + MEAN_X], y + 0.5 - records[at + MEAN_Y]
                    power = records[at + CONIC_A] * dx * dx + records[at + CONIC_C] * dy * dy
                    power += records[at + CONIC_B] * dx * dy + records[at + LOG2_OPACITY]
                    if power < LOG2_ALPHA_CUT:
                        continue
                    useful += 1
                    after = transmittance * (1.0 - min(ALPHA_MAX, 2.0**power))
                    if after <= TRANSMITTANCE_STOP:
                        break
                    transmittance = after
    return useful


@njit(fastmath={"contract"})
def _multiply_add(sums, rounds):
    _rounds_of_multiply_adds(sums, rounds)


@intrinsic
def _rounds_of_multiply_adds(typing_context, sums, rounds):
    """Kernel function: `rounds` times, _CHAINS registers x = x * f + f; f is sums' second half."""

    def emit(context, builder, signature, arguments):
        floats = Floats.of(context, builder, signature.args[0], arguments[0])
        factor = floats.vec(REGISTER_LANES, REGISTER_LANES)
        chains = [Register(builder, REGISTER_LANES) for _ in range(_CHAINS)]
        for i, chain in enumerate(chains):
            chain.set(floats.vec(0, REGISTER_LANES) * float(i))
        with cgutils.for_range(builder, arguments[1]):
            for chain in chains:
                chain.set(chain.get() * factor + factor)
        total = chains[0].get()
        for chain in chains[1:]:
            total = total + chain.get()
        floats.put(0, total)
        return context.get_dummy_value()

    return types.void(sums, types.int64), emit
