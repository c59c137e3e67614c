"""Vector code of the backward blend: from dL/d(pixel) to nine sums per (Gaussian, tile).

Gaussians are walked FRONT to back, as in the forward pass. What lies behind a Gaussian is then
known without a second walk: S = (dL/dpixel . final pixel) - (the running sum of weight * q up to
and with this Gaussian), where q = dL/dpixel . color. For a pixel in which it has weight w and
leaves transmittance T',

    h = alpha * dL/dalpha = w (q - S / T')         since alpha / (1 - alpha) = w / T'

which vanishes by itself where the pixel is finished (w = 0). All that geometry needs are the
moments of h over the Gaussian's pixels, with d = pixel centre - mean:

    sum h,  sum h dx,  sum h dy,  sum h dx^2,  sum h dx dy,  sum h dy^2,  and  sum w dL/dpixel.

The walk is block-major: for each 4x4 block, all Gaussians of a chunk that touch it, with
transmittance and running sum in registers (sixteen pixels at once: eight at a time, as the forward
blend does, was a quarter slower here, since every moment is then added up twice). Moments are
folded to four column sums per block at once (a quarter of the memory traffic of full vectors) and
added up in a small array per chunk.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from scene.render.cpu.records import ALPHA_MAX, BLUE, GREEN, LANES, MEAN_X, MEAN_Y, RED
from scene.render.cpu.simd import (
    BIT,
    FLOAT,
    INT32,
    INT64,
    INTS,
    Builder,
    Floats,
    Mask,
    Register,
    Value,
    Vec,
    array_data,
    for_each_bit,
    int32,
    int64,
)
from scene.render.cpu.simd_blend import CHUNK
from scene.render.cpu.simd_tile import (
    BLOCK,
    BLOCK_FLOATS,
    SCRATCH_FLOATS,
    attenuate,
    block_alpha,
    pixel_offsets,
)

# Planes of a block's state in the backward pass (plane 0 is the transmittance).
PREFIX = 1  # running sum of weight * q
TOTAL = 2  # dL/dpixel . final pixel, background included
SEED = 3  # planes 3, 4, 5: dL/dpixel of red, green, blue

SUMS_FLOATS = 40
"""Floats that one Gaussian's column sums take in the chunk's array: nine groups of four columns,
[h, h dy | h dy^2, w vr | w vg, w vb | h dx, h dx dy | h dx^2] and four of padding."""

MOMENTS = 16
"""Floats per row of moments (one cache line), in the order that two rounds of pairwise addition
leave them in:"""
SUM_H = 0
SUM_HYY = 1
SUM_GREEN = 2
SUM_HX = 3
SUM_HY = 4
SUM_RED = 5
SUM_BLUE = 6
SUM_HXY = 7
SUM_HXX = 8

_EIGHT = ir.VectorType(FLOAT, 8)
_FOUR = ir.VectorType(FLOAT, 4)
_COLUMNS_TWICE = [float(i % BLOCK) for i in range(8)]


@intrinsic
def gradient_blocks(  # type: ignore[no-untyped-def]
    typing_context, state, scratch, masks, wanted, sums, records, offsets, live, tile_x, tile_y
):
    """Kernel function: walk one chunk of Gaussians through a tile; returns the blocks still live.

    state: float32 (16 * BLOCK_FLOATS,), planes as named above; transmittance and prefix move on.
    scratch, masks: as left by `simd_blend.prepare`; unused slots have mask 0.
    wanted: int64 (CHUNK,), negative where the Gaussian is fixed and needs no moments.
    sums: float32 (CHUNK * SUMS_FLOATS,), added to.
    records, offsets: flat float32 records and int64 (CHUNK,) first floats.
    live: int32 bit mask of the tile's live blocks.
    tile_x, tile_y: float32 centre of the tile's first pixel.
    """

    def emit(context: Any, builder: Builder, signature: Any, arguments: Any) -> Value:
        def floats(i: int) -> Floats:
            return Floats.of(context, builder, signature.args[i], arguments[i])

        def pointer(i: int) -> Value:
            return array_data(context, builder, signature.args[i], arguments[i])

        walk = _ChunkWalk(
            builder, floats(0), floats(1), pointer(2), pointer(3), floats(4), floats(5), pointer(6)
        )
        return walk.emit(*arguments[7:])

    single = types.float32
    signature = types.int32(
        state, scratch, masks, wanted, sums, records, offsets, types.int32, single, single
    )  # fmt: skip
    return signature, emit


@intrinsic
def collect_moments(typing_context, sums, slot, moments, row):  # type: ignore[no-untyped-def]
    """Kernel function: add the column sums of one chunk slot to moments[row] and clear them.

    sums: float32 (CHUNK * SUMS_FLOATS,). moments: float32 (rows * MOMENTS,), flat.
    """

    def emit(context: Any, builder: Builder, signature: Any, arguments: Any) -> Value:
        columns = Floats.of(context, builder, signature.args[0], arguments[0])
        target = Floats.of(context, builder, signature.args[2], arguments[2])
        here = columns.at(builder.mul(arguments[1], int64(SUMS_FLOATS)))
        there = target.at(builder.mul(arguments[3], int64(MOMENTS)))
        groups = [_load(here, 8 * i, _EIGHT) for i in range(4)]
        last = _load(here, 32, _FOUR)
        zero = ir.Constant(_EIGHT, [ir.Constant(FLOAT, 0.0)] * 8)
        for i in range(SUMS_FLOATS // 8):
            _store(here, 8 * i, zero)
        first = _add_neighbours(builder, groups[0], groups[1])
        second = _add_neighbours(builder, groups[2], groups[3])
        eight = _add_neighbours(builder, first, second)
        _store(there, 0, builder.fadd(_load(there, 0, _EIGHT), eight))
        last_sum = builder.extract_element(last, int32(0))
        for lane in range(1, 4):
            last_sum = builder.fadd(last_sum, builder.extract_element(last, int32(lane)))
        there.put_scalar(SUM_HXX, builder.fadd(there.scalar(SUM_HXX), last_sum))
        return context.get_dummy_value()

    return types.void(sums, types.int64, moments, types.int64), emit


class _ChunkWalk:
    """Emits the loops of `gradient_blocks`."""

    def __init__(
        self,
        builder: Builder,
        state: Floats,
        scratch: Floats,
        masks: Value,
        wanted: Value,
        sums: Floats,
        records: Floats,
        offsets: Value,
    ) -> None:
        self.builder = builder
        self.state, self.scratch, self.sums, self.records = state, scratch, sums, records
        self.wanted, self.offsets = wanted, offsets
        self.transmittance, self.prefix = Register(builder), Register(builder)
        self.hits = cgutils.alloca_once(builder, INT32)
        vectors = builder.bitcast(masks, INTS.as_pointer())
        self.masks = [
            builder.load(builder.gep(vectors, [int64(i)]), align=4) for i in range(CHUNK // LANES)
        ]

    def emit(self, live: Value, tile_x: Value, tile_y: Value) -> Value:
        """The loop over the live blocks; returns the new live mask."""
        builder = self.builder
        left = cgutils.alloca_once(builder, INT32)
        builder.store(live, left)

        def block(k: Value) -> None:
            bit = builder.shl(int32(1), builder.trunc(k, INT32))
            hits = self._gaussians_on(bit)
            builder.store(hits, self.hits)
            with builder.if_then(builder.icmp_unsigned("!=", hits, int32(0))):
                column = builder.and_(k, int64(3))
                row = builder.lshr(k, int64(2))
                corner = [
                    builder.fadd(tile, builder.uitofp(builder.mul(number, int64(BLOCK)), FLOAT))
                    for tile, number in ((tile_x, column), (tile_y, row))
                ]
                alive = self._walk(k, corner)
                before = builder.load(left)
                gone = builder.and_(before, builder.not_(bit))
                builder.store(builder.select(alive, before, gone), left)

        for_each_bit(builder, live, block)
        return builder.load(left)

    def _gaussians_on(self, bit: Value) -> Value:
        """Bit i set: the chunk's Gaussian i touches the block whose bit is given."""
        builder = self.builder
        zero = ir.Constant(INTS, [int32(0)] * LANES)
        wide = builder.insert_element(ir.Constant(INTS, ir.Undefined), bit, int32(0))
        wide = builder.shuffle_vector(wide, ir.Constant(INTS, ir.Undefined), zero)
        hits = int32(0)
        for i, masks in enumerate(self.masks):
            touched = Mask(builder, builder.icmp_signed("!=", builder.and_(masks, wide), zero))
            hits = builder.or_(hits, builder.shl(touched.bits(), int32(LANES * i)))
        return hits

    def _walk(self, block: Value, corner: list[Value]) -> Value:
        """The loop over the Gaussians of one block; returns whether a pixel is still live."""
        builder = self.builder
        planes = self.state.at(builder.mul(block, int64(BLOCK_FLOATS)))
        self.transmittance.set(planes.vec(0))
        self.prefix.set(planes.vec(PREFIX * LANES))
        loop, gradient, after, done = (
            builder.function.append_basic_block(f"walk.{name}")
            for name in ("loop", "gradient", "next", "done")
        )
        builder.branch(loop)
        builder.position_at_end(loop)
        hits = builder.load(self.hits)
        slot = builder.zext(builder.cttz(hits, ir.Constant(BIT, 1)), INT64)
        rest = builder.and_(hits, builder.sub(hits, int32(1)))
        builder.store(rest, self.hits)
        record = self.records.at(builder.load(builder.gep(self.offsets, [slot])))
        exponents = self.scratch.at(builder.mul(slot, int64(SCRATCH_FLOATS)))
        alpha, reaches_cut = block_alpha(exponents.vec(0), exponents, block)
        kept, weight, live = attenuate(self.transmittance.get(), alpha, reaches_cut)
        self.transmittance.set(kept)
        seeds = [planes.vec((SEED + channel) * LANES) for channel in range(3)]
        q = record.splat(RED) * seeds[0]
        q = record.splat(GREEN) * seeds[1] + q
        q = record.splat(BLUE) * seeds[2] + q
        prefix = weight * q + self.prefix.get()
        self.prefix.set(prefix)
        fixed = builder.icmp_signed(
            "<", builder.load(builder.gep(self.wanted, [slot])), int64(0)
        )  # fmt: skip
        builder.cbranch(fixed, after, gradient)

        builder.position_at_end(gradient)
        behind = planes.vec(TOTAL * LANES) - prefix
        h = weight * (q - behind / kept)
        h = (alpha < ALPHA_MAX).select(h, 0.0)
        self._add_moments(slot, record, corner, h, [weight * seed for seed in seeds])
        builder.branch(after)

        builder.position_at_end(after)
        alive = live.any()
        more = builder.icmp_unsigned("!=", rest, int32(0))
        builder.cbranch(builder.and_(alive, more), loop, done)
        builder.position_at_end(done)
        planes.put(0, self.transmittance.get())
        planes.put(PREFIX * LANES, self.prefix.get())
        return alive

    def _add_moments(
        self, slot: Value, record: Floats, corner: list[Value], h: Vec, colors: list[Vec]
    ) -> None:
        """Fold one block's contributions to column sums and add them to the Gaussian's slot."""
        builder = self.builder
        shift_x = builder.fsub(corner[0], record.scalar(MEAN_X))
        shift_y = builder.fsub(corner[1], record.scalar(MEAN_Y))
        _, rows = pixel_offsets(builder)
        dy = rows + Vec.splat(builder, shift_y)
        dx = builder.fadd(_splat(builder, shift_x), _constants(_COLUMNS_TWICE))
        hy = h * dy
        both = _fold(builder, h, hy)
        both_x = builder.fmul(both, dx)
        low_half = list(range(4))
        squared = builder.fmul(
            _shuffle(builder, both_x, both_x, low_half), _shuffle(builder, dx, dx, low_half)
        )
        target = self.sums.at(builder.mul(slot, int64(SUMS_FLOATS)))
        groups = (
            both,
            _fold(builder, hy * dy, colors[0]),
            _fold(builder, colors[1], colors[2]),
            both_x,
        )
        for i, group in enumerate(groups):
            _store(target, 8 * i, builder.fadd(_load(target, 8 * i, _EIGHT), group))
        _store(target, 32, builder.fadd(_load(target, 32, _FOUR), squared))


