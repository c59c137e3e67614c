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
    CAMERA_POSITION,
    CAMERA_RIGHT,
    CAMERA_ROTATION,
    CAMERA_TOP,
)

WORK_FLOATS = 24
"""Floats of scratch memory that `project_backward` needs; its parts, by offset:"""
_ROW_U = 0  # 3: V_0 - tx V_2
_ROW_V = 3  # 3: V_1 - ty V_2
_ALONG_U = 6  # 3: the Gaussian's axes along row u, along row v, and along the view direction
_ALONG_V = 9
_ALONG_Z = 12
_COVARIANCE = 15  # 3: dL/d(2D covariance) xx, xy (each of the two off-diagonals), yy

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
def rotation_matrix(quaternions, i, first, matrix):  # type: ignore[no-untyped-def]
    """The unit quaternion in quaternions[i, first:first + 4] to (9,), its matrix row by row."""
    w, x = quaternions[i, first], quaternions[i, first + 1]
    y, z = quaternions[i, first + 2], quaternions[i, first + 3]
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
def project_backward(  # type: ignore[no-untyped-def]
    camera, mean_x, mean_y, mean_z, rotation, scale, antialiased, records, i, moments, work, out
):
    """From a visible Gaussian's record and moments to the gradients of its parameters.

    camera: float32 (CAMERA_FLOATS,). rotation: (9,). scale: (3,). records: (rows, RECORD_FLOATS),
    its record is row i. moments: (MOMENTS,) sums over all pixels. work: float32 (WORK_FLOATS,).
    out: float32 (GRADIENTS,), indexed by the GRAD_* constants. Colors are left to the caller.
    """
    v = CAMERA_ROTATION
    away_x = mean_x - camera[CAMERA_POSITION]
    away_y = mean_y - camera[CAMERA_POSITION + 1]
    away_z = mean_z - camera[CAMERA_POSITION + 2]
    x = camera[v] * away_x + camera[v + 1] * away_y + camera[v + 2] * away_z
    y = camera[v + 3] * away_x + camera[v + 4] * away_y + camera[v + 5] * away_z
    inverse_z = _ONE / records[i, DEPTH]
    tangent_x, tangent_y = x * inverse_z, y * inverse_z
    left, right = camera[CAMERA_LEFT], camera[CAMERA_RIGHT]
    top, bottom = camera[CAMERA_TOP], camera[CAMERA_BOTTOM]
    tx, ty = min(max(tangent_x, left), right), min(max(tangent_y, top), bottom)
    fx, fy = camera[CAMERA_FOCAL_X], camera[CAMERA_FOCAL_Y]
    jx, jy = fx * inverse_z, fy * inverse_z
    _axes_in_view(camera, tx, ty, rotation, work)
    _covariance_gradient(records, i, moments, work)
    if antialiased:
        _add_compensation(camera, jx, jy, scale, moments[SUM_H], work)

    g_xx, g_xy, g_yy = work[_COVARIANCE], work[_COVARIANCE + 1], work[_COVARIANCE + 2]
    g_inverse_z = g_tx = g_ty = _f(0)
    for k in range(3):
        along_u, along_v = work[_ALONG_U + k], work[_ALONG_V + k]
        u, w = jx * along_u * scale[k], jy * along_v * scale[k]
        gu, gv = _TWO * (g_xx * u + g_xy * w), _TWO * (g_xy * u + g_yy * w)
        out[GRAD_SCALE + k] = gu * jx * along_u + gv * jy * along_v
        g_inverse_z += (gu * fx * along_u + gv * fy * along_v) * scale[k]
        g_tx -= gu * jx * work[_ALONG_Z + k] * scale[k]
        g_ty -= gv * jy * work[_ALONG_Z + k] * scale[k]
        for j in range(3):
            change = gu * jx * work[_ROW_U + j] + gv * jy * work[_ROW_V + j]
            out[GRAD_ROTATION + 3 * j + k] = change * scale[k]

    a, b, c = records[i, CONIC_A], records[i, CONIC_B], records[i, CONIC_C]
    g_screen_x = -_LN_2 * (_TWO * a * moments[SUM_HX] + b * moments[SUM_HY])
    g_screen_y = -_LN_2 * (b * moments[SUM_HX] + _TWO * c * moments[SUM_HY])
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
        along = camera[v + j] * g_x + camera[v + 3 + j] * g_y + camera[v + 6 + j] * g_z
        out[GRAD_MEAN + j] = along
    out[GRAD_OPACITY] = moments[SUM_H]
    out[GRAD_SCREEN] = g_screen_x
    out[GRAD_SCREEN + 1] = g_screen_y


