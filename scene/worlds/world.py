"""A world: surfaces and daylight, prepared once, from which photos are taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scene.camera import Camera
from scene.worlds.bake import BakeSettings, bake_light
from scene.worlds.decal import Decal, DecalPainter
from scene.worlds.light import Daylight
from scene.worlds.merged import MergedSurfaces
from scene.worlds.shading import GlassPanes, Shaded, Shader
from scene.worlds.surfaces import Surface
from scene.worlds.textures import linear_to_srgb

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int64]

_RAYS_PER_CHUNK = 60_000
_JITTER_TILE = 64


@dataclass(frozen=True)
class Exposure:
    """What the camera makes of light: gain (linear), white balance (linear factors)."""

    gain: float = 0.75
    white_balance: tuple[float, float, float] = (1.0, 1.0, 1.0)

    def develop(self, light: FloatArray) -> FloatArray:
        """Linear light, already averaged over pixels, to sRGB in [0, 1]."""
        return linear_to_srgb(light * (self.gain * np.asarray(self.white_balance, np.float32)))


class World:
    """Opaque surfaces and panes of glass under daylight.

    Panes never cast shadows: they are drawn as reflections over what lies behind them.
    """

    def __init__(
        self,
        surfaces: Sequence[Surface],
        daylight: Daylight,
        panes: Sequence[Surface] = (),
        bake: BakeSettings | None = None,
        baked: FloatArray | None = None,
    ) -> None:
        """`baked`: the light of an equal world (its `baked`), where that is at hand."""
        self.names = tuple(surface.name for surface in surfaces)
        self.daylight = daylight
        self._merged = MergedSurfaces(surfaces)
        if baked is None:
            baked = bake_light(self._merged, daylight, bake or BakeSettings())
        self.baked = baked
        glass = GlassPanes(panes) if panes else None
        self._shader = Shader(self._merged, daylight, baked, glass)

    def photo(
        self,
        camera: Camera,
        samples_per_axis: int = 3,
        exposure: Exposure | None = None,
        decals: Sequence[Decal] = (),
    ) -> FloatArray:
        """(H, W, 3) sRGB float32 in [0, 1]; each pixel the mean of samples_per_axis^2 samples."""
        return self._expose(camera, samples_per_axis, exposure or Exposure(), decals)[1]

    def photo_and_surfaces(
        self,
        camera: Camera,
        samples_per_axis: int = 3,
        exposure: Exposure | None = None,
        decals: Sequence[Decal] = (),
    ) -> tuple[FloatArray, IntArray]:
        """A `photo` and the `surface_map` of its own samples, in one pass."""
        surfaces = np.empty(
            (camera.height * samples_per_axis, camera.width * samples_per_axis), np.int64
        )
        exposure = exposure or Exposure()
        return self._expose(camera, samples_per_axis, exposure, decals, surfaces)[1], surfaces

    def photo_pair(
        self,
        camera: Camera,
        decal: Decal,
        samples_per_axis: int = 3,
        exposure: Exposure | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """The same photo without and with `decal`: same samples, same light, one pass."""
        return self._expose(camera, samples_per_axis, exposure or Exposure(), [decal])

    def surface_map(self, camera: Camera, samples_per_axis: int = 1) -> IntArray:
        """(H * samples, W * samples) index into `names` seen by each sample, -1 for the sky."""
        directions = _sample_rays(camera, samples_per_axis, 0, camera.height)
        origins = np.broadcast_to(camera.center.astype(np.float32), directions.shape)
        triangles = self._merged.tracer.nearest(origins, directions).triangle
        seen = np.where(triangles >= 0, self._merged.surface_of_face[triangles], -1)
        return seen.reshape(camera.height * samples_per_axis, -1)

    def depth(self, camera: Camera) -> FloatArray:
        """(H, W) camera z in metres at pixel centres, inf for the sky; panes are looked through."""
        directions = _sample_rays(camera, 1, 0, camera.height)
        origins = np.broadcast_to(camera.center.astype(np.float32), directions.shape)
        hits = self._merged.tracer.nearest(origins, directions)
        z = hits.distance * (directions @ camera.forward.astype(np.float32))
        z = np.where(hits.triangle >= 0, z, np.inf).astype(np.float32)
        return z.reshape(camera.height, camera.width)

    def look(
        self, camera: Camera, pixels: NDArray[np.floating]
    ) -> tuple[FloatArray, FloatArray, IntArray]:
        """What pixels (n, 2) show: points (n, 3), radiance (n, 3), surface (n,), -1 for the sky."""
        directions = camera.rays(pixels)
        directions = (directions / np.linalg.norm(directions, axis=1, keepdims=True)).astype("f4")
        origins = np.broadcast_to(camera.center.astype(np.float32), directions.shape)
        jitter = np.full((len(pixels), 2), 0.5, np.float32)
        shaded = self._shader.radiance(origins, directions, 1 / camera.K[0, 0], jitter)
        return shaded.known.points, shaded.color, shaded.known.surface

    def _expose(
        self,
        camera: Camera,
        samples: int,
        exposure: Exposure,
        decals: Sequence[Decal],
        surfaces: IntArray | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """The photo without and with the decals; `surfaces` is filled where it is given."""
        side = samples * _JITTER_TILE
        tile = np.random.default_rng(7).random((side, side, 2), dtype=np.float32)
        painters = [(self._index(decal.surface), decal.painter()) for decal in decals]
        clean = np.empty((camera.height, camera.width, 3), np.float32)
        decorated = clean.copy() if decals else clean
        rows = max(1, _RAYS_PER_CHUNK // (camera.width * samples**2))
        for top in range(0, camera.height, rows):
            bottom = min(camera.height, top + rows)
            directions = _sample_rays(camera, samples, top, bottom)
            origins = np.broadcast_to(camera.center.astype(np.float32), directions.shape)
            jitter = _stratified_jitter(tile, camera.width, samples, top, bottom)
            spacing = 1 / (camera.K[0, 0] * samples)
            shaded = self._shader.radiance(origins, directions, spacing, jitter)
            if surfaces is not None:
                surfaces[top * samples : bottom * samples] = shaded.known.surface.reshape(
                    -1, camera.width * samples
                )
            clean[top:bottom] = _pixel_means(shaded.color, camera.width, samples)
            if decals:
                color = _with_decals(shaded, painters)
                decorated[top:bottom] = _pixel_means(color, camera.width, samples)
        developed = exposure.develop(clean)
        return developed, exposure.develop(decorated) if decals else developed

    def _index(self, name: str) -> int:
        if name not in self.names:
            raise ValueError(f"no surface is called {name!r}")
        return self.names.index(name)


def _sample_rays(camera: Camera, samples: int, top: int, bottom: int) -> FloatArray:
    """Unit directions of the regular samples of rows [top, bottom), row-major."""
    x = (np.arange(camera.width * samples) + 0.5) / samples
    y = (np.arange(top * samples, bottom * samples) + 0.5) / samples
    pixels = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    directions = camera.rays(pixels)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return directions.astype(np.float32)


def _stratified_jitter(
    tile: FloatArray, width: int, samples: int, top: int, bottom: int
) -> FloatArray:
    """(n, 2) in [0, 1): the samples of one pixel cover the sun's disc evenly."""
    rows = np.arange(top * samples, bottom * samples)[:, None]
    columns = np.arange(width * samples)[None]
    random = tile[rows % len(tile), columns % len(tile)]
    order = ((rows % samples) * samples + columns % samples).astype(np.float32)
    first = (order + random[..., 0]) / np.float32(samples**2)
    second = (order * np.float32(0.61803399) + random[..., 1] / np.float32(samples)) % 1
    return np.stack([first, second], axis=-1).reshape(-1, 2)


def _pixel_means(color: FloatArray, width: int, samples: int) -> FloatArray:
    """Box filter in linear light; single samples are capped so that no glint outshines a pixel."""
    capped = np.minimum(color, np.float32(3.0)).reshape(-1, samples, width, samples, 3)
    means: FloatArray = capped.mean(axis=(1, 3))
    return means


def _with_decals(shaded: Shaded, painters: Sequence[tuple[int, DecalPainter]]) -> FloatArray:
    """Colors with the decals' albedo in place of the surface's; the light stays the same."""
    color = shaded.color.copy()
    for surface, painter in painters:
        hit = np.flatnonzero(shaded.known.surface == surface)
        if len(hit):
            albedo = shaded.known.albedo[hit]
            points, footprint = shaded.known.points[hit], shaded.known.footprint[hit]
            painted = painter.paint(albedo, points, footprint)
            color[hit] += (painted - albedo) * shaded.diffuse_gain[hit]
            shaded.known.albedo[hit] = painted
    return color
