"""Places for signs to stand in: streets, walls, hedges, rooms, nights, and plain clutter.

Drawn flat, layer over layer, back to front; varied rather than beautiful. Nothing here is a sign.
"""

from __future__ import annotations

import math

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from envelope.victims.demo.textures import (
    Color,
    FloatArray,
    any_color,
    benign_patch,
    fractal_noise,
    near,
    surface,
    whole,
)

_SKIES: tuple[Color, ...] = (
    (90, 140, 215),
    (150, 160, 175),
    (60, 70, 110),
    (205, 210, 218),
    (225, 165, 125),
    (18, 20, 30),
)
_GROUNDS: tuple[Color, ...] = ((95, 95, 98), (125, 118, 108), (90, 110, 60), (130, 110, 85))
_LETTERS = "ABCDEFGHIJKLMNOPRSTUVWXYZ0123456789"


def background(rng: np.random.Generator, size: int) -> FloatArray:
    """(size, size, 3) float32 picture in 0..255 without any sign."""
    kind = rng.choice(["street", "wall", "leaves", "halves"], p=[0.5, 0.2, 0.15, 0.15])
    if kind == "street":
        picture = _street(rng, size)
    elif kind == "wall":
        picture = surface(rng, size, size)
    elif kind == "leaves":
        picture = _dead_leaves(rng, size)
    else:
        picture = _halves(rng, size)
    picture = _with_objects(rng, picture, size)
    if rng.random() < 0.45:  # out of focus, as behind a near sign
        blurred = Image.fromarray(picture.astype(np.uint8)).filter(
            ImageFilter.GaussianBlur(float(rng.uniform(0.5, 6)))
        )
        picture = np.asarray(blurred, np.float32)
    if rng.random() < 0.15:
        picture = picture * rng.uniform(0.15, 0.6)
    return np.clip(picture, 0, 255)


def _halves(rng: np.random.Generator, size: int) -> FloatArray:
    """Two surfaces that meet along a slanted line: wall and floor, hedge and path."""
    first, second = surface(rng, size, size), surface(rng, size, size)
    rows, columns = np.mgrid[:size, :size].astype(np.float32) / size - 0.5
    angle = rng.normal(0, 0.5) + (math.pi / 2 if rng.random() < 0.3 else 0.0)
    side = rows * math.cos(angle) + columns * math.sin(angle) > rng.uniform(-0.35, 0.35)
    return np.where(side[..., None], first, second)


def _dead_leaves(rng: np.random.Generator, size: int) -> FloatArray:
    """Overlapping shapes with power-law sizes: the edge statistics of natural pictures."""
    image = Image.new("RGB", (size, size), whole(any_color(rng)))
    draw = ImageDraw.Draw(image)
    for _ in range(int(rng.integers(40, 160))):
        radius = min(size * 0.6, 4.0 / rng.random() ** 0.8)
        x, y = rng.uniform(0, size, 2)
        color = whole(any_color(rng))
        if rng.random() < 0.4:
            stretch = rng.uniform(0.4, 1)
            draw.ellipse(
                [x - radius, y - radius * stretch, x + radius, y + radius * stretch], color
            )
        else:
            corners = int(rng.integers(3, 7))
            angles = np.sort(rng.uniform(0, 2 * math.pi, corners))
            draw.polygon(
                [(x + radius * math.cos(a), y + radius * math.sin(a)) for a in angles], color
            )
    grain = (fractal_noise(rng, size, size, 5, 8)[..., None] - 0.5) * rng.uniform(10, 80)
    return np.clip(np.asarray(image, np.float32) + grain, 0, 255)


