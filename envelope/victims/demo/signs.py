"""Six kinds of street signs as RGBA textures, with wear, and stickers on top."""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from envelope.victims.demo.textures import (
    Color,
    FloatArray,
    benign_patch,
    fractal_noise,
    near,
    whole,
)

CLASSES = (
    "stop sign",
    "yield sign",
    "speed limit sign",
    "no entry sign",
    "parking sign",
    "crossing sign",
)
STOP = 0
SIDE = 256
_DRAW = 512  # drawn at twice the size, then halved: smooth edges
_FONTS = ("DejaVuSans-Bold.ttf", "DejaVuSans.ttf", "DejaVuSansMono-Bold.ttf")


class SignTexture:
    """A sign's face.

    rgb: (SIDE, SIDE, 3) float32 0..255, defined outside the face too (no dark fringe when it is
    resampled). alpha: (SIDE, SIDE) float32 0..1. outline: (n, 2) corners in the unit square.
    """

    def __init__(self, rgb: FloatArray, alpha: FloatArray, outline: NDArray[np.float64]) -> None:
        self.rgb = rgb
        self.alpha = alpha
        self.outline = outline


@lru_cache(maxsize=64)
def font_file(name: str, size: int) -> ImageFont.FreeTypeFont:
    """One of the fonts that matplotlib brings, so that pictures are the same everywhere."""
    import matplotlib

    return ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / name), size)


def polygon(corners: int, radius: float, turn: float) -> NDArray[np.float64]:
    """(corners, 2) regular polygon about the middle of the unit square; turn in radians."""
    angles = turn + 2 * math.pi * np.arange(corners) / corners
    return 0.5 + radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)


class _Face:
    """Draws in unit coordinates on a large transparent canvas."""

    def __init__(self, rim: Color) -> None:
        self.image = Image.new("RGBA", (_DRAW, _DRAW), (*whole(rim), 0))
        self.draw = ImageDraw.Draw(self.image)

    def fill(self, points: NDArray[np.float64], color: Color) -> None:
        corners = [(float(x), float(y)) for x, y in points * _DRAW]
        self.draw.polygon(corners, fill=(*whole(color), 255))

    def text(
        self, words: str, box: tuple[float, float, float, float], color: Color, font: str, bold: int
    ) -> None:
        """Stretch the words to fill a box (x0, y0, x1, y1 in the unit square)."""
        face = font_file(font, 120)
        left, top, right, bottom = face.getbbox(words, stroke_width=bold)
        ink = Image.new("L", (int(right - left), int(bottom - top)), 0)
        ImageDraw.Draw(ink).text((-left, -top), words, font=face, fill=255, stroke_width=bold)
        width = max(1, round((box[2] - box[0]) * _DRAW))
        height = max(1, round((box[3] - box[1]) * _DRAW))
        ink = ink.resize((width, height), Image.Resampling.BILINEAR)
        paint = Image.new("RGBA", ink.size, (*whole(color), 255))
        self.image.paste(paint, (round(box[0] * _DRAW), round(box[1] * _DRAW)), ink)


def _stop(rng: np.random.Generator, ink: dict[str, Color], font: str) -> tuple[_Face, np.ndarray]:
    face = _Face(ink["white"])
    radius = 0.495 / math.cos(math.pi / 8)
    outline = polygon(8, radius, math.pi / 8)
    face.fill(outline, ink["white"])
    face.fill(polygon(8, radius * rng.uniform(0.9, 0.965), math.pi / 8), ink["red"])
    half_width, half_height = rng.uniform(0.36, 0.44), rng.uniform(0.13, 0.19)
    middle = 0.5 + rng.normal(0, 0.012)
    box = (0.5 - half_width, middle - half_height, 0.5 + half_width, middle + half_height)
    face.text("STOP", box, ink["white"], font, int(rng.integers(0, 7)))
    for y in (0.1, 0.9):
        face.draw.ellipse(
            [_DRAW * 0.492, _DRAW * (y - 0.008), _DRAW * 0.508, _DRAW * (y + 0.008)],
            fill=(60, 40, 40, 255),
        )
    return face, outline


def _yield(rng: np.random.Generator, ink: dict[str, Color], font: str) -> tuple[_Face, np.ndarray]:
    face = _Face(ink["red"])
    outline = np.array([(0.01, 0.07), (0.99, 0.07), (0.5, 0.94)])
    face.fill(outline, ink["red"])
    middle = outline.mean(axis=0)
    face.fill(middle + (outline - middle) * rng.uniform(0.55, 0.72), ink["white"])
    if rng.random() < 0.5:
        face.text("YIELD", (0.36, 0.24, 0.64, 0.34), ink["red"], font, 2)
    return face, outline


