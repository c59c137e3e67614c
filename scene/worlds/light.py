"""Sun, sky and haze."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scene.worlds.noise import fractal_noise
from scene.worlds.surfaces import Color

FloatArray = NDArray[np.float32]


@dataclass(frozen=True)
class Daylight:
    """The light of a world, in linear units where sunlit white paper is about 1.5.

    sun_azimuth_deg: where the sun stands, counter-clockwise from +x seen from above.
    sun_elevation_deg: above the horizon. sun: irradiance on a surface facing it. overcast: 0 blue
    sky with a few clouds, 1 gray sky and no sun. haze_m: distance at which 63 % of an object's
    color is the horizon's. cloud_seed: which clouds.
    """

    sun_azimuth_deg: float = -128.0
    sun_elevation_deg: float = 43.0
    sun: Color = (4.2, 3.75, 3.0)
    sun_diameter_deg: float = 1.0
    overcast: float = 0.0
    zenith: Color = (0.24, 0.42, 0.80)
    horizon: Color = (0.66, 0.75, 0.86)
    clouds: float = 0.75
    cloud_seed: int = 90
    haze_m: float = 420.0

    @property
    def sun_direction(self) -> FloatArray:
        """(3,) unit vector towards the sun."""
        azimuth, elevation = np.radians(self.sun_azimuth_deg), np.radians(self.sun_elevation_deg)
        return np.array(
            [
                np.cos(elevation) * np.cos(azimuth),
                np.cos(elevation) * np.sin(azimuth),
                np.sin(elevation),
            ],
            dtype=np.float32,
        )

    @property
    def sun_irradiance(self) -> FloatArray:
        """(3,) what reaches the ground through the clouds, facing the sun."""
        return np.asarray(self.sun, np.float32) * np.float32((1 - self.overcast) ** 1.5)

    @property
    def haze_color(self) -> FloatArray:
        """(3,) radiance of the sky just above the horizon."""
        gray = np.full(3, 0.72, np.float32)
        horizon = np.asarray(self.horizon, np.float32)
        return horizon * (1 - np.float32(self.overcast)) + gray * np.float32(self.overcast)

    def sky(self, directions: FloatArray) -> FloatArray:
        """(n, 3) radiance of the sky along unit directions (n, 3)."""
        up = np.clip(directions[:, 2], 0, 1)
        gray = np.array([0.80, 0.82, 0.86], np.float32)
        top = np.asarray(self.zenith, np.float32) * (1 - self.overcast) + gray * self.overcast
        low = ((1 - up) ** 5)[:, None].astype(np.float32)
        color = top * (1 - low) + self.haze_color * low
        cover = self._cloud_cover(directions, up)[:, None]
        color = color * (1 - cover) + np.array([0.95, 0.95, 0.96], np.float32) * cover
        toward_sun = np.clip(directions @ self.sun_direction, 0, 1)
        glow = (toward_sun**24 * 0.35 * (1 - self.overcast))[:, None]
        return (color + glow * np.array([1.0, 0.95, 0.85])).astype(np.float32)

    def _cloud_cover(self, directions: FloatArray, up: FloatArray) -> FloatArray:
        if self.clouds <= 0:
            return np.zeros(len(up), np.float32)
        clouds = fractal_noise(512, self.cloud_seed, coarsest=3, octaves=6)
        plane = directions[:, :2] / (up + 0.16)[:, None] * 0.12
        rows, columns = ((plane[:, i] * 512).astype(np.int64) % 512 for i in (1, 0))
        cover = np.clip((clouds[rows, columns] - 0.47) * 3.5, 0, 1) * self.clouds
        fade: FloatArray = (cover * np.clip(up * 6 - 0.3, 0, 1)).astype(np.float32)
        return fade
