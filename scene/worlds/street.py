"""The street corner with a stop sign: the project's known world."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from scene.camera import Camera
from scene.scene import TargetBox
from scene.worlds.bake import BakeSettings
from scene.worlds.buildings import street_buildings
from scene.worlds.cameras import capture_cameras, orbit_camera
from scene.worlds.decal import Decal
from scene.worlds.furniture import (
    bench,
    bollard,
    hydrant,
    lamp_post,
    letter_box,
    litter_bin,
    planter,
)
from scene.worlds.ground import KERB, street_ground
from scene.worlds.plants import tree
from scene.worlds.settings import StreetSettings, random_settings
from scene.worlds.signs import SignFrame, SignLook, standing_sign
from scene.worlds.surfaces import Surface, placed
from scene.worlds.textures import srgb_to_linear
from scene.worlds.vehicles import parked_car
from scene.worlds.world import Exposure, World

FloatArray = NDArray[np.float32]

_TREE_SPOTS = ((-5.6, 12.1), (4.4, 12.1), (7.4, 2.1), (-13.2, 12.1), (13.0, 12.2), (-9.8, -6.5))


class StreetWorld:
    """A street corner in daylight, its cameras and its truth.

    sign: frame of the stop sign's face. signs: every sign's frame, the stop sign first. world:
    the ray-traced surfaces. exposure: of all photos that do not say otherwise.
    """

    def __init__(self, settings: StreetSettings, baked: FloatArray | None = None) -> None:
        """`baked`: the light of the same street (`world.baked`), where it was kept."""
        self.settings = settings
        surfaces, panes = street_buildings(settings)
        surfaces += street_ground(settings.ground) + _things(settings)
        sign_surfaces, self.signs = _all_signs(settings)
        faces = {sign.surface for sign in self.signs}
        # a face's first vertex is its middle
        self._outlines = {s.name: s.vertices[1:] for s in sign_surfaces if s.name in faces}
        self.sign = self.signs[0]
        daylight = settings.daylight
        bake = BakeSettings(settings.bake_rays, settings.bake_bounces, 1 + settings.seed)
        self.world = World(surfaces + sign_surfaces, daylight, panes, bake, baked)
        self.exposure = Exposure(self._metered_gain())

    def photo(
        self, camera: Camera, samples_per_axis: int = 3, decals: tuple[Decal, ...] = ()
    ) -> FloatArray:
        """(H, W, 3) sRGB float32 in [0, 1], samples_per_axis^2 samples a pixel."""
        return self.world.photo(camera, samples_per_axis, self.exposure, decals)

    def photo_pair(
        self, camera: Camera, decal: Decal, samples_per_axis: int = 3
    ) -> tuple[FloatArray, FloatArray]:
        """The same photo without and with `decal`, in one pass and one light."""
        return self.world.photo_pair(camera, decal, samples_per_axis, self.exposure)

    def sign_decal(
        self,
        picture: FloatArray,
        width: float,
        right_offset: float = 0.0,
        down_offset: float = 0.0,
        sign: SignFrame | None = None,
    ) -> Decal:
        """A picture (h, w, 3 or 4; sRGB) lying on a sign, `width` metres across.

        Offsets (metres) move its centre from the sign's, along the sign's right and down.
        """
        sign = sign or self.sign
        center = sign.center + right_offset * sign.right + down_offset * sign.down
        height = width * picture.shape[0] / picture.shape[1]
        picture = np.asarray(picture, np.float32)
        return Decal(picture, sign.surface, center, sign.right, sign.down, width, height)

    def _metered_gain(self) -> float:
        """A camera's automatic exposure, metered once from in front of the sign."""
        camera = orbit_camera(self.sign.center, 5.0, 0.0, 1.7, (64, 48))
        photo = self.world.photo(camera, 1, Exposure(1.0))
        return float(METERED_MEAN / srgb_to_linear(photo).mean())

    def background_color(self) -> tuple[float, float, float]:
        """SRGB of the sky a little above the horizon, the best single color behind everything."""
        up = np.radians(18.0)
        turn = np.linspace(0, 2 * np.pi, 64, endpoint=False)
        ring = [np.cos(up) * np.cos(turn), np.cos(up) * np.sin(turn), np.full(64, np.sin(up))]
        light = self.world.daylight.sky(np.stack(ring, axis=1).astype(np.float32))
        r, g, b = (float(c) for c in self.exposure.develop(light.mean(axis=0)))
        return r, g, b

    def outline(self, sign: SignFrame | None = None) -> NDArray[np.float64]:
        """(k, 3) corners of a sign's face, counter-clockwise as seen from in front."""
        return self._outlines[(sign or self.sign).surface]

    def capture_cameras(self, size: tuple[int, int] = (480, 360)) -> list[tuple[str, Camera, bool]]:
        """60 cameras around the sign: name, camera, held out."""
        return capture_cameras(self.sign.center, size, self.settings.seed)

    def target_box(self, margin: float = 0.015) -> TargetBox:
        """The stop sign's plate as an oriented box, `margin` metres larger on every side."""
        half = self.sign.width / 2 + margin
        # the plate is 12 mm thick, behind the face
        return TargetBox(
            center=self.sign.center - 0.006 * self.sign.normal,
            axes=np.stack([self.sign.right, self.sign.down, -self.sign.normal]),
            half_sizes=np.array([half, half, 0.006 + 2 * margin]),
            label="stop sign",
        )

    def surface_points(self, count: int, seed: int = 0) -> tuple[FloatArray, FloatArray]:
        """Points (count, 3) that the capture cameras see, and their sRGB colors (count, 3).

        Drawn from random pixels of all capture cameras; the sky is put on a far dome.
        """
        rng = np.random.default_rng([29, seed])
        cameras = [camera for _, camera, held_out in self.capture_cameras() if not held_out]
        each = int(np.ceil(count / len(cameras)))
        points, colors = [], []
        for camera in cameras:
            pixels = rng.random((each, 2)) * (camera.width, camera.height)
            found, light, surface = self.world.look(camera, pixels)
            sky = surface < 0
            rays = camera.rays(pixels[sky])
            rays /= np.linalg.norm(rays, axis=1, keepdims=True)
            found[sky] = camera.center + SKY_DISTANCE * rays
            points.append(found)
            colors.append(self.exposure.develop(light))
        chosen = rng.permutation(each * len(cameras))[:count]
        return np.concatenate(points)[chosen], np.concatenate(colors)[chosen]


