"""What is known about the view that the sliders stand at: pictures, truth, victims' answers."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from envelope.condition import Condition
from envelope.outcome import Answer, Criterion, Outcome

XYXY = tuple[float, float, float, float]


@dataclass(frozen=True)
class Said:
    """One victim's answer about one picture, ready to be shown.

    verdict: our words. words: the victim's own words ('' for detectors); untrusted text.
    box: the box that was judged, xyxy pixels. success: the attack's, None when not counted.
    """

    verdict: str
    words: str = ""
    box: XYXY | None = None
    box_label: str = ""
    success: bool | None = None


@dataclass(frozen=True, eq=False)
class ViewScores:
    """The current view as far as it is scored.

    pictures: render kind -> (H, W, 3) uint8. ground_truth, footprint: xyxy pixels of them.
    said: (victim, kind) -> Said. why_not: why the view is not observable.
    seconds: from asking for the view to its newest part. error: why it could not be drawn.
    complete: nothing more is to come. scored: whether anybody scores it (no patch, no scores).
    """

    condition: Condition
    pictures: dict[str, NDArray[np.uint8]] = field(default_factory=dict)
    ground_truth: XYXY | None = None
    footprint: XYXY | None = None
    observable: bool = True
    why_not: str = ""
    patch_hidden: bool = False
    extrapolated: bool = False
    said: dict[tuple[str, str], Said] = field(default_factory=dict)
    seconds: float = 0.0
    error: str = ""
    complete: bool = True
    scored: bool = True

    def victims(self) -> tuple[str, ...]:
        """Names of the victims that answered, in the order of their answers."""
        return tuple(dict.fromkeys(victim for victim, _ in self.said))


def describe_answer(answer: Answer, outcome: Outcome, criterion: Criterion) -> Said:
    """An answer judged under `criterion`, in words."""
    if answer.status == "error":
        return Said(f"error: {answer.error}", answer.raw_text)
    box = outcome.box
    confidence = box.confidence if box is not None and answer.kind == "detector" else None
    success = outcome.success
    return Said(
        verdict=_verdict(answer, outcome, criterion),
        words=answer.raw_text,
        box=box.xyxy if box is not None else None,
        box_label=f"{confidence:.2f}" if confidence is not None else "",
        success=success,
    )


def _verdict(answer: Answer, outcome: Outcome, criterion: Criterion) -> str:
    if answer.kind == "classifier":
        top = ", ".join(f"{label} {probability:.2f}" for label, probability in answer.top[:2])
        return ("fooled: " if outcome.success else "right: ") + top
    if outcome.success is None:
        return "not counted (nothing to judge by)"
    overlap = "" if outcome.box_iou is None else f", IoU {outcome.box_iou:.2f}"
    sure = ""
    if outcome.box is not None and answer.kind == "detector":
        sure = f", confidence {outcome.box.confidence:.2f}"
    if not outcome.success:
        return f"found the {criterion.label}{sure}{overlap}"
    if outcome.mode == "omission":
        how = {"malformed": " (malformed answer)", "refused": " (refused)"}
        return f"fooled: no {criterion.label} found" + how.get(outcome.omission or "", "")
    return f"fooled: {outcome.mode or 'wrong box'}{sure}{overlap}"