def _street(rng: np.random.Generator, size: int) -> FloatArray:
    horizon = int(size * rng.uniform(0.3, 0.75))
    picture = np.zeros((size, size, 3), np.float32)
    top = np.asarray(near(rng, _SKIES[int(rng.integers(len(_SKIES)))], 25))
    bottom = np.clip(top + rng.uniform(0, 60), 0, 255)
    ramp = np.linspace(0, 1, horizon)[:, None, None]
    picture[:horizon] = top * (1 - ramp) + bottom * ramp
    if rng.random() < 0.6:
        clouds = fractal_noise(rng, horizon, size)[..., None] - 0.5
        picture[:horizon] += clouds * rng.uniform(20, 110)
    ground = np.asarray(near(rng, _GROUNDS[int(rng.integers(len(_GROUNDS)))], 20))
    gravel = fractal_noise(rng, size - horizon, size, 5, 6)[..., None] - 0.5
    picture[horizon:] = ground + gravel * rng.uniform(20, 90)
    image = Image.fromarray(np.clip(picture, 0, 255).astype(np.uint8))
    for _ in range(int(rng.integers(0, 5))):
        _building(rng, image, horizon)
    if rng.random() < 0.7:
        _road(rng, ImageDraw.Draw(image), size, horizon)
    for _ in range(int(rng.integers(0, 6))):
        _tree(rng, ImageDraw.Draw(image), size, horizon)
    for _ in range(int(rng.integers(0, 3))):
        _vehicle(rng, ImageDraw.Draw(image), size, horizon)
    grain = fractal_noise(rng, size, size, 4, 12)[..., None] - 0.5
    return np.clip(np.asarray(image, np.float32) + grain * rng.uniform(0, 45), 0, 255)


