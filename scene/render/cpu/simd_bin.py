"""Vector code of binning: which tiles of each row of tiles a Gaussian's ellipse touches."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from scene.render.cpu.records import (
    CONIC_A,
    CONIC_B,
    CONIC_C,
    EXTENT2,
    EXTENT_X,
    EXTENT_Y,
    LANES,
    LOG2_E,
    MEAN_X,
    MEAN_Y,
    SLOPE_Y,
)
from scene.render.cpu.simd import INT32, INTS, Builder, Floats, Value, Vec, array_data, intrinsic
from scene.render.cpu.simd_tile import TILE

ROWS = LANES
"""Rows of tiles per call of `row_spans`."""

_SLACK = 1e-3  # pixels; rounding must not lose a pixel that the blend would draw
_TILE_BITS = 4


@intrinsic
def row_spans(typing_context, records, offset, first_y, width, spans):  # type: ignore[no-untyped-def]
    """Kernel function: first and last tile column that an ellipse meets in 16 rows of tiles.

    records: flat float32; offset: int64, of the Gaussian's record. first_y: float32, the centre
    of the first pixel of the first row. width: float32, of the picture, pixels. spans: int32 of
    32; gets 16 first columns, then 16 last ones (-1 where no pixel centre is inside).
    """

    def emit(context: Any, builder: Builder, signature: Any, arguments: Any) -> Value:
        record = Floats.of(context, builder, signature.args[0], arguments[0]).at(arguments[1])
        left, right = _ellipse_ends(record, Vec.splat(builder, arguments[2]))
        # clipped before rounding: a huge Gaussian's reach does not fit an integer
        last_pixel = Vec.splat(builder, arguments[3]) - 1.0
        first = (left - (0.5 + _SLACK)).maximum(0.0).minimum(last_pixel + 1.0).ceil()
        last = (right - (0.5 - _SLACK)).minimum(last_pixel).maximum(-1.0).floor()
        inside = last >= first
        columns = [_tile_of(first), _tile_of(inside.select(last, -1.0))]
        pointer = array_data(context, builder, signature.args[4], arguments[4])
        vectors = builder.bitcast(pointer, INTS.as_pointer())
        for i, column in enumerate(columns):
            target = builder.gep(vectors, [ir.Constant(INT32, i)])
            builder.store(column, target, align=4)
        return context.get_dummy_value()

    real = types.float32
    return types.void(records, types.int64, real, real, spans), emit


def _ellipse_ends(record: Floats, first_y: Vec) -> tuple[Vec, Vec]:
    """Smallest and largest x of the ellipse alpha >= cut within each row (lane = row of tiles).

    For an offset dy the ellipse spans dx = (-B dy +- sqrt(D dy^2 + 4 A cut)) / (2 A) with
    D = B^2 - 4 A C. It reaches farthest right at dy = SLOPE_Y * EXTENT_X, farthest left at minus
    that; both are clipped to the row's pixel centres.
    """
    a, b, c = (record.splat(column) for column in (CONIC_A, CONIC_B, CONIC_C))
    x, y = record.splat(MEAN_X), record.splat(MEAN_Y)
    reach_y = record.splat(EXTENT_Y)
    row_starts = Vec.lanes(record.builder, [float(TILE * row) for row in range(ROWS)])
    top = first_y + row_starts - y
    low, high = top.maximum(-reach_y), (top + float(TILE - 1)).minimum(reach_y)
    rightmost = record.splat(SLOPE_Y) * record.splat(EXTENT_X)
    right_y, left_y = rightmost.clamp(low, high), (-rightmost).clamp(low, high)
    discriminant = b * b - a * c * 4.0
    at_center = a * record.splat(EXTENT2) * (-2.0 * LOG2_E)
    half_inverse = 0.5 / a

    def root(dy: Vec) -> Vec:
        return (discriminant * dy * dy + at_center).maximum(0.0).sqrt()

    # A < 0, so subtracting the root gives the right end
    right = x - (b * right_y + root(right_y)) * half_inverse
    left = x - (b * left_y - root(left_y)) * half_inverse
    return left, right


def _tile_of(pixel: Vec) -> Value:
    """Whole pixel coordinates (-1 or more) to tile coordinates, as integers."""
    builder = pixel.builder
    shift = ir.Constant(INTS, [ir.Constant(INT32, _TILE_BITS)] * LANES)
    return builder.ashr(builder.fptosi(pixel.value, INTS), shift)
