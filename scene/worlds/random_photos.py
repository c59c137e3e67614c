"""Photos of random street corners with the boxes of their signs: training pictures."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scene.camera import Camera
from scene.worlds.decal import Decal
from scene.worlds.ground import EAST_FRONT, NORTH_FRONT, WEST_FRONT
from scene.worlds.noise import fractal_noise
from scene.worlds.signs import SignFrame
from scene.worlds.street import StreetWorld, make_street
from scene.worlds.world import Exposure

FloatArray = NDArray[np.float32]
LabelledBox = tuple[str, tuple[float, float, float, float]]
"""A class name and x0, y0, x1, y1 in pixels."""

PHOTOS_PER_WORLD = 60
_LEAST_VISIBLE = 0.25
_LEAST_HEIGHT_PX = 3.0


def random_street_photo(
    seed: int,
    index: int,
    size: tuple[int, int] = (320, 240),
    samples_per_axis: int = 2,
    stickers: bool = True,
) -> tuple[NDArray[np.uint8], list[LabelledBox]]:
    """One photo (H, W, 3) of a random street and the tight boxes of its visible signs.

    A pure function of its arguments. Neighbouring indices share a street (which is built once, in
    seconds, and kept), so go through indices in order. Boxes bound what is visible; signs that are
    less than a quarter visible or under 3 px high have none, and photos with a stop sign that is
    only a sliver are not taken. stickers: a third of the stop signs carry a harmless one (gray,
    colored, noise, stripes; 15-45 % of the sign's width).
    """
    rng = np.random.default_rng([41, seed, index])
    street = make_street(1 + 100_003 * seed + index // PHOTOS_PER_WORLD)
    camera = _random_camera(street, rng, size)
    decals = (_random_sticker(street, rng),) if stickers and rng.random() < 0.35 else ()
    balance = np.exp(rng.normal(0, 0.05, 3))
    exposure = Exposure(
        street.exposure.gain * float(np.exp(rng.normal(0, 0.22))),
        (float(balance[0]), float(balance[1]), float(balance[2])),
    )
    photo, surfaces = street.world.photo_and_surfaces(camera, samples_per_axis, exposure, decals)
    boxes = sign_boxes(street, camera, surfaces, samples_per_axis)
    return np.round(photo * 255).astype(np.uint8), boxes


def sign_boxes(
    street: StreetWorld, camera: Camera, surfaces: NDArray[np.int64], samples_per_axis: int
) -> list[LabelledBox]:
    """Tight boxes of the signs' visible faces in a map of surface indices per sample."""
    boxes: list[LabelledBox] = []
    for sign in street.signs:
        visible = surfaces == street.world.names.index(sign.surface)
        share = visible.sum() / max(_whole_samples(street, sign, camera, samples_per_axis), 1.0)
        if share < _LEAST_VISIBLE:
            continue
        rows = np.flatnonzero(visible.any(axis=1))
        columns = np.flatnonzero(visible.any(axis=0))
        x0, x1 = columns[0] / samples_per_axis, (columns[-1] + 1) / samples_per_axis
        y0, y1 = rows[0] / samples_per_axis, (rows[-1] + 1) / samples_per_axis
        if y1 - y0 >= _LEAST_HEIGHT_PX:
            boxes.append((sign.label, (float(x0), float(y0), float(x1), float(y1))))
    return boxes


def _whole_samples(
    street: StreetWorld, sign: SignFrame, camera: Camera, samples_per_axis: int
) -> float:
    """Samples that the sign's face would cover unoccluded in an unbounded picture; 0 if behind."""
    pixels, depths = camera.project(street.outline(sign))
    if depths.min() <= 0.05:
        return 0.0
    x, y = pixels.T
    area = 0.5 * abs(float(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))))
    return area * samples_per_axis**2


def _random_camera(street: StreetWorld, rng: np.random.Generator, size: tuple[int, int]) -> Camera:
    """A camera that stands in the open and shows no sliver of the stop sign."""
    camera = _draw_camera(street, rng, size)
    for _ in range(40):
        if _usable(street, camera):
            break
        camera = _draw_camera(street, rng, size)
    return camera


