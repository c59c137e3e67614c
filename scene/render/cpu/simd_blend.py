"""Vector code of the forward blend: a chunk of Gaussians into one tile, block by block.

`prepare` computes, for each of up to CHUNK Gaussians, its exponents over the tile and the mask of
blocks that it touches. `blend_blocks_*` then takes the live blocks one after the other and runs
through the Gaussians that touch each, with the block's sums in registers.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from scene.render.cpu.records import BLUE, DEPTH, GREEN, LANES, RED
from scene.render.cpu.simd import (
    BIT,
    INT16,
    INT32,
    INT64,
    INTS,
    REGISTER_LANES,
    Builder,
    Floats,
    Register,
    Value,
    array_data,
    for_each_bit,
    int32,
    int64,
    intrinsic,
)
from scene.render.cpu.simd_tile import (
    BLOCK_FLOATS,
    SCRATCH_FLOATS,
    attenuate,
    block_alpha,
    block_exponents,
)

CHUNK = 32
"""Gaussians prepared at a time; the bits of one 32-bit integer."""

MEDIAN_TRANSMITTANCE = 0.5
PLANE_TRANSMITTANCE = 0
PLANE_RED = 1
PLANE_DEPTH_SUM = 4
PLANE_MEDIAN_DEPTH = 5


@intrinsic
def prepare(  # type: ignore[no-untyped-def]
    typing_context, scratch, masks, slot, records, offset, tile_x, tile_y, live
):
    """Kernel function: fill slot `slot` of a chunk for the Gaussian whose record is at `offset`.

    scratch: float32 of CHUNK * SCRATCH_FLOATS. masks: int32 of CHUNK; gets the bit mask of the
    live blocks that the Gaussian touches. records: flat float32. tile_x, tile_y: float32, centre
    of the tile's first pixel. live: int32 bit mask of blocks.
    """

    def emit(context: Any, builder: Builder, signature: Any, arguments: Any) -> Value:
        scratch = Floats.of(context, builder, signature.args[0], arguments[0])
        masks = array_data(context, builder, signature.args[1], arguments[1])
        records = Floats.of(context, builder, signature.args[3], arguments[3])
        slot, offset, tile_x, tile_y, live = (arguments[i] for i in (2, 4, 5, 6, 7))
        exponents, hits, _, _ = block_exponents(records.at(offset), tile_x, tile_y)
        exponents.store(scratch.at(builder.mul(slot, int64(SCRATCH_FLOATS))))
        builder.store(builder.and_(hits.bits(), live), builder.gep(masks, [slot]))
        return context.get_dummy_value()

    integer, real = types.int64, types.float32
    signature = types.void(scratch, masks, integer, records, integer, real, real, types.int32)
    return signature, emit


def _make_blend(depths: bool):  # type: ignore[no-untyped-def]
    """The blend intrinsic, with or without expected and median depth (about a fifth slower)."""

    @intrinsic
    def blend_blocks(  # type: ignore[no-untyped-def]
        typing_context, state, scratch, masks, records, offsets, live
    ):
        """Kernel function: blend a prepared chunk into a tile; int32 mask of blocks still live.

        offsets: int64 of CHUNK, the Gaussians' records. Unused slots of `masks` must be 0.
        """

        def emit(context: Any, builder: Builder, signature: Any, arguments: Any) -> Value:
            state, scratch, records = (
                Floats.of(context, builder, signature.args[i], arguments[i]) for i in (0, 1, 3)
            )
            masks, offsets = (
                array_data(context, builder, signature.args[i], arguments[i]) for i in (2, 4)
            )
            return _blend_chunk(state, scratch, masks, records, offsets, arguments[5], depths)

        signature = types.int32(state, scratch, masks, records, offsets, types.int32)
        return signature, emit

    return blend_blocks


blend_blocks_color = _make_blend(depths=False)
blend_blocks_depths = _make_blend(depths=True)


def _blend_chunk(
    state: Floats,
    scratch: Floats,
    masks: Value,
    records: Floats,
    offsets: Value,
    live: Value,
    depths: bool,
) -> Value:
    builder = state.builder
    vectors = builder.bitcast(masks, INTS.as_pointer())
    mask_vectors = [
        builder.load(builder.gep(vectors, [int64(i)]), align=4) for i in range(CHUNK // LANES)
    ]
    still_live = cgutils.alloca_once(builder, INT32)
    builder.store(live, still_live)

    def one_block(block: Value) -> None:
        bit = builder.shl(int32(1), builder.trunc(block, INT32))
        touching = _gaussians_touching(builder, mask_vectors, bit)
        with builder.if_then(builder.icmp_unsigned("!=", touching, int32(0))):
            planes = state.at(builder.mul(block, int64(BLOCK_FLOATS)))
            alive = ir.Constant(BIT, 0)
            for first_pixel in range(0, LANES, REGISTER_LANES):
                part = _BlockPart(planes, first_pixel, depths)
                part.blend(scratch, records, offsets, block, touching)
                alive = builder.or_(alive, part.is_alive())
            before = builder.load(still_live)
            finished = builder.and_(before, builder.not_(bit))
            builder.store(builder.select(alive, before, finished), still_live)

    for_each_bit(builder, live, one_block)
    return builder.load(still_live)


class _BlockPart:
    """REGISTER_LANES pixels of a block, with their state in registers while a chunk is blended."""

    def __init__(self, planes: Floats, first_pixel: int, depths: bool) -> None:
        self._builder = planes.builder
        self._planes = planes
        self._first_pixel = first_pixel
        self._registers = [
            Register(planes.builder, REGISTER_LANES) for _ in range(6 if depths else 4)
        ]
        self._alive = cgutils.alloca_once(planes.builder, BIT)

    def is_alive(self) -> Value:
        """One bit: whether any pixel is live after `blend`."""
        return self._builder.load(self._alive)

    def blend(
        self, scratch: Floats, records: Floats, offsets: Value, block: Value, touching: Value
    ) -> None:
        """Emit the loop over the chunk's Gaussians that hit the block (bits `touching`, not 0).

        The loop ends early when the last pixel is finished.
        """
        builder = self._builder
        for i, register in enumerate(self._registers):
            register.set(self._planes.vec(i * LANES + self._first_pixel, REGISTER_LANES))
        remaining = cgutils.alloca_once(builder, INT32)
        builder.store(touching, remaining)
        loop = builder.function.append_basic_block("blend.gaussian")
        done = builder.function.append_basic_block("blend.done")
        builder.branch(loop)
        builder.position_at_end(loop)
        left = builder.load(remaining)
        slot = builder.zext(builder.cttz(left, ir.Constant(BIT, 1)), INT64)
        rest = builder.and_(left, builder.sub(left, int32(1)))
        builder.store(rest, remaining)
        exponents = scratch.at(builder.mul(slot, int64(SCRATCH_FLOATS)))
        record = records.at(builder.load(builder.gep(offsets, [slot])))
        alive = self._blend_gaussian(exponents, record, block)
        builder.store(alive, self._alive)
        more = builder.icmp_unsigned("!=", rest, int32(0))
        builder.cbranch(builder.and_(alive, more), loop, done)
        builder.position_at_end(done)
        for i, register in enumerate(self._registers):
            self._planes.put(i * LANES + self._first_pixel, register.get())

    def _blend_gaussian(self, exponents: Floats, record: Floats, block: Value) -> Value:
        """One Gaussian into the registers; one bit: is any pixel still live."""
        curve = exponents.vec(self._first_pixel, REGISTER_LANES)
        alpha, reaches_cut = block_alpha(curve, exponents, block, self._first_pixel)
        registers = self._registers
        transmittance = registers[PLANE_TRANSMITTANCE].get()
        after, weight, live = attenuate(transmittance, alpha, reaches_cut)
        registers[PLANE_TRANSMITTANCE].set(after)
        columns = [RED, GREEN, BLUE]
        if len(registers) > PLANE_DEPTH_SUM:
            columns.append(DEPTH)
            # finished pixels are negative before and after, so they never cross
            crosses = (transmittance >= MEDIAN_TRANSMITTANCE) & (after < MEDIAN_TRANSMITTANCE)
            median = registers[PLANE_MEDIAN_DEPTH]
            median.set(crosses.select(record.splat(DEPTH, REGISTER_LANES), median.get()))
        for register, column in zip(registers[PLANE_RED:], columns, strict=False):
            register.set(weight * record.splat(column, REGISTER_LANES) + register.get())
        return live.any()


def _gaussians_touching(builder: Builder, mask_vectors: list[Value], bit: Value) -> Value:
    """Transpose: bit g of the result says whether Gaussian g's mask has the block's bit."""
    zeros = ir.Constant(INTS, [int32(0)] * LANES)
    undefined = ir.Constant(INTS, ir.Undefined)
    first = builder.insert_element(undefined, bit, int32(0))
    bits = builder.shuffle_vector(first, undefined, zeros)
    result = int32(0)
    for i, vector in enumerate(mask_vectors):
        found = builder.icmp_signed("!=", builder.and_(vector, bits), zeros)
        part = builder.zext(builder.bitcast(found, INT16), INT32)
        result = builder.or_(result, builder.shl(part, int32(LANES * i)))
    return result
