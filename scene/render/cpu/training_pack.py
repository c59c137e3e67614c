"""Kernels: Gaussians that change at every step, into the packed layout that `project` reads.

`records.pack_scene` does this once for a scene at rest. Here it is done again for every picture,
so it is a kernel; it computes in float64 what `pack_scene` computes in float64, so that a picture
of changing Gaussians equals the renderer's picture of the same Gaussians. No Morton order: the
packed position is the row.
"""

from __future__ import annotations

import math

import numpy as np

from scene.render.cpu.cache import helper, kernel
from scene.render.cpu.records import (
    ALPHA_CUT,
    GEOMETRY_COVARIANCE,
    GEOMETRY_EXTENT2,
    GEOMETRY_LOG2_OPACITY,
    GEOMETRY_MEAN,
    GEOMETRY_OPACITY,
    LANES,
)

# Columns of a row of trainable parameters; the row ends with 3 K harmonics, index 3 k + channel,
# and is filled up to a multiple of four.
MEAN = 0  # 3
LOG_SCALE = 3  # 3
QUATERNION = 6  # 4, wxyz, any length > 0
LOGIT = 10  # of the opacity
HARMONICS = 11

# Columns of the activated values that the backward pass needs again.
ACTIVE_SCALE = 0  # 3
ACTIVE_QUATERNION = 3  # 4, unit
ACTIVE_INVERSE_NORM = 7  # 1 / length of the stored quaternion
ACTIVE_FLOATS = 8

_TINY = 1e-8


def parameter_floats(coefficients: int) -> int:
    """Length of a row of parameters with `coefficients` harmonics per channel."""
    return (HARMONICS + 3 * coefficients + 3) // 4 * 4


@kernel
def pack_parameters(parameters, coefficients, thread, threads, geometry, colors, active):  # type: ignore[no-untyped-def]
    """Activate a thread's share of the rows and pack them.

    parameters: float32 (N, parameter_floats). coefficients: harmonics per channel to use, at most
    as many as a row holds. geometry: float32 (B, 12, 16). colors: float32, flat, room for
    B * 3 * coefficients * 16. active: float32 (N, ACTIVE_FLOATS).
    """
    n = parameters.shape[0]
    mean, scale = np.empty(3, np.float64), np.empty(3, np.float64)
    rotation = np.empty(9, np.float64)
    blocks = geometry.shape[0]
    for block in range(blocks * thread // threads, blocks * (thread + 1) // threads):
        for lane in range(LANES):
            i = block * LANES + lane
            if i >= n:
                geometry[block, GEOMETRY_EXTENT2, lane] = np.float32(-1.0)
                continue
            for k in range(3):
                mean[k] = parameters[i, MEAN + k]
                active[i, ACTIVE_SCALE + k] = math.exp(parameters[i, LOG_SCALE + k])
                scale[k] = active[i, ACTIVE_SCALE + k]
            w, x = np.float64(parameters[i, QUATERNION]), np.float64(parameters[i, QUATERNION + 1])
            y = np.float64(parameters[i, QUATERNION + 2])
            z = np.float64(parameters[i, QUATERNION + 3])
            inverse = 1.0 / math.sqrt(w * w + x * x + y * y + z * z + 1e-30)
            w, x, y, z = w * inverse, x * inverse, y * inverse, z * inverse
            active[i, ACTIVE_QUATERNION] = w
            active[i, ACTIVE_QUATERNION + 1] = x
            active[i, ACTIVE_QUATERNION + 2] = y
            active[i, ACTIVE_QUATERNION + 3] = z
            active[i, ACTIVE_INVERSE_NORM] = inverse
            _rotation(w, x, y, z, rotation)
            opacity = 1.0 / (1.0 + math.exp(-np.float64(parameters[i, LOGIT])))
            _put_geometry(geometry, block, lane, mean, rotation, scale, opacity)
            for channel in range(3):
                first = (block * 3 + channel) * coefficients
                for k in range(coefficients):
                    value = parameters[i, HARMONICS + 3 * k + channel]
                    colors[(first + k) * LANES + lane] = value


@kernel
def pack_editable(means, rotations, scales, opacities, final_colors, geometry, colors):  # type: ignore[no-untyped-def]
    """Pack Gaussians whose activated values are given.

    means, scales, final_colors: float32 (n, 3). rotations: float64 (n, 9), rows of the rotation
    matrices. opacities: float32 (n,). geometry: float32 (B, 12, 16). colors: float32 (B, 3, 16).
    """
    n = means.shape[0]
    for i in range(geometry.shape[0] * LANES):
        block, lane = i // LANES, i % LANES
        if i >= n:
            geometry[block, GEOMETRY_EXTENT2, lane] = np.float32(-1.0)
            continue
        opacity = np.float64(opacities[i])
        _put_geometry(geometry, block, lane, means[i], rotations[i], scales[i], opacity)
        for channel in range(3):
            colors[block, channel, lane] = final_colors[i, channel]


@helper
def _put_geometry(geometry, block, lane, mean, rotation, scale, opacity):  # type: ignore[no-untyped-def]
    """One Gaussian's lane of the geometry planes; mirrors `records.pack_scene`."""
    for k in range(3):
        geometry[block, GEOMETRY_MEAN + k, lane] = mean[k]
    plane = GEOMETRY_COVARIANCE
    for row in range(3):
        for column in range(row, 3):
            total = 0.0
            for k in range(3):
                s = np.float64(scale[k])
                total += (rotation[3 * row + k] * s) * (rotation[3 * column + k] * s)
            geometry[block, plane, lane] = total
            plane += 1
    bounded = max(opacity, _TINY)
    geometry[block, GEOMETRY_LOG2_OPACITY, lane] = math.log2(bounded)
    geometry[block, GEOMETRY_EXTENT2, lane] = 2.0 * math.log(bounded / ALPHA_CUT)
    geometry[block, GEOMETRY_OPACITY, lane] = opacity


@helper
def _rotation(w, x, y, z, matrix):  # type: ignore[no-untyped-def]
    """A unit quaternion to the nine entries of its rotation matrix, row by row."""
    matrix[0] = 1 - 2 * (y * y + z * z)
    matrix[1] = 2 * (x * y - w * z)
    matrix[2] = 2 * (x * z + w * y)
    matrix[3] = 2 * (x * y + w * z)
    matrix[4] = 1 - 2 * (x * x + z * z)
    matrix[5] = 2 * (y * z - w * x)
    matrix[6] = 2 * (x * z - w * y)
    matrix[7] = 2 * (y * z + w * x)
    matrix[8] = 1 - 2 * (x * x + y * y)
