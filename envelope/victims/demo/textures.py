"""Procedural textures: fractal noise, surfaces, and the benign patches that are no attack.

Every function draws from the generator it is given and from nothing else. Arrays are float32 in
0..255 (colors) or 0..1 (noise).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from PIL import Image

FloatArray = NDArray[np.floating]
Color = tuple[float, float, float]


def resized(array: FloatArray, height: int, width: int, smooth: bool = True) -> FloatArray:
    """A (h, w) or (h, w, 3) float array at another size (bicubic, or blocks when not smooth)."""
    method = Image.Resampling.BICUBIC if smooth else Image.Resampling.NEAREST
    if array.ndim == 2:
        planes = [array]
    else:
        planes = [array[..., channel] for channel in range(array.shape[2])]
    out = [
        np.asarray(Image.fromarray(np.ascontiguousarray(plane)).resize((width, height), method))
        for plane in planes
    ]
    return out[0] if array.ndim == 2 else np.stack(out, axis=-1)


def fractal_noise(
    rng: np.random.Generator, height: int, width: int, octaves: int = 4, base: int = 3
) -> FloatArray:
    """(height, width) noise in about 0..1 whose detail falls off as in photographs."""
    total = np.zeros((height, width), np.float32)
    weight, weights = 1.0, 0.0
    for octave in range(octaves):
        cells = base * 2**octave
        grid = rng.random((cells + 1, cells + 1), dtype=np.float32)
        total += weight * resized(grid, height, width)
        weights += weight
        weight *= 0.55
    return total / weights


def near(rng: np.random.Generator, color: Color, spread: float) -> Color:
    """A color within +-spread of another, clipped to 0..255."""
    shifted = np.clip(np.asarray(color) + rng.uniform(-spread, spread, 3), 0, 255)
    return (float(shifted[0]), float(shifted[1]), float(shifted[2]))


def any_color(rng: np.random.Generator) -> Color:
    """Any color; half of them muted, as most things in the street are."""
    color = rng.uniform(0, 255, 3)
    if rng.random() < 0.5:
        color = color.mean() + (color - color.mean()) * 0.3
    return (float(color[0]), float(color[1]), float(color[2]))


def whole(color: Color) -> tuple[int, int, int]:
    """The color as integers, for drawing."""
    red, green, blue = (int(np.clip(round(value), 0, 255)) for value in color)
    return red, green, blue


def benign_patch(rng: np.random.Generator, height: int, width: int) -> FloatArray:
    """(height, width, 3) sticker that is no attack: gray, flat, noise, stripes, dots, blobs.

    A victim that has seen these on signs is not broken by occlusion alone, which is what the gray
    control of an envelope presumes.
    """
    kind = rng.choice(
        ["gray", "flat", "pixels", "blocks", "blobs", "stripes", "dots", "checker"],
        p=[0.26, 0.12, 0.12, 0.14, 0.12, 0.1, 0.08, 0.06],
    )
    if kind == "gray":
        level = float(rng.uniform(60, 190))
        return np.full((height, width, 3), level, np.float32)
    if kind == "flat":
        return _flat(any_color(rng), height, width)
    if kind == "pixels":
        cell = int(rng.integers(1, 4))
        grid = rng.uniform(0, 255, (height // cell + 1, width // cell + 1, 3)).astype(np.float32)
        return resized(grid, height, width, smooth=False)
    if kind in ("blocks", "blobs"):
        cells = int(rng.integers(3, 15))
        grid = rng.uniform(0, 255, (cells, cells, 3)).astype(np.float32)
        return np.clip(resized(grid, height, width, smooth=kind == "blobs"), 0, 255)
    if kind == "dots":
        return _dots(rng, height, width)
    return _two_tone(rng, height, width, str(kind))


def _flat(color: Color, height: int, width: int) -> FloatArray:
    return np.broadcast_to(np.asarray(color, np.float32), (height, width, 3)).copy()


def _two_tone(rng: np.random.Generator, height: int, width: int, kind: str) -> FloatArray:
    rows, columns = np.mgrid[:height, :width].astype(np.float32)
    angle = rng.uniform(0, math.pi)
    pitch = rng.uniform(2, 10) * 2 * math.pi / max(height, width)
    along = columns * math.cos(angle) + rows * math.sin(angle)
    wave = np.sin(along * pitch)
    if kind == "checker":
        across = rows * math.cos(angle) - columns * math.sin(angle)
        wave = wave * np.sin(across * pitch)
    first, second = np.asarray(any_color(rng)), np.asarray(any_color(rng))
    return np.where((wave > 0)[..., None], first, second).astype(np.float32)


def _dots(rng: np.random.Generator, height: int, width: int) -> FloatArray:
    patch = _flat(any_color(rng), height, width)
    rows, columns = np.mgrid[:height, :width]
    for _ in range(int(rng.integers(3, 10))):
        center_y, center_x = rng.uniform(0, height), rng.uniform(0, width)
        radius = rng.uniform(1, max(2.0, width / 3))
        inside = (rows - center_y) ** 2 + (columns - center_x) ** 2 < radius**2
        patch[inside] = any_color(rng)
    return patch


def surface(rng: np.random.Generator, height: int, width: int) -> FloatArray:
    """(height, width, 3) wall, foliage, boards, brick or plain plaster filling the whole frame."""
    kind = rng.choice(["plaster", "brick", "boards", "foliage", "metal"])
    if kind == "foliage":
        return _foliage(rng, height, width)
    base = _flat(any_color(rng), height, width)
    grain = fractal_noise(rng, height, width, 5, int(rng.integers(2, 12)))[..., None] - 0.5
    base += grain * rng.uniform(10, 90)
    if kind == "brick":
        base += _courses(rng, height, width)[..., None] * rng.uniform(-70, 70)
    elif kind == "boards":
        period = rng.uniform(12, 70)
        phase = (np.arange(width) + rng.uniform(0, period)) % period
        base += ((phase < rng.uniform(1, 4)) * rng.uniform(-80, -20))[None, :, None]
        base += (rng.normal(0, 10, width // 8 + 2).repeat(8)[:width])[None, :, None]
    elif kind == "metal":
        period = rng.uniform(3, 14)
        base += (np.sin(np.arange(height) * 2 * math.pi / period) * rng.uniform(3, 25))[
            :, None, None
        ]
    return np.clip(base, 0, 255).astype(np.float32)


def _courses(rng: np.random.Generator, height: int, width: int) -> FloatArray:
    course = rng.uniform(8, 28)
    length = course * rng.uniform(1.6, 2.8)
    joint = rng.uniform(1, 3)
    row = np.arange(height)[:, None] / course
    shifted = np.arange(width)[None, :] + (np.floor(row) % 2) * length / 2
    mortar = ((row % 1) * course < joint) | ((shifted % length) < joint)
    return mortar.astype(np.float32)


def _foliage(rng: np.random.Generator, height: int, width: int) -> FloatArray:
    coarse = fractal_noise(rng, height, width, 3, int(rng.integers(3, 9)))
    fine = fractal_noise(rng, height, width, 3, int(rng.integers(18, 50)))
    light = np.clip((coarse * 0.55 + fine * 0.75 - 0.25) * rng.uniform(0.9, 1.9), 0, 1.3)
    green = np.asarray([rng.uniform(40, 130), rng.uniform(90, 175), rng.uniform(20, 80)])
    return np.clip(light[..., None] * green, 0, 255).astype(np.float32)
