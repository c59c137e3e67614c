"""Kernel: moments of all visible Gaussians to the gradients of the trainer's parameters."""

from __future__ import annotations

import math

import numpy as np

from scene.render.cpu.backward_geometry import (
    GRAD_MEAN,
    GRAD_OPACITY,
    GRAD_ROTATION,
    GRAD_SCALE,
    GRAD_SCREEN,
    GRADIENTS,
    WORK_FLOATS,
    project_backward,
    rotation_matrix,
)
from scene.render.cpu.backward_simd import MOMENTS, SUM_BLUE, SUM_GREEN, SUM_RED
from scene.render.cpu.cache import helper, kernel
from scene.render.cpu.records import OPACITY, RECORD_FLOATS, RED
from scene.render.cpu.simd import prefetch
from scene.render.cpu.simd_project import CAMERA_HEIGHT, CAMERA_POSITION, CAMERA_WIDTH
from scene.render.cpu.training_harmonics import MOST_COEFFICIENTS, harmonics, harmonics_slopes
from scene.render.cpu.training_pack import (
    ACTIVE_FLOATS,
    ACTIVE_INVERSE_NORM,
    ACTIVE_QUATERNION,
    ACTIVE_SCALE,
    HARMONICS,
    LOG_SCALE,
    LOGIT,
    MEAN,
    QUATERNION,
)

_AHEAD = 8
_CACHE_LINE = 16  # floats
_f = np.float32
_ONE, _TWO, _HALF = _f(1), _f(2), _f(0.5)


