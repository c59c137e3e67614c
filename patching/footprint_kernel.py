"""Kernel: how much of each pixel a patch on a plane fills, and how much of it is seen."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scene.render.cpu.cache import exact_kernel


@exact_kernel
def count_plane_rays(
    lines: NDArray[np.float64],
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    scene: NDArray[np.float32],
    slack: tuple[np.float32, np.float32],
    filled: NDArray[np.int32],
    shown: NDArray[np.int32],
) -> None:
    """Count each pixel's sub-pixel rays that meet the patch, and those that nothing hides.

    lines: (3, 4), for the plane's normal and the patch's axes u and v divided by its width and
    height: the dot products with the camera's right, down and forward, and of the way
    from the camera to the plane (normal), or from the patch's corner (0, 0) to the camera (axes).
    x: (W * ss,), y: (H * ss,) sub-pixels at unit depth. scene: (H, W) depth, 0 where there is
    nothing. slack: share of the scene's depth, and its upper limit in world units, by which the
    scene may lie before the patch. filled, shown: (H, W), written.
    """
    height, width = filled.shape
    steps = len(x) // width
    n0, n1, n2, gap = lines[0, 0], lines[0, 1], lines[0, 2], lines[0, 3]
    u0, u1, u2, at_u = lines[1, 0], lines[1, 1], lines[1, 2], lines[1, 3]
    v0, v1, v2, at_v = lines[2, 0], lines[2, 1], lines[2, 2], lines[2, 3]
    for row in range(height):
        for column in range(width):
            limit = scene[row, column]
            solid = limit > 0
            limit += min(slack[0] * limit, slack[1])
            met, seen = 0, 0
            for i in range(row * steps, (row + 1) * steps):
                for j in range(column * steps, (column + 1) * steps):
                    slope = n0 * x[j] + n1 * y[i] + n2
                    if slope * slope <= 1e-18 * (x[j] * x[j] + y[i] * y[i] + 1.0):
                        continue
                    depth = gap / slope
                    u = at_u + depth * (u0 * x[j] + u1 * y[i] + u2)
                    v = at_v + depth * (v0 * x[j] + v1 * y[i] + v2)
                    if depth > 0 and 0 <= u <= 1 and 0 <= v <= 1:
                        met += 1
                        seen += not solid or depth <= limit
            filled[row, column] = met
            shown[row, column] = seen