def _speed(rng: np.random.Generator, ink: dict[str, Color], font: str) -> tuple[_Face, np.ndarray]:
    number = str(rng.choice([20, 25, 30, 35, 40, 45, 50, 60, 70, 80, 90]))
    if rng.random() < 0.5:
        face = _Face(ink["red"])
        outline = polygon(32, 0.49, 0.0)
        face.fill(outline, ink["red"])
        face.fill(polygon(48, rng.uniform(0.35, 0.41), 0.0), ink["white"])
        face.text(number, (0.25, 0.34, 0.75, 0.66), ink["black"], font, 2)
        return face, outline
    face = _Face(ink["black"])
    outline = np.array([(0.11, 0.01), (0.89, 0.01), (0.89, 0.99), (0.11, 0.99)])
    face.fill(outline, ink["black"])
    face.fill(0.5 + (outline - 0.5) * 0.95, ink["white"])
    face.text("SPEED", (0.22, 0.1, 0.78, 0.22), ink["black"], font, 1)
    face.text("LIMIT", (0.22, 0.27, 0.78, 0.39), ink["black"], font, 1)
    face.text(number, (0.22, 0.48, 0.78, 0.88), ink["black"], font, 2)
    return face, outline


def _no_entry(
    rng: np.random.Generator, ink: dict[str, Color], font: str
) -> tuple[_Face, np.ndarray]:
    face = _Face(ink["white"])
    outline = polygon(32, 0.49, 0.0)
    face.fill(outline, ink["white"])
    face.fill(polygon(48, 0.465, 0.0), ink["red"])
    half = rng.uniform(0.085, 0.125)
    bar = [(0.15, 0.5 - half), (0.85, 0.5 - half), (0.85, 0.5 + half), (0.15, 0.5 + half)]
    face.fill(np.array(bar), ink["white"])
    return face, outline


def _parking(
    rng: np.random.Generator, ink: dict[str, Color], font: str
) -> tuple[_Face, np.ndarray]:
    face = _Face(ink["white"])
    outline = np.array([(0.03, 0.03), (0.97, 0.03), (0.97, 0.97), (0.03, 0.97)])
    face.fill(outline, ink["white"])
    face.fill(0.5 + (outline - 0.5) * rng.uniform(0.9, 0.96), ink["blue"])
    face.text("P", (0.3, 0.2, 0.7, 0.8), ink["white"], font, int(rng.integers(0, 5)))
    return face, outline


def _crossing(
    rng: np.random.Generator, ink: dict[str, Color], font: str
) -> tuple[_Face, np.ndarray]:
    face = _Face(ink["black"])
    outline = polygon(4, 0.495, 0.0)
    face.fill(outline, ink["black"])
    face.fill(polygon(4, rng.uniform(0.44, 0.47), 0.0), ink["yellow"])
    limbs = [
        [(0.5, 0.35), (0.5, 0.57)],
        [(0.5, 0.57), (0.39, 0.75)],
        [(0.5, 0.57), (0.61, 0.75)],
        [(0.37, 0.46), (0.63, 0.43)],
    ]
    for limb in limbs:
        points = [(float(x) * _DRAW, float(y) * _DRAW) for x, y in limb]
        face.draw.line(points, fill=(*whole(ink["black"]), 255), width=round(0.055 * _DRAW))
    head = [0.445 * _DRAW, 0.24 * _DRAW, 0.555 * _DRAW, 0.35 * _DRAW]
    face.draw.ellipse(head, fill=(*whole(ink["black"]), 255))
    return face, outline


_DRAWERS = (_stop, _yield, _speed, _no_entry, _parking, _crossing)