@kernel
def parameter_gradients(  # type: ignore[no-untyped-def]
    parameters,
    active,
    coefficients,
    camera,
    antialiased,
    records,
    ids,
    moments,
    thread,
    threads,
    gradients,
    screen_gradients,
    sightings,
):
    """Gradients of a thread's share of the visible Gaussians, each in its row of `gradients`.

    parameters, active, coefficients: as in `pack_parameters`. records: flat, in depth order; the
    record i belongs to row ids[i]. moments: float32 (threads, rows, MOMENTS), summed here.
    gradients: float32, shaped as `parameters`; rows that are not visible are left alone.
    screen_gradients: float32 (N,), grows by |dL/d(projected mean)| in half pictures (3DGS's
    measure for densification). sightings: float32 (N,), grows by one.
    """
    count = len(ids)
    rows = records.reshape(-1, RECORD_FLOATS)
    work, out = np.empty(WORK_FLOATS, np.float32), np.empty(GRADIENTS, np.float32)
    total, rotation = np.empty(MOMENTS, np.float32), np.empty(9, np.float32)
    basis = np.empty(MOST_COEFFICIENTS, np.float32)
    slopes = np.empty((MOST_COEFFICIENTS, 3), np.float32)
    color, scale = np.empty(3, np.float32), np.empty(3, np.float32)
    for i in range(count * thread // threads, count * (thread + 1) // threads):
        if i + _AHEAD < count:
            _fetch(ids[i + _AHEAD], parameters, active, gradients)
        row = ids[i]
        for k in range(MOMENTS):
            total[k] = moments[0, i, k]
            for other in range(1, moments.shape[0]):
                total[k] += moments[other, i, k]
        rotation_matrix(active, row, ACTIVE_QUATERNION, rotation)
        for k in range(3):
            scale[k] = active[row, ACTIVE_SCALE + k]
        x, y, z = parameters[row, MEAN], parameters[row, MEAN + 1], parameters[row, MEAN + 2]
        project_backward(camera, x, y, z, rotation, scale, antialiased, rows, i, total, work, out)
        for k in range(3):
            gradients[row, MEAN + k] = out[GRAD_MEAN + k]
            gradients[row, LOG_SCALE + k] = out[GRAD_SCALE + k] * scale[k]
        _quaternion_gradient(active, row, out, gradients)
        opacity = _opacity(parameters[row, LOGIT]) if antialiased else rows[i, OPACITY]
        gradients[row, LOGIT] = out[GRAD_OPACITY] * (_ONE - opacity)
        color[0], color[1], color[2] = total[SUM_RED], total[SUM_GREEN], total[SUM_BLUE]
        for channel in range(3):
            # the forward pass clamps colors at 0
            if rows[i, RED + channel] <= _f(0):
                color[channel] = _f(0)
        _color_gradient(parameters, row, camera, coefficients, color, basis, slopes, gradients)
        screen_x = out[GRAD_SCREEN] * camera[CAMERA_WIDTH] * _HALF
        screen_y = out[GRAD_SCREEN + 1] * camera[CAMERA_HEIGHT] * _HALF
        screen_gradients[row] += math.sqrt(screen_x * screen_x + screen_y * screen_y)
        sightings[row] += _ONE


@helper
def _fetch(row, parameters, active, gradients):  # type: ignore[no-untyped-def]
    """Ask for a row's cache lines: ids jump about in memory, and waiting took half the time."""
    columns = parameters.shape[1]
    for offset in range(0, columns, _CACHE_LINE):
        prefetch(parameters, np.int64(row) * columns + offset)
        prefetch(gradients, np.int64(row) * columns + offset)
    prefetch(active, np.int64(row) * ACTIVE_FLOATS)


@helper
def _opacity(logit):  # type: ignore[no-untyped-def]
    return _ONE / (_ONE + math.exp(-logit))


@helper
def _quaternion_gradient(active, row, out, gradients):  # type: ignore[no-untyped-def]
    """dL/dR in `out` to dL/d(stored quaternion): through R(q), then through q / |q|."""
    w, x = active[row, ACTIVE_QUATERNION], active[row, ACTIVE_QUATERNION + 1]
    y, z = active[row, ACTIVE_QUATERNION + 2], active[row, ACTIVE_QUATERNION + 3]
    r = GRAD_ROTATION
    sum_xy, sum_xz, sum_yz = (
        out[r + 1] + out[r + 3],
        out[r + 2] + out[r + 6],
        out[r + 5] + out[r + 7],
    )
    turn_x, turn_y, turn_z = (
        out[r + 7] - out[r + 5],
        out[r + 2] - out[r + 6],
        out[r + 3] - out[r + 1],
    )
    along_w = _TWO * (x * turn_x + y * turn_y + z * turn_z)
    along_x = _TWO * (y * sum_xy + z * sum_xz + w * turn_x - _TWO * x * (out[r + 4] + out[r + 8]))
    along_y = _TWO * (x * sum_xy + z * sum_yz + w * turn_y - _TWO * y * (out[r] + out[r + 8]))
    along_z = _TWO * (x * sum_xz + y * sum_yz + w * turn_z - _TWO * z * (out[r] + out[r + 4]))
    radial = along_w * w + along_x * x + along_y * y + along_z * z
    inverse_norm = active[row, ACTIVE_INVERSE_NORM]
    gradients[row, QUATERNION] = (along_w - w * radial) * inverse_norm
    gradients[row, QUATERNION + 1] = (along_x - x * radial) * inverse_norm
    gradients[row, QUATERNION + 2] = (along_y - y * radial) * inverse_norm
    gradients[row, QUATERNION + 3] = (along_z - z * radial) * inverse_norm


@helper
def _color_gradient(parameters, row, camera, coefficients, color, basis, slopes, gradients):  # type: ignore[no-untyped-def]
    """dL/dcolor to the harmonics and, as they look along the view direction, to the mean."""
    x = parameters[row, MEAN] - camera[CAMERA_POSITION]
    y = parameters[row, MEAN + 1] - camera[CAMERA_POSITION + 1]
    z = parameters[row, MEAN + 2] - camera[CAMERA_POSITION + 2]
    inverse = _ONE / math.sqrt(x * x + y * y + z * z + _f(1e-20))
    x, y, z = x * inverse, y * inverse, z * inverse
    harmonics(x, y, z, coefficients, basis)
    for k in range(coefficients):
        for channel in range(3):
            gradients[row, HARMONICS + 3 * k + channel] = basis[k] * color[channel]
    if coefficients == 1:
        return
    harmonics_slopes(x, y, z, coefficients, slopes)
    along_x = along_y = along_z = _f(0)
    for k in range(1, coefficients):
        weight = _f(0)
        for channel in range(3):
            weight += parameters[row, HARMONICS + 3 * k + channel] * color[channel]
        along_x += weight * slopes[k, 0]
        along_y += weight * slopes[k, 1]
        along_z += weight * slopes[k, 2]
    radial = along_x * x + along_y * y + along_z * z
    gradients[row, MEAN] += (along_x - radial * x) * inverse
    gradients[row, MEAN + 1] += (along_y - radial * y) * inverse
    gradients[row, MEAN + 2] += (along_z - radial * z) * inverse
