"""Pictures of street signs, each a pure function of (seed, index).

No picture is shipped: whoever has the seed has the data set. Boxes are xyxy float pixels of the
picture, clipped to its frame; pixel (i, j) has its centre at (i + 0.5, j + 0.5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from envelope.victims.demo.backgrounds import background
from envelope.victims.demo.photograph import photographed
from envelope.victims.demo.signs import (
    CLASSES,
    SIDE,
    STOP,
    SignTexture,
    sign_texture,
    with_gray_square,
)
from envelope.victims.demo.textures import FloatArray, fractal_noise, near, whole

_CLASS_SHARES = (0.4, 0.12, 0.12, 0.12, 0.12, 0.12)
_MIN_VISIBLE = 0.6


@dataclass(frozen=True)
class LabelledBox:
    """A sign's class (index into CLASSES) and its box, xyxy pixels."""

    class_index: int
    xyxy: tuple[float, float, float, float]

    @property
    def label(self) -> str:
        """The class's name."""
        return CLASSES[self.class_index]

    @property
    def height(self) -> float:
        """Box height in pixels."""
        return self.xyxy[3] - self.xyxy[1]


@dataclass(frozen=True, eq=False)
class Picture:
    """rgb: (size, size, 3) uint8. boxes: every sign in it."""

    rgb: NDArray[np.uint8]
    boxes: tuple[LabelledBox, ...]


@dataclass(frozen=True)
class PictureSettings:
    """What the first sign is like, where a test or a study wants to say so.

    size: side of the square picture, pixels. signs: how many (None: 0-2 by chance).
    class_index, height, center, yaw_deg: of the first sign (None: by chance); height in pixels.
    sticker: probability that something benign is stuck on a sign's face.
    gray: share of the first sign's face that a centred mid-gray square covers, 0 for none.
    """

    size: int = 320
    signs: int | None = None
    class_index: int | None = None
    height: float | None = None
    center: tuple[float, float] | None = None
    yaw_deg: float | None = None
    sticker: float = 0.45
    gray: float = 0.0


def make_picture(seed: int, index: int, settings: PictureSettings | None = None) -> Picture:
    """The picture number `index` of the data set `seed`."""
    settings = settings or PictureSettings()
    rng = np.random.default_rng([seed, index])
    canvas = background(rng, settings.size)
    count = settings.signs
    if count is None:
        count = int(rng.choice([0, 1, 2], p=[0.1, 0.55, 0.35]))
    boxes: list[LabelledBox] = []
    for number in range(count):
        canvas, box = _with_sign(rng, canvas, boxes, settings, first=number == 0)
        if box is not None:
            boxes.append(box)
    return Picture(photographed(rng, canvas), tuple(boxes))


def _with_sign(
    rng: np.random.Generator,
    canvas: FloatArray,
    others: list[LabelledBox],
    settings: PictureSettings,
    first: bool,
) -> tuple[FloatArray, LabelledBox | None]:
    wanted = settings.class_index if first else None
    class_index = wanted if wanted is not None else int(rng.choice(len(CLASSES), p=_CLASS_SHARES))
    texture = sign_texture(class_index, rng, settings.sticker)
    if first and settings.gray > 0:
        texture = with_gray_square(texture, settings.gray)
    for _ in range(12):
        matrix = _pose(rng, settings, first)
        corners = project(matrix, texture.outline)
        box, visible = _clipped_box(corners, settings.size)
        if visible >= _MIN_VISIBLE and not any(_overlap(box, other.xyxy) for other in others):
            break
    else:
        return canvas, None
    if rng.random() < 0.7:
        canvas = _with_pole(rng, canvas, matrix)
    canvas = _composited(rng, canvas, texture, matrix, corners)
    if rng.random() < 0.12:
        canvas = _with_twigs(rng, canvas, box)
    return canvas, LabelledBox(class_index, box)


def _pose(rng: np.random.Generator, settings: PictureSettings, first: bool) -> NDArray[np.float64]:
    """(3, 3) homography from the sign's unit square to pixels: a plate turned in space."""
    size = settings.size
    height = float(np.exp(rng.uniform(math.log(0.06), math.log(1.03)))) * size
    if first and settings.height is not None:
        height = settings.height
    yaw = rng.uniform(-68, 68) if rng.random() < 0.45 else rng.normal(0, 16)
    if first and settings.yaw_deg is not None:
        yaw = settings.yaw_deg
    pitch, roll = rng.normal(0, 9), rng.normal(0, 6)
    margin = min(0.5, height / size * 0.45)
    x, y = rng.uniform(margin, 1 - margin, 2) * size
    if first and settings.center is not None:
        x, y = settings.center
    rotation = _turn(math.radians(yaw), math.radians(pitch), math.radians(roll))
    distance = float(np.exp(rng.uniform(math.log(1.2), math.log(8))))
    plate = np.array([[1, 0, -0.5], [0, 1, -0.5], [0, 0, 0]])  # unit square -> plate, homogeneous
    placed = rotation @ plate + np.array([[0, 0, 0], [0, 0, 0], [0, 0, distance]])
    scale = height * distance
    return np.array([[scale, 0, x], [0, scale, y], [0, 0, 1]]) @ placed


