"""Reads the box out of what a grounding model wrote. Pure: no torch, no pictures, no model.

Tolerant reading, strict result: a box is accepted only when it is complete. Everything that was
put right or dropped is noted; the raw text is never changed (and is shown as text, never HTML).

Each grammar is a function (text, width, height) -> Reading, width and height being those of the
picture whose pixels the box is wanted in.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from envelope.victims.protocols import Status

LOC_RANGE = 1024  # PaliGemma's <locNNNN> counts 1024ths of the picture
_TOLERANCE = 0.02  # beyond the frame by more than this share: no box
_REFUSAL = re.compile(
    r"\b(i\s*('m|am)\s+(sorry|unable|not able)|i\s+(can\s?not|can't|won't)|sorry,|unable to|"
    r"as an ai\b|cannot (assist|help|identify))",
    re.IGNORECASE,
)
_NOTHING = re.compile(
    r"^\W*(none|nothing|null|empty|no|n/a|not found|no (box|object|objects|match|detections?)|"
    r"there (is|are) no\b.*)\W*$",
    re.IGNORECASE | re.DOTALL,
)
_CONTROL = re.compile(r"<(eos|bos|pad|end_of_turn|/s|s)>")
_LOC_RUN = re.compile(r"<loc(-?\d+)>")
_LOC_CUT = re.compile(r"<loc[^>]*$|<lo?$")


@dataclass(frozen=True)
class Reading:
    """status; the box (x0, y0, x1, y1 in pixels) when it is "ok"; notes: why, what was mended."""

    status: Status
    box: tuple[float, float, float, float] | None = None
    notes: tuple[str, ...] = ()


Grammar = Callable[[str, int, int], Reading]


def read_paligemma(text: str, width: int, height: int) -> Reading:
    """PaliGemma: `<loc0123><loc0456><loc0789><loc1000> label`, y0 x0 y1 x1 in 1024ths."""
    written = _CONTROL.sub("", text).strip()
    silent = without_box(written)
    values = [int(digits) for digits in _LOC_RUN.findall(written)]
    if not values:
        if _LOC_CUT.search(written):
            return Reading("malformed", notes=("cut off inside the first location",))
        return silent
    notes = []
    if len(values) < 4:
        return Reading("malformed", notes=(f"{len(values)} of 4 locations",))
    if not re.match(r"\s*(<loc-?\d+>\s*){4}", written):
        notes.append("text before or between the locations")
    boxes, left_over = divmod(len(values), 4)
    if boxes > 1:
        notes.append(f"{boxes} boxes, the first counts")
    if left_over or _LOC_CUT.search(written):
        notes.append("an incomplete box follows")
    y0, x0, y1, x1 = (value / LOC_RANGE for value in values[:4])
    return finished((x0, y0, x1, y1), width, height, notes)


def without_box(text: str) -> Reading:
    """The reading of an answer that holds no box: empty, refused, or words in its place."""
    if not text or _NOTHING.match(text):
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
    if min(x0, y0) < -_TOLERANCE or max(x1, y1) > 1 + _TOLERANCE:
        return Reading("malformed", notes=(*said, "outside the picture"))
    if min(x0, y0) < 0 or max(x1, y1) > 1:
        x0, y0, x1, y1 = (min(max(value, 0.0), 1.0) for value in (x0, y0, x1, y1))
        said.append("clipped to the picture")
    if x1 <= x0 or y1 <= y0:
        return Reading("malformed", notes=(*said, "a box without area"))
    return Reading("ok", (x0 * width, y0 * height, x1 * width, y1 * height), tuple(said))


GRAMMARS: dict[str, Grammar] = {"paligemma": read_paligemma}
