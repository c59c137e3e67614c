"""Expectation over transformation: one background, seen and glued on a little differently.

Geometry (this file) is drawn as a homography, so that a print is sampled once, however it is
turned; blur and camera are `patching.optimize.photograph`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from patching.optimize.paste import paste
from patching.optimize.photograph import photographed, resized
from patching.optimize.settings import EotSettings

DoubleArray = NDArray[np.float64]
Box = tuple[float, float, float, float]

_UNIT_SQUARE = np.array([[0.0, 0], [1, 0], [1, 1], [0, 1]])


@dataclass(frozen=True, eq=False)
class Background:
    """A clean picture and where the patch lies in it.

    picture: (3, H, W) float32 sRGB in [0, 1].
    pixel_from_uv: (3, 3) from patch coordinates (u, v, 1) to pixels, as `Placement.homography`.
    box_xyxy: the target's true box in pixels, for losses that need it.
    shown: (H, W) float32 share of each pixel's patch that nothing hides; None: all of it.
    name: what figures and provenance call this view.
    """

    picture: torch.Tensor
    pixel_from_uv: DoubleArray
    box_xyxy: Box | None = None
    shown: torch.Tensor | None = None
    name: str = ""

    def resized(self, width: int, height: int) -> Background:
        """The same view at another resolution."""
        old_height, old_width = self.picture.shape[1:]
        scale = (width / old_width, height / old_height)
        return replace(
            self,
            picture=resized(self.picture, (height, width)),
            pixel_from_uv=np.diag([*scale, 1.0]) @ self.pixel_from_uv,
            box_xyxy=_moved_box(self.box_xyxy, (0.0, 0.0), scale),
            shown=None if self.shown is None else resized(self.shown[None], (height, width))[0],
        )


def as_picture(rgb: NDArray[np.float32]) -> torch.Tensor:
    """(H, W, 3) in [0, 1] to (3, H, W), the order that backgrounds have."""
    return torch.from_numpy(np.ascontiguousarray(rgb.transpose(2, 0, 1), dtype=np.float32))


def transformed(
    background: Background,
    rgb: torch.Tensor,
    settings: EotSettings,
    rng: np.random.Generator,
) -> tuple[torch.Tensor, Box | None]:
    """One random view of the patch (3, h, w): the picture (3, H, W) and the target's box in it.

    Differentiable in `rgb`. With default settings: exactly the background with the patch pasted.
    """
    warp = draw_warp(settings, rng)
    gain = 1 + settings.brightness * rng.uniform(-1, 1)
    view = cropped(background, settings.crop, rng)
    print_rgb = (rgb * gain).clamp(0, 1) if settings.brightness > 0 else rgb
    picture = paste(view.picture, print_rgb, view.pixel_from_uv @ warp, view.shown)
    return photographed(picture, settings, rng), view.box_xyxy


def draw_warp(settings: EotSettings, rng: np.random.Generator) -> DoubleArray:
    """(3, 3) from the print's coordinates (u, v, 1) to those of the place it was meant for.

    A rotation (clockwise for positive angles), scaling and shift about the patch's centre, then
    the corners moved each on its own.
    """
    angle = np.radians(settings.rotation_deg * rng.uniform(-1, 1))
    size = np.exp(np.log1p(settings.scale) * rng.uniform(-1, 1))
    shift = settings.shift * rng.uniform(-1, 1, 2)
    moves = settings.perspective * rng.uniform(-1, 1, (4, 2))
    c, s = size * np.cos(angle), size * np.sin(angle)
    turned = np.array([[c, -s, shift[0]], [s, c, shift[1]], [0, 0, 1.0]])
    to_middle = np.array([[1, 0, -0.5], [0, 1, -0.5], [0, 0, 1.0]])
    back = np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1.0]])
    return np.asarray(back @ turned @ to_middle @ homography_of_quad(_UNIT_SQUARE + moves))


def cropped(background: Background, share: float, rng: np.random.Generator) -> Background:
    """The view with up to `share` of each side cut off and the rest enlarged to the same size.

    Patch and target stay in the picture; the aspect stays as it is.
    """
    if share <= 0:
        return background
    height, width = background.picture.shape[1:]
    kept = 1 - share * rng.uniform()
    place = rng.uniform(size=2)
    low, high = _must_stay(background, width, height)
    columns = _span(width, kept, low[0], high[0], place[0])
    rows = _span(height, kept, low[1], high[1], place[1])
    if columns is None or rows is None:
        return background
    cut = background.picture[:, rows, columns]
    scale = (width / cut.shape[2], height / cut.shape[1])
    corner = (float(columns.start), float(rows.start))
    moved = np.array(
        [[scale[0], 0, -scale[0] * corner[0]], [0, scale[1], -scale[1] * corner[1]], [0, 0, 1.0]]
    )
    shown = background.shown
    return replace(
        background,
        picture=resized(cut, (height, width)),
        pixel_from_uv=moved @ background.pixel_from_uv,
        box_xyxy=_moved_box(background.box_xyxy, corner, scale),
        shown=None if shown is None else resized(shown[None, rows, columns], (height, width))[0],
    )


def _must_stay(background: Background, width: int, height: int) -> tuple[DoubleArray, DoubleArray]:
    """Low and high (x, y) of what a crop keeps: the patch and the target's box, in the picture."""
    corners = np.pad(_UNIT_SQUARE, ((0, 0), (0, 1)), constant_values=1) @ background.pixel_from_uv.T
    points = corners[:, :2] / corners[:, 2:]
    if background.box_xyxy is not None:
        points = np.concatenate([points, np.reshape(background.box_xyxy, (2, 2))])
    size = np.array([width, height])
    return np.clip(points.min(axis=0), 0, size), np.clip(points.max(axis=0), 0, size)


def _span(length: int, kept: float, low: float, high: float, place: float) -> slice | None:
    """Which of `length` pixels are kept; None when they could not hold low..high."""
    count = max(2, round(length * kept))
    first = max(0, int(np.ceil(high)) - count)
    last = min(length - count, int(np.floor(low)))
    if first > last:
        return None
    start = first + round(place * (last - first))
    return slice(start, start + count)


def _moved_box(
    box: Box | None, corner: tuple[float, float], scale: tuple[float, float]
) -> Box | None:
    if box is None:
        return None
    (x, y), (sx, sy) = corner, scale
    return (box[0] - x) * sx, (box[1] - y) * sy, (box[2] - x) * sx, (box[3] - y) * sy


def homography_of_quad(quad: DoubleArray) -> DoubleArray:
    """(3, 3) homography from patch coordinates to a quad (4, 2): top left corner first, clockwise.

    Its third coordinate is positive inside a convex quad.
    """
    rows = []
    for (x, y), (u, v) in zip(_UNIT_SQUARE, quad, strict=True):
        rows.append([x, y, 1, 0, 0, 0, -u * x, -u * y, u])
        rows.append([0, 0, 0, x, y, 1, -v * x, -v * y, v])
    table = np.array(rows)
    solution = np.linalg.solve(table[:, :8], table[:, 8])
    return np.append(solution, 1.0).reshape(3, 3)
