"""What a ray brings home: Lambert surfaces, sun with soft shadow, clear coat, window panes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scene.worlds.light import Daylight
from scene.worlds.merged import MergedSurfaces
from scene.worlds.surfaces import Surface
from scene.worlds.tracer import Hits, Tracer

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Shaded:
    """Light that n rays bring to the eye.

    color: (n, 3) radiance. albedo: (n, 3). diffuse_gain: (n, 3) change of color per change of
    albedo. points: (n, 3). footprint: (n,) metres across a sample. surface: (n,) index, -1 sky.
    """

    color: FloatArray
    albedo: FloatArray
    diffuse_gain: FloatArray
    points: FloatArray
    footprint: FloatArray
    surface: IntArray


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
        cosine = normals @ self._direction
        visible = np.zeros(len(points), np.float32)
        facing = np.flatnonzero(cosine > 0)
        if len(facing) and self._irradiance.max() > 0:
            radius = np.sqrt(jitter[facing, :1]) * self._radius
            angle = np.float32(2 * np.pi) * jitter[facing, 1:]
            spread = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
            toward = self._direction + spread @ self._axes
            toward /= np.linalg.norm(toward, axis=1, keepdims=True)
            free = ~self._tracer.blocked(points[facing], toward.astype(np.float32))
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
        self._add_clear_coat(shaded, hits, directions, jitter)
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
        merged, hit = self._merged, np.flatnonzero(hits.triangle >= 0)
        n = len(directions)
        shaded = Shaded(
            color=np.empty((n, 3), np.float32),
            albedo=np.zeros((n, 3), np.float32),
            diffuse_gain=np.zeros((n, 3), np.float32),
            points=np.zeros((n, 3), np.float32),
            footprint=np.zeros(n, np.float32),
            surface=np.full(n, -1, np.int64),
        )
        sky = hits.triangle < 0
        shaded.color[sky] = self._daylight.sky(directions[sky])
        surface = merged.surface_of_face[hits.triangle[hit]]
        distance, along = hits.distance[hit], directions[hit]
        points = origins[hit] + along * distance[:, None]
        normals, flat = merged.facing_normals(hits, hit, along)
        slant = np.maximum(-(along * flat).sum(axis=1), 0.05)
        footprint = distance * np.float32(spacing) / np.sqrt(slant)
        lifted = points + flat * (1e-3 + 1e-4 * distance)[:, None]
        light = merged.mixed(self._baked, hits, hit) + merged.glow[surface]
        light += self._sun.irradiance(lifted, normals, jitter[hit])
        clear = np.exp(-distance / np.float32(self._daylight.haze_m))[:, None]
        gain = light * clear / np.float32(np.pi)
        albedo = merged.albedo(hits, hit, footprint, jitter[hit, 0])
        shaded.albedo[hit], shaded.diffuse_gain[hit] = albedo, gain
        shaded.points[hit], shaded.footprint[hit] = points, footprint
        shaded.surface[hit] = surface
        shaded.color[hit] = albedo * gain + (1 - clear) * self._daylight.haze_color
        return shaded

    def _add_clear_coat(
        self, shaded: Shaded, hits: Hits, directions: FloatArray, jitter: FloatArray
    ) -> None:
        gloss = self._merged.gloss
        glossy = np.flatnonzero((shaded.surface >= 0) & (gloss[shaded.surface] > 0))
        if len(glossy):
            normals, flat = self._merged.facing_normals(hits, glossy, directions[glossy])
            share = gloss[shaded.surface[glossy]] * _fresnel(normals, directions[glossy])
            points = shaded.points[glossy] + flat * np.float32(2e-3)
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
