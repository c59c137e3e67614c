"""The way back from one Gaussian's moments to its mean, scales, rotation and opacity.

Both differentiable renderers (`training_gradients`, `backward_patch`) use it, one Gaussian at a
time in plain float32 arithmetic: it is a few percent of a pass.

With R the rotation of the Gaussian, s its scales, V the rotation of camera_from_world, (X, Y, Z)
its mean in the camera, and tx, ty the tangents X / Z, Y / Z clamped as in the forward pass, the 2D
covariance is  sum_k [u_k^2, u_k v_k, v_k^2] + low-pass  with

    u_k = fx / Z * s_k * (V_0 - tx V_2) . R[:, k],   v_k = fy / Z * s_k * (V_1 - ty V_2) . R[:, k].
"""

from __future__ import annotations

import math

import numpy as np

from scene.render.cpu.backward_simd import (
    SUM_H,
    SUM_HX,
    SUM_HXX,
    SUM_HXY,
    SUM_HY,
    SUM_HYY,
)
from scene.render.cpu.cache import helper
from scene.render.cpu.records import CONIC_A, CONIC_B, CONIC_C, DEPTH
from scene.render.cpu.simd_project import (
    CAMERA_BOTTOM,
    CAMERA_FOCAL_X,
    CAMERA_FOCAL_Y,
    CAMERA_LEFT,
    CAMERA_LOW_PASS,
    CAMERA_RIGHT,
    CAMERA_ROTATION,
    CAMERA_TOP,
    CAMERA_TRANSLATION,
)

WORK_FLOATS = 24
"""Floats of scratch memory that `project_backward` needs."""

# Where `project_backward` leaves its results.
GRAD_MEAN = 0  # 3: dL/d mean, world
GRAD_SCALE = 3  # 3: dL/d scale (linear)
GRAD_OPACITY = 6  # opacity * dL/d opacity
GRAD_ROTATION = 7  # 9: dL/d R, row by row
GRAD_SCREEN = 16  # 2: dL/d projected mean, per pixel
GRADIENTS = 18

_f = np.float32
_ONE, _TWO, _HALF = _f(1), _f(2), _f(0.5)
_LN_2 = _f(math.log(2.0))


@helper
def rotation_matrix(w, x, y, z, matrix):  # type: ignore[no-untyped-def]
    """A unit quaternion to (9,) float32, the rows of its rotation matrix."""
    matrix[0] = _ONE - _TWO * (y * y + z * z)
    matrix[1] = _TWO * (x * y - w * z)
    matrix[2] = _TWO * (x * z + w * y)
    matrix[3] = _TWO * (x * y + w * z)
    matrix[4] = _ONE - _TWO * (x * x + z * z)
    matrix[5] = _TWO * (y * z - w * x)
    matrix[6] = _TWO * (x * z - w * y)
    matrix[7] = _TWO * (y * z + w * x)
    matrix[8] = _ONE - _TWO * (x * x + y * y)


@helper
def covariance_gradient(record, moments, gradient):  # type: ignore[no-untyped-def]
    """dL/d(2D covariance) to gradient[0:3]: xx, xy (each of the two off-diagonals), yy.

    With P the inverse covariance, dL/dP = -1/2 [hxx, hxy; hxy, hyy] and dL/dC = -P dL/dP P.
    """
    p_xx = -_TWO * _LN_2 * record[CONIC_A]
    p_xy = -_LN_2 * record[CONIC_B]
    p_yy = -_TWO * _LN_2 * record[CONIC_C]
    h_xx, h_xy, h_yy = moments[SUM_HXX], moments[SUM_HXY], moments[SUM_HYY]
    a = p_xx * h_xx + p_xy * h_xy
    b = p_xx * h_xy + p_xy * h_yy
    c = p_xy * h_xx + p_yy * h_xy
    d = p_xy * h_xy + p_yy * h_yy
    gradient[0] = _HALF * (a * p_xx + b * p_xy)
    gradient[1] = _HALF * (a * p_xy + b * p_yy)
    gradient[2] = _HALF * (c * p_xy + d * p_yy)


