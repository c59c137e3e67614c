"""Vector code of the projection: one block of 16 Gaussians from world to picture, and their colors.

Both functions write planes of 16 lanes into a scratch array, plane c holding column c of the
record layout, and one more plane, COMPENSATION.
"""

from __future__ import annotations

from typing import Any

from numba import types

from scene.render.cpu.records import (
    CONIC_A,
    CONIC_B,
    CONIC_C,
    DEPTH,
    EXTENT2,
    EXTENT_X,
    EXTENT_Y,
    GEOMETRY_COVARIANCE,
    GEOMETRY_EXTENT2,
    GEOMETRY_LOG2_OPACITY,
    GEOMETRY_MEAN,
    GEOMETRY_OPACITY,
    LANES,
    LOG2_E,
    LOG2_OPACITY,
    MEAN_X,
    MEAN_Y,
    OPACITY,
    RECORD_FLOATS,
    RED,
    SLOPE_X,
    SLOPE_Y,
)
from scene.render.cpu.simd import Builder, Floats, Value, Vec, int64, intrinsic
from scene.render.cpu.simd_math import transposed

COMPENSATION = RECORD_FLOATS
"""Plane of det(covariance) / det(covariance + low-pass) >= 0: antialiasing factor squared."""
PROJECTED_PLANES = RECORD_FLOATS + 1

CAMERA_ROTATION = 0  # 9 floats, rows of the rotation of camera_from_world
CAMERA_TRANSLATION = 9
CAMERA_FOCAL_X = 12
CAMERA_FOCAL_Y = 13
CAMERA_CENTER_X = 14
CAMERA_CENTER_Y = 15
CAMERA_LEFT = 16  # x / z is clamped to [left, right] and y / z to [top, bottom] in the Jacobian
CAMERA_RIGHT = 17
CAMERA_TOP = 18
CAMERA_BOTTOM = 19
CAMERA_WIDTH = 20
CAMERA_HEIGHT = 21
CAMERA_NEAR = 22
CAMERA_LOW_PASS = 23
CAMERA_POSITION = 24  # 3 floats, the optical centre in the world
CAMERA_POSITION_REST = 27  # 3 floats, what rounding took from the position
CAMERA_FLOATS = 30


@intrinsic
def project_block(typing_context, geometry, offset, camera, planes):  # type: ignore[no-untyped-def]
    """Kernel function: project a block; int32 bit mask of the lanes that are visible.

    geometry: flat packed geometry; offset: int64, of the block's first float. camera: float32 of
    CAMERA_FLOATS. planes: float32 of PROJECTED_PLANES * 16; all but the colors are written.
    """

    def emit(context: Any, builder: Builder, signature: Any, arguments: Any) -> Value:
        block = Floats.of(context, builder, signature.args[0], arguments[0]).at(arguments[1])
        camera = Floats.of(context, builder, signature.args[2], arguments[2])
        planes = Floats.of(context, builder, signature.args[3], arguments[3])
        return _project(block, camera, planes)

    return types.int32(geometry, types.int64, camera, planes), emit


