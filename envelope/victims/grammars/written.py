"""Answers whose coordinates are written with digits, whatever stands around them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from envelope.victims.grammars.cleaning import cleaned
from envelope.victims.grammars.forms import Form, Found, find_box
from envelope.victims.grammars.reading import TOLERANCE, Reading, finished, without_box

LONGEST = 20_000
"""Characters that are read; what a model writes behind them is noise."""


@dataclass(frozen=True)
class Scale:
    """What a model's numbers mean. x, y: the values at the picture's right and lower edge.

    order: of the four numbers, unless the model names them.
    """

    x: float = 1000.0
    y: float = 1000.0
    order: Literal["xyxy", "yxyx"] = "xyxy"


def read_written(text: str, width: int, height: int, own: Form, scale: Scale) -> Reading:
    """One box from an answer, in pixels of a (width x height) picture.

    own: how the model is known to write; a box in another form is accepted and noted.
    """
    answer, notes = cleaned(text[:LONGEST])
    if len(text) > LONGEST:
        notes = (*notes, f"only the first {LONGEST} characters were read")
    if notes == ("cut off while thinking",):
        return Reading("malformed", notes=notes)
    found = find_box(answer, own)
    if found is None:
        silent = without_box(answer)
        return Reading(silent.status, notes=(*notes, *silent.notes))
    if found.values is None:
        problem = found.problem
        status = Reading("malformed" if problem else "empty").status
        return Reading(status, notes=(*notes, problem or "the box is left empty"))
    notes = (*notes, *_remarks(found, answer, own), *_doubts(found.values, scale))
    return finished(_shares(found, scale), width, height, notes)


def _shares(found: Found, scale: Scale) -> tuple[float, float, float, float]:
    a, b, c, d = found.values  # type: ignore[misc]
    if scale.order == "yxyx" and "corners by name" not in found.notes:
        a, b, c, d = b, a, d, c
    return a / scale.x, b / scale.y, c / scale.x, d / scale.y


def _remarks(found: Found, answer: str, own: Form) -> list[str]:
    """What was tolerated, apart from the numbers."""
    said = list(found.notes)
    if found.form != own:
        said.append(_OTHER_FORM[found.form])
    if found.count > 1:
        said.append(f"{found.count} boxes, the first counts")
    if found.form in ("keyed", "corners") and re.search(r"[{,]\s*'", answer):
        said.append("single quotes")
    before, after = answer[: found.start], answer[found.end :]
    if re.search(r"\w", re.sub(r"<ref>.*?</ref>|[\[{].*", "", before, flags=re.DOTALL)):
        said.append("text before the box")
    tail = after.rpartition("}")[2] if found.form in ("keyed", "corners") else after
    alone = found.count == 1 and "an incomplete box follows" not in found.notes
    if alone and re.search(r"\w", tail):
        said.append("text after the box")
    return said


def _doubts(values: tuple[float, ...], scale: Scale) -> list[str]:
    """A remark when the numbers look like another convention than the declared one."""
    most = max(abs(value) for value in values)
    if scale.x > 1 and 0 < most <= 1:
        return ["all values are within 0..1: perhaps shares of the picture"]
    if scale.x == 1 and most > 1 + TOLERANCE:
        return ["values over 1: perhaps thousandths or pixels"]
    return []


_OTHER_FORM: dict[Form, str] = {
    "tagged": "a tagged box in place of JSON",
    "keyed": "JSON in place of tags",
    "corners": "named corners in place of a list",
    "bare": "a bare list of numbers",
}
