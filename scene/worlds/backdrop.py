"""What closes the view: plain blocks further down the streets, tree lines, hills."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from PIL import Image, ImageDraw

from scene.worlds.lettering import as_bytes, as_picture
from scene.worlds.noise import fractal_noise
from scene.worlds.patterns import foliage, painted, ramp, scaled
from scene.worlds.surfaces import Color, Material, Surface, ball, box, grid
from scene.worlds.textures import Texture

WALL_COLORS: tuple[Color, ...] = (
    (0.62, 0.42, 0.34),
    (0.78, 0.73, 0.63),
    (0.70, 0.66, 0.60),
    (0.60, 0.50, 0.42),
    (0.80, 0.76, 0.70),
    (0.56, 0.58, 0.60),
)


@lru_cache(maxsize=8)
def distant_facade(kind: int) -> Texture:
    """Three bays by three storeys of a plain front, 9 x 9 m a repeat."""
    size = 256
    rng = np.random.default_rng(500 + kind)
    color = WALL_COLORS[kind % len(WALL_COLORS)]
    image = Image.new("RGB", (size, size), as_bytes(color))
    draw = ImageDraw.Draw(image)
    step = size / 3
    for i in range(3):
        for j in range(3):
            x, y = (i + 0.5) * step, (j + 0.5) * step
            draw.rectangle((x - 20, y - 27, x + 20, y + 27), fill=(214, 208, 196))
            shade = int(rng.integers(34, 60))
            draw.rectangle((x - 16, y - 23, x + 16, y + 23), fill=(shade, shade + 4, shade + 10))
            draw.line((x - 16, y, x + 16, y), fill=(206, 202, 194), width=3)
            draw.line((x, y - 23, x, y + 23), fill=(206, 202, 194), width=3)
    for j in range(3):
        y = (j + 1) * step - 4
        draw.line((0, y, size, y), fill=as_bytes(scaled(color, 0.85)), width=4)
    return Texture.from_srgb(as_picture(image))


def distant_block(name: str, center: ArrayLike, size: ArrayLike, kind: int) -> list[Surface]:
    """A plain building with rows of painted windows and a flat roof edge."""
    front = Material(distant_facade(kind), 9.0)
    roof = Material(painted((0.42, 0.40, 0.38), 55, 0.2), None)
    center, size = np.asarray(center, float), np.asarray(size, float)
    parts = box(name, center, size, front, cell=3.0, others={"+z": roof})
    edge = center + np.array([0, 0, size[2] / 2 + 0.15])
    trim = Material(painted((0.70, 0.67, 0.62), 56, 0.2), None)
    parts += box(name + " edge", edge, size + np.array([0.5, 0.5, 0.3 - size[2]]), trim, cell=4.0)
    return parts


def tree_line(
    name: str, start: ArrayLike, end: ArrayLike, count: int, radius: float, seed: int
) -> list[Surface]:
    """A row of round crowns from start to end (centres)."""
    rng = np.random.default_rng(seed)
    leaf = Material(foliage(14, (0.24, 0.35, 0.16)), 3.0)
    start, end = np.asarray(start, float), np.asarray(end, float)
    parts = []
    for i, t in enumerate(np.linspace(0, 1, count)):
        center = start + t * (end - start) + rng.normal(0, 0.25 * radius, 3) * (1, 1, 0.4)
        size = radius * rng.uniform(0.8, 1.25)
        parts.append(
            ball(f"{name} {i}", center, (size, size, size * 1.05), leaf, 0.12, seed + i, 10)
        )
    return parts


def hills(radius: float = 260.0, height: float = 26.0, seed: int = 57) -> Surface:
    """A ring of wooded hills around everything."""
    steps = 180
    angle = np.linspace(0, 2 * np.pi, steps + 1)
    outline = fractal_noise(256, seed, 2, 5)[0, (np.arange(steps + 1) % steps) * 256 // steps]
    top = height * (0.45 + 0.75 * outline)
    ring = np.stack([np.cos(angle), np.sin(angle), np.zeros_like(angle)], axis=1)
    upper = ring * (radius + 60)
    upper[:, 2] = top
    lower = ring * radius
    lower[:, 2] = -2.0
    noise = 0.5 * fractal_noise(256, seed, 4, 5) + 0.5 * fractal_noise(256, seed + 1, 24, 3)
    wood = Texture.from_srgb(
        ramp(noise, (0.20, 0.28, 0.15), (0.34, 0.42, 0.24), (0.45, 0.50, 0.32))
    )
    # seen from inside: u runs clockwise
    points = np.stack([lower[::-1], (lower + upper)[::-1] / 2, upper[::-1]])
    return grid("hills", points, Material(wood, 60.0))