def _fold(builder: Builder, first: Vec, second: Vec) -> Value:
    """Sum the four rows of two blocks: eight lanes, [first's four columns, second's]."""

    def halved(value: Value) -> Value:
        upper_rows = _shuffle(builder, value, value, list(range(8)))
        return builder.fadd(upper_rows, _shuffle(builder, value, value, list(range(8, 16))))

    one, other = halved(first.value), halved(second.value)
    even_rows = _shuffle(builder, one, other, [0, 1, 2, 3, 8, 9, 10, 11])
    return builder.fadd(even_rows, _shuffle(builder, one, other, [4, 5, 6, 7, 12, 13, 14, 15]))


def _add_neighbours(builder: Builder, first: Value, second: Value) -> Value:
    """Pairwise sums inside each half of two eight-lane vectors (x86's haddps)."""
    even = _shuffle(builder, first, second, [0, 2, 8, 10, 4, 6, 12, 14])
    odd = _shuffle(builder, first, second, [1, 3, 9, 11, 5, 7, 13, 15])
    return builder.fadd(even, odd)


def _shuffle(builder: Builder, first: Value, second: Value, lanes: list[int]) -> Value:
    kind = ir.VectorType(INT32, len(lanes))
    return builder.shuffle_vector(first, second, ir.Constant(kind, [int32(i) for i in lanes]))


def _splat(builder: Builder, scalar: Value) -> Value:
    undefined = ir.Constant(_EIGHT, ir.Undefined)
    first = builder.insert_element(undefined, scalar, int32(0))
    return _shuffle(builder, first, undefined, [0] * 8)


def _constants(values: list[float]) -> Value:
    return ir.Constant(_EIGHT, [ir.Constant(FLOAT, value) for value in values])


def _load(floats: Floats, offset: int, kind: ir.VectorType) -> Value:
    builder = floats.builder
    return builder.load(builder.bitcast(floats.at(offset).pointer, kind.as_pointer()), align=4)


def _store(floats: Floats, offset: int, value: Value) -> None:
    builder = floats.builder
    pointer = builder.bitcast(floats.at(offset).pointer, value.type.as_pointer())
    builder.store(value, pointer, align=4)