def _usable(street: StreetWorld, camera: Camera) -> bool:
    eye = camera.center
    if not (WEST_FRONT < eye[0] < EAST_FRONT or eye[1] > 0.6) or eye[1] > NORTH_FRONT - 0.3:
        return False
    small = camera.fitted(80)
    depth = street.world.depth(small)
    if np.quantile(depth, 0.02) < 0.45 or np.median(depth) < 1.6:
        return False
    samples = 3
    surfaces = street.world.surface_map(small, samples)
    visible = (surfaces == street.world.names.index(street.sign.surface)).sum()
    whole = _whole_samples(street, street.sign, small, samples)
    return visible == 0 or whole < 1 or visible / whole >= _LEAST_VISIBLE + 0.05


def _draw_camera(street: StreetWorld, rng: np.random.Generator, size: tuple[int, int]) -> Camera:
    width, height = size
    fov = rng.uniform(26, 58)
    purpose = rng.random()
    eye_height = rng.uniform(0.9, 2.6)
    if purpose < 0.12:  # somewhere in the street, looking anywhere
        eye = np.array([rng.uniform(-8, 8), rng.uniform(-11, 11), eye_height])
        turn = rng.uniform(0, 2 * np.pi)
        target = eye + np.array([np.cos(turn), np.sin(turn), rng.uniform(-0.25, 0.25)])
    else:
        others = street.signs[1:]
        aim_at_other = purpose < 0.30 and len(others) > 0
        sign = others[int(rng.integers(len(others)))] if aim_at_other else street.sign
        eye, target = _in_front_of(sign, rng, eye_height, fov)
    camera = Camera.look_at(eye, target, (0, 0, 1), width, height, fov)
    return _rolled(camera, rng.normal(0, 2.5))


def _in_front_of(
    sign: SignFrame, rng: np.random.Generator, eye_height: float, fov_deg: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """An eye before the sign's face, and a point to look at with the sign somewhere in view."""
    distance = np.exp(rng.uniform(np.log(1.3), np.log(13.0)))
    azimuth = np.radians(np.clip(rng.normal(0, 32), -72, 72))
    facing = np.arctan2(sign.normal[1], sign.normal[0]) + azimuth
    eye = sign.center + distance * np.array([np.cos(facing), np.sin(facing), 0])
    eye[2] = eye_height
    reach = distance * np.tan(np.radians(fov_deg) / 2) * 0.75
    aside = np.array([-np.sin(facing), np.cos(facing), 0])
    target = sign.center + rng.uniform(-1.2, 1.2) * reach * aside
    target[2] += rng.uniform(-0.8, 0.5) * reach
    return eye, target


def _rolled(camera: Camera, roll_deg: float) -> Camera:
    c, s = np.cos(np.radians(roll_deg)), np.sin(np.radians(roll_deg))
    turn = np.eye(4)
    turn[:2, :2] = [[c, s], [-s, c]]
    return Camera(turn @ camera.camera_from_world, camera.K, camera.width, camera.height)


def _random_sticker(street: StreetWorld, rng: np.random.Generator) -> Decal:
    """Something harmless stuck on the stop sign."""
    picture = _sticker_picture(rng)
    width = street.sign.width * rng.uniform(0.15, 0.45)
    room = 0.5 * (street.sign.width - width) * 0.7
    right, down = rng.uniform(-room, room, 2)
    return street.sign_decal(picture, width, right, down)


def _sticker_picture(rng: np.random.Generator) -> FloatArray:
    n = 64
    kind = int(rng.integers(5))
    color = rng.random(3)
    if kind == 0:
        picture = np.full((n, n, 3), rng.uniform(0.35, 0.65))
    elif kind == 1:
        picture = np.broadcast_to(color, (n, n, 3))
    elif kind == 2:
        cells = int(rng.choice([8, 16, 32, 64]))
        picture = np.kron(rng.random((cells, cells, 3)), np.ones((n // cells, n // cells, 1)))
    elif kind == 3:
        band = (np.arange(n) * int(rng.integers(3, 9)) // n) % 2
        picture = np.where(band[:, None, None] == 0, color, rng.random(3)) * np.ones((n, n, 1))
    else:
        tone = fractal_noise(n, int(rng.integers(50)), 3, 5)[..., None]
        picture = tone * color + (1 - tone) * rng.random(3)
    return np.ascontiguousarray(picture, np.float32)
