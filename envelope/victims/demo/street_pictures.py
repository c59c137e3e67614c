"""Pictures of ray-traced streets, with the same six kinds of signs and true boxes.

Needs the extra `worlds` (embreex); only training needs it.
"""

from __future__ import annotations

import numpy as np
from PIL import Image

from envelope.victims.demo.photograph import photographed
from envelope.victims.demo.pictures import LabelledBox, Picture
from envelope.victims.demo.signs import CLASSES

SIDE = 320
_SIZE = (320, 240)
_STRIDE = 4  # neighbouring photos share a street: take every fourth, so that streets change oftener
_LEAST_HEIGHT = 6.0
_PADDING = 114


def street_picture(seed: int, index: int) -> Picture:
    """Photo number `index` of the random streets `seed`, padded below to a square."""
    from scene.worlds.random_photos import random_street_photo

    photo, labelled = random_street_photo(seed, index * _STRIDE, _SIZE)
    boxes = tuple(
        LabelledBox(CLASSES.index(label), corners)
        for label, corners in labelled
        if label in CLASSES and corners[3] - corners[1] >= _LEAST_HEIGHT
    )
    rng = np.random.default_rng([seed, index, 7])
    photo = photographed(rng, photo.astype(np.float32), strength=0.4)
    return padded(photo, boxes)


def padded(photo: np.ndarray, boxes: tuple[LabelledBox, ...]) -> Picture:
    """A photo of any size laid top left into a SIDE x SIDE square, as the detector letterboxes."""
    height, width = photo.shape[:2]
    scale = SIDE / max(height, width)
    inner = (max(1, round(width * scale)), max(1, round(height * scale)))
    square = np.full((SIDE, SIDE, 3), _PADDING, np.uint8)
    resized = Image.fromarray(photo).resize(inner, Image.Resampling.BILINEAR)
    square[: inner[1], : inner[0]] = np.asarray(resized)
    grown = np.array([inner[0] / width, inner[1] / height] * 2)
    moved = []
    for box in boxes:
        x0, y0, x1, y1 = (float(value) for value in np.asarray(box.xyxy) * grown)
        moved.append(LabelledBox(box.class_index, (x0, y0, x1, y1)))
    return Picture(square, tuple(moved))