@helper
def project_backward(camera, mean, rotation, scale, antialiased, record, moments, work, out):  # type: ignore[no-untyped-def]
    """From a visible Gaussian's record and moments to the gradients of its parameters.

    moments: (MOMENTS,) sums over all pixels. work: float32 (WORK_FLOATS,). out: (GRADIENTS,),
    indexed by the GRAD_* constants. Colors are left to the caller.
    """
    view = camera[CAMERA_ROTATION : CAMERA_ROTATION + 9]
    x = view[0] * mean[0] + view[1] * mean[1] + view[2] * mean[2] + camera[CAMERA_TRANSLATION]
    y = view[3] * mean[0] + view[4] * mean[1] + view[5] * mean[2] + camera[CAMERA_TRANSLATION + 1]
    inverse_z = _ONE / record[DEPTH]
    tangent_x, tangent_y = x * inverse_z, y * inverse_z
    left, right = camera[CAMERA_LEFT], camera[CAMERA_RIGHT]
    top, bottom = camera[CAMERA_TOP], camera[CAMERA_BOTTOM]
    tx, ty = min(max(tangent_x, left), right), min(max(tangent_y, top), bottom)
    fx, fy = camera[CAMERA_FOCAL_X], camera[CAMERA_FOCAL_Y]
    jx, jy = fx * inverse_z, fy * inverse_z

    # rows 0 and 1 of Jacobian x view rotation are jx * row_u, jy * row_v
    row_u, row_v, axes = work[0:3], work[3:6], work[6:18]
    for j in range(3):
        row_u[j] = view[j] - tx * view[6 + j]
        row_v[j] = view[3 + j] - ty * view[6 + j]
    raw_xx = raw_xy = raw_yy = _f(0)
    for k in range(3):
        along_u = along_v = along_z = _f(0)
        for j in range(3):
            along_u += row_u[j] * rotation[3 * j + k]
            along_v += row_v[j] * rotation[3 * j + k]
            along_z += view[6 + j] * rotation[3 * j + k]
        axes[k], axes[3 + k], axes[6 + k] = along_u, along_v, along_z
        u, v = jx * along_u * scale[k], jy * along_v * scale[k]
        raw_xx += u * u
        raw_xy += u * v
        raw_yy += v * v

    covariance = work[18:21]
    covariance_gradient(record, moments, covariance)
    if antialiased:
        _add_compensation(camera, raw_xx, raw_xy, raw_yy, moments[SUM_H], covariance)

    g_inverse_z = g_tx = g_ty = _f(0)
    for k in range(3):
        u, v = jx * axes[k] * scale[k], jy * axes[3 + k] * scale[k]
        gu = _TWO * (covariance[0] * u + covariance[1] * v)
        gv = _TWO * (covariance[1] * u + covariance[2] * v)
        out[GRAD_SCALE + k] = gu * jx * axes[k] + gv * jy * axes[3 + k]
        g_inverse_z += (gu * fx * axes[k] + gv * fy * axes[3 + k]) * scale[k]
        g_tx -= gu * jx * axes[6 + k] * scale[k]
        g_ty -= gv * jy * axes[6 + k] * scale[k]
        for j in range(3):
            change = gu * jx * row_u[j] + gv * jy * row_v[j]
            out[GRAD_ROTATION + 3 * j + k] = change * scale[k]

    g_screen_x = -_LN_2 * (
        _TWO * record[CONIC_A] * moments[SUM_HX] + record[CONIC_B] * moments[SUM_HY]
    )
    g_screen_y = -_LN_2 * (
        record[CONIC_B] * moments[SUM_HX] + _TWO * record[CONIC_C] * moments[SUM_HY]
    )
    g_x, g_y = g_screen_x * jx, g_screen_y * jy
    g_inverse_z += g_screen_x * fx * x + g_screen_y * fy * y
    if tangent_x > left and tangent_x < right:
        g_x += g_tx * inverse_z
        g_inverse_z += g_tx * x
    if tangent_y > top and tangent_y < bottom:
        g_y += g_ty * inverse_z
        g_inverse_z += g_ty * y
    g_z = -g_inverse_z * inverse_z * inverse_z
    for j in range(3):
        out[GRAD_MEAN + j] = view[j] * g_x + view[3 + j] * g_y + view[6 + j] * g_z
    out[GRAD_OPACITY] = moments[SUM_H]
    out[GRAD_SCREEN] = g_screen_x
    out[GRAD_SCREEN + 1] = g_screen_y


@helper
def _add_compensation(camera, raw_xx, xy, raw_yy, sum_h, gradient):  # type: ignore[no-untyped-def]
    """Antialiasing multiplies opacity by sqrt(|C| / |C + low-pass|): its part of dL/dC."""
    xx, yy = raw_xx + camera[CAMERA_LOW_PASS], raw_yy + camera[CAMERA_LOW_PASS]
    inverse = _ONE / (xx * yy - xy * xy)
    raw_determinant = raw_xx * raw_yy - xy * xy
    if raw_determinant <= _f(0):
        return
    raw_inverse = _ONE / raw_determinant
    half = _HALF * sum_h
    gradient[0] += half * (raw_yy * raw_inverse - yy * inverse)
    gradient[1] -= half * xy * (raw_inverse - inverse)
    gradient[2] += half * (raw_xx * raw_inverse - xx * inverse)
