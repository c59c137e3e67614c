"""Procedural textures of a street: ground, walls, plants, metal. All tile, all are cached."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from scene.worlds.noise import fractal_noise
from scene.worlds.surfaces import Color
from scene.worlds.textures import Texture

Picture = NDArray[np.float32]
"""(h, w, 3) sRGB in [0, 1]."""


def ramp(values: NDArray[np.floating], *colors: Color) -> Picture:
    """Values in [0, 1] (h, w) to a color ramp (h, w, 3)."""
    stops = np.asarray(colors, np.float32)
    position = np.clip(values, 0, 1) * (len(stops) - 1)
    low = np.clip(position.astype(np.int64), 0, len(stops) - 2)
    t = (position - low)[..., None].astype(np.float32)
    mixed: Picture = stops[low] * (1 - t) + stops[low + 1] * t
    return mixed


def scaled(color: Color, factor: float, lift: float = 0.0) -> Color:
    """A color made darker or lighter, kept in [0, 1]."""
    r, g, b = (min(1.0, factor * c + lift) for c in color)
    return r, g, b


def weathered(picture: Picture, seed: int, strength: float = 0.25) -> Picture:
    """The picture under soft dirt: darker by up to `strength` in patches."""
    height, width = picture.shape[:2]
    noise = fractal_noise(512, seed, coarsest=3, octaves=8)
    rows, columns = np.arange(height) * 512 // height, np.arange(width) * 512 // width
    dirt = noise[np.ix_(rows, columns)][..., None]
    return np.clip(picture * (1 - strength * dirt), 0, 1).astype(np.float32)


@lru_cache(maxsize=256)
def flat(color: Color) -> Texture:
    """One color."""
    return Texture.flat(color)


@lru_cache(maxsize=64)
def painted(color: Color, seed: int, strength: float = 0.2) -> Texture:
    """Paint or metal of one color with some dirt."""
    return Texture.from_srgb(
        weathered(np.broadcast_to(np.asarray(color, np.float32), (256, 256, 3)), seed, strength)
    )


@lru_cache(maxsize=8)
def asphalt(seed: int) -> Texture:
    """Road surface, 4 m: gray with grain, darker patches and a few tar lines."""
    size = 512
    tone = 0.75 * fractal_noise(size, seed, 3, 6) + 0.25 * fractal_noise(size, seed + 1, 64, 3)
    picture = ramp(tone, (0.30, 0.30, 0.31), (0.43, 0.43, 0.43), (0.52, 0.51, 0.50))
    crack = np.abs(fractal_noise(size, seed + 2, 2, 5) - 0.5)
    picture *= 1 - 0.35 * np.exp(-((crack / 0.004) ** 2))[..., None]
    return Texture.from_srgb(picture)


@lru_cache(maxsize=8)
def paving(seed: int, columns: int = 4, rows: int = 4, joint: int = 3) -> Texture:
    """Pavement slabs: columns x rows of them a repeat, each its own shade, dark joints."""
    size = 512
    rng = np.random.default_rng(seed)
    tone = fractal_noise(size, seed, 8, 6)
    picture = ramp(tone, (0.55, 0.54, 0.51), (0.66, 0.65, 0.62))
    shade = rng.uniform(0.90, 1.06, (rows, columns))
    y, x = np.arange(size) * rows // size, np.arange(size) * columns // size
    picture = picture * shade[np.ix_(y, x)][..., None].astype(np.float32)
    gap = np.zeros((size, size), bool)
    gap[np.arange(size) % (size // rows) < joint] = True
    gap[:, np.arange(size) % (size // columns) < joint] = True
    picture[gap] *= 0.72
    return Texture.from_srgb(picture)


@lru_cache(maxsize=16)
def bricks(seed: int, color: Color, rows: int = 16) -> Texture:
    """Brick wall, rows * 0.075 m a repeat: running bond, pale mortar."""
    size = 512
    rng = np.random.default_rng(seed)
    course = size // rows
    columns = rows * 2 // 5 // 2 * 2
    length = size / columns
    y, x = np.mgrid[:size, :size].astype(np.float32)
    row = (y // course).astype(np.int64)
    shifted = x + (row % 2) * length / 2
    column = (shifted // length).astype(np.int64) % columns
    shade = rng.uniform(0.78, 1.12, (rows, columns))[row % rows, column]
    tone = 0.94 + 0.12 * fractal_noise(size, seed, 16, 5)
    picture = np.asarray(color, np.float32) * (shade * tone)[..., None]
    mortar = (y % course < 3) | (shifted % length < 3)
    picture[mortar] = np.asarray((0.66, 0.64, 0.60), np.float32) * tone[mortar][..., None]
    return Texture.from_srgb(np.clip(picture, 0, 1).astype(np.float32))


@lru_cache(maxsize=16)
def plaster(seed: int, color: Color) -> Texture:
    """Painted render with faint stains."""
    size = 256
    tone = 0.90 + 0.10 * fractal_noise(size, seed, 2, 7)
    return Texture.from_srgb((np.asarray(color, np.float32) * tone[..., None]).astype(np.float32))


@lru_cache(maxsize=8)
def stone_blocks(seed: int, color: Color, rows: int = 6) -> Texture:
    """Dressed stone, rows * 0.4 m a repeat."""
    size = 512
    rng = np.random.default_rng(seed)
    course, length = size / rows, size / (rows // 2)
    y, x = np.mgrid[:size, :size].astype(np.float32)
    row = (y // course).astype(np.int64)
    shifted = x + (row % 2) * length / 2
    column = (shifted // length).astype(np.int64) % (rows // 2)
    shade = rng.uniform(0.90, 1.05, (rows, rows // 2))[row % rows, column]
    tone = 0.92 + 0.14 * fractal_noise(size, seed, 6, 6)
    picture = np.asarray(color, np.float32) * (shade * tone)[..., None]
    joint = (y % course < 3) | (shifted % length < 3)
    picture[joint] *= 0.72
    return Texture.from_srgb(np.clip(picture, 0, 1).astype(np.float32))


@lru_cache(maxsize=4)
def roof_tiles(seed: int, color: Color = (0.36, 0.33, 0.33)) -> Texture:
    """Slates in rows, 2 m."""
    size, rows, columns = 256, 10, 12
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:size, :size].astype(np.float32)
    row = np.minimum((y * rows / size).astype(np.int64), rows - 1)
    column = (x * columns / size + 0.5 * (row % 2)).astype(np.int64) % columns
    shade = rng.uniform(0.8, 1.12, (rows, columns))[row, column]
    shade = shade * (1 - 0.25 * ((y * rows / size) % 1 > 0.86))
    return Texture.from_srgb((np.asarray(color, np.float32) * shade[..., None]).astype(np.float32))


@lru_cache(maxsize=4)
def grass(seed: int) -> Texture:
    """Short grass, 2 m."""
    tone = 0.5 * fractal_noise(512, seed, 4, 7) + 0.5 * fractal_noise(512, seed + 1, 48, 4)
    return Texture.from_srgb(ramp(tone, (0.16, 0.24, 0.09), (0.36, 0.46, 0.18), (0.52, 0.56, 0.28)))


@lru_cache(maxsize=8)
def foliage(seed: int, color: Color = (0.30, 0.42, 0.15)) -> Texture:
    """Leaves seen as a mass, 1.2 m: clumps of light and dark."""
    tone = 0.45 * fractal_noise(512, seed, 6, 5) + 0.55 * fractal_noise(512, seed + 1, 32, 4)
    tone = np.clip((tone - 0.5) * 1.5 + 0.5, 0, 1)
    dark, light = scaled(color, 0.42), scaled(color, 1.5, 0.05)
    return Texture.from_srgb(ramp(tone, dark, color, light))


@lru_cache(maxsize=4)
def bark(seed: int) -> Texture:
    """Tree bark, grooves along v."""
    noise = fractal_noise(256, seed, 4, 6)
    x = np.arange(256)[None] / 256
    grooves = 0.5 + 0.5 * np.sin(2 * np.pi * (x * 14 + 1.6 * noise))
    return Texture.from_srgb(
        ramp(0.5 * grooves + 0.5 * noise, (0.20, 0.15, 0.11), (0.48, 0.40, 0.32))
    )


@lru_cache(maxsize=8)
def planks(seed: int, color: Color, count: int = 6) -> Texture:
    """Wooden boards along u."""
    size = 256
    rng = np.random.default_rng(seed)
    noise = fractal_noise(size, seed, 2, 6)
    y = np.arange(size)[:, None] / size
    veins = 0.5 + 0.5 * np.sin(2 * np.pi * (y * 24 + noise * 5))
    board = np.arange(size) * count // size
    shade = rng.uniform(0.82, 1.10, count)[board][:, None]
    picture = np.asarray(color, np.float32) * ((0.82 + 0.18 * veins) * shade)[..., None]
    picture[np.arange(size) % (size // count) < 2] *= 0.5
    return Texture.from_srgb(np.clip(picture, 0, 1).astype(np.float32))


@lru_cache(maxsize=16)
def stripes(first: Color, second: Color, count: int = 8) -> Texture:
    """Awning cloth: stripes along v."""
    band = (np.arange(256) * 2 * count // 256) % 2
    row = np.where(
        band[:, None] == 0, np.asarray(first, np.float32), np.asarray(second, np.float32)
    )
    return Texture.from_srgb(np.broadcast_to(row, (256, 256, 3)).astype(np.float32))
