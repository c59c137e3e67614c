"""Laying a patch into a picture, differentiable in the patch's colors.

The arithmetic is that of `patching.raycast.composite` on a plane: 4 x 4 rays per pixel, a texture
averaged down to their rate, flat in sRGB. So a patch is made in the pictures that embeddings are
later judged by.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from patching.raycast import SUPERSAMPLE

DoubleArray = NDArray[np.float64]

_CORNERS = np.array([[0.0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]])


def paste(
    picture: torch.Tensor,
    rgb: torch.Tensor,
    pixel_from_uv: DoubleArray,
    shown: torch.Tensor | None = None,
    supersample: int = SUPERSAMPLE,
) -> torch.Tensor:
    """The picture with the patch in it; edges are anti-aliased by coverage.

    picture: (3, H, W) sRGB in [0, 1]. rgb: (3, h, w). pixel_from_uv: (3, 3) homography from patch
    coordinates (u, v, 1), 0..1 from the top left corner, to homogeneous pixels whose third
    coordinate is positive in front of the camera (`Placement.homography`).
    shown: (H, W) share of each pixel's patch that nothing hides; None: all of it.
    """
    height, width = picture.shape[1:]
    corners = _CORNERS @ pixel_from_uv.T
    window = _window(corners, width, height)
    if window is None:
        return picture
    rows, columns = window
    uv, inside = _rays(pixel_from_uv, rows, columns, supersample)
    if not inside.any():
        return picture
    texture = averaged_down(rgb, _size_px(corners, width, height, supersample))
    grid = torch.from_numpy(np.clip(2 * uv - 1, -2, 2).astype(np.float32))
    samples = functional.grid_sample(
        texture[None], grid[None], padding_mode="border", align_corners=False
    )
    mask = torch.from_numpy(inside.astype(np.float32))[None, None]
    laid = functional.avg_pool2d(samples * mask, supersample)[0]
    cover = functional.avg_pool2d(mask, supersample)[0]
    if shown is not None:
        laid, cover = laid * shown[rows, columns], cover * shown[rows, columns]
    result = picture.clone()
    result[:, rows, columns] = laid + (1 - cover) * picture[:, rows, columns]
    return result


def centered_square(box_xyxy: tuple[float, float, float, float], share: float) -> DoubleArray:
    """(3, 3) homography of an upright square of side share * min(w, h) at the centre of a box."""
    x0, y0, x1, y1 = box_xyxy
    side = share * min(x1 - x0, y1 - y0)
    left, top = 0.5 * (x0 + x1 - side), 0.5 * (y0 + y1 - side)
    return np.array([[side, 0, left], [0, side, top], [0, 0, 1.0]])


def averaged_down(rgb: torch.Tensor, size: tuple[float, float]) -> torch.Tensor:
    """(3, h, w) at no more than `size` = (width, height) texels; never enlarged."""
    width = int(np.clip(np.ceil(size[0]), 1, rgb.shape[2]))
    height = int(np.clip(np.ceil(size[1]), 1, rgb.shape[1]))
    if (height, width) == tuple(rgb.shape[1:]):
        return rgb
    return _averaging(rgb.shape[1], height) @ rgb @ _averaging(rgb.shape[2], width).T


@lru_cache(maxsize=256)
def _averaging(count: int, wanted: int) -> torch.Tensor:
    """(wanted, count) weights: each output the mean of the inputs whose centres lie in it.

    As Pillow's box filter does it, which `patching.raycast.averaged_down` uses.
    """
    ratio = count / wanted
    middle = (np.arange(wanted)[:, None] + 0.5) * ratio
    away = (np.arange(count)[None] + 0.5 - middle) / ratio
    weights = ((away > -0.5) & (away <= 0.5)).astype(np.float64)
    return torch.from_numpy((weights / weights.sum(axis=1, keepdims=True)).astype(np.float32))


def _window(corners: DoubleArray, width: int, height: int) -> tuple[slice, slice] | None:
    """Rows and columns that the patch may touch; the whole picture where it reaches the camera."""
    if (corners[:, 2] <= 0).all():
        return None
    if (corners[:, 2] <= 1e-9).any():
        return slice(0, height), slice(0, width)
    pixels = corners[:, :2] / corners[:, 2:]
    x0, y0 = np.maximum(np.floor(pixels.min(axis=0)) - 1, 0)
    x1, y1 = np.minimum(np.ceil(pixels.max(axis=0)) + 1, (width, height))
    if x0 >= x1 or y0 >= y1:
        return None
    return slice(int(y0), int(y1)), slice(int(x0), int(x1))


def _rays(
    pixel_from_uv: DoubleArray, rows: slice, columns: slice, supersample: int
) -> tuple[DoubleArray, NDArray[np.bool_]]:
    """Patch coordinates (h * ss, w * ss, 2) of sub-pixel rays, and which of them meet the patch."""
    x = (
        columns.start
        + (np.arange((columns.stop - columns.start) * supersample) + 0.5) / supersample
    )
    y = rows.start + (np.arange((rows.stop - rows.start) * supersample) + 0.5) / supersample
    a = np.linalg.inv(pixel_from_uv)
    u, v, w = (row[0] * x[None] + row[1] * y[:, None] + row[2] for row in a)
    # the inverse's third coordinate is 1 / depth, up to a positive factor
    front = w > 0
    safe = np.where(front, w, 1.0)
    uv = np.stack([u / safe, v / safe], axis=-1)
    return uv, np.asarray(front & ((uv >= 0) & (uv <= 1)).all(axis=-1))


def _size_px(
    corners: DoubleArray, width: int, height: int, supersample: int
) -> tuple[float, float]:
    """Width and height of the patch in sub-pixels: its longer edge each way."""
    if (corners[:, 2] <= 1e-9).any():
        return float(width * supersample), float(height * supersample)
    top_left, top_right, bottom_right, bottom_left = corners[:, :2] / corners[:, 2:]
    across = max(np.hypot(*(top_right - top_left)), np.hypot(*(bottom_right - bottom_left)))
    along = max(np.hypot(*(bottom_left - top_left)), np.hypot(*(bottom_right - top_right)))
    return float(across * supersample), float(along * supersample)