def _turn(yaw: float, pitch: float, roll: float) -> NDArray[np.float64]:
    cy, sy, cp, sp = math.cos(yaw), math.sin(yaw), math.cos(pitch), math.sin(pitch)
    cr, sr = math.cos(roll), math.sin(roll)
    about_y = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    about_x = np.array([[1, 0, 0], [0, cp, -sp], [0, sp, cp]])
    about_z = np.array([[cr, -sr, 0], [sr, cr, 0], [0, 0, 1]])
    return about_y @ about_x @ about_z


def project(matrix: NDArray[np.float64], points: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n, 2) points of the unit square -> (n, 2) pixels."""
    homogeneous = np.column_stack([points, np.ones(len(points))]) @ matrix.T
    return homogeneous[:, :2] / homogeneous[:, 2:]


def _clipped_box(
    corners: NDArray[np.float64], size: int
) -> tuple[tuple[float, float, float, float], float]:
    low, high = corners.min(axis=0), corners.max(axis=0)
    inside_low, inside_high = np.clip(low, 0, size), np.clip(high, 0, size)
    visible = float(np.prod(inside_high - inside_low) / max(np.prod(high - low), 1e-9))
    x0, y0, x1, y1 = (float(v) for v in (*inside_low, *inside_high))
    return (x0, y0, x1, y1), visible


def _overlap(first: tuple[float, ...], second: tuple[float, ...]) -> bool:
    return min(first[2], second[2]) > max(first[0], second[0]) and min(first[3], second[3]) > max(
        first[1], second[1]
    )


def _composited(
    rng: np.random.Generator,
    canvas: FloatArray,
    texture: SignTexture,
    matrix: NDArray[np.float64],
    corners: NDArray[np.float64],
) -> FloatArray:
    size = canvas.shape[0]
    extent = float(np.max(corners.max(axis=0) - corners.min(axis=0)))
    side = int(np.clip(2 ** math.ceil(math.log2(max(extent, 4.0))), 8, SIDE))
    face = np.dstack([texture.rgb, texture.alpha * 255]).astype(np.uint8)
    image = Image.fromarray(face)
    if side < SIDE:
        image = image.resize((side, side), Image.Resampling.BOX)
    to_texture = np.diag([side, side, 1.0]) @ np.linalg.inv(matrix)
    coefficients = (to_texture / to_texture[2, 2]).reshape(-1)[:8]
    warped = image.transform(
        (size, size),
        Image.Transform.PERSPECTIVE,
        tuple(float(c) for c in coefficients),
        Image.Resampling.BILINEAR,
    )
    drawn = np.asarray(warped, np.float32)
    cover = drawn[..., 3:] / 255
    light = rng.uniform(0.45, 1.2)
    face_rgb = drawn[..., :3] * light
    if rng.random() < 0.25:  # dappled or hard shadow over the face
        shade = fractal_noise(rng, size, size, 3, int(rng.integers(3, 20)))
        hard = np.clip((shade - rng.uniform(0.4, 0.6)) * rng.uniform(4, 40) + 0.5, 0, 1)
        face_rgb = face_rgb * (1 - rng.uniform(0.2, 0.6) * hard[..., None])
    return canvas * (1 - cover) + face_rgb * cover


def _with_pole(
    rng: np.random.Generator, canvas: FloatArray, matrix: NDArray[np.float64]
) -> FloatArray:
    size = canvas.shape[0]
    ends = project(matrix, np.array([[0.5, 0.6], [0.5, 3.5]]))
    width = max(1, int(np.linalg.norm(ends[1] - ends[0]) / 2.9 * rng.uniform(0.03, 0.08)))
    image = Image.fromarray(np.clip(canvas, 0, 255).astype(np.uint8))
    down = (float(ends[0, 0] + rng.normal(0, 3)), float(size))
    tone = whole(near(rng, (115, 115, 112), 55))
    ImageDraw.Draw(image).line([(float(ends[0, 0]), float(ends[0, 1])), down], tone, width)
    return np.asarray(image, np.float32)


def _with_twigs(
    rng: np.random.Generator, canvas: FloatArray, box: tuple[float, float, float, float]
) -> FloatArray:
    """A few leaves or a cable in front of the sign; it stays a sign."""
    image = Image.fromarray(np.clip(canvas, 0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(image)
    span = max(box[2] - box[0], box[3] - box[1])
    x, y = rng.uniform(box[0], box[2]), rng.choice([box[1], box[3]])
    color = near(rng, (60, 90, 40), 35)
    for _ in range(int(rng.integers(4, 14))):
        leaf = span * rng.uniform(0.02, 0.06)
        cx, cy = x + rng.normal(0, span * 0.12), y + rng.normal(0, span * 0.1)
        draw.ellipse([cx - leaf, cy - leaf, cx + leaf, cy + leaf], whole(near(rng, color, 25)))
    return np.asarray(image, np.float32)


__all__ = ["CLASSES", "STOP", "LabelledBox", "Picture", "PictureSettings", "make_picture"]