def sign_texture(class_index: int, rng: np.random.Generator, sticker: float) -> SignTexture:
    """A worn sign of one class; with probability `sticker` something benign is stuck on it."""
    ink: dict[str, Color] = {
        "red": near(rng, (180, 25, 35), 28),
        "white": near(rng, (232, 232, 228), 20),
        "blue": near(rng, (25, 70, 165), 25),
        "black": near(rng, (22, 22, 24), 12),
        "yellow": near(rng, (240, 195, 30), 20),
    }
    font = _FONTS[int(rng.choice(len(_FONTS), p=[0.6, 0.25, 0.15]))]
    face, outline = _DRAWERS[class_index](rng, ink, font)
    pixels = np.asarray(face.image.reduce(_DRAW // SIDE), dtype=np.float32)
    rgb, alpha = pixels[..., :3].copy(), pixels[..., 3] / 255
    rgb = _worn(rgb, rng)
    if rng.random() < sticker:
        rgb = _with_large_patch(rgb, rng)
    if rng.random() < sticker * 0.5:
        rgb = _with_small_stickers(rgb, rng)
    return SignTexture(np.clip(rgb, 0, 255), alpha, outline)


def with_gray_square(texture: SignTexture, share: float) -> SignTexture:
    """The face with a centred mid-gray square over `share` of it: the occlusion control."""
    half = round(SIDE * math.sqrt(share * float(texture.alpha.mean())) / 2)
    rgb = texture.rgb.copy()
    middle = slice(SIDE // 2 - half, SIDE // 2 + half)
    rgb[middle, middle] = 128
    return SignTexture(rgb, texture.alpha, texture.outline)


def _worn(rgb: FloatArray, rng: np.random.Generator) -> FloatArray:
    if rng.random() < 0.6:
        rgb = rgb * (0.75 + 0.5 * fractal_noise(rng, SIDE, SIDE)[..., None])
    if rng.random() < 0.3:  # sun-bleached
        rgb = rgb + (rgb.mean() * 0.6 + 70 - rgb) * rng.uniform(0.05, 0.35)
    if rng.random() < 0.25:  # ribs of reflective sheeting
        period = rng.uniform(5, 16)
        ribs = 1 + rng.uniform(0.03, 0.2) * np.sin(np.arange(SIDE) * 2 * math.pi / period)
        rgb = rgb * ribs[None, :, None].astype(np.float32)
    if rng.random() < 0.25:  # dirt and rust
        stain = fractal_noise(rng, SIDE, SIDE, 4, int(rng.integers(3, 9)))
        cover = np.clip((stain - rng.uniform(0.55, 0.68)) * 8, 0, 1)[..., None] * rng.uniform(
            0.2, 0.9
        )
        rgb = rgb * (1 - cover) + cover * np.asarray(near(rng, (95, 70, 50), 30), np.float32)
    if rng.random() < 0.35:  # glare across the face
        rows, columns = np.mgrid[:SIDE, :SIDE].astype(np.float32) / SIDE - 0.5
        angle = rng.uniform(0, 2 * math.pi)
        ramp = columns * math.cos(angle) + rows * math.sin(angle) + rng.uniform(-0.3, 0.3)
        glare = np.exp(-((ramp / rng.uniform(0.1, 0.4)) ** 2))[..., None]
        rgb = rgb + glare * rng.uniform(10, 110)
    return rgb.astype(np.float32)


def _with_large_patch(rgb: FloatArray, rng: np.random.Generator) -> FloatArray:
    """One patch that covers 10-45 % of the face, mostly near its middle, as controls do."""
    side = int(SIDE * math.sqrt(rng.uniform(0.10, 0.45) * 0.83))
    stretch = float(np.exp(rng.normal(0, 0.15)))
    height, width = min(int(side * stretch), SIDE), min(int(side / stretch), SIDE)
    spread = 0.06 if rng.random() < 0.6 else 0.18
    top = int(np.clip(SIDE * (0.5 + rng.normal(0, spread)) - height / 2, 0, SIDE - height))
    left = int(np.clip(SIDE * (0.5 + rng.normal(0, spread)) - width / 2, 0, SIDE - width))
    patch = Image.fromarray(benign_patch(rng, height, width).astype(np.uint8))
    canvas = Image.new("RGBA", (SIDE, SIDE), (0, 0, 0, 0))
    canvas.paste(patch, (left, top))
    opaque = Image.new("L", (SIDE, SIDE), 0)
    opaque.paste(255, (left, top, left + width, top + height))
    canvas.putalpha(opaque)
    turn = rng.uniform(-25, 25) if rng.random() < 0.5 else 0.0
    middle = (left + width / 2, top + height / 2)
    turned = np.asarray(canvas.rotate(turn, Image.Resampling.BILINEAR, center=middle), np.float32)
    cover = turned[..., 3:] / 255
    return rgb * (1 - cover) + turned[..., :3] * cover


def _with_small_stickers(rgb: FloatArray, rng: np.random.Generator) -> FloatArray:
    rgb = rgb.copy()
    for _ in range(int(rng.integers(1, 4))):
        height, width = (int(SIDE * rng.uniform(0.05, 0.25)) for _ in range(2))
        top, left = int(rng.integers(0, SIDE - height)), int(rng.integers(0, SIDE - width))
        rgb[top : top + height, left : left + width] = benign_patch(rng, height, width)
    return rgb
