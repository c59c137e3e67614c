"""YOLOX exports: (n, 5 + C) raw rows over strides 8, 16, 32; BGR 0..255, letterboxed top left."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from envelope.victims.boxes import Candidates, FloatArray, grid_cells

STRIDES = (8, 16, 32)


def decode(outputs: Sequence[FloatArray], width: int, height: int) -> Candidates:
    """One picture's output (n, 5 + C): x, y offsets in cells, log sizes, objectness, classes."""
    rows = outputs[0].astype(np.float64)
    cells, strides = [], []
    for stride in STRIDES:
        grid = grid_cells(height // stride, width // stride)
        cells.append(grid)
        strides.append(np.full((len(grid), 1), stride))
    stride_column = np.concatenate(strides)
    centers = (rows[:, :2] + np.concatenate(cells)) * stride_column
    sizes = np.exp(rows[:, 2:4]) * stride_column
    boxes = np.concatenate([centers - sizes / 2, centers + sizes / 2], axis=1)
    return Candidates(boxes, rows[:, 4:5] * rows[:, 5:])


def fits(shapes: Sequence[tuple[int, ...]], width: int, height: int) -> bool:
    """Whether outputs of these shapes (batch left out) are this family's."""
    cells = sum((width // stride) * (height // stride) for stride in STRIDES)
    return len(shapes) == 1 and len(shapes[0]) == 2 and shapes[0][0] == cells and shapes[0][1] > 5
