"""From a victim's answer to success or failure of the attack (method.md section 5).

An answer is stored as facts (`Answer`); `judge` reads them under a `Criterion`. Thresholds can
therefore change at any time and stored answers are only read again, never scored again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from envelope.victims.names import phrase_has_class, same_class
from envelope.victims.protocols import KEPT_CONFIDENCE, Classification, Detections, Grounding
from scene.errors import InputError

Task = Literal["localization", "vanishing", "untargeted", "targeted"]
AnswerStatus = Literal["ok", "empty", "malformed", "refused", "error"]
FailureMode = Literal["omission", "substitution", "displacement"]
XYXY = tuple[float, float, float, float]

FAILURE_MODES: tuple[FailureMode, ...] = ("omission", "substitution", "displacement")
SUBSTITUTION_IOU = 0.5
GAMMA_CLOSED_SET = 0.5
GAMMA_OPEN_VOCABULARY = 0.3
TAU = 0.5
CONFIDENCE_FLOOR = KEPT_CONFIDENCE
"""Gamma cannot be set lower: victims keep no boxes under it."""


def iou(boxes: ArrayLike, box: ArrayLike) -> NDArray[np.float64]:
    """Intersection over union of boxes (n, 4) with one box (4,), xyxy pixels -> (n,) in [0, 1].

    A box of no area overlaps nothing.
    """
    a = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
    b = np.asarray(box, dtype=np.float64).reshape(4)
    low = np.maximum(a[:, :2], b[:2])
    high = np.minimum(a[:, 2:], b[2:])
    overlap = np.clip(high - low, 0.0, None).prod(axis=1)
    area_a = np.clip(a[:, 2:] - a[:, :2], 0.0, None).prod(axis=1)
    area_b = np.clip(b[2:] - b[:2], 0.0, None).prod()
    union = area_a + area_b - overlap
    return np.divide(overlap, union, out=np.zeros(len(a)), where=union > 0)


@dataclass(frozen=True)
class Criterion:
    """What counts as success of the attack.

    label: the true class. gamma: least confidence of a detector's box (ignored for grounders).
    tau: least IoU with the ground-truth box. target_label: what a targeted attack wants.
    """

    task: Task = "localization"
    label: str = ""
    gamma: float = GAMMA_CLOSED_SET
    tau: float = TAU
    target_label: str | None = None

    def __post_init__(self) -> None:
        if not CONFIDENCE_FLOOR <= self.gamma <= 1:
            raise InputError(f"gamma: wanted {CONFIDENCE_FLOOR} to 1, found {self.gamma:g}")
        if not 0 < self.tau <= 1:
            raise InputError(f"tau: wanted 0 < tau <= 1, found {self.tau:g}")
        if self.task == "targeted" and not self.target_label:
            raise InputError("a targeted task wants a target label, found none")


@dataclass(frozen=True)
class Box:
    """One box of the asked class: xyxy pixels and confidence (1 for grounders, which give none)."""

    xyxy: XYXY
    confidence: float = 1.0


@dataclass(frozen=True)
class Answer:
    """What one victim said about one picture, reduced to what any criterion can ask.

    status: "ok" (a box or a class was given), "empty", "malformed", "refused", or "error".
    boxes: boxes of the asked class, most confident first. top: (label, probability) of a
    classifier's best five. raw_text: a grounder's own words. error: why there is no answer.
    """

    kind: Literal["classifier", "detector", "grounder"]
    status: AnswerStatus
    boxes: tuple[Box, ...] = ()
    top: tuple[tuple[str, float], ...] = ()
    raw_text: str = ""
    notes: tuple[str, ...] = field(default=())
    error: str = ""


@dataclass(frozen=True)
class Outcome:
    """One judged answer.

    success: the attack succeeded; None when the answer is an error or there is no truth to judge
    by (in no numerator or denominator). right: the victim did its task. mode: how a localization
    or vanishing task failed. box: the box that was judged. box_iou: its IoU with the truth.
    omission: which kind of omission ("empty", "malformed", "refused").
    """

    success: bool | None
    right: bool | None
    mode: FailureMode | None = None
    omission: Literal["empty", "malformed", "refused"] | None = None
    box: Box | None = None
    box_iou: float | None = None


NOT_COUNTED = Outcome(None, None)


def read_answer(
    prediction: Detections | Classification | Grounding, label: str, open_vocabulary: bool = False
) -> Answer:
    """The facts of a victim's prediction that concern the class `label`."""
    if isinstance(prediction, Grounding):
        boxes = () if prediction.box is None else (Box(_xyxy(prediction.box)),)
        return Answer(
            "grounder", prediction.status, boxes, (), prediction.raw_text, prediction.notes
        )
    if isinstance(prediction, Classification):
        order = np.argsort(-prediction.probabilities, kind="stable")[:5]
        top = tuple((prediction.labels[i], float(prediction.probabilities[i])) for i in order)
        return Answer("classifier", "ok", (), top)
    matches = phrase_has_class if open_vocabulary else same_class
    kept = tuple(
        Box(_xyxy(xyxy), float(confidence))
        for xyxy, confidence, name in zip(
            prediction.xyxy, prediction.confidences, prediction.labels, strict=True
        )
        if confidence >= CONFIDENCE_FLOOR and matches(name, label)
    )
    return Answer("detector", "ok" if kept else "empty", kept)


