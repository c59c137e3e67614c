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


@lru_cache(maxsize=8)
def shelf_texture(seed: int) -> Texture:
    """A wall of shelves with rows of similar goods: boxes or bottles of few colors a row."""
    w, h, rows = 512, 256, 5
    rng = np.random.default_rng(300 + seed)
    image = Image.new("RGB", (w, h), (52, 44, 38))
    draw = ImageDraw.Draw(image)
    for row in range(rows):
        floor = (row + 1) * h // rows - 5
        draw.rectangle((0, floor, w, floor + 5), fill=(150, 122, 90))
        x = 4
        while x < w - 14:
            run = int(rng.integers(3, 9))
            wide, tall = int(rng.integers(8, 20)), int(rng.uniform(0.5, 0.86) * h / rows)
            color = _GOODS[rng.integers(len(_GOODS))]
            for _ in range(run):
                if x + wide > w - 4:
                    break
                tone = as_bytes(scaled(color, rng.uniform(0.85, 1.1)))
                draw.rectangle((x, floor - tall, x + wide - 2, floor - 1), fill=tone)
                x += wide
            x += int(rng.integers(4, 16))
    for x in (0, w // 3, 2 * w // 3, w - 5):
        draw.rectangle((x, 0, x + 5, h), fill=(120, 96, 70))
    return Texture.from_srgb(as_picture(image))


def room_behind(
    name: str, left: float, width: float, seed: int, depth: float = 3.4
) -> list[Surface]:
    """A lit room behind a front in y = 0, from y = 0.15 to `depth`."""
    rng = np.random.default_rng(400 + seed)
    wall = Material(painted(_WALLS[seed % len(_WALLS)], 64, 0.12), 2.0, glow=_LAMPS)
    floor = Material(planks(65, (0.46, 0.34, 0.24)), 1.5, glow=_LAMPS)
    ceiling = Material(flat((0.80, 0.79, 0.76)), None, glow=_LAMPS)
    shelves = Material(shelf_texture(seed % 6), None, glow=_LAMPS)
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