def _project(block: Floats, camera: Floats, planes: Floats) -> Value:
    away = _from_camera(block, camera)
    rotation = [[camera.splat(CAMERA_ROTATION + 3 * i + j) for j in range(3)] for i in range(3)]
    x, y, z = (_dot(rotation[i], away) for i in range(3))
    visible = z >= camera.splat(CAMERA_NEAR)

    inverse_z = 1.0 / visible.select(z, 1.0)
    tangent_x, tangent_y = x * inverse_z, y * inverse_z
    focal_x, focal_y = camera.splat(CAMERA_FOCAL_X), camera.splat(CAMERA_FOCAL_Y)
    mean_x = focal_x * tangent_x + camera.splat(CAMERA_CENTER_X)
    mean_y = focal_y * tangent_y + camera.splat(CAMERA_CENTER_Y)

    # rows of (Jacobian of the projection) x (rotation)
    clamped_x = tangent_x.clamp(camera.splat(CAMERA_LEFT), camera.splat(CAMERA_RIGHT))
    clamped_y = tangent_y.clamp(camera.splat(CAMERA_TOP), camera.splat(CAMERA_BOTTOM))
    scale_x, scale_y = focal_x * inverse_z, focal_y * inverse_z
    row_x = [scale_x * (rotation[0][j] - clamped_x * rotation[2][j]) for j in range(3)]
    row_y = [scale_y * (rotation[1][j] - clamped_y * rotation[2][j]) for j in range(3)]

    xx, xy, xz, yy, yz, zz = (block.vec((GEOMETRY_COVARIANCE + i) * LANES) for i in range(6))
    covariance = ((xx, xy, xz), (xy, yy, yz), (xz, yz, zz))
    half_x = [_dot(covariance[i], row_x) for i in range(3)]
    half_y = [_dot(covariance[i], row_y) for i in range(3)]
    low_pass = camera.splat(CAMERA_LOW_PASS)
    raw_xx, cov_xy, raw_yy = _dot(row_x, half_x), _dot(row_y, half_x), _dot(row_y, half_y)
    cov_xx, cov_yy = raw_xx + low_pass, raw_yy + low_pass
    determinant = cov_xx * cov_yy - cov_xy * cov_xy
    raw_determinant = raw_xx * raw_yy - cov_xy * cov_xy
    visible = visible & (determinant > 0.0)

    extent2 = block.vec(GEOMETRY_EXTENT2 * LANES)
    visible = visible & (extent2 > 0.0)
    reach2 = extent2.maximum(0.0)
    extent_x, extent_y = (reach2 * cov_xx).sqrt(), (reach2 * cov_yy).sqrt()
    visible = visible & (mean_x + extent_x > 0.0)
    visible = visible & (mean_x - extent_x < camera.splat(CAMERA_WIDTH))
    visible = visible & (mean_y + extent_y > 0.0)
    visible = visible & (mean_y - extent_y < camera.splat(CAMERA_HEIGHT))

    inverse = 1.0 / visible.select(determinant, 1.0)
    to_log2 = inverse * LOG2_E
    conic_a, conic_b, conic_c = (
        cov_yy * to_log2 * -0.5,
        cov_xy * to_log2,
        cov_xx * to_log2 * -0.5,
    )
    for column, vec in {
        MEAN_X: mean_x,
        MEAN_Y: mean_y,
        CONIC_A: conic_a,
        CONIC_B: conic_b,
        CONIC_C: conic_c,
        LOG2_OPACITY: block.vec(GEOMETRY_LOG2_OPACITY * LANES),
        DEPTH: z,
        EXTENT_X: extent_x,
        EXTENT_Y: extent_y,
        EXTENT2: extent2,
        SLOPE_X: cov_xy / cov_yy,
        SLOPE_Y: cov_xy / cov_xx,
        OPACITY: block.vec(GEOMETRY_OPACITY * LANES),
        COMPENSATION: raw_determinant.maximum(0.0) * inverse,
    }.items():
        planes.put(column * LANES, vec)
    return visible.bits()


@intrinsic
def transpose_planes(typing_context, planes, rows):  # type: ignore[no-untyped-def]
    """Kernel function: the first 16 planes (16 lanes each) to 16 rows, one per lane.

    planes, rows: float32, at least 256 each; row k holds lane k of every plane.
    """

    def emit(context: Any, builder: Builder, signature: Any, arguments: Any) -> Value:
        source = Floats.of(context, builder, signature.args[0], arguments[0])
        target = Floats.of(context, builder, signature.args[1], arguments[1])
        for lane, row in enumerate(transposed([source.vec(i * LANES) for i in range(LANES)])):
            target.put(lane * LANES, row)
        return context.get_dummy_value()

    return types.void(planes, rows), emit


@intrinsic
def copy_record(typing_context, source, row, target, target_row):  # type: ignore[no-untyped-def]
    """Kernel function: target row `target_row` = source row `row`; flat float32, 16 a row."""

    def emit(context: Any, builder: Builder, signature: Any, arguments: Any) -> Value:
        source = Floats.of(context, builder, signature.args[0], arguments[0])
        target = Floats.of(context, builder, signature.args[2], arguments[2])
        offsets = (builder.mul(arguments[i], int64(RECORD_FLOATS)) for i in (1, 3))
        source_offset, target_offset = offsets
        target.put(target_offset, source.vec(source_offset))
        return context.get_dummy_value()

    return types.void(source, types.int64, target, types.int64), emit


