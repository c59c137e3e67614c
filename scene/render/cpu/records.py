"""The two layouts that the CPU kernels work on: the packed scene and the records of a view.

PACKED SCENE, made once per scene by `pack_scene`. Gaussians are put in Morton order (neighbours
in space become neighbours in memory, so that whole blocks fall out of view together) and cut into
blocks of 16, the kernels' vector width. A block stores its 16 values of one quantity side by side
("array of structures of arrays"):

    geometry[block, plane, lane]   float32, 12 planes, named by the GEOMETRY_* constants
    colors[block, plane, lane]     float32, 3 K planes, plane = channel * K + coefficient

The last block is filled up with invisible Gaussians. Packed position p = 16 * block + lane is
Gaussian `order[p]` of the scene.

RECORDS, made anew for every view: the visible Gaussians, one row of 16 float32 (one cache line)
each, in depth order, nearest first; Gaussians of equal depth keep the scene's order. Columns are
named by the constants below. With d = pixel centre - mean, in pixels,

    log2(alpha) = CONIC_A dx^2 + CONIC_B dx dy + CONIC_C dy^2 + LOG2_OPACITY

so CONIC_A = -log2(e) / 2 * inverse covariance xx, CONIC_B = -log2(e) * inverse covariance xy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from scene.gaussians import Gaussians

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int64]
Int32Array = NDArray[np.int32]
UInt32Array = NDArray[np.uint32]

LANES = 16
"""Gaussians per block of the packed scene; also pixels per vector in the blend kernels."""

GEOMETRY_MEAN = 0  # planes 0, 1, 2: x, y, z, world units
GEOMETRY_COVARIANCE = 3  # planes 3 to 8: xx, xy, xz, yy, yz, zz of the 3D covariance
GEOMETRY_LOG2_OPACITY = 9
GEOMETRY_EXTENT2 = (
    10  # squared Mahalanobis radius at which alpha falls to ALPHA_CUT; <= 0: invisible
)
GEOMETRY_OPACITY = 11
GEOMETRY_PLANES = 12

RECORD_FLOATS = 16
MEAN_X = 0  # projected centre, pixels
MEAN_Y = 1
CONIC_A = 2
CONIC_B = 3
CONIC_C = 4
LOG2_OPACITY = 5
RED = 6
GREEN = 7
BLUE = 8
DEPTH = 9  # camera z, world units
EXTENT_X = 10  # half size of the box around the ellipse alpha = ALPHA_CUT, pixels
EXTENT_Y = 11
EXTENT2 = 12  # as GEOMETRY_EXTENT2; 0: not visible
SLOPE_X = 13  # -CONIC_B / (2 CONIC_A): at height dy alpha is largest at dx = SLOPE_X * dy
SLOPE_Y = 14  # -CONIC_B / (2 CONIC_C): in column dx alpha is largest at dy = SLOPE_Y * dx
OPACITY = 15  # as drawn: antialiasing compensation included

ALPHA_CUT = 1.0 / 255.0
"""Gaussians are not blended into pixels where their alpha is below this (gsplat, 3DGS)."""
ALPHA_MAX = 0.999
"""Alpha is clamped to this (gsplat 1.5)."""
TRANSMITTANCE_STOP = 1e-4
"""A pixel is finished before the Gaussian that would bring its transmittance to this or below."""
LOG2_E = 1.4426950408889634


@dataclass(frozen=True, eq=False)
class PackedScene:
    """A scene in the kernels' layout (see the module's text).

    geometry: (B, 12, 16) float32, 64-byte aligned.
    colors: (B, 3 K, 16) float32; K spherical-harmonic coefficients per channel, or, when
        `coefficients` is 0, three planes of final colors that are used as they are.
    coefficients: K = 1, 4, 9 or 16, or 0 for final colors.
    order: (N,) packed position -> index in the scene.
    ids: (16 B,) int32, the same with the filling of the last block (which is never visible).
    """

    geometry: FloatArray
    colors: FloatArray
    coefficients: int
    order: IntArray
    ids: Int32Array

    @property
    def position_of(self) -> IntArray:
        """(N,) index in the scene -> packed position, the inverse of `order`."""
        inverse = np.empty_like(self.order)
        inverse[self.order] = np.arange(len(self.order))
        return inverse

    def recolored(self, colors: FloatArray) -> PackedScene:
        """The same geometry (shared) with final RGB `colors` (N, 3) in the scene's order."""
        colors = np.asarray(colors, dtype=np.float32)
        if colors.shape != (len(self.order), 3):
            raise ValueError(f"colors: wanted shape ({len(self.order)}, 3), found {colors.shape}")
        planes = _blocks(np.nan_to_num(colors[self.order]))
        return replace(self, colors=planes, coefficients=0)


