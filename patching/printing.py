"""Whether a patch can be printed: non-printability score over 30 colors, and total variation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

FloatArray = NDArray[np.float32]


def printable_colors() -> FloatArray:
    """(30, 3) sRGB in [0, 1]: what an office printer on matte paper reaches.

    A 3x3x3 grid drawn in towards the paper's gamut (ink does not reach 0, paper not 1), its
    corners pulled towards gray because saturated corners print duller than they display, and
    three more neutrals. AdvScene uses 30 printable colors without listing them; these are ours.
    """
    levels = np.array([0.08, 0.48, 0.86])
    grid = np.stack(np.meshgrid(levels, levels, levels, indexing="ij"), axis=-1).reshape(-1, 3)
    gray = grid.mean(axis=1, keepdims=True)
    colors = gray + 0.92 * (grid - gray)
    neutrals = np.array([[0.94, 0.94, 0.93], [0.28, 0.28, 0.28], [0.66, 0.66, 0.66]])
    return np.concatenate([colors, neutrals]).astype(np.float32)


def non_printability(rgb: torch.Tensor, colors: torch.Tensor) -> torch.Tensor:
    """Mean over pixels of the distance to the nearest printable color.

    rgb: (3, h, w) sRGB in [0, 1]. colors: (n, 3). The distance is Euclidean over RGB.
    """
    pixels = rgb.permute(1, 2, 0).reshape(-1, 1, 3)
    squared = ((pixels - colors) ** 2).sum(dim=-1).min(dim=1).values
    # sqrt has no finite slope at 0, where a pixel IS a printable color
    return (squared + 1e-12).sqrt().mean()


def total_variation(rgb: torch.Tensor) -> torch.Tensor:
    """Mean absolute difference of horizontal neighbours plus that of vertical ones.

    rgb: (3, h, w). Means are over pixels and channels.
    """
    across = (rgb[:, :, 1:] - rgb[:, :, :-1]).abs().mean()
    along = (rgb[:, 1:, :] - rgb[:, :-1, :]).abs().mean()
    return across + along
