"""The geometry of fitting a picture into a model's input, and its exact inverse.

All coordinates are continuous: pixel (i, j) covers [i, i+1] x [j, j+1]. Resizing to a whole number
of pixels rounds, so width and height may get slightly different scales; the inverse uses the two
scales that were really applied, not the ratio that was wanted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]
Images = NDArray[np.uint8]


@dataclass(frozen=True)
class Letterbox:
    """How a (source_width x source_height) picture lies in a (width x height) input.

    The picture is resized to (inner_width x inner_height) and put at (left, top).
    """

    source_width: int
    source_height: int
    width: int
    height: int
    inner_width: int
    inner_height: int
    left: int
    top: int

    @property
    def scale(self) -> tuple[float, float]:
        """Input pixels per source pixel, along x and along y."""
        return self.inner_width / self.source_width, self.inner_height / self.source_height

    def to_input(self, xyxy: NDArray[np.floating]) -> NDArray[np.float64]:
        """(n, 4) boxes in source pixels -> input pixels."""
        boxes = np.asarray(xyxy, np.float64).reshape(-1, 4)
        scale_x, scale_y = self.scale
        return boxes * [scale_x, scale_y, scale_x, scale_y] + [self.left, self.top] * 2

    def to_source(self, xyxy: NDArray[np.floating]) -> NDArray[np.float64]:
        """(n, 4) boxes in input pixels -> source pixels, clipped to the source picture."""
        boxes = np.asarray(xyxy, np.float64).reshape(-1, 4)
        scale_x, scale_y = self.scale
        boxes = (boxes - [self.left, self.top] * 2) / [scale_x, scale_y, scale_x, scale_y]
        limit = [self.source_width, self.source_height] * 2
        return np.clip(boxes, 0, limit)


def fit_inside(
    source_width: int, source_height: int, width: int, height: int, centered: bool = False
) -> Letterbox:
    """Keep the aspect ratio; the rest of the input is padding, right and below or all around."""
    ratio = min(width / source_width, height / source_height)
    inner_width = min(width, max(1, round(source_width * ratio)))
    inner_height = min(height, max(1, round(source_height * ratio)))
    left = (width - inner_width) // 2 if centered else 0
    top = (height - inner_height) // 2 if centered else 0
    return Letterbox(
        source_width, source_height, width, height, inner_width, inner_height, left, top
    )


def stretch_to(source_width: int, source_height: int, width: int, height: int) -> Letterbox:
    """Fill the whole input, whatever that does to the aspect ratio."""
    return Letterbox(source_width, source_height, width, height, width, height, 0, 0)


def letterboxed(images: Images, box: Letterbox, fill: int) -> Images:
    """(B, H, W, 3) uint8 pictures resized and padded to (B, height, width, 3) uint8."""
    from PIL import Image

    out = np.full((len(images), box.height, box.width, 3), fill, np.uint8)
    inner = (box.inner_width, box.inner_height)
    for number, image in enumerate(images):
        resized = Image.fromarray(image).resize(inner, Image.Resampling.BILINEAR)
        out[number, box.top : box.top + box.inner_height, box.left : box.left + box.inner_width] = (
            np.asarray(resized)
        )
    return out
