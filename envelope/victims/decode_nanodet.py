"""NanoDet exports: per stride 8, 16, 32 class scores (n, C) and side distributions (n, 4 * bins).

Input BGR, mean 103.53 116.28 123.675, deviation 57.375 57.12 58.395. A side's distance from the
cell's centre is the expectation of its softmax over the bins, in strides.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from envelope.victims.boxes import Candidates, FloatArray, grid_cells

STRIDES = (8, 16, 32)


def decode(outputs: Sequence[FloatArray], width: int, height: int) -> Candidates:
    """One picture's six outputs: three of scores, then three of distributions."""
    half = len(outputs) // 2
    scores, sides = list(outputs[:half]), list(outputs[half:])
    boxes = []
    for stride, distribution in zip(STRIDES, sides, strict=True):
        logits = distribution.astype(np.float64).reshape(len(distribution), 4, -1)
        chances = np.exp(logits - logits.max(axis=-1, keepdims=True))
        chances /= chances.sum(axis=-1, keepdims=True)
        reach = chances @ np.arange(logits.shape[-1]) * stride
        centers = (grid_cells(height // stride, width // stride) + 0.5) * stride
        boxes.append(np.concatenate([centers - reach[:, :2], centers + reach[:, 2:]], axis=1))
    return Candidates(np.concatenate(boxes), np.concatenate(scores).astype(np.float64))


def fits(shapes: Sequence[tuple[int, ...]], width: int, height: int) -> bool:
    """Whether outputs of these shapes (batch left out) are this family's."""
    cells = [(width // stride) * (height // stride) for stride in STRIDES]
    rows = [shape[0] for shape in shapes if len(shape) == 2]
    return len(shapes) == 6 and rows == cells * 2
