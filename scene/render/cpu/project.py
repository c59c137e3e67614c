"""Kernel: packed scene and camera to the records of what is visible, in packed order."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from scene.camera import Camera
from scene.render.api import RenderSettings
from scene.render.cpu.cache import helper, kernel
from scene.render.cpu.records import (
    DEPTH,
    EXTENT2,
    EXTENT_X,
    EXTENT_Y,
    GEOMETRY_PLANES,
    LANES,
    LOG2_OPACITY,
    OPACITY,
    FloatArray,
    Int32Array,
    UInt32Array,
)
from scene.render.cpu.simd import float_bits
from scene.render.cpu.simd_project import (
    CAMERA_FLOATS,
    COMPENSATION,
    PROJECTED_PLANES,
    colors_degree_0,
    colors_degree_1,
    colors_degree_2,
    colors_degree_3,
    colors_given,
    copy_record,
    project_block,
    transpose_planes,
)

_BLOCK_FLOATS = GEOMETRY_PLANES * LANES


def camera_vector(camera: Camera, settings: RenderSettings) -> NDArray[np.float32]:
    """(CAMERA_FLOATS,) float32: camera and settings in the order that `simd_project` names."""
    rotation, shift = camera.camera_from_world[:3, :3], camera.camera_from_world[:3, 3]
    fx, fy, cx, cy = camera.K[0, 0], camera.K[1, 1], camera.K[0, 2], camera.K[1, 2]
    width, height = camera.width, camera.height
    # gsplat: the Jacobian is taken at most 15 % of the picture outside its edges
    margin_x, margin_y = 0.15 * width / fx, 0.15 * height / fy
    limits = (
        -cx / fx - margin_x,
        (width - cx) / fx + margin_x,
        -cy / fy - margin_y,
        (height - cy) / fy + margin_y,
    )
    parts = (
        rotation.reshape(-1),
        shift,
        (fx, fy, cx, cy),
        limits,
        (width, height, settings.near, settings.low_pass),
        camera.center,
        camera.center - camera.center.astype(np.float32),
    )
    vector = np.concatenate([np.asarray(part, dtype=np.float64) for part in parts])
    assert len(vector) == CAMERA_FLOATS
    return vector.astype(np.float32)


def first_block(blocks: int, thread: int, threads: int) -> int:
    """First block of a thread's share; shares are contiguous and in order."""
    return blocks * thread // threads


@kernel
def project(
    geometry: FloatArray,
    colors: FloatArray,
    coefficients: int,
    scene_ids: Int32Array,
    camera: FloatArray,
    antialiased: bool,
    thread: int,
    threads: int,
    records: FloatArray,
    keys: UInt32Array,
    ids: Int32Array,
) -> int:
    """Project a thread's share of the blocks; returns how many Gaussians of it are visible.

    geometry, colors: flat packed planes. records, keys, ids: the view's rows; a thread writes
    densely from its first block's first row on. keys: uint32 bits of the depth. ids: index in
    the scene. antialiased: opacity is multiplied by the square root of COMPENSATION.
    """
    blocks = geometry.shape[0] // _BLOCK_FLOATS
    color_floats = 3 * max(coefficients, 1) * LANES
    planes = np.empty(PROJECTED_PLANES * LANES, np.float32)
    rows = np.empty(LANES * LANES, np.float32)
    first = blocks * thread // threads
    row = first * LANES
    for block in range(first, blocks * (thread + 1) // threads):
        offset = block * _BLOCK_FLOATS
        visible = project_block(geometry, offset, camera, planes)
        if visible == 0:
            continue
        color_offset = block * color_floats
        if coefficients == 16:
            colors_degree_3(geometry, offset, colors, color_offset, camera, planes)
        elif coefficients == 9:
            colors_degree_2(geometry, offset, colors, color_offset, camera, planes)
        elif coefficients == 4:
            colors_degree_1(geometry, offset, colors, color_offset, camera, planes)
        elif coefficients == 1:
            colors_degree_0(geometry, offset, colors, color_offset, camera, planes)
        else:
            colors_given(geometry, offset, colors, color_offset, camera, planes)
        transpose_planes(planes, rows)
        for lane in range(LANES):
            if (visible >> lane) & 1 == 0:
                continue
            if antialiased and not _compensate(rows, lane, planes[COMPENSATION * LANES + lane]):
                continue
            copy_record(rows, lane, records, row)
            keys[row] = float_bits(rows[lane * LANES + DEPTH])
            ids[row] = scene_ids[block * LANES + lane]
            row += 1
    return row - first * LANES


@helper
def _compensate(rows: FloatArray, lane: int, compensation: float) -> bool:
    """Lower a row's opacity for antialiasing; false if it falls below the alpha cut."""
    if compensation <= np.float32(0.0):
        return False
    start = lane * LANES
    extent2 = rows[start + EXTENT2]
    left = extent2 + math.log(compensation)
    if left <= np.float32(0.0):
        return False
    shrink = math.sqrt(left / extent2)
    rows[start + EXTENT2] = left
    rows[start + EXTENT_X] *= shrink
    rows[start + EXTENT_Y] *= shrink
    rows[start + LOG2_OPACITY] += np.float32(0.5) * math.log2(compensation)
    rows[start + OPACITY] *= math.sqrt(compensation)
    return True
