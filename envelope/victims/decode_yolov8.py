"""YOLOv8 and YOLO11 exports: one (4 + C, n) map of decoded boxes; RGB / 255, centred."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from envelope.victims.boxes import Candidates, FloatArray

STRIDES = (8, 16, 32)


def decode(outputs: Sequence[FloatArray], width: int, height: int) -> Candidates:
    """One picture's output: centre x, y, width, height in input pixels, then class scores."""
    rows = outputs[0].astype(np.float64).T
    centers, sizes = rows[:, :2], rows[:, 2:4]
    boxes = np.concatenate([centers - sizes / 2, centers + sizes / 2], axis=1)
    return Candidates(boxes, rows[:, 4:])


def fits(shapes: Sequence[tuple[int, ...]], width: int, height: int) -> bool:
    """Whether outputs of these shapes (batch left out) are this family's."""
    cells = sum((width // stride) * (height // stride) for stride in STRIDES)
    return len(shapes) == 1 and len(shapes[0]) == 2 and shapes[0][0] > 4 and shapes[0][1] == cells