def pack_scene(gaussians: Gaussians) -> PackedScene:
    """Bring a scene into the kernels' layout; rows that are not finite are made invisible."""
    order = morton_order(gaussians.means)
    n = len(order)
    opacities = gaussians.opacities[order].astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        covariances = covariances_3d(gaussians.quats[order], gaussians.scales[order])
        covariances = covariances.astype(np.float32)
    usable = np.isfinite(opacities) & np.isfinite(covariances).all(axis=1)
    usable &= np.isfinite(gaussians.means[order]).all(axis=1)
    usable &= np.isfinite(gaussians.sh[order]).all(axis=(1, 2))
    rows = np.zeros((n, GEOMETRY_PLANES), dtype=np.float64)
    rows[:, 0:3] = gaussians.means[order]
    rows[:, 3:9] = covariances
    rows[:, GEOMETRY_LOG2_OPACITY] = np.log2(np.maximum(opacities, 1e-8))
    rows[:, GEOMETRY_EXTENT2] = extent_squared(opacities)
    rows[:, GEOMETRY_OPACITY] = opacities
    rows[~usable] = 0.0
    rows[~usable, GEOMETRY_EXTENT2] = -1.0
    coefficients = gaussians.sh.shape[1]
    sh = gaussians.sh[order].transpose(0, 2, 1).reshape(n, 3 * coefficients)
    geometry = _blocks(rows)
    ids = np.zeros(len(geometry) * LANES, dtype=np.int32)
    ids[:n] = order
    return PackedScene(geometry, _blocks(np.nan_to_num(sh)), coefficients, order, ids)


def extent_squared(opacities: NDArray[np.floating]) -> NDArray[np.floating]:
    """Squared Mahalanobis radius where opacity * exp(-r^2 / 2) = ALPHA_CUT; <= 0 means nowhere.

    3DGS and gsplat also cap the radius at 3.33: that is the value at opacity 1, so it never acts.
    """
    return 2.0 * np.log(np.maximum(opacities, 1e-8) / ALPHA_CUT)


def covariances_3d(quats: FloatArray, scales: FloatArray) -> NDArray[np.float64]:
    """(N, 4) wxyz and (N, 3) to (N, 6) upper triangles xx, xy, xz, yy, yz, zz of R S S^T R^T."""
    quats64 = quats.astype(np.float64)
    norms = np.linalg.norm(quats64, axis=1, keepdims=True)
    w, x, y, z = (quats64 / np.where(norms > 0, norms, 1.0)).T
    s = scales.astype(np.float64)
    rows = (
        np.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)], axis=1) * s,
        np.stack([2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)], axis=1) * s,
        np.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], axis=1) * s,
    )
    pairs = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
    return np.stack([(rows[i] * rows[j]).sum(axis=1) for i, j in pairs], axis=1)


def morton_order(means: FloatArray) -> IntArray:
    """(N, 3) points to (N,) indices along a 3D Z-curve with 1024 cells a side; stable."""
    points = np.nan_to_num(means.astype(np.float64), posinf=0.0, neginf=0.0)
    if len(points) == 0:
        return np.zeros(0, dtype=np.int64)
    # percentiles, so that a few far outliers do not put the whole scene into one cell
    low, high = np.percentile(points, 1, axis=0), np.percentile(points, 99, axis=0)
    scaled = (points - low) / np.maximum(high - low, 1e-12) * 1023
    cells = np.clip(scaled, 0, 1023).astype(np.uint64)
    code = _spread(cells[:, 0]) | (_spread(cells[:, 1]) << np.uint64(1))
    code |= _spread(cells[:, 2]) << np.uint64(2)
    return np.argsort(code, kind="stable")


def aligned(shape: tuple[int, ...], dtype: type = np.float32) -> NDArray:
    """Zeros that start on a cache line (64 bytes), so that vectors never straddle two."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + 64, dtype=np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size].view(dtype).reshape(shape)


def _blocks(rows: NDArray) -> FloatArray:
    """(N, P) rows to (B, P, 16) blocks, filled up with zero rows."""
    n, planes = rows.shape
    count = (n + LANES - 1) // LANES
    padded = np.zeros((count * LANES, planes), dtype=np.float32)
    padded[:n] = rows
    blocks = aligned((count, planes, LANES))
    blocks[:] = padded.reshape(count, LANES, planes).transpose(0, 2, 1)
    return blocks


def _spread(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Ten bits to every third bit of thirty."""
    for shift, mask in ((16, 0x030000FF), (8, 0x0300F00F), (4, 0x030C30C3), (2, 0x09249249)):
        x = (x | (x << np.uint64(shift))) & np.uint64(mask)
    return x
