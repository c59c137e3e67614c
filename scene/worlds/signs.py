"""Traffic signs: drawn faces, back plates and poles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image, ImageDraw

from scene.worlds.lettering import Picture, as_picture, polygon, text_image
from scene.worlds.patterns import painted, weathered
from scene.worlds.surfaces import Material, Surface, cylinder, disc, grid
from scene.worlds.textures import Texture

DoubleArray = NDArray[np.float64]

_SIZE = 512
_RED, _WHITE, _BLACK = (0.70, 0.07, 0.10), (0.93, 0.93, 0.91), (0.08, 0.08, 0.09)
_BLUE, _YELLOW = (0.06, 0.25, 0.58), (0.93, 0.72, 0.10)


def _byte(color: tuple[float, float, float]) -> tuple[int, int, int]:
    r, g, b = (round(255 * c) for c in color)
    return r, g, b


def stop_face(supersampling: int = 2) -> Picture:
    """The stop sign's face as a square picture: letters a third of its height, white border."""
    n = _SIZE * supersampling
    image = Image.new("RGB", (n, n), _byte(_WHITE))
    draw = ImageDraw.Draw(image)
    outer = n / 2 / np.cos(np.pi / 8)
    draw.polygon(polygon((n / 2, n / 2), outer * 0.945, 8, 22.5), fill=_byte(_RED))
    width, height = int(0.70 * n), int(0.315 * n)
    letters = text_image("STOP", width, height, _WHITE, spacing=0.07)
    image.paste(letters, ((n - width) // 2, (n - height) // 2), letters)
    return as_picture(image.resize((_SIZE, _SIZE), Image.Resampling.BOX))


def yield_face() -> Picture:
    """Red-bordered white triangle, point down, on its bounding square."""
    image, draw = _blank(_WHITE)
    n = 2 * _SIZE
    corners = [(0, n * 0.067), (n, n * 0.067), (n / 2, n * 0.933)]
    draw.polygon(corners, fill=_byte(_RED))
    inner = [(n * 0.20, n * 0.18), (n * 0.80, n * 0.18), (n * 0.5, n * 0.70)]
    draw.polygon(inner, fill=_byte(_WHITE))
    return _finished(image)


def speed_limit_face(number: int = 30) -> Picture:
    """Red ring, black number."""
    image, draw = _blank(_WHITE)
    n = 2 * _SIZE
    draw.ellipse((n * 0.02, n * 0.02, n * 0.98, n * 0.98), fill=_byte(_RED))
    draw.ellipse((n * 0.12, n * 0.12, n * 0.88, n * 0.88), fill=_byte(_WHITE))
    letters = text_image(str(number), int(n * 0.5), int(n * 0.36), _BLACK, spacing=0.06)
    image.paste(letters, (int(n * 0.25), int(n * 0.32)), letters)
    return _finished(image)


def no_entry_face() -> Picture:
    """Red disc, white bar."""
    image, draw = _blank(_WHITE)
    n = 2 * _SIZE
    draw.ellipse((n * 0.02, n * 0.02, n * 0.98, n * 0.98), fill=_byte(_RED))
    draw.rectangle((n * 0.18, n * 0.42, n * 0.82, n * 0.58), fill=_byte(_WHITE))
    return _finished(image)


def parking_face() -> Picture:
    """White P on blue."""
    image, draw = _blank(_BLUE)
    n = 2 * _SIZE
    draw.rectangle((n * 0.03, n * 0.03, n * 0.97, n * 0.97), outline=_byte(_WHITE), width=n // 40)
    letters = text_image("P", int(n * 0.40), int(n * 0.56), _WHITE)
    image.paste(letters, (int(n * 0.32), int(n * 0.22)), letters)
    return _finished(image)


def crossing_face() -> Picture:
    """Yellow diamond with a walking figure's strokes, on its bounding square."""
    image, draw = _blank(_YELLOW)
    n = 2 * _SIZE
    edge = [(n * 0.5, n * 0.03), (n * 0.97, n * 0.5), (n * 0.5, n * 0.97), (n * 0.03, n * 0.5)]
    draw.line([*edge, edge[0]], fill=_byte(_BLACK), width=n // 40)
    draw.ellipse((n * 0.46, n * 0.22, n * 0.55, n * 0.31), fill=_byte(_BLACK))
    for line in (
        ((0.50, 0.32), (0.48, 0.54)),
        ((0.48, 0.54), (0.40, 0.76)),
        ((0.48, 0.54), (0.58, 0.75)),
        ((0.50, 0.36), (0.62, 0.50)),
        ((0.50, 0.36), (0.40, 0.50)),
    ):
        points = [(x * n, y * n) for x, y in line]
        draw.line(points, fill=_byte(_BLACK), width=n // 22)
    return _finished(image)


def _blank(
    color: tuple[float, float, float],
) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    image = Image.new("RGB", (2 * _SIZE, 2 * _SIZE), _byte(color))
    return image, ImageDraw.Draw(image)


def _finished(image: Image.Image) -> Picture:
    return as_picture(image.resize((_SIZE, _SIZE), Image.Resampling.BOX))


@dataclass(frozen=True)
class SignShape:
    """Corner angles of a sign: number of sides, first corner's angle, face picture."""

    sides: int
    phase_deg: float
    face: Callable[[], Picture]


SIGN_SHAPES: dict[str, SignShape] = {
    "stop sign": SignShape(8, 22.5, stop_face),
    "yield sign": SignShape(3, -90.0, yield_face),
    "speed limit sign": SignShape(32, 0.0, speed_limit_face),
    "no entry sign": SignShape(32, 0.0, no_entry_face),
    "parking sign": SignShape(4, 45.0, parking_face),
    "crossing sign": SignShape(4, 0.0, crossing_face),
}
"""Every label that a world's signs can have."""


@dataclass(frozen=True, eq=False)
class SignFrame:
    """Where a sign's face is.

    surface: name of the face's surface. center: (3,) metres. right, down: (3,) unit, as read by
    someone in front. normal: (3,) unit, towards them. width: metres across (flat to flat).
    """

    label: str
    surface: str
    center: DoubleArray
    right: DoubleArray
    down: DoubleArray
    normal: DoubleArray
    width: float


@dataclass(frozen=True)
class SignLook:
    """width: metres across. wear: 0 new to 1 faded and dirty. gloss: clear coat."""

    width: float = 0.75
    wear: float = 0.2
    gloss: float = 0.5
    seed: int = 31


def standing_sign(
    name: str,
    label: str,
    foot: ArrayLike,
    center_height: float,
    look: SignLook | None = None,
    yaw_deg: float = 0.0,
    tilt_deg: float = 0.0,
    roll_deg: float = 0.0,
) -> tuple[list[Surface], SignFrame]:
    """A sign on a pole that stands at `foot` and faces -y when all angles are 0.

    yaw_deg turns it counter-clockwise seen from above, tilt_deg leans its face upwards, roll_deg
    turns it in its plane.
    """
    look = look or SignLook()
    foot = np.asarray(foot, dtype=np.float64)
    right, down, normal = sign_axes(yaw_deg, tilt_deg, roll_deg)
    middle = foot + np.array([0, 0, center_height])
    # a leaning plate keeps clear of its pole
    clearance = 0.05 + 0.5 * look.width * abs(np.sin(np.radians(tilt_deg)))
    center = middle + normal * clearance
    shape = SIGN_SHAPES[label]
    metal = Material(painted((0.60, 0.61, 0.62), 27, 0.3), None, gloss=0.6)
    face = Material(Texture.from_srgb(worn(shape.face(), look)), None, gloss=look.gloss)
    radius = look.width / 2 / np.cos(np.pi / shape.sides)
    if shape.sides != 8:
        radius = look.width / 2
    phase = np.radians(shape.phase_deg)
    plate = disc(name, center, right, -down, radius, face, shape.sides, phase)
    if shape.sides != 8:
        plate = _fitted(plate, center, right, down, look.width)
    back = disc(name + " back", center - normal * 0.012, -right, -down, radius * 0.998, metal,
                shape.sides, np.pi - phase)  # fmt: skip
    surfaces = [
        plate,
        back,
        _rim(name + " rim", plate, back, metal),
        cylinder(name + " pole", foot, 0.032, center_height + 0.42 * look.width, metal, sides=16),
    ]
    for i, offset in enumerate((-0.36, 0.36)):
        bolt = center + offset * look.width * down + 0.003 * normal
        surfaces.append(disc(f"{name} bolt {i}", bolt, right, -down, 0.011, metal, 10))
    return surfaces, SignFrame(label, name, center, right, down, normal, look.width)


def sign_axes(
    yaw_deg: float, tilt_deg: float, roll_deg: float
) -> tuple[DoubleArray, DoubleArray, DoubleArray]:
    """Right, down and normal of a sign that faces -y when all angles are 0."""
    yaw, tilt, roll = np.radians([yaw_deg, tilt_deg, roll_deg])
    level = np.array([np.cos(yaw), np.sin(yaw), 0.0])
    forward = np.array([np.sin(yaw), -np.cos(yaw), 0.0])
    normal = np.cos(tilt) * forward + np.sin(tilt) * np.array([0, 0, 1.0])
    level_down = np.cross(level, normal)
    level_down = -level_down if level_down[2] > 0 else level_down
    right = np.cos(roll) * level + np.sin(roll) * level_down
    down = np.cos(roll) * level_down - np.sin(roll) * level
    return right, down, normal


def worn(face: Picture, look: SignLook) -> Picture:
    """Fade the face towards gray and dirty it."""
    gray = face.mean(axis=2, keepdims=True) * 0.7 + 0.22
    faded = face * (1 - 0.35 * look.wear) + gray * (0.35 * look.wear)
    return weathered(faded.astype(np.float32), look.seed, 0.05 + 0.4 * look.wear)


def _fitted(
    plate: Surface, center: DoubleArray, right: DoubleArray, down: DoubleArray, width: float
) -> Surface:
    """Texture coordinates over the width x width square around the center."""
    local = plate.vertices - center
    uv = np.stack([local @ right / width + 0.5, 0.5 - local @ down / width], axis=1)
    return Surface(plate.name, plate.vertices, plate.faces, uv, plate.normals, plate.material)


def _rim(name: str, front: Surface, back: Surface, material: Material) -> Surface:
    """The plate's narrow edge."""
    outer = front.vertices[1:]
    far = outer - (front.vertices[0] - back.vertices[0])
    points = np.stack([np.concatenate([far, far[:1]]), np.concatenate([outer, outer[:1]])])
    outward = points - points.mean(axis=1, keepdims=True)
    outward /= np.linalg.norm(outward, axis=-1, keepdims=True)
    return grid(name, points, material, normals=outward)
