"""Box arithmetic that every detector needs, in plain numpy; boxes are xyxy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scene.errors import InputError

FloatArray = NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class Candidates:
    """What a decoder reads out of one picture's outputs, before any choice.

    xyxy: (n, 4) pixels of the model's input. scores: (n, C) in [0, 1].
    """

    xyxy: FloatArray
    scores: FloatArray


def require_finite(name: str, *outputs: Any) -> None:
    """Refuse a network's outputs that hold NaN or infinity, before anything is chosen from them.

    NaN is above no threshold: what held it would be dropped and read as an object not found.
    name: the victim's. outputs: numpy arrays or torch tensors of any shape.
    """
    for output in outputs:
        finite = output.isfinite() if hasattr(output, "isfinite") else np.isfinite(output)
        if not finite.all():
            count = int((~finite).sum())
            raise InputError(
                f"{name}: wanted finite numbers from the network, found NaN or infinity in {count} "
                f"of {int(np.prod(finite.shape))} outputs"
            )


def pairwise_iou(first: FloatArray, second: FloatArray) -> FloatArray:
    """(n, 4) and (m, 4) boxes -> (n, m) intersection over union; 0 for boxes without area."""
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, 2:], second[None, :, 2:])
    shared = np.prod(np.clip(high - low, 0, None), axis=-1)
    area_first, area_second = (
        np.prod(np.clip(boxes[:, 2:] - boxes[:, :2], 0, None), axis=-1) for boxes in (first, second)
    )
    union = area_first[:, None] + area_second[None] - shared
    return np.where(union > 0, shared / np.where(union > 0, union, 1), 0.0)


def suppress(boxes: FloatArray, scores: FloatArray, classes: NDArray[np.int64], overlap: float,
             limit: int = 100) -> NDArray[np.int64]:  # fmt: skip
    """Greedy non-maximum suppression within each class.

    boxes: (n, 4); scores: (n,); classes: (n,). Returns the kept rows, best score first.
    """
    order = np.argsort(-scores, kind="stable")
    kept: list[int] = []
    while len(order) and len(kept) < limit:
        best, rest = int(order[0]), order[1:]
        kept.append(best)
        overlaps = pairwise_iou(boxes[best : best + 1], boxes[rest])[0]
        order = rest[(overlaps <= overlap) | (classes[rest] != classes[best])]
    return np.asarray(kept, dtype=np.int64)


def grid_cells(height: int, width: int) -> FloatArray:
    """(height * width, 2) column and row numbers of a feature map's cells, row by row."""
    columns, rows = np.meshgrid(np.arange(width), np.arange(height))
    return np.stack([columns, rows], axis=-1).reshape(-1, 2).astype(np.float64)
