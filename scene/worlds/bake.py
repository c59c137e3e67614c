"""Bounced light, computed once per world and kept per vertex."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scene.worlds.light import Daylight
from scene.worlds.merged import MergedSurfaces
from scene.worlds.shading import SunShadow

FloatArray = NDArray[np.float32]

_BLUR_M = 0.3
"""Textures are blurred over this many metres where bounced light meets them."""


@dataclass(frozen=True)
class BakeSettings:
    """rays: per vertex and bounce. bounces: how often light goes on. seed: of the ray angles."""

    rays: int = 96
    bounces: int = 2
    seed: int = 1


def bake_light(merged: MergedSurfaces, daylight: Daylight, settings: BakeSettings) -> FloatArray:
    """(V, 3) irradiance per vertex from the sky and from lit surfaces, without direct sun."""
    rng = np.random.default_rng(settings.seed)
    # sampled a little inside each sheet, since its border often touches another surface
    points = 0.7 * merged.vertices + 0.3 * merged.neighbour_means(merged.vertices)
    points = (points + 2e-3 * merged.normals).astype(np.float32)
    sun = SunShadow(daylight, merged.tracer)
    direct = np.zeros_like(points)
    for _ in range(4):
        jitter = rng.random((len(points), 2), dtype=np.float32)
        direct += sun.irradiance(points, merged.normals, jitter) / 4
    albedo = merged.vertex_albedo(_BLUR_M) / np.float32(np.pi)
    own = direct + merged.glow[merged.surface_of_vertex]
    light = np.zeros_like(points)
    for _ in range(settings.bounces):
        lit_by = _lit_by(merged, daylight, albedo * (own + light))
        light = _gathered(points, merged.normals, lit_by, settings.rays, rng)
    for _ in range(2):
        light = 0.5 * light + 0.5 * merged.neighbour_means(light)
    return light


def _lit_by(
    merged: MergedSurfaces, daylight: Daylight, emitted: FloatArray
) -> Callable[[FloatArray, FloatArray], FloatArray]:
    """Radiance along rays (origins, directions) when each vertex's own, (V, 3), is known."""

    def radiance(origins: FloatArray, directions: FloatArray) -> FloatArray:
        hits = merged.tracer.nearest(origins, directions)
        found = np.empty((len(directions), 3), np.float32)
        sky = hits.triangle < 0
        found[sky] = daylight.sky(directions[sky])
        merged.mixed(emitted, hits, found)
        return found

    return radiance


def _gathered(
    points: FloatArray,
    normals: FloatArray,
    radiance: Callable[[FloatArray, FloatArray], FloatArray],
    rays: int,
    rng: np.random.Generator,
    chunk: int = 1024,
) -> FloatArray:
    """(n, 3) irradiance: pi times the mean radiance over a cosine-weighted hemisphere."""
    i = np.arange(rays)
    lattice = np.stack([(i + 0.5) / rays, (i * 0.6180339887) % 1], axis=1).astype(np.float32)
    turn = rng.random((len(points), 2), dtype=np.float32)
    side = np.where(np.abs(normals[:, 2:]) > 0.9, [[1.0, 0, 0]], [[0, 0, 1.0]])
    tangent = np.cross(normals, side)
    tangent = (tangent / np.linalg.norm(tangent, axis=1, keepdims=True)).astype(np.float32)
    bitangent = np.cross(normals, tangent)
    gathered = np.empty((len(points), 3), np.float32)
    for start in range(0, len(points), chunk):
        part = slice(start, start + chunk)
        x = (lattice[None] + turn[part, None]) % 1
        radius, angle = np.sqrt(x[..., 0]), np.float32(2 * np.pi) * x[..., 1]
        directions = (
            tangent[part, None] * (radius * np.cos(angle))[..., None]
            + bitangent[part, None] * (radius * np.sin(angle))[..., None]
            + normals[part, None] * np.sqrt(1 - x[..., 0])[..., None]
        )
        origins = np.repeat(points[part], rays, axis=0)
        found = radiance(origins, directions.reshape(-1, 3))
        gathered[part] = found.reshape(len(directions), rays, 3).mean(axis=1) * np.float32(np.pi)
    return gathered
