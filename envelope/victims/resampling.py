"""Resampling as the programs beside detectors' exports do it with OpenCV, without needing OpenCV.

linear: INTER_LINEAR, between the two nearest pixels, without anti-aliasing where it shrinks.
area: INTER_AREA where both axes shrink or both grow: a pixel of the result is the mean of what it
covers of the source (one of each: OpenCV falls back to neighbors of the shrinking axis, this does
not).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from envelope.victims.letterbox import Letterbox

if TYPE_CHECKING:
    import torch

Images = NDArray[np.uint8]
Resampling = Literal["linear", "area"]


def resampled(images: Images, box: Letterbox, fill: int, how: Resampling) -> Images:
    """(B, H, W, 3) uint8 pictures resized and padded to (B, height, width, 3) uint8."""
    from envelope.victims.linear_kernel import linear_into

    out = np.full((len(images), box.height, box.width, 3), fill, np.uint8)
    rows = slice(box.top, box.top + box.inner_height)
    columns = slice(box.left, box.left + box.inner_width)
    into = linear_into if how == "linear" else _area_into
    for image, whole in zip(images, out, strict=True):
        into(image, whole[rows, columns])
    return out


def _area_into(image: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
    from envelope.victims.resize_kernel import resize_into

    means = np.empty(out.shape, np.float32)
    rows, columns = _taps(image.shape[0], out.shape[0]), _taps(image.shape[1], out.shape[1])
    resize_into(np.require(image, requirements="C"), means, *rows, *columns)
    out[:] = np.clip(np.rint(means), 0, 255)


def resampled_tensor(
    images: torch.Tensor, box: Letterbox, fill: float, how: Resampling
) -> torch.Tensor:
    """The same of (B, 3, H, W) float pictures, not rounded or cut; gradients pass."""
    import torch
    from torch.nn import functional

    rows = torch.from_numpy(shares(images.shape[2], box.inner_height, how)).to(images)
    columns = torch.from_numpy(shares(images.shape[3], box.inner_width, how)).to(images)
    inner = rows @ images @ columns.T
    right = box.width - box.left - box.inner_width
    below = box.height - box.top - box.inner_height
    return functional.pad(inner, (box.left, right, box.top, below), value=fill)


@lru_cache(maxsize=64)
def shares(source: int, wanted: int, how: Resampling) -> NDArray[np.float32]:
    """(wanted, source): how much of each source pixel is in each wanted one; rows sum to 1."""
    cells = np.arange(source)
    if how == "area":
        edges = np.arange(wanted + 1) * (source / wanted)
        low = np.maximum(edges[:-1, None], cells)
        high = np.minimum(edges[1:, None], cells + 1)
        found = np.clip(high - low, 0, None)
    else:
        centers = (np.arange(wanted) + 0.5) * (source / wanted) - 0.5
        at = np.clip(centers, 0, source - 1)  # beyond the outermost centres: their pixel alone
        found = np.clip(1 - np.abs(at[:, None] - cells), 0, None)
    return (found / found.sum(axis=1, keepdims=True)).astype(np.float32)


@lru_cache(maxsize=64)
def _taps(source: int, wanted: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Of area: first source pixel (wanted,) and weights (wanted, k), for the resize kernel."""
    parts = shares(source, wanted, "area")
    used = parts > 0
    first = used.argmax(axis=1)
    reach = int((source - used[:, ::-1].argmax(axis=1) - first).max())
    padded = np.pad(parts, ((0, 0), (0, reach)))  # beyond the last pixel weights are zero
    weights = np.take_along_axis(padded, first[:, None] + np.arange(reach), axis=1)
    return first.astype(np.int64), np.ascontiguousarray(weights)
