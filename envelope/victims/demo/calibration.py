"""Puts the demo detector's best operating point at confidence 0.5.

A small model trained for minutes is timid: it is right long before it says 0.5. The bias of each
class is moved so that 0.5 is the confidence at which F1 (at IoU 0.5) is highest on pictures that
were not trained on. Ranking and boxes stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from envelope.victims.demo.dataset import PictureSet
from envelope.victims.demo.detector_net import SignDetector
from envelope.victims.demo.measures import detect_all, scored_hits
from envelope.victims.demo.signs import CLASSES
from envelope.victims.demo.train_detector import as_victim
from envelope.victims.protocols import Detections

_LIMITS = (0.15, 0.7)  # thresholds beyond these say more about the pictures than about the model
_ENOUGH = 20


def calibrate(model: SignDetector, pictures: Sequence[PictureSet]) -> dict[str, float]:
    """Move the class biases in place; returns the thresholds that became 0.5."""
    answers: list[Detections] = []
    truths: list[NDArray[np.float32]] = []
    victim = as_victim(model)
    for own in pictures:
        answers += detect_all(victim, own)
        truths += [own[row][1] for row in range(len(own))]
    thresholds: dict[str, float] = {}
    for index, name in enumerate(CLASSES):
        best = best_threshold(answers, truths, index)
        if best is None:
            continue
        thresholds[name] = round(best, 3)
        with torch.no_grad():
            for head in model.class_heads:
                head[-1].bias[index] -= math.log(best / (1 - best))  # type: ignore[index]
    return thresholds


def best_threshold(
    answers: Sequence[Detections], truths: Sequence[NDArray[np.float32]], class_index: int
) -> float | None:
    """The confidence with the highest F1 of a class; None where there are too few signs."""
    hits, total = scored_hits(answers, truths, class_index)
    if total < _ENOUGH or not hits:
        return None
    true = np.cumsum([hit for _, hit in hits])
    scores = 2 * true / (np.arange(1, len(hits) + 1) + total)  # F1 = 2 TP / (found + signs)
    best = hits[int(np.argmax(scores))][0]
    return float(np.clip(best, *_LIMITS))
