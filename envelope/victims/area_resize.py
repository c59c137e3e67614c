"""Resampling by covered area: a pixel of the result is the mean of what it covers of the source.

As OpenCV's INTER_AREA does it where both axes shrink or both grow (one of each: OpenCV falls back
to neighbors of the shrinking axis, this does not).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from envelope.victims.letterbox import Letterbox

if TYPE_CHECKING:
    import torch

Images = NDArray[np.uint8]


def area_letterboxed(images: Images, box: Letterbox, fill: int) -> Images:
    """(B, H, W, 3) uint8 pictures resized and padded to (B, height, width, 3) uint8."""
    from envelope.victims.resize_kernel import resize_into

    out = np.full((len(images), box.height, box.width, 3), fill, np.float32)
    rows = slice(box.top, box.top + box.inner_height)
    columns = slice(box.left, box.left + box.inner_width)
    for number, image in enumerate(images):
        resize_into(
            np.require(image, requirements="C"), out[number, rows, columns],
            *_taps(image.shape[0], box.inner_height), *_taps(image.shape[1], box.inner_width),
        )  # fmt: skip
    return np.clip(np.rint(out), 0, 255).astype(np.uint8)


def area_tensor(images: torch.Tensor, box: Letterbox, fill: float) -> torch.Tensor:
    """The same of (B, 3, H, W) float pictures, not rounded; gradients pass."""
    import torch
    from torch.nn import functional

    rows = torch.from_numpy(coverage(images.shape[2], box.inner_height)).to(images)
    columns = torch.from_numpy(coverage(images.shape[3], box.inner_width)).to(images)
    inner = rows @ images @ columns.T
    right = box.width - box.left - box.inner_width
    below = box.height - box.top - box.inner_height
    return functional.pad(inner, (box.left, right, box.top, below), value=fill)


@lru_cache(maxsize=64)
def coverage(source: int, wanted: int) -> NDArray[np.float32]:
    """(wanted, source): the share of each wanted pixel that each source pixel covers."""
    edges = np.arange(wanted + 1) * (source / wanted)
    cells = np.arange(source)
    low = np.maximum(edges[:-1, None], cells)
    high = np.minimum(edges[1:, None], cells + 1)
    shares = np.clip(high - low, 0, None)
    return (shares / shares.sum(axis=1, keepdims=True)).astype(np.float32)


@lru_cache(maxsize=64)
def _taps(source: int, wanted: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The same as first source pixel (wanted,) and weights (wanted, k), for the resize kernel."""
    shares = coverage(source, wanted)
    used = shares > 0
    first = used.argmax(axis=1)
    reach = int((source - used[:, ::-1].argmax(axis=1) - first).max())
    padded = np.pad(shares, ((0, 0), (0, reach)))  # beyond the last pixel weights are zero
    weights = np.take_along_axis(padded, first[:, None] + np.arange(reach), axis=1)
    return first.astype(np.int64), np.ascontiguousarray(weights)
