"""Rooms behind shop windows: floor, walls, ceiling lamps, shelves with goods, a counter."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from PIL import Image, ImageDraw

from scene.worlds.lettering import as_bytes, as_picture
from scene.worlds.patterns import flat, painted, planks, scaled
from scene.worlds.surfaces import Color, Material, Surface, ball, box, cylinder, quad
from scene.worlds.textures import Texture

_LAMPS: Color = (1.15, 1.0, 0.8)
_WALLS: tuple[Color, ...] = (
    (0.74, 0.68, 0.56),
    (0.56, 0.64, 0.62),
    (0.72, 0.60, 0.52),
    (0.64, 0.66, 0.70),
)
_GOODS: tuple[Color, ...] = (
    (0.62, 0.22, 0.16),
    (0.18, 0.34, 0.44),
    (0.76, 0.62, 0.26),
    (0.26, 0.40, 0.24),
    (0.80, 0.76, 0.66),
    (0.40, 0.26, 0.18),
)


GOODS_KINDS = ("books", "loaves", "bottles", "clothes", "pictures", "pots")
"""What a shop's back wall can hold."""


@lru_cache(maxsize=8)
def goods_texture(kind: str) -> Texture:
    """A shop's back wall, about 2.3 times as wide as high."""
    image = Image.new("RGB", (512, 224), (52, 44, 38))
    draw = ImageDraw.Draw(image)
    rng = np.random.default_rng(300 + GOODS_KINDS.index(kind))
    if kind == "clothes":
        _draw_clothes(draw, rng)
    elif kind == "pictures":
        _draw_pictures(draw, rng)
    else:
        _draw_shelves(draw, rng, kind)
    return Texture.from_srgb(as_picture(image))