def _make_colors(coefficients: int):  # type: ignore[no-untyped-def]
    """The intrinsic that evaluates colors with `coefficients` harmonics per channel (0: copies)."""

    @intrinsic
    def colors_of_block(  # type: ignore[no-untyped-def]
        typing_context, geometry, offset, colors, color_offset, camera, planes
    ):
        """Kernel function: write the planes RED, GREEN, BLUE of a block."""

        def emit(context: Any, builder: Builder, signature: Any, arguments: Any) -> Value:
            geometry, colors, camera, planes = (
                Floats.of(context, builder, signature.args[i], arguments[i]) for i in (0, 2, 4, 5)
            )
            block, stored = geometry.at(arguments[1]), colors.at(arguments[3])
            if coefficients == 0:
                for channel in range(3):
                    planes.put((RED + channel) * LANES, stored.vec(channel * LANES))
                return context.get_dummy_value()
            direction = _view_direction(block, camera)
            for channel in range(3):
                first = channel * coefficients
                harmonics = [stored.vec((first + i) * LANES) for i in range(coefficients)]
                color = _spherical_harmonics(direction, harmonics) + 0.5
                planes.put((RED + channel) * LANES, color.maximum(0.0))
            return context.get_dummy_value()

        signature = types.void(geometry, types.int64, colors, types.int64, camera, planes)
        return signature, emit

    return colors_of_block


colors_given = _make_colors(0)
colors_degree_0 = _make_colors(1)
colors_degree_1 = _make_colors(4)
colors_degree_2 = _make_colors(9)
colors_degree_3 = _make_colors(16)


def _from_camera(block: Floats, camera: Floats) -> list[Vec]:
    """Vectors from the camera to the Gaussians, along the world's axes.

    Subtracting first and rotating then loses nothing where camera and scene are far from the
    world's origin; a rotation plus a translation loses most of the digits there.
    """
    return [
        block.vec((GEOMETRY_MEAN + i) * LANES)
        - camera.splat(CAMERA_POSITION + i)
        - camera.splat(CAMERA_POSITION_REST + i)
        for i in range(3)
    ]


def _view_direction(block: Floats, camera: Floats) -> list[Vec]:
    """Unit vectors from the camera to the Gaussians, in the world."""
    away = _from_camera(block, camera)
    inverse = 1.0 / (_dot(away, away) + 1e-20).sqrt()
    return [component * inverse for component in away]


def _spherical_harmonics(direction: list[Vec], sh: list[Vec]) -> Vec:
    """Sum of coefficient times basis function; 3DGS's real basis, signs and order."""
    x, y, z = direction
    total = sh[0] * 0.28209479177387814
    if len(sh) >= 4:
        total = total + (z * sh[2] - y * sh[1] - x * sh[3]) * 0.4886025119029199
    if len(sh) >= 9:
        zz = z * z
        cos_2, sin_2 = x * x - y * y, x * y * 2.0  # of twice the azimuth, times sin^2(polar)
        tilted = z * -1.0925484305920792
        total = total + sin_2 * 0.5462742152960396 * sh[4] + tilted * y * sh[5]
        total = total + (zz * 0.9461746957575601 - 0.31539156525252005) * sh[6]
        total = total + tilted * x * sh[7] + cos_2 * 0.5462742152960396 * sh[8]
    if len(sh) >= 16:
        cos_3, sin_3 = x * cos_2 - y * sin_2, x * sin_2 + y * cos_2
        once = zz * -2.285228997322329 + 0.4570457994644658
        twice = z * 1.445305721320277
        total = total + sin_3 * -0.5900435899266435 * sh[9] + twice * sin_2 * sh[10]
        total = total + once * y * sh[11]
        total = total + z * (zz * 1.865881662950577 - 1.1195289977703462) * sh[12]
        total = total + once * x * sh[13] + twice * cos_2 * sh[14]
        total = total + cos_3 * -0.5900435899266435 * sh[15]
    return total


def _dot(a: Any, b: Any) -> Vec:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
