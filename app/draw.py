"""Boxes and captions drawn onto renders, and renders tiled into one picture.

Text that a model wrote is drawn as pixels or shown in a plain text field, never as HTML.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
Box = Sequence[float]
Rgb = tuple[int, int, int]

GROUND_TRUTH: Rgb = (0, 200, 120)
FOOTPRINT: Rgb = (255, 214, 10)
VICTIM_COLORS: tuple[Rgb, ...] = ((86, 180, 233), (230, 120, 200), (240, 140, 60), (170, 140, 255))
PAPER: Rgb = (24, 26, 30)
INK: Rgb = (235, 237, 240)
CAPTION_PX = 24
LABEL_PX = 22
LINE_PX = 4
"""Sizes in a sheet that the page shows at half its size, so that it is sharp on dense screens."""


@dataclass(frozen=True)
class Mark:
    """A box to draw. box: xyxy pixels. label: short caption ('' for none). dashed: dotted edge."""

    box: tuple[float, float, float, float]
    color: Rgb
    label: str = ""
    dashed: bool = False


def as_pixels(rgb: NDArray[Any]) -> Pixels:
    """(H, W, 3) float sRGB in [0, 1] to uint8; uint8 passes through."""
    if rgb.dtype == np.uint8:
        return rgb
    return (np.clip(rgb, 0, 1) * 255 + 0.5).astype(np.uint8)


def fitted(picture: Pixels, width: int, height: int, paper: Rgb = PAPER) -> tuple[Pixels, float]:
    """`picture` shrunk or grown to fit a (height, width) canvas, centered; and the factor used."""
    from PIL import Image

    h, w = picture.shape[:2]
    factor = min(width / w, height / h)
    size = (max(1, round(w * factor)), max(1, round(h * factor)))
    shrunk = Image.fromarray(picture).resize(size, Image.Resampling.BILINEAR)
    canvas = Image.new("RGB", (width, height), paper)
    canvas.paste(shrunk, ((width - size[0]) // 2, (height - size[1]) // 2))
    return np.asarray(canvas), factor


def marked(picture: Pixels, marks: Sequence[Mark], scale: float = 1.0) -> Pixels:
    """`picture` resized by `scale` with boxes drawn at that size (thin lines stay readable)."""
    from PIL import Image, ImageDraw

    h, w = picture.shape[:2]
    image = Image.fromarray(picture)
    if scale != 1.0:
        size = (max(1, round(w * scale)), max(1, round(h * scale)))
        image = image.resize(size, Image.Resampling.BILINEAR)
    pen = ImageDraw.Draw(image)
    for mark in marks:
        _draw_box(pen, image.size, mark, scale)
    return np.asarray(image)


def tiled(tiles: Sequence[tuple[str, Pixels]], columns: int = 2, gap: int = 8) -> Pixels:
    """Pictures of one size in a grid, `columns` wide, each with its caption in the upper corner."""
    from PIL import Image, ImageDraw

    h, w = tiles[0][1].shape[:2]
    columns = min(columns, len(tiles))
    rows = -(-len(tiles) // columns)
    size = (columns * w + (columns - 1) * gap, rows * h + (rows - 1) * gap)
    sheet = Image.new("RGB", size, PAPER)
    pen = ImageDraw.Draw(sheet)
    font = _font(CAPTION_PX)
    for index, (caption, picture) in enumerate(tiles):
        x, y = index % columns * (w + gap), index // columns * (h + gap)
        sheet.paste(Image.fromarray(picture).resize((w, h)), (x, y))
        _, top, right, bottom = pen.textbbox((0, 0), caption, font=font)
        pen.rectangle((x, y, x + right + 12, y + bottom + top + 2), fill=PAPER)
        pen.text((x + 6, y + 1), caption, fill=INK, font=font)
    return np.asarray(sheet)


def blank(width: int, height: int, text: str = "") -> Pixels:
    """A dark picture with one line of text in its middle."""
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (width, height), (36, 39, 45))
    if text:
        pen = ImageDraw.Draw(image)
        pen.text(
            (width / 2, height / 2), text, fill=(150, 155, 165), font=_font(CAPTION_PX), anchor="mm"
        )
    return np.asarray(image)


def on_checkers(rgba: NDArray[np.float32], side: int) -> Pixels:
    """(h, w, 4) float RGBA on a checkerboard, fitted into a square of `side` pixels."""
    h, w = rgba.shape[:2]
    y, x = np.mgrid[:h, :w] * 16 // max(h, w)
    board = np.where((x + y) % 2, 0.75, 0.55)[..., None]
    flat = rgba[..., :3] * rgba[..., 3:] + board * (1 - rgba[..., 3:])
    return fitted(as_pixels(flat), side, side)[0]


def _draw_box(pen: Any, size: tuple[int, int], mark: Mark, scale: float) -> None:
    x0, y0, x1, y1 = (float(v) * scale for v in mark.box)
    x0, x1 = max(min(x0, size[0] - 1.0), 0.0), max(min(x1, size[0] - 1.0), 0.0)
    y0, y1 = max(min(y0, size[1] - 1.0), 0.0), max(min(y1, size[1] - 1.0), 0.0)
    if mark.dashed:
        corners = [(x0, y0), (x1, y0), (x1, y1), (x0, y1), (x0, y0)]
        for (ax, ay), (bx, by) in pairwise(corners):
            _dashes(pen, ax, ay, bx, by, mark.color)
    else:
        pen.rectangle((x0, y0, x1, y1), outline=mark.color, width=LINE_PX)
    if mark.label:
        font = _font(LABEL_PX)
        left, top, right, bottom = pen.textbbox((0, 0), mark.label, font=font)
        wide, tall = right - left + 10, bottom - top + 8
        tx = min(x0, size[0] - wide)
        ty = y0 - tall if y0 >= tall else min(y0 + 2, size[1] - tall)
        pen.rectangle((tx, ty, tx + wide, ty + tall), fill=mark.color)
        pen.text((tx + 5 - left, ty + 4 - top), mark.label, fill=(10, 10, 10), font=font)


def _dashes(pen: Any, ax: float, ay: float, bx: float, by: float, color: Rgb) -> None:
    length = max(abs(bx - ax), abs(by - ay))
    count = max(1, int(length // 14))
    for i in range(count):
        t0, t1 = i / count, (i + 0.55) / count
        ends = (ax + (bx - ax) * t0, ay + (by - ay) * t0, ax + (bx - ax) * t1, ay + (by - ay) * t1)
        pen.line(ends, fill=color, width=LINE_PX)


@lru_cache(maxsize=8)
def _font(size: int) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size)
