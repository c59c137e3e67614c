"""YOLOX exports: (n, 5 + C) raw rows over strides 8, 16, 32; BGR 0..255, letterboxed top left."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from envelope.victims.boxes import Candidates, FloatArray, grid_cells

STRIDES = (8, 16, 32)


def decode(outputs: Sequence[FloatArray], width: int, height: int) -> Candidates:
    """One picture's output (n, 5 + C): x, y offsets in cells, log sizes, objectness, classes."""
    rows = outputs[0].astype(np.float64)
    cells, strides = _cells(width, height)
    centers = (rows[:, :2] + cells) * strides
    sizes = np.exp(rows[:, 2:4]) * strides
    boxes = np.concatenate([centers - sizes / 2, centers + sizes / 2], axis=1)
    return Candidates(boxes, rows[:, 4:5] * rows[:, 5:])


def decode_decoded(outputs: Sequence[FloatArray], width: int, height: int) -> Candidates:
    """The same of exports that hold the decoding: x, y, width, height in pixels of the input."""
    rows = outputs[0].astype(np.float64)
    centers, sizes = rows[:, :2], rows[:, 2:4]
    boxes = np.concatenate([centers - sizes / 2, centers + sizes / 2], axis=1)
    return Candidates(boxes, rows[:, 4:5] * rows[:, 5:])


def is_decoded(output: FloatArray, width: int, height: int) -> bool:
    """Whether rows (n, 5 + C) hold pixels: their centres lie by their cells, not by zero."""
    cells, strides = _cells(width, height)
    from_cells = np.abs(output[:, :2] / strides - cells - 0.5)
    return bool(np.median(from_cells) < np.median(np.abs(output[:, :2])))


def _cells(width: int, height: int) -> tuple[FloatArray, FloatArray]:
    """(n, 2) column and row of each row's cell, and (n, 1) its stride."""
    grids = [grid_cells(height // stride, width // stride) for stride in STRIDES]
    strides = [np.full((len(grid), 1), s) for grid, s in zip(grids, STRIDES, strict=True)]
    return np.concatenate(grids), np.concatenate(strides)


def fits(shapes: Sequence[tuple[int, ...]], width: int, height: int) -> bool:
    """Whether outputs of these shapes (batch left out) are this family's."""
    cells = sum((width // stride) * (height // stride) for stride in STRIDES)
    return len(shapes) == 1 and len(shapes[0]) == 2 and shapes[0][0] == cells and shapes[0][1] > 5
