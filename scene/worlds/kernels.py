"""The inner loops of shading, compiled: what numpy would do in many passes over memory."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from scene.render.cpu.cache import helper, kernel

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int32]


@kernel
def mixed_values(
    per_vertex: FloatArray,
    faces: IntArray,
    triangle: IntArray,
    b1: FloatArray,
    b2: FloatArray,
    out: FloatArray,
) -> None:
    """Interpolate (V, 3) values at hits into out (n, 3); rays that hit nothing are left alone."""
    for i in range(len(triangle)):
        face = triangle[i]
        if face < 0:
            continue
        w1, w2 = b1[i], b2[i]
        w0 = np.float32(1) - w1 - w2
        a, b, c = faces[face, 0], faces[face, 1], faces[face, 2]
        for k in range(3):
            out[i, k] = per_vertex[a, k] * w0 + per_vertex[b, k] * w1 + per_vertex[c, k] * w2


@helper
def _texel(
    texels: FloatArray,
    start: int,
    width: int,
    height: int,
    u: float,
    v: float,
    tint: FloatArray,
    out: FloatArray,
    i: int,
) -> None:
    """Bilinear, repeating texture color times tint into out[i]."""
    x = u * width - np.float32(0.5)
    y = (np.float32(1) - v) * height - np.float32(0.5)
    x0, y0 = math.floor(x), math.floor(y)
    fx, fy = np.float32(x - x0), np.float32(y - y0)
    left, top = int(x0) % width, int(y0) % height
    right = left + 1 if left + 1 < width else 0
    bottom = top + 1 if top + 1 < height else 0
    upper, lower = start + top * width, start + bottom * width
    for k in range(3):
        above = texels[upper + left, k] * (1 - fx) + texels[upper + right, k] * fx
        below = texels[lower + left, k] * (1 - fx) + texels[lower + right, k] * fx
        out[i, k] = tint[k] * (above * (1 - fy) + below * fy)


@kernel
def surface_samples(
    # rays and their hits
    origins: FloatArray,
    directions: FloatArray,
    triangle: IntArray,
    distance: FloatArray,
    b1: FloatArray,
    b2: FloatArray,
    dither: FloatArray,
    spacing: float,
    # geometry
    faces: IntArray,
    surface_of_face: IntArray,
    flat_normals: FloatArray,
    normals: FloatArray,
    uv: FloatArray,
    baked: FloatArray,
    # materials, per surface
    glow: FloatArray,
    tint: FloatArray,
    density: FloatArray,
    texture: IntArray,
    # textures
    texels: FloatArray,
    start: NDArray[np.int64],
    width: IntArray,
    height: IntArray,
    levels: IntArray,
    # results per ray
    out_points: FloatArray,
    out_normals: FloatArray,
    out_flat: FloatArray,
    out_light: FloatArray,
    out_albedo: FloatArray,
    out_footprint: FloatArray,
    out_surface: NDArray[np.int64],
) -> None:
    """Everything about hit points that needs no further ray.

    Points, smooth and flat normals on the side that is looked at, baked light with glow, albedo,
    footprint (metres across a sample) and surface index; zeros and -1 where nothing was hit.
    """
    for i in range(len(triangle)):
        face = triangle[i]
        out_surface[i] = -1
        if face < 0:
            continue
        surface = surface_of_face[face]
        out_surface[i] = surface
        w1, w2 = b1[i], b2[i]
        w0 = np.float32(1) - w1 - w2
        a, b, c = faces[face, 0], faces[face, 1], faces[face, 2]
        facing = np.float32(0)
        agree = np.float32(0)
        length = np.float32(0)
        for k in range(3):
            out_points[i, k] = origins[i, k] + directions[i, k] * distance[i]
            smooth = normals[a, k] * w0 + normals[b, k] * w1 + normals[c, k] * w2
            out_normals[i, k] = smooth
            flat = flat_normals[face, k]
            facing += flat * directions[i, k]
            agree += flat * smooth
            length += smooth * smooth
            out_light[i, k] = baked[a, k] * w0 + baked[b, k] * w1 + baked[c, k] * w2
            out_light[i, k] += glow[surface, k]
        away = np.float32(-1) if facing > 0 else np.float32(1)
        turn = (-away if agree < 0 else away) / np.sqrt(max(length, np.float32(1e-20)))
        for k in range(3):
            out_flat[i, k] = flat_normals[face, k] * away
            out_normals[i, k] *= turn
        slant = max(abs(facing), np.float32(0.05))
        footprint = distance[i] * spacing / np.sqrt(slant)
        out_footprint[i] = footprint
        kind = texture[surface]
        wanted = math.log2(max(footprint * density[surface], 1e-6)) + dither[i]
        level = min(max(math.floor(wanted), 0), levels[kind] - 1)
        _texel(
            texels, start[kind, level], width[kind, level], height[kind, level],
            uv[a, 0] * w0 + uv[b, 0] * w1 + uv[c, 0] * w2,
            uv[a, 1] * w0 + uv[b, 1] * w1 + uv[c, 1] * w2,
            tint[surface], out_albedo, i,
        )  # fmt: skip


@kernel
def sun_rays(
    facing: NDArray[np.int64],
    jitter: FloatArray,
    sun: FloatArray,
    axes: FloatArray,
    radius: float,
    out: FloatArray,
) -> None:
    """Unit directions from points `facing` (m,) to points of the sun's disc, into out (m, 3)."""
    for j in range(len(facing)):
        i = facing[j]
        r = math.sqrt(jitter[i, 0]) * radius
        angle = 2 * math.pi * jitter[i, 1]
        p, q = r * math.cos(angle), r * math.sin(angle)
        length = 0.0
        for k in range(3):
            out[j, k] = sun[k] + p * axes[0, k] + q * axes[1, k]
            length += out[j, k] * out[j, k]
        for k in range(3):
            out[j, k] /= math.sqrt(length)


@kernel
def hazed_colors(
    surface: NDArray[np.int64],
    distance: FloatArray,
    light: FloatArray,
    albedo: FloatArray,
    haze_m: float,
    haze: FloatArray,
    out_gain: FloatArray,
    out_color: FloatArray,
) -> None:
    """Lambert's reflection of `light`, seen through haze; rays that hit nothing are left alone."""
    for i in range(len(surface)):
        if surface[i] < 0:
            continue
        clear = math.exp(-distance[i] / haze_m)
        for k in range(3):
            gain = light[i, k] * clear / math.pi
            out_gain[i, k] = gain
            out_color[i, k] = albedo[i, k] * gain + (1 - clear) * haze[k]
