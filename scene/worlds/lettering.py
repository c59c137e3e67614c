"""Drawn pictures: sign faces, shop names, number plates."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from scene.worlds.surfaces import Color

Picture = NDArray[np.float32]


def as_bytes(color: Color) -> tuple[int, int, int]:
    """SRGB in [0, 1] to 0..255."""
    r, g, b = (round(255 * min(max(c, 0.0), 1.0)) for c in color)
    return r, g, b


def as_picture(image: Image.Image) -> Picture:
    """(h, w, 3) float32 in [0, 1]."""
    return np.asarray(image.convert("RGB"), dtype=np.float32) / np.float32(255)


@lru_cache(maxsize=64)
def bold_font(size: int) -> ImageFont.FreeTypeFont:
    """DejaVu Sans Bold, from matplotlib's own files, so that every machine draws the same."""
    import matplotlib

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    return ImageFont.truetype(str(folder / "DejaVuSans-Bold.ttf"), size)


def text_image(
    text: str, width: int, height: int, color: Color, spacing: float = 0.04
) -> Image.Image:
    """RGBA picture of `text` whose letters fill width x height exactly, letter-spaced."""
    font = bold_font(200)
    gap = int(200 * spacing)
    boxes = [font.getbbox(letter) for letter in text]
    widths = [int(box[2] - box[0]) if letter != " " else 60
              for box, letter in zip(boxes, text, strict=True)]  # fmt: skip
    mask = Image.new("L", (sum(widths) + gap * (len(text) - 1), 300), 0)
    draw = ImageDraw.Draw(mask)
    x = 0
    for letter, box, letter_width in zip(text, boxes, widths, strict=True):
        draw.text((x - box[0], 20), letter, font=font, fill=255)
        x += letter_width + gap
    mask = mask.crop(mask.getbbox() or (0, 0, 1, 1))
    mask = mask.resize((width, height), Image.Resampling.LANCZOS)
    image = Image.new("RGBA", (width, height), (*as_bytes(color), 255))
    image.putalpha(mask)
    return image


def polygon(
    center: tuple[float, float], radius: float, sides: int, phase_deg: float
) -> list[tuple[float, float]]:
    """Corners of a regular polygon in pixels."""
    angles = np.radians(phase_deg) + np.arange(sides) * 2 * np.pi / sides
    return [(center[0] + radius * np.cos(a), center[1] + radius * np.sin(a)) for a in angles]


@lru_cache(maxsize=32)
def shop_board(name: str, ground: Color, ink: Color) -> Picture:
    """A shop's name board, 1024 x 128."""
    image = Image.new("RGB", (1024, 128), as_bytes(ground))
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 0, 1023, 127), outline=as_bytes(ink), width=3)
    width = min(900, 62 * len(name))
    letters = text_image(name, width, 64, ink, spacing=0.12)
    image.paste(letters, ((1024 - width) // 2, 32), letters)
    return as_picture(image)


@lru_cache(maxsize=8)
def number_plate(text: str) -> Picture:
    """A car's number plate, 256 x 64."""
    image = Image.new("RGB", (256, 64), (236, 236, 230))
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 0, 255, 63), outline=(40, 40, 60), width=4)
    letters = text_image(text, 208, 36, (0.12, 0.12, 0.2), spacing=0.1)
    image.paste(letters, (24, 14), letters)
    return as_picture(image)
