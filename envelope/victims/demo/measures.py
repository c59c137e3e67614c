"""How good the demo victims are on pictures they have not seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from envelope.victims.demo.dataset import PictureSet
from envelope.victims.demo.signs import CLASSES, STOP
from envelope.victims.protocols import Detections, Detector, Images

_BATCH = 16


def iou(first: Sequence[float], second: Sequence[float]) -> float:
    """Intersection over union of two xyxy boxes."""
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    shared = max(0.0, width) * max(0.0, height)
    areas = [(b[2] - b[0]) * (b[3] - b[1]) for b in (first, second)]
    return float(shared / max(areas[0] + areas[1] - shared, 1e-9))


def detect_all(victim: Detector, pictures: PictureSet) -> list[Detections]:
    """The detector's answers for every picture of a set."""
    answers: list[Detections] = []
    for start in range(0, len(pictures), _BATCH):
        rows = range(start, min(start + _BATCH, len(pictures)))
        answers += victim.predict(np.stack([pictures[row][0] for row in rows]))
    return answers


def average_precision(
    answers: Sequence[Detections],
    truths: Sequence[NDArray[np.float32]],
    class_index: int,
    overlap: float = 0.5,
) -> float:
    """Average precision of one class at one IoU, 101-point interpolation as in COCO.

    truths: per picture (n, 5) rows of class, x0, y0, x1, y1.
    """
    hits: list[tuple[float, bool]] = []
    total = 0
    for answer, truth in zip(answers, truths, strict=True):
        targets = [row[1:] for row in truth if int(row[0]) == class_index]
        total += len(targets)
        found: set[int] = set()
        own = answer.of_label(CLASSES[class_index])
        for box, confidence in zip(own.xyxy, own.confidences, strict=True):
            overlaps = [iou(box, target) for target in targets]
            best = int(np.argmax(overlaps)) if overlaps else -1
            hit = best >= 0 and overlaps[best] >= overlap and best not in found
            if hit:
                found.add(best)
            hits.append((float(confidence), hit))
    if not hits or total == 0:
        return 0.0
    hits.sort(key=lambda item: -item[0])
    true = np.cumsum([hit for _, hit in hits])
    precision = np.maximum.accumulate((true / np.arange(1, len(true) + 1))[::-1])[::-1]
    recall = true / total
    levels = np.linspace(0, 1, 101)
    at = np.searchsorted(recall, levels)
    return float(np.mean([precision[i] if i < len(precision) else 0.0 for i in at]))


def stop_sign_hits(
    victim: Detector, images: Images, boxes: Sequence[Sequence[float]], threshold: float
) -> list[bool]:
    """Per picture: whether the most confident stop sign above threshold overlaps its box >= 0.5."""
    hits = []
    for answer, box in zip(victim.predict(images), boxes, strict=True):
        own = answer.of_label(CLASSES[STOP])
        hits.append(
            len(own) > 0 and float(own.confidences[0]) >= threshold and iou(own.xyxy[0], box) >= 0.5
        )
    return hits