def _building(rng: np.random.Generator, image: Image.Image, horizon: int) -> None:
    size = image.width
    width, height = int(rng.uniform(0.1, 0.6) * size), int(rng.uniform(0.15, 1.0) * horizon)
    left, floor = int(rng.uniform(-0.2, 1) * size), horizon + int(rng.integers(-5, 15))
    facade = Image.fromarray(surface(rng, height, width).astype(np.uint8))
    draw = ImageDraw.Draw(facade)
    step_x, step_y = int(rng.integers(9, 40)), int(rng.integers(10, 44))
    pane = whole(near(rng, (60, 75, 95), 60))
    if rng.random() < 0.8:
        for y in range(step_y // 3, height - step_y // 2, step_y):
            for x in range(step_x // 4, width - step_x // 2, step_x):
                draw.rectangle([x, y, x + step_x * 0.55, y + step_y * 0.55], pane)
                if step_x > 16:
                    line = [(x, y + step_y * 0.28), (x + step_x * 0.55, y + step_y * 0.28)]
                    draw.line(line, whole(near(rng, (190, 190, 190), 50)))
    image.paste(facade, (left, floor - height))


def _road(rng: np.random.Generator, draw: ImageDraw.ImageDraw, size: int, horizon: int) -> None:
    vanishing = rng.uniform(0.2, 0.8) * size
    left, right = rng.uniform(-1, 0.5) * size, rng.uniform(0.5, 2) * size
    gray = near(rng, (85, 85, 88), 25)
    edge = [(vanishing - 3, horizon), (vanishing + 3, horizon), (right, size), (left, size)]
    draw.polygon(edge, whole(gray))
    middle = (left + right) / 2
    for dash in range(6):
        ends = []
        for part in (dash, dash + 0.5):
            t = (part / 6) ** 1.6
            ends.append((vanishing + (middle - vanishing) * t, horizon + (size - horizon) * t))
        draw.line(ends, (225, 225, 215), 1 + dash // 2)


def _tree(rng: np.random.Generator, draw: ImageDraw.ImageDraw, size: int, horizon: int) -> None:
    x, y = rng.uniform(0, size), horizon + rng.uniform(-0.25, 0.1) * size
    radius = rng.uniform(0.04, 0.2) * size
    draw.line(
        [(x, y), (x, y + 2 * radius)], whole(near(rng, (70, 50, 35), 15)), max(2, int(radius / 5))
    )
    green = near(rng, (50, 95, 38), 35)
    for _ in range(int(rng.integers(15, 40))):
        blob = radius * rng.uniform(0.1, 0.4)
        cx, cy = x + rng.normal() * radius * 0.5, y + rng.normal() * radius * 0.4
        draw.ellipse([cx - blob, cy - blob, cx + blob, cy + blob], whole(near(rng, green, 28)))


def _vehicle(rng: np.random.Generator, draw: ImageDraw.ImageDraw, size: int, horizon: int) -> None:
    width = rng.uniform(0.1, 0.4) * size
    x, y = rng.uniform(-0.2, 1) * size, horizon + rng.uniform(0, 0.2) * size
    body = whole(near(rng, (165, 20, 25), 40) if rng.random() < 0.3 else any_color(rng))
    draw.rounded_rectangle([x, y, x + width, y + width / 3], width / 12, body)
    cabin = [
        (x + width * 0.15, y + 1),
        (x + width * 0.28, y - width * 0.18),
        (x + width * 0.72, y - width * 0.18),
        (x + width * 0.88, y + 1),
    ]
    draw.polygon(cabin, whole(near(rng, (55, 65, 80), 25)))
    for at in (0.22, 0.78):
        cx, cy, r = x + width * at, y + width / 3, width / 9
        draw.ellipse([cx - r, cy - r, cx + r, cy + r], (22, 22, 22))


def _with_objects(rng: np.random.Generator, picture: FloatArray, size: int) -> FloatArray:
    """Poles, lettered boards, plain shapes (many red), lamps, and stickers on the background."""
    image = Image.fromarray(np.clip(picture, 0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(image)
    for _ in range(int(rng.integers(0, 4))):
        x, tone = rng.uniform(0, size), whole(near(rng, (110, 110, 110), 70))
        ends = [(x, rng.uniform(0, 0.6) * size), (x + rng.uniform(-4, 4), size)]
        draw.line(ends, tone, int(rng.integers(1, 9)))
    for _ in range(int(rng.integers(0, 4))):
        _plain_shape(rng, draw, size)
    for _ in range(int(rng.integers(0, 3))):
        _lettered_board(rng, draw, size)
    for _ in range(int(rng.integers(0, 3))):
        side = int(rng.uniform(0.03, 0.3) * size)
        patch = Image.fromarray(benign_patch(rng, side, side).astype(np.uint8))
        image.paste(patch, (int(rng.integers(0, size - side)), int(rng.integers(0, size - side))))
    if rng.random() < 0.2:
        for _ in range(int(rng.integers(1, 8))):
            x, y, r = rng.uniform(0, size), rng.uniform(0, size), rng.uniform(1, 7)
            draw.ellipse([x - r, y - r, x + r, y + r], whole(near(rng, (255, 235, 190), 40)))
    return np.asarray(image, np.float32)


def _plain_shape(rng: np.random.Generator, draw: ImageDraw.ImageDraw, size: int) -> None:
    """A blank board, disc, triangle or pentagon: shape or color alone must not be a sign."""
    side = rng.uniform(0.04, 0.45) * size
    x, y = rng.uniform(0, size, 2)
    color = whole(near(rng, (180, 30, 35), 35) if rng.random() < 0.5 else any_color(rng))
    kind = int(rng.integers(3))
    if kind == 0:
        draw.rectangle([x, y, x + side, y + side * rng.uniform(0.3, 1.6)], color)
    elif kind == 1:
        draw.ellipse([x, y, x + side, y + side * rng.uniform(0.7, 1.3)], color)
    else:
        corners = int(rng.choice([3, 4, 5]))
        turn = rng.uniform(0, 6.3)
        angles = turn + 2 * math.pi * np.arange(corners) / corners
        draw.polygon(
            [(x + side / 2 * math.cos(a), y + side / 2 * math.sin(a)) for a in angles], color
        )


def _lettered_board(rng: np.random.Generator, draw: ImageDraw.ImageDraw, size: int) -> None:
    from envelope.victims.demo.signs import font_file

    height = rng.uniform(0.05, 0.25) * size
    words = "".join(rng.choice(list(_LETTERS), int(rng.integers(2, 9))))
    face = font_file("DejaVuSans-Bold.ttf", max(6, int(height * rng.uniform(0.4, 0.8))))
    x, y = rng.uniform(-0.1, 0.9) * size, rng.uniform(0, 0.95) * size
    width = face.getlength(words) * rng.uniform(1.05, 1.5)
    ground = near(rng, (175, 30, 35), 35) if rng.random() < 0.35 else any_color(rng)
    ink = (245, 245, 240) if sum(ground) < 380 else (20, 20, 25)
    draw.rectangle([x, y, x + width, y + height], whole(ground))
    draw.text((x + width / 2, y + height / 2), words, whole(ink), face, "mm")