METERED_MEAN = 0.24
"""Mean linear light that exposure aims at."""
SKY_DISTANCE = 150.0
"""Metres at which start points stand for the sky."""


def make_street(seed: int = 0) -> StreetWorld:
    """The demo street (seed 0) or another one; a pure function of the seed, kept for re-use."""
    return _cached_street(StreetSettings() if seed == 0 else random_settings(seed))


@lru_cache(maxsize=2)
def _cached_street(settings: StreetSettings) -> StreetWorld:
    return StreetWorld(settings)


def _all_signs(settings: StreetSettings) -> tuple[list[Surface], tuple[SignFrame, ...]]:
    pose = settings.sign
    look = SignLook(pose.width, pose.wear, pose.gloss, 31 + settings.seed % 7)
    surfaces, frame = standing_sign(
        "stop sign", "stop sign", (0, 0, KERB), pose.height - KERB, look,
        pose.yaw_deg, pose.tilt_deg, pose.roll_deg,
    )  # fmt: skip
    frames = [frame]
    for i, other in enumerate(settings.other_signs):
        parts, frame = standing_sign(
            f"{other.label} {i}", other.label, (*other.foot, KERB), other.height - KERB,
            SignLook(other.width, other.wear, 0.3, 31 + i), other.yaw_deg,
        )  # fmt: skip
        surfaces += parts
        frames.append(frame)
    return surfaces, tuple(frames)


def _things(settings: StreetSettings) -> list[Surface]:
    """Cars, trees and pavement furniture."""
    rng = np.random.default_rng([31, settings.seed])
    parts: list[Surface] = []
    spots = (
        ((-7.3, -5.2, 0), 90.0),
        ((-6.2, 9.95, 0), 180.0),
        ((5.6, 9.95, 0), 180.0),
        ((-15.5, 9.95, 0), 180.0),
        ((17.0, 9.95, 0), 180.0),
    )
    for i, (look, (spot, yaw)) in enumerate(zip(settings.cars, spots, strict=False)):
        shift = rng.uniform(-0.6, 0.6) if yaw == 180 else 0.0
        parts += placed(parked_car(f"car {i}", look), np.add(spot, (shift, 0, 0)), yaw)
    for i, (x, y) in enumerate(_TREE_SPOTS[: settings.trees]):
        height, crown = rng.uniform(4.0, 4.6), rng.uniform(1.5, 1.9)
        foot = (x + rng.uniform(-0.3, 0.3), y, KERB)
        parts += tree(f"tree {i}", foot, height, crown, 70 + 20 * i, settings.leaf_color)
    parts += lamp_post("lamp east", (2.4, 2.5, KERB), yaw_deg=180)
    parts += lamp_post("lamp north", (-1.0, 11.4, KERB), yaw_deg=0)
    parts += _furniture(settings)
    return parts


def _furniture(settings: StreetSettings) -> list[Surface]:
    parts: list[Surface] = []
    if "hydrant" in settings.furniture:
        parts += hydrant("hydrant", (1.05, 1.0, KERB))
    if "bin" in settings.furniture:
        parts += litter_bin("bin", (3.2, 0.9, KERB))
    if "bench" in settings.furniture:
        parts += bench("bench", (8.2, -4.0, KERB), yaw_deg=-90)
    if "letter box" in settings.furniture:
        parts += letter_box("letter box", (4.6, 1.6, KERB), yaw_deg=12)
    if "planter" in settings.furniture:
        parts += planter("planter", (8.9, -1.4, KERB), (0.5, 1.6, 0.5), 45)
        parts += planter("planter north", (0.9, 13.0, KERB), (1.7, 0.5, 0.5), 48)
    if "bollards" in settings.furniture:
        for i, x in enumerate((-0.45, 1.3, 3.05)):
            parts += bollard(f"bollard {i}", (x, 2.7, KERB))
    return parts
