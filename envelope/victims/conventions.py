"""The ways in which four numbers may mean a box, and which of them fits what is known.

Pure: no pictures, no models. A reading turns four numbers into xyxy pixels of a picture
(width x height) that a model sees in an input (input_width x input_height).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from envelope.outcome import iou
from envelope.victims.letterbox import fit_inside

Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Frame:
    """Sizes in pixels of the picture and of the model's input."""

    width: int
    height: int
    input_width: int
    input_height: int


@dataclass(frozen=True)
class Convention:
    """name: for people. read: (four numbers, frame) -> xyxy pixels of the picture."""

    name: str
    read: Callable[[Box, Frame], Box]


@dataclass(frozen=True)
class Fit:
    """How well a convention explains answers: IoU with the truth, mean and least."""

    convention: str
    mean: float
    least: float


AS_IS = "xyxy pixels of the picture"


def best_fit(numbers: Sequence[Box], truths: Sequence[Box], frame: Frame) -> tuple[Fit, Fit]:
    """(fit as pixels of the picture, best fit of all conventions); the simplest wins a tie."""
    fits = []
    for convention in CONVENTIONS:
        overlaps = [
            float(iou(convention.read(four, frame), truth)[0])
            for four, truth in zip(numbers, truths, strict=True)
        ]
        fits.append(Fit(convention.name, float(np.mean(overlaps)), min(overlaps)))
    best = max(fits, key=lambda fit: round(fit.mean, 3))
    return fits[0], best


def _order(four: Box, order: str) -> Box:
    a, b, c, d = four
    if order == "yxyx":
        return b, a, d, c
    if order == "cxcywh":
        return a - c / 2, b - d / 2, a + c / 2, b + d / 2
    if order == "xywh":
        return a, b, a + c, b + d
    return four


def _scaled(four: Box, x: float, y: float) -> Box:
    return four[0] * x, four[1] * y, four[2] * x, four[3] * y


def _share(unit: float) -> Callable[[Box, Frame], Box]:
    return lambda four, frame: _scaled(four, frame.width / unit, frame.height / unit)


def _stretched(four: Box, frame: Frame) -> Box:
    return _scaled(four, frame.width / frame.input_width, frame.height / frame.input_height)


def _letterbox(centered: bool) -> Callable[[Box, Frame], Box]:
    def undo(four: Box, frame: Frame) -> Box:
        place = fit_inside(
            frame.width, frame.height, frame.input_width, frame.input_height, centered
        )
        x0, y0, x1, y1 = place.to_source(np.array([four]))[0]
        return float(x0), float(y0), float(x1), float(y1)

    return undo


def _shifted(four: Box, frame: Frame) -> Box:
    """The scale was undone, the padding was not."""
    place = fit_inside(frame.width, frame.height, frame.input_width, frame.input_height, True)
    x, y = place.left / place.scale[0], place.top / place.scale[1]
    return four[0] - x, four[1] - y, four[2] - x, four[3] - y


def _stretch_read_as_letterbox(four: Box, frame: Frame) -> Box:
    """The model stretches the picture, the answer was undone as if it were letterboxed."""
    place = fit_inside(frame.width, frame.height, frame.input_width, frame.input_height, True)
    x0, y0, x1, y1 = place.to_input(np.array([four]))[0]
    return _stretched((float(x0), float(y0), float(x1), float(y1)), frame)


def _mirrored(four: Box, frame: Frame) -> Box:
    return frame.width - four[2], four[1], frame.width - four[0], four[3]


def _upside_down(four: Box, frame: Frame) -> Box:
    return four[0], frame.height - four[3], four[2], frame.height - four[1]


def _pixels_read_as_thousandths(four: Box, frame: Frame) -> Box:
    return _scaled(four, 1000 / frame.width, 1000 / frame.height)


def _as_is(four: Box, frame: Frame) -> Box:
    return four


_SCALES: tuple[tuple[str, Callable[[Box, Frame], Box]], ...] = (
    ("pixels of the picture", _as_is),
    ("0-1", _share(1)),
    ("0-1000", _share(1000)),
    ("0-1024", _share(1024)),
    ("pixels of the resized picture", _stretched),
    ("pixels of the letterboxed input, padding centered", _letterbox(True)),
    ("pixels of the letterboxed input, padding right and below", _letterbox(False)),
)
_ORDERS = (
    ("xyxy", ""),
    ("yxyx", ", x and y swapped"),
    ("cxcywh", ", center and size instead of two corners"),
    ("xywh", ", corner and size instead of two corners"),
)


def _convention(scale: str, to_pixels: Callable[[Box, Frame], Box], order: str, said: str
                ) -> Convention:  # fmt: skip
    return Convention(
        f"{order} {scale}{said}", lambda four, frame: to_pixels(_order(four, order), frame)
    )


CONVENTIONS: tuple[Convention, ...] = (
    *(_convention(scale, read, order, said) for order, said in _ORDERS for scale, read in _SCALES),
    Convention("mirrored left to right", _mirrored),
    Convention("mirrored upside down", _upside_down),
    Convention("letterbox scale undone but not its padding", _shifted),
    Convention("stretched picture undone as a letterbox", _stretch_read_as_letterbox),
    Convention("0-1 read as 0-1000", lambda four, _: _scaled(four, 1000, 1000)),
    Convention("0-1024 read as 0-1000", lambda four, _: _scaled(four, 1000 / 1024, 1000 / 1024)),
    Convention("0-1000 read as 0-1024", lambda four, _: _scaled(four, 1.024, 1.024)),
    Convention("pixels of the picture read as 0-1000", _pixels_read_as_thousandths),
)
"""Simplest first; the first is right for a victim's answers."""

assert CONVENTIONS[0].name == AS_IS
