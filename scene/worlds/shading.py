"""What a ray brings home: Lambert surfaces, sun with soft shadow, clear coat, window panes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scene.worlds.light import Daylight
from scene.worlds.merged import MergedSurfaces, Samples
from scene.worlds.surfaces import Surface
from scene.worlds.tracer import Hits, Tracer

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Shaded:
    """Light that n rays bring to the eye.

    color: (n, 3) radiance. diffuse_gain: (n, 3) change of color per change of albedo. known: what
    the rays hit.
    """

    color: FloatArray
    diffuse_gain: FloatArray
    known: Samples


class SunShadow:
    """Visibility of the sun's disc."""

    def __init__(self, daylight: Daylight, tracer: Tracer) -> None:
        self._tracer = tracer
        self._direction = daylight.sun_direction
        self._irradiance = daylight.sun_irradiance
        side = np.cross(self._direction, [0.3, 0.5, 0.8])
        side /= np.linalg.norm(side)
        self._axes = np.stack([side, np.cross(self._direction, side)]).astype(np.float32)
        self._radius = np.float32(np.tan(np.radians(daylight.sun_diameter_deg / 2)))

    def irradiance(self, points: FloatArray, normals: FloatArray, jitter: FloatArray) -> FloatArray:
        """(n, 3) direct sunlight; jitter (n, 2) in [0, 1) picks the point of the sun's disc."""
        from scene.worlds.kernels import sun_rays

        cosine = normals @ self._direction
        visible = np.zeros(len(points), np.float32)
        facing = np.flatnonzero(cosine > 0)
        if len(facing) and self._irradiance.max() > 0:
            toward = np.empty((len(facing), 3), np.float32)
            sun_rays(facing, jitter, self._direction, self._axes, self._radius, toward)
            free = ~self._tracer.blocked(points[facing], toward)
            visible[facing] = free * cosine[facing]
        return visible[:, None] * self._irradiance


class GlassPanes:
    """Flat panes, kept apart from the opaque surfaces so that they cast no shadow."""

    def __init__(self, panes: Sequence[Surface]) -> None:
        starts = np.cumsum([0] + [len(pane.vertices) for pane in panes[:-1]])
        faces = np.concatenate([p.faces + s for p, s in zip(panes, starts, strict=True)])
        self._tracer = Tracer(np.concatenate([pane.vertices for pane in panes]), faces)
        normals = np.concatenate([pane.normals for pane in panes])
        self._normals = normals[faces[:, 0]].astype(np.float32)

    def before(
        self, hits: Hits, origins: FloatArray, directions: FloatArray
    ) -> tuple[IntArray, FloatArray, FloatArray]:
        """Rays that cross a pane before `hits`: indices (m,), distances (m,), facing normals."""
        panes = self._tracer.nearest(origins, directions)
        opaque = np.where(hits.triangle >= 0, hits.distance, np.inf)
        seen = np.flatnonzero((panes.triangle >= 0) & (panes.distance < opaque))
        normals = self._normals[panes.triangle[seen]]
        away = np.where((normals * directions[seen]).sum(axis=1) > 0, -1, 1).astype(np.float32)
        return seen, panes.distance[seen], normals * away[:, None]


class Shader:
    """Shades rays against merged surfaces with baked light."""

    def __init__(
        self,
        merged: MergedSurfaces,
        daylight: Daylight,
        baked: FloatArray,
        panes: GlassPanes | None,
    ) -> None:
        self._merged = merged
        self._daylight = daylight
        self._baked = baked
        self._panes = panes
        self._sun = SunShadow(daylight, merged.tracer)

    def radiance(
        self, origins: FloatArray, directions: FloatArray, spacing: float, jitter: FloatArray
    ) -> Shaded:
        """Shade rays with one mirror bounce on glossy surfaces and panes.

        origins, directions: (n, 3), unit. spacing: metres between samples at distance 1.
        jitter: (n, 2) in [0, 1), for the sun's disc.
        """
        hits = self._merged.tracer.nearest(origins, directions)
        shaded = self._diffuse(hits, origins, directions, spacing, jitter)
        self._add_clear_coat(shaded, directions, jitter)
        if self._panes is not None:
            seen, distance, normals = self._panes.before(hits, origins, directions)
            # a pane has two faces; sight through it never vanishes
            share = np.minimum(1.6 * _fresnel(normals, directions[seen]), 0.6)
            points = origins[seen] + directions[seen] * distance[:, None]
            self._mix_mirror(shaded, seen, share, points, normals, directions, jitter)
        return shaded

    def _diffuse(
        self,
        hits: Hits,
        origins: FloatArray,
        directions: FloatArray,
        spacing: float,
        jitter: FloatArray,
    ) -> Shaded:
        """Lambert shading: baked light, glow and the sun; then haze."""
        from scene.worlds.kernels import hazed_colors

        origins = np.ascontiguousarray(origins, np.float32)
        dither = np.ascontiguousarray(jitter[:, 0])
        known = self._merged.samples(hits, origins, directions, spacing, dither, self._baked)
        lift = (1e-3 + 1e-4 * hits.distance).astype(np.float32)
        lifted = known.points + known.flat_normals * lift[:, None]
        light = known.light + self._sun.irradiance(lifted, known.normals, jitter)
        color = np.empty((len(directions), 3), np.float32)
        sky = np.flatnonzero(known.surface < 0)
        color[sky] = self._daylight.sky(directions[sky])
        gain = np.zeros_like(color)
        hazed_colors(
            known.surface, hits.distance, light, known.albedo,
            self._daylight.haze_m, self._daylight.haze_color, gain, color,
        )  # fmt: skip
        return Shaded(color, gain, known)

    def _add_clear_coat(self, shaded: Shaded, directions: FloatArray, jitter: FloatArray) -> None:
        known, gloss = shaded.known, self._merged.gloss
        glossy = np.flatnonzero((known.surface >= 0) & (gloss[known.surface] > 0))
        if len(glossy):
            normals = known.normals[glossy]
            share = gloss[known.surface[glossy]] * _fresnel(normals, directions[glossy])
            points = known.points[glossy] + known.flat_normals[glossy] * np.float32(2e-3)
            self._mix_mirror(shaded, glossy, share, points, normals, directions, jitter)

    def _mix_mirror(
        self,
        shaded: Shaded,
        index: IntArray,
        share: FloatArray,
        points: FloatArray,
        normals: FloatArray,
        directions: FloatArray,
        jitter: FloatArray,
    ) -> None:
        """Replace `share` (m,) of the color of rays `index` by what the mirror direction shows."""
        if len(index) == 0:
            return
        along = directions[index]
        away = along - 2 * (along * normals).sum(axis=1, keepdims=True) * normals
        away /= np.linalg.norm(away, axis=1, keepdims=True)
        start = points + normals * np.float32(2e-3)
        hits = self._merged.tracer.nearest(start, away)
        mirrored = self._diffuse(hits, start, away, 4e-3, jitter[index])
        kept = (1 - share)[:, None].astype(np.float32)
        shaded.diffuse_gain[index] *= kept
        shaded.color[index] = kept * shaded.color[index] + (1 - kept) * mirrored.color


def _fresnel(normals: FloatArray, directions: FloatArray) -> FloatArray:
    """(n,) Schlick's reflectance of a clear coat or glass with refractive index 1.5."""
    facing = np.clip(-(normals * directions).sum(axis=1), 0, 1)
    share: FloatArray = (0.04 + 0.96 * (1 - facing) ** 5).astype(np.float32)
    return share
