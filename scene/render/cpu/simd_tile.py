"""How the blend kernels cut a picture, and the parts that the forward and backward passes share.

A tile is 16x16 pixels = 16 blocks of 4x4 pixels, numbered row by row; a block's 16 pixels (row by
row) are the lanes of one vector, and the 16 blocks of a tile are the lanes of another, which is
how `block_hits` tests one Gaussian against all blocks at once.

The state of a tile is a float32 array of 16 x BLOCK_FLOATS: for every block its planes of 16
pixels one after the other (transmittance, then what is summed up). A finished pixel carries its
final transmittance with the sign bit set; pixels outside the picture start finished.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types

from scene.render.cpu.records import (
    ALPHA_CUT,
    ALPHA_MAX,
    CONIC_A,
    CONIC_B,
    CONIC_C,
    LANES,
    LOG2_OPACITY,
    MEAN_X,
    MEAN_Y,
    SLOPE_X,
    SLOPE_Y,
    TRANSMITTANCE_STOP,
)
from scene.render.cpu.simd import Builder, Floats, Mask, Value, Vec, int32, intrinsic
from scene.render.cpu.simd_math import exp2

TILE = 16
"""Tile side, pixels."""
BLOCK = 4
"""Block side, pixels."""
BLOCKS = 16
"""Blocks per tile."""
STATE_PLANES = 6
"""Planes of 16 pixels per block: transmittance and up to five sums."""
BLOCK_FLOATS = STATE_PLANES * LANES
"""Floats per block of a tile's state."""
ALL_BLOCKS = 0xFFFF
"""Bit mask of all blocks of a tile."""

LOG2_ALPHA_CUT = float(np.log2(ALPHA_CUT))

SCRATCH_FLOATS = 4 * LANES
"""Floats that one Gaussian's `BlockExponents` take in scratch memory."""

_PIXEL_X = [float(i % BLOCK) for i in range(LANES)]
_PIXEL_Y = [float(i // BLOCK) for i in range(LANES)]
_BLOCK_X = [float(BLOCK * (i % BLOCK)) for i in range(LANES)]
_BLOCK_Y = [float(BLOCK * (i // BLOCK)) for i in range(LANES)]


class BlockExponents(NamedTuple):
    """log2(alpha) of one Gaussian over a tile, split so that a block costs two fused multiply-adds.

    At pixel (i, j) of a block, log2(alpha) = corner + slope_x i + slope_y j + curve(i, j), where
    the first three belong to the block (lane = block) and the last to the Gaussian (lane = pixel).
    """

    curve: Vec
    corner: Vec
    slope_x: Vec
    slope_y: Vec

    def store(self, scratch: Floats) -> None:
        """Write to scratch memory, in the order that `block_alpha` reads."""
        for plane, vec in enumerate(self):
            scratch.put(plane * LANES, vec)


def pixel_offsets(builder: Builder, first: int = 0, count: int = LANES) -> tuple[Vec, Vec]:
    """Coordinates x, y of `count` of a block's pixels, relative to its first (lane = pixel)."""
    lanes = slice(first, first + count)
    return Vec.lanes(builder, _PIXEL_X[lanes]), Vec.lanes(builder, _PIXEL_Y[lanes])


def block_exponents(
    record: Floats, tile_x: Value, tile_y: Value
) -> tuple[BlockExponents, Mask, Vec, Vec]:
    """One Gaussian against all blocks of a tile.

    record: the Gaussian's record. tile_x, tile_y: float scalars, the CENTRE of the tile's first
    pixel. Returns the exponents, the mask of blocks that its ellipse alpha >= ALPHA_CUT can
    touch, and the offsets x, y of the blocks' first pixels from its mean (all: lane = block).
    """
    builder = record.builder
    a, b, c = (record.splat(column) for column in (CONIC_A, CONIC_B, CONIC_C))
    log2_opacity = record.splat(LOG2_OPACITY)

    def offsets(first: list[float], tile: Value, mean: int) -> Vec:
        shift = builder.fsub(tile, record.scalar(mean))
        return Vec.lanes(builder, first) + Vec.splat(builder, shift)

    x0, y0 = offsets(_BLOCK_X, tile_x, MEAN_X), offsets(_BLOCK_Y, tile_y, MEAN_Y)
    x1, y1 = x0 + float(BLOCK - 1), y0 + float(BLOCK - 1)

    def power(x: Vec, y: Vec) -> Vec:
        return x * (a * x + b * y) + c * y * y

    # The largest alpha in a block (a convex box) lies at the mean, or on the edge nearest to it
    # in x or in y, at the best point of that edge.
    zero = Vec.constant(builder, 0.0)
    near_x, near_y = zero.clamp(x0, x1), zero.clamp(y0, y1)
    best_y = (near_x * record.splat(SLOPE_Y)).clamp(y0, y1)
    best_x = (near_y * record.splat(SLOPE_X)).clamp(x0, x1)
    largest = power(near_x, best_y).maximum(power(best_x, near_y)) + log2_opacity
    hits = largest >= LOG2_ALPHA_CUT - 1e-4

    pixel_x, pixel_y = pixel_offsets(builder)
    exponents = BlockExponents(
        curve=a * (pixel_x * pixel_x) + (b * (pixel_x * pixel_y) + c * (pixel_y * pixel_y)),
        corner=power(x0, y0) + log2_opacity,
        slope_x=(a + a) * x0 + b * y0,
        slope_y=b * x0 + (c + c) * y0,
    )
    return exponents, hits, x0, y0


def block_alpha(
    curve: Vec, exponents: Floats, block: Value, first_pixel: int = 0
) -> tuple[Vec, Mask]:
    """Unclamped alpha of a block's pixels and whether it reaches ALPHA_CUT.

    curve: of the pixels from first_pixel on, as many as are wanted. exponents: scratch memory
    written by `BlockExponents.store`. block: 64-bit number in the tile.
    """
    builder = exponents.builder
    here = exponents.at(block)
    corner, slope_x, slope_y = (here.splat(plane * LANES, curve.count) for plane in (1, 2, 3))
    pixel_x, pixel_y = pixel_offsets(builder, first_pixel, curve.count)
    log2_alpha = slope_y * pixel_y + (slope_x * pixel_x + (curve + corner))
    return exp2(log2_alpha), log2_alpha >= LOG2_ALPHA_CUT


def attenuate(transmittance: Vec, alpha: Vec, reaches_cut: Mask) -> tuple[Vec, Vec, Mask]:
    """Blend one Gaussian into some pixels: (new transmittance, weight, pixel still live).

    transmittance: sign bit set where the pixel is finished; such pixels get weight 0.
    alpha: unclamped. The weight is alpha * transmittance, or 0 where the pixel stops before it.
    """
    clamped = reaches_cut.select(alpha.minimum(ALPHA_MAX), 0.0)
    weight = clamped * transmittance
    after = transmittance - weight
    live = after > TRANSMITTANCE_STOP
    kept = live.select(after, transmittance.with_sign_set())
    return kept, live.select(weight, 0.0), live


@intrinsic
def live_blocks(typing_context, state):  # type: ignore[no-untyped-def]
    """Kernel function: int32 bit mask of the blocks that still have a live pixel."""

    def emit(context: Any, builder: Builder, signature: Any, arguments: Any) -> Value:
        planes = Floats.of(context, builder, signature.args[0], arguments[0])
        bits = int32(0)
        for block in range(BLOCKS):
            alive = planes.vec(block * BLOCK_FLOATS).sign_clear().any()
            bits = builder.or_(bits, builder.select(alive, int32(1 << block), int32(0)))
        return bits

    return types.int32(state), emit
