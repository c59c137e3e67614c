"""Pictures with one object at a known, asymmetric place in a frame that is not square."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scene.errors import InputError

WIDTH, HEIGHT = 640, 400
LABEL = "stop sign"

_PLACES = (
    ("top left", (30, 17), 150),
    ("top right", (447, 26), 147),
    ("bottom left", (21, 239), 149),
    ("bottom right", (469, 222), 151),
    ("right of the middle", (362, 121), 190),
)
"""Name, upper left corner and side of the square that holds the object, pixels."""


@dataclass(frozen=True, eq=False)
class KnownPicture:
    """rgb: (H, W, 3) uint8. box: the object's, xyxy pixels. place: where it is, for people."""

    place: str
    rgb: NDArray[np.uint8]
    box: tuple[float, float, float, float]


def sign_pictures() -> list[KnownPicture]:
    """A stop sign near each corner and off the middle; the same every time."""
    from envelope.victims.demo.signs import STOP, sign_texture

    texture = sign_texture(STOP, np.random.default_rng(11), sticker=0.0)
    rgba = np.dstack([texture.rgb, texture.alpha * 255])
    low, high = texture.outline.min(axis=0), texture.outline.max(axis=0)
    return [
        _placed(place, rgba, (float(low[0]), float(low[1]), float(high[0]), float(high[1])),
                corner, (side, side))
        for place, corner, side in _PLACES
    ]  # fmt: skip


def picture_of(path: Path, box: tuple[float, float, float, float]) -> list[KnownPicture]:
    """A person's own picture in which the object's box is known, put at the same places."""
    from PIL import Image, UnidentifiedImageError

    try:
        rgb = np.asarray(Image.open(path).convert("RGB"), np.float32)
    except (OSError, UnidentifiedImageError) as error:
        raise InputError(f"{path}: wanted a picture, found {error}") from error
    height, width = rgb.shape[:2]
    x0, y0, x1, y1 = box
    if not (0 <= x0 < x1 <= width and 0 <= y0 < y1 <= height):
        raise InputError(
            f"box {x0:g} {y0:g} {x1:g} {y1:g}: wanted x0 y0 x1 y1 inside the {width} x {height} "
            f"picture {path}"
        )
    rgba = np.dstack([rgb, np.full(rgb.shape[:2], 255, np.float32)])
    shares = (x0 / width, y0 / height, x1 / width, y1 / height)
    pictures = []
    for place, (left, top), _ in _PLACES:
        # as large as the corner that it goes to allows: three quarters of the frame
        scale = min(0.75 * WIDTH / width, 0.75 * HEIGHT / height)
        size = (max(1, round(width * scale)), max(1, round(height * scale)))
        corner = (min(left, WIDTH - size[0]), min(top, HEIGHT - size[1]))
        pictures.append(_placed(place, rgba, shares, corner, size))
    return pictures


def _placed(
    place: str,
    rgba: NDArray[np.floating],
    shares: tuple[float, float, float, float],
    corner: tuple[int, int],
    size: tuple[int, int],
) -> KnownPicture:
    """rgba, 0..255, at `corner` in `size` pixels; shares: the object's box in it."""
    from PIL import Image

    layer = Image.fromarray(np.clip(rgba, 0, 255).astype(np.uint8), "RGBA")
    layer = layer.resize(size, Image.Resampling.LANCZOS)
    canvas = Image.fromarray(_street())
    canvas.paste(layer, corner, layer)
    width, height = size
    box = (
        corner[0] + shares[0] * width,
        corner[1] + shares[1] * height,
        corner[0] + shares[2] * width,
        corner[1] + shares[3] * height,
    )
    return KnownPicture(place, np.asarray(canvas), box)


def _street() -> NDArray[np.uint8]:
    """(HEIGHT, WIDTH, 3): sky over a road, softly mottled; nothing in it is an object."""
    rng = np.random.default_rng(3)
    down = np.linspace(0, 1, HEIGHT)[:, None, None]
    sky, road = np.array([168, 190, 208.0]), np.array([96, 98, 96.0])
    share = np.clip((down - 0.55) * 6, 0, 1)
    picture = np.broadcast_to(sky * (1 - share) + road * share, (HEIGHT, WIDTH, 3))
    mottle = rng.normal(0, 5, (HEIGHT // 20, WIDTH // 20)).repeat(20, 0).repeat(20, 1)
    kernel = np.hanning(21)
    for axis in (0, 1):
        mottle = np.apply_along_axis(np.convolve, axis, mottle, kernel / kernel.sum(), "same")
    grain = rng.normal(0, 2, (HEIGHT, WIDTH, 1))
    return np.clip(picture + mottle[..., None] + grain, 0, 255).astype(np.uint8)
