"""FastestDet exports: one (5 + C, h, w) map; BGR / 255, the picture stretched to the input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from envelope.victims.boxes import Candidates, FloatArray, grid_cells

_OBJECT_POWER, _CLASS_POWER = 0.6, 0.4
_STRIDE = 16


def decode(outputs: Sequence[FloatArray], width: int, height: int) -> Candidates:
    """One picture's map: objectness, x, y, width, height, then class scores.

    centre = (cell + tanh) / cells, size = sigmoid, both as shares of the input.
    """
    maps = outputs[0].astype(np.float64)
    rows, columns = maps.shape[1:]
    cells = maps.reshape(len(maps), -1).T
    grid = grid_cells(rows, columns)
    centers = (grid + np.tanh(cells[:, 1:3])) / [columns, rows] * [width, height]
    sizes = 1 / (1 + np.exp(-cells[:, 3:5])) * [width, height]
    boxes = np.concatenate([centers - sizes / 2, centers + sizes / 2], axis=1)
    objectness = np.clip(cells[:, :1], 0, 1) ** _OBJECT_POWER
    return Candidates(boxes, objectness * np.clip(cells[:, 5:], 0, 1) ** _CLASS_POWER)


def fits(shapes: Sequence[tuple[int, ...]], width: int, height: int) -> bool:
    """Whether outputs of these shapes (batch left out) are this family's."""
    map_size = (height // _STRIDE, width // _STRIDE)
    return len(shapes) == 1 and shapes[0][1:] == map_size and shapes[0][0] > 5