def _draw_shelves(draw: ImageDraw.ImageDraw, rng: np.random.Generator, kind: str) -> None:
    """Shelves with runs of like goods."""
    w, h, rows = 512, 224, 5 if kind == "books" else 4
    pale = kind in ("loaves", "pots")
    draw.rectangle((0, 0, w, h), fill=(196, 186, 168) if pale else (58, 48, 40))
    browns: tuple[Color, ...] = ((0.62, 0.42, 0.20), (0.72, 0.52, 0.28), (0.50, 0.32, 0.16))
    glass: tuple[Color, ...] = ((0.16, 0.26, 0.16), (0.34, 0.20, 0.10), (0.60, 0.60, 0.52))
    clay: tuple[Color, ...] = ((0.70, 0.40, 0.28), (0.86, 0.84, 0.78), (0.30, 0.42, 0.48))
    palette = {"books": _GOODS, "loaves": browns, "bottles": glass, "pots": clay}[kind]
    for row in range(rows):
        floor = (row + 1) * h // rows - 5
        draw.rectangle((0, floor, w, floor + 5), fill=(150, 122, 90))
        x = 4
        while x < w - 30:
            wide = int(
                rng.integers(9, 18) if kind in ("books", "bottles") else rng.integers(20, 34)
            )
            tall = int(rng.uniform(0.45, 0.80) * h / rows)
            color = palette[int(rng.integers(len(palette)))]
            for _ in range(int(rng.integers(3, 8))):
                if x + wide > w - 4:
                    break
                tone = as_bytes(scaled(color, rng.uniform(0.85, 1.1)))
                at = (x, floor - tall, x + wide - 2, floor - 1)
                if kind == "loaves" or kind == "pots":
                    draw.ellipse((x, floor - tall, x + wide - 2, floor + tall // 2), fill=tone)
                    draw.rectangle((x, floor, x + wide, floor + 5), fill=(150, 122, 90))
                else:
                    draw.rectangle(at, fill=tone)
                x += wide
            x += int(rng.integers(4, 18))
        draw.rectangle((0, floor, w, floor + 5), fill=(150, 122, 90))
        draw.rectangle(
            (0, floor + 6, w, floor + 11), fill=(120, 112, 100) if pale else (36, 30, 26)
        )
    for x in (0, w // 3, 2 * w // 3, w - 5):
        draw.rectangle((x, 0, x + 5, h), fill=(120, 96, 70))


def _draw_clothes(draw: ImageDraw.ImageDraw, rng: np.random.Generator) -> None:
    """A rail of hung clothes on a pale wall, a shelf of folded ones above."""
    draw.rectangle((0, 0, 512, 224), fill=(206, 198, 186))
    draw.rectangle((0, 60, 512, 64), fill=(120, 110, 100))
    for x in range(8, 490, 44):
        tone = as_bytes(scaled(_GOODS[int(rng.integers(len(_GOODS)))], 1.0))
        for k in range(4):
            draw.rectangle((x, 50 - 9 * k, x + 34, 58 - 9 * k), fill=tone)
    x = 10
    while x < 490:
        color = scaled(_GOODS[int(rng.integers(len(_GOODS)))], rng.uniform(0.8, 1.15))
        wide, tall = int(rng.integers(9, 15)), int(rng.integers(90, 130))
        draw.rectangle((x, 76, x + wide, 76 + tall), fill=as_bytes(color))
        draw.line((x + wide, 76, x + wide, 76 + tall), fill=as_bytes(scaled(color, 0.6)), width=2)
        x += wide + 2 if rng.random() < 0.9 else 40
    draw.line((0, 74, 512, 74), fill=(90, 90, 92), width=3)


def _draw_pictures(draw: ImageDraw.ImageDraw, rng: np.random.Generator) -> None:
    """Framed plain pictures on a wall."""
    draw.rectangle((0, 0, 512, 224), fill=(188, 182, 168))
    for x in range(20, 480, 96):
        for y in (16, 118):
            w, h = int(rng.integers(48, 78)), int(rng.integers(52, 84))
            draw.rectangle((x, y, x + w, y + h), fill=(92, 70, 48))
            sky = scaled(_GOODS[int(rng.integers(len(_GOODS)))], 1.25, 0.1)
            land = scaled(_GOODS[int(rng.integers(len(_GOODS)))], 0.9)
            draw.rectangle((x + 5, y + 5, x + w - 5, y + h - 5), fill=as_bytes(sky))
            draw.rectangle((x + 5, y + h * 0.6, x + w - 5, y + h - 5), fill=as_bytes(land))


def room_behind(
    name: str, left: float, width: float, seed: int, goods: str = "books", depth: float = 3.4
) -> list[Surface]:
    """A lit room behind a front in y = 0, from y = 0.15 to `depth`; goods: a kind of back wall."""
    rng = np.random.default_rng(400 + seed)
    wall = Material(painted(_WALLS[seed % len(_WALLS)], 64, 0.12), 2.0, glow=_LAMPS)
    floor = Material(planks(65, (0.46, 0.34, 0.24)), 1.5, glow=_LAMPS)
    ceiling = Material(flat((0.80, 0.79, 0.76)), None, glow=_LAMPS)
    shelves = Material(goods_texture(goods), None, glow=_LAMPS)
    near, top = 0.15, 2.9
    deep = depth - near
    parts = [
        quad(name + " floor", (left, near, 0.05), (width, 0, 0), (0, deep, 0), floor, 1.2),
        quad(name + " ceiling", (left, depth, top), (width, 0, 0), (0, -deep, 0), ceiling, 1.2),
        quad(name + " west", (left, near, 0.05), (0, deep, 0), (0, 0, top), wall, 1.2),
        quad(name + " east", (left + width, depth, 0.05), (0, -deep, 0), (0, 0, top), wall, 1.2),
        quad(name + " back", (left, depth, 0.05), (width, 0, 0), (0, 0, top), wall, 1.2),
        quad(name + " shelves", (left + 0.3, depth - 0.3, 0.1), (width - 0.6, 0, 0), (0, 0, 2.2),
             shelves, 1.2),
    ]  # fmt: skip
    bright = Material(flat((0.95, 0.93, 0.86)), None, glow=(7.0, 6.4, 5.4))
    for i in range(3):
        x = left + width * (i + 0.5) / 3
        parts += box(f"{name} lamp {i}", (x, depth * 0.55, top - 0.05), (0.16, 1.6, 0.06), bright,
                     ("+x", "-x", "-y", "+y", "-z"), 2)  # fmt: skip
    parts += _counter(name, left, width, depth)
    parts += _display(name, left, width, rng)
    return parts


def _counter(name: str, left: float, width: float, depth: float) -> list[Surface]:
    wood = Material(planks(66, (0.52, 0.38, 0.24)), 1.0, glow=_LAMPS)
    middle = (left + width * 0.62, depth - 1.2, 0.55)
    return box(name + " counter", middle, (width * 0.5, 0.6, 1.0), wood, cell=1)


def _display(name: str, left: float, width: float, rng: np.random.Generator) -> list[Surface]:
    """Goods on a plinth just behind the window: a few boxes, vases and balls, with gaps."""
    plinth = Material(painted((0.72, 0.70, 0.66), 67, 0.1), None, glow=_LAMPS)
    parts = box(name + " plinth", (left + width * 0.36, 0.62, 0.32), (width * 0.6, 0.7, 0.55),
                plinth, cell=1)  # fmt: skip
    top = 0.595
    for i, x in enumerate(np.linspace(left + 0.4, left + width * 0.62, 5)):
        color = _GOODS[int(rng.integers(len(_GOODS)))]
        material = Material(painted(color, 68 + i, 0.1), None, gloss=0.2, glow=_LAMPS)
        size = rng.uniform(0.22, 0.42)
        kind = int(rng.integers(3))
        at = (x + rng.uniform(-0.1, 0.1), 0.62 + rng.uniform(-0.15, 0.15))
        label = f"{name} goods {i}"
        if kind == 0:
            parts += box(label, (*at, top + size / 2), (size, size * 0.7, size), material, cell=1)
        elif kind == 1:
            parts.append(cylinder(label, (*at, top), size * 0.3, size * 1.2, material, size * 0.22))
        else:
            parts.append(ball(label, (*at, top + size * 0.4), size * 0.4, material, rings=8))
    return parts