def failed_answer(kind: Literal["classifier", "detector", "grounder"], error: str) -> Answer:
    """The answer of a victim that crashed or ran out of time."""
    return Answer(kind, "error", error=error)


def most_confident(answer: Answer, gamma: float = 0.0) -> Box | None:
    """The class's most confident box with confidence >= gamma (a grounder's one box)."""
    best = max(answer.boxes, key=lambda box: box.confidence, default=None)
    if best is None or (answer.kind == "detector" and best.confidence < gamma):
        return None
    return best


def best_placed(answer: Answer, truth: XYXY | None, gamma: float = 0.0) -> Box | None:
    """The class's box with confidence >= gamma that overlaps the truth most."""
    boxes = [b for b in answer.boxes if answer.kind != "detector" or b.confidence >= gamma]
    if not boxes or truth is None:
        return None
    overlaps = iou([box.xyxy for box in boxes], truth)
    return boxes[int(np.argmax(overlaps))]


@lru_cache(maxsize=1 << 17)  # the viewer reads all rows again whenever one arrives
def judge(
    answer: Answer, criterion: Criterion, truth: XYXY | None, footprint: XYXY | None
) -> Outcome:
    """Success of the attack on one answer.

    truth: tight box of the target's visible mask; footprint: tight box of the patch's visible
    pixels, None when it is hidden. Both xyxy pixels of the picture that the victim was given.
    """
    if answer.status == "error":
        return NOT_COUNTED
    if criterion.task in ("untargeted", "targeted"):
        return _judge_class(answer, criterion)
    if truth is None:
        return NOT_COUNTED
    top = most_confident(answer, criterion.gamma)
    judged = top
    if criterion.task == "vanishing":
        judged = best_placed(answer, truth, criterion.gamma)
    overlap = float(iou(judged.xyxy, truth)[0]) if judged else None
    if overlap is not None and overlap >= criterion.tau:
        return Outcome(False, True, box=judged, box_iou=overlap)
    if top is None:
        status = answer.status
        kind = status if status in ("malformed", "refused") else "empty"
        return Outcome(True, False, "omission", kind)  # type: ignore[arg-type]
    on_patch = footprint is not None and float(iou(top.xyxy, footprint)[0]) >= SUBSTITUTION_IOU
    mode: FailureMode = "substitution" if on_patch else "displacement"
    return Outcome(True, False, mode, box=top, box_iou=float(iou(top.xyxy, truth)[0]))


def _judge_class(answer: Answer, criterion: Criterion) -> Outcome:
    if not answer.top:
        return NOT_COUNTED
    first = answer.top[0][0]
    right = same_class(first, criterion.label)
    if criterion.task == "untargeted":
        return Outcome(not right, right)
    return Outcome(same_class(first, criterion.target_label or ""), right)


def _xyxy(values: Sequence[float] | NDArray[np.float32]) -> XYXY:
    x0, y0, x1, y1 = (float(v) for v in values)
    return x0, y0, x1, y1