@helper
def _axes_in_view(camera, tx, ty, rotation, work):  # type: ignore[no-untyped-def]
    """Rows u and v (times Z / f) and the Gaussian's axes along them, to `work`."""
    v = CAMERA_ROTATION
    for j in range(3):
        work[_ROW_U + j] = camera[v + j] - tx * camera[v + 6 + j]
        work[_ROW_V + j] = camera[v + 3 + j] - ty * camera[v + 6 + j]
    for k in range(3):
        along_u = along_v = along_z = _f(0)
        for j in range(3):
            along_u += work[_ROW_U + j] * rotation[3 * j + k]
            along_v += work[_ROW_V + j] * rotation[3 * j + k]
            along_z += camera[v + 6 + j] * rotation[3 * j + k]
        work[_ALONG_U + k], work[_ALONG_V + k], work[_ALONG_Z + k] = along_u, along_v, along_z


@helper
def _covariance_gradient(records, i, moments, work):  # type: ignore[no-untyped-def]
    """dL/d(2D covariance) to `work`.

    With P the inverse covariance, dL/dP = -1/2 [hxx, hxy; hxy, hyy] and dL/dC = -P dL/dP P.
    """
    p_xx = -_TWO * _LN_2 * records[i, CONIC_A]
    p_xy = -_LN_2 * records[i, CONIC_B]
    p_yy = -_TWO * _LN_2 * records[i, CONIC_C]
    h_xx, h_xy, h_yy = moments[SUM_HXX], moments[SUM_HXY], moments[SUM_HYY]
    a = p_xx * h_xx + p_xy * h_xy
    b = p_xx * h_xy + p_xy * h_yy
    c = p_xy * h_xx + p_yy * h_xy
    d = p_xy * h_xy + p_yy * h_yy
    work[_COVARIANCE] = _HALF * (a * p_xx + b * p_xy)
    work[_COVARIANCE + 1] = _HALF * (a * p_xy + b * p_yy)
    work[_COVARIANCE + 2] = _HALF * (c * p_xy + d * p_yy)


@helper
def _add_compensation(camera, jx, jy, scale, sum_h, work):  # type: ignore[no-untyped-def]
    """Antialiasing multiplies opacity by sqrt(|C| / |C + low-pass|): its part of dL/dC."""
    raw_xx = xy = raw_yy = _f(0)
    for k in range(3):
        u = jx * work[_ALONG_U + k] * scale[k]
        w = jy * work[_ALONG_V + k] * scale[k]
        raw_xx += u * u
        xy += u * w
        raw_yy += w * w
    raw_determinant = raw_xx * raw_yy - xy * xy
    if raw_determinant <= _f(0):
        return
    xx, yy = raw_xx + camera[CAMERA_LOW_PASS], raw_yy + camera[CAMERA_LOW_PASS]
    inverse, raw_inverse = _ONE / (xx * yy - xy * xy), _ONE / raw_determinant
    half = _HALF * sum_h
    work[_COVARIANCE] += half * (raw_yy * raw_inverse - yy * inverse)
    work[_COVARIANCE + 1] -= half * xy * (raw_inverse - inverse)
    work[_COVARIANCE + 2] += half * (raw_xx * raw_inverse - xx * inverse)
