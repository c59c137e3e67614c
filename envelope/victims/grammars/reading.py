"""What a reading says, and the checks that every box goes through."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from envelope.victims.protocols import Status

TOLERANCE = 0.02
"""Beyond the frame by more than this share of it: no box."""

_REFUSAL = re.compile(
    r"\b(i\s*('m|’m|am)\s+(sorry|unable|not able)|i\s+(can\s?not|can't|can’t|won't|won’t)|sorry,|"
    r"unable to|as an ai\b|cannot (assist|help|identify))",
    re.IGNORECASE,
)
_NOTHING = re.compile(
    r"^\W*(none|nothing|null|empty|no|n/a|not found|no (box|object|objects|match|detections?))\W*$|"
    r"\bthere (is|are|was|were)(n't|n’t| not| no)\b|"
    r"\bno\b[^.]{0,60}\b(visible|present|found|detected|shown|in (the|this) (image|picture))\b|"
    r"\b(is|are)(n't|n’t| not) (visible|present|found|shown|in (the|this))|"
    r"\b(can('t|’t|not| not)|could(n't|n’t| not)|unable to|do(n't|n’t| not)) "
    r"(see|find|detect|locate)\b",
    re.IGNORECASE,
)
_BRACKETS_ONLY = re.compile(r"[\s\[\]{}()\"',.:]+")
_EMPTY_VALUE = re.compile(
    r"[\s{\[\"']*[\w ]+[\"']\s*:\s*(\[\s*\]|\{\s*\}|null|None|\"\"|'')[\s}\],.]*"
)


@dataclass(frozen=True)
class Reading:
    """status; the box (x0, y0, x1, y1 in pixels) when it is "ok"; notes: why, what was mended."""

    status: Status
    box: tuple[float, float, float, float] | None = None
    notes: tuple[str, ...] = ()


def without_box(text: str) -> Reading:
    """The reading of an answer that holds no box: empty, refused, or words in its place."""
    if not text or _EMPTY_VALUE.fullmatch(text):
        return Reading("empty")
    if _BRACKETS_ONLY.fullmatch(text):
        cut = sum(map(text.count, "[{(")) > sum(map(text.count, "]})"))
        return Reading("malformed", notes=("cut off before a box",)) if cut else Reading("empty")
    if _NOTHING.search(text):
        return Reading("empty")
    if _REFUSAL.search(text):
        return Reading("refused", notes=("a refusal",))
    return Reading("malformed", notes=("no box in the answer",))


def finished(
    corners: Sequence[float], width: int, height: int, notes: Sequence[str] = ()
) -> Reading:
    """Shares of the picture (x0, y0, x1, y1) -> a checked box in pixels.

    Swapped corners are put right and noted; up to 2 % outside is clipped and noted; more than
    that, no area, or a value that is no number makes the answer malformed.
    """
    said = list(notes)
    if not all(math.isfinite(value) for value in corners):
        return Reading("malformed", notes=(*said, "a coordinate is not a number"))
    x0, y0, x1, y1 = corners
    if x0 > x1 or y0 > y1:
        x0, x1 = min(x0, x1), max(x0, x1)
        y0, y1 = min(y0, y1), max(y0, y1)
        said.append("swapped corners")
    if min(x0, y0) < -TOLERANCE or max(x1, y1) > 1 + TOLERANCE:
        return Reading("malformed", notes=(*said, "outside the picture"))
    if min(x0, y0) < 0 or max(x1, y1) > 1:
        x0, y0, x1, y1 = (min(max(value, 0.0), 1.0) for value in (x0, y0, x1, y1))
        said.append("clipped to the picture")
    if x1 <= x0 or y1 <= y0:
        return Reading("malformed", notes=(*said, "a box without area"))
    return Reading("ok", (x0 * width, y0 * height, x1 * width, y1 * height), tuple(said))
