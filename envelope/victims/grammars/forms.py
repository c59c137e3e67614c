"""Where in an answer the box is: in tags, under a JSON key, in named corners, in bare brackets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from envelope.victims.grammars.values import Group, group_at, groups_in

Form = Literal["tagged", "keyed", "corners", "bare"]

_TAG = re.compile(r"<box>|<\|box_start\|>")
_TAG_END = re.compile(r"</box>|<\|box_end\|>")
_KEY = re.compile(
    r"(?<![A-Za-z_])(?:bbox_?2d|box_?2d|bound(?:ing)?_?boxe?s?|bboxe?s?|boxe?s?|coordinates|coords?)"
    r"[\"']?\s*[:=]\s*",
    re.IGNORECASE,
)
_NO_VALUE = re.compile(
    r"[\"']?(?:null|none|n/a)\b[\"']?|\[\s*\]|\{\s*\}|\"\s*\"|'\s*'", re.IGNORECASE
)
_QUOTED = re.compile(r"[\"']([^\"'\[\]{}()]*)[\"']")
_OBJECT = re.compile(r"\[?\s*\{[^{}]{0,400}")
_PAIR = re.compile(
    r"[\"']?(x_?1|y_?1|x_?2|y_?2|x_?min|y_?min|x_?max|y_?max|left|top|right|bottom)[\"']?\s*[:=]\s*"
    r"[\"']?([-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,4})?)(?![\w.%])",
    re.IGNORECASE,
)
_BETWEEN = re.compile(r"[ ,;\n]*(?=[\[(])")
_CORNERS = (
    ("x1", "y1", "x2", "y2"), ("xmin", "ymin", "xmax", "ymax"), ("left", "top", "right", "bottom"),
)  # fmt: skip


@dataclass(frozen=True)
class Found:
    """What one form of writing gives: the first box, or why it is none.

    values: as written, None with a problem or when the model says that there is nothing.
    count: boxes written in this form. start, end: of the first, in the text. notes: on it.
    corners: the values are x1 y1 x2 y2 by name, whatever order the model usually has.
    """

    form: Form
    values: tuple[float, ...] | None
    start: int
    end: int
    count: int = 1
    problem: str = ""
    notes: tuple[str, ...] = ()


def find_box(text: str, own: Form) -> Found | None:
    """The first box in the form that the model is known for, else in any other; None without."""
    order: list[Form] = [own, *(form for form in _FINDERS if form != own)]
    for form in order:
        found = list(_FINDERS[form](text))
        if found:
            first = found[0]
            count = sum(one.count for one in found if one.values is not None)
            notes = first.notes
            if any("cut off" in one.problem for one in found[1:]):
                notes = (*notes, "an incomplete box follows")
            return replace(first, count=count, notes=notes)
    return None


def _tagged(text: str) -> Iterator[Found]:
    for tag in _TAG.finditer(text):
        end = _TAG_END.search(text, tag.end())
        following = _TAG.search(text, tag.end())
        closed = end is not None and (following is None or end.start() < following.start())
        stop = end.start() if closed and end else following.start() if following else len(text)
        inside = text[tag.end() : stop]
        last = end.end() if closed and end else stop
        yield _in_tags(inside, closed, tag.start(), last)


def _in_tags(inside: str, closed: bool, start: int, end: int) -> Found:
    brackets = bool(re.match(r"\s*[\[(]", inside))
    if not inside.strip(" \n\t[](),\"'"):
        problem = "" if closed else "cut off before the first number"
        return Found("tagged", None, start, end, problem=problem)
    group = group_at(f"[{inside}]" if closed else f"[{inside}", 0)
    if group is None:
        return Found("tagged", None, start, end, problem="no numbers in the box")
    if not closed and not brackets:
        return Found("tagged", None, start, end, problem="cut off before the box was complete")
    found = _of_group(group, "tagged", start, end, inside)
    if closed or found.values is None:
        return found
    return Found(
        "tagged", found.values, start, end, found.count, notes=(*found.notes, "no closing tag")
    )


def _keyed(text: str) -> Iterator[Found]:
    for key in _KEY.finditer(text):
        found = _under_key(text, key.start(), key.end())
        if found is not None:
            yield found


def _under_key(text: str, start: int, at: int) -> Found | None:
    """What stands behind a key; None when it is a word of a sentence, or keys follow inside."""
    rest = text[at:]
    if nothing := _NO_VALUE.match(rest):
        return Found("keyed", None, start, at + nothing.end())
    if not rest:
        return Found("keyed", None, start, at, problem="cut off before the first number")
    if quoted := _QUOTED.match(rest):
        group = group_at(f"[{quoted.group(1)}]", 0)
        end = at + quoted.end()
        if group is None:
            return Found("keyed", None, start, end, problem="words in place of the numbers")
        return _of_group(group, "keyed", start, end, quoted.group())
    opening = re.match(r"[\"']?(?=[\[(])", rest)
    if opening:
        group = group_at(text, at + opening.end())
        if group is not None:
            group = _with_other_corner(text, group)
            return _of_group(group, "keyed", start, group.end, text[at : group.end])
    if inside := _OBJECT.match(rest):
        named = next(_corners(inside.group()), None)
        if named is None:
            return None
        return Found("keyed", named.values, start, at + named.end, notes=named.notes)
    if text[start:at].rstrip(" \n\t:=")[-1] not in "\"'":
        return None
    return Found("keyed", None, start, at, problem="something else in place of the numbers")


def _corners(text: str) -> Iterator[Found]:
    """Four named numbers, as in {"x1": 10, "y1": 20, "x2": 30, "y2": 40}."""
    pairs = list(_PAIR.finditer(text))
    for first in range(0, len(pairs) - 3, 4):
        four = pairs[first : first + 4]
        named = {p.group(1).lower().replace("_", ""): float(p.group(2)) for p in four}
        for names in _CORNERS:
            if set(names) == set(named):
                values = tuple(named[name] for name in names)
                span = four[0].start(), four[-1].end()
                yield Found("corners", values, *span, notes=("corners by name",))


def _bare(text: str) -> Iterator[Found]:
    """Brackets of numbers in the text; those of other lengths only when there is no box at all."""
    found = [
        _of_group(group, "bare", group.start, group.end, text[group.start : group.end])
        for group in groups_in(text)
    ]
    found = _joined(found, text)
    boxes = [one for one in found if one.values is not None]
    yield from boxes or [one for one in found if one.problem][:1]


def _joined(found: list[Found], text: str) -> list[Found]:
    """Two points side by side, `(10, 20), (30, 40)`, are the corners of a box."""
    joined: list[Found] = []
    for one in found:
        last = joined[-1] if joined else None
        if last and last.problem.startswith("2 of 4") and one.problem.startswith("2 of 4"):
            between = text[last.end : one.start]
            group = group_at(f"[{text[last.start : one.end]}]", 0)
            if not between.strip(" ,;\n") and group is not None and group.boxes:
                joined[-1] = Found("bare", group.boxes[0], last.start, one.end)
                continue
        joined.append(one)
    return joined


def _with_other_corner(text: str, group: Group) -> Group:
    """The group; with the point beside it when it is one, as in `bbox: (10, 20), (30, 40)`."""
    if not group.problem.startswith("2 of 4"):
        return group
    between = _BETWEEN.match(text, group.end)
    other = group_at(text, between.end()) if between else None
    if other is None or not other.problem.startswith("2 of 4"):
        return group
    joined = group_at(f"[{text[group.start : other.end]}]", 0)
    if joined is None or not joined.boxes:
        return group
    return replace(joined, start=group.start, end=other.end)


def _of_group(group: Group, form: Form, start: int, end: int, shown: str) -> Found:
    problem = group.problem
    if problem == "an empty list":
        return Found(form, None, start, end)
    if problem:
        return Found(form, None, start, end, problem=problem)
    notes = []
    if re.search(r"[\"']\s*[\[(]*\s*[-+.\d]", shown):
        notes.append("numbers as strings")
    if not group.closed or not group.leaves[-1].closed:
        notes.append("cut off after the box")
    return Found(form, group.boxes[0], start, end, len(group.boxes), notes=tuple(notes))


_FINDERS: dict[Form, Callable[[str], Iterator[Found]]] = {
    "tagged": _tagged,
    "keyed": _keyed,
    "corners": _corners,
    "bare": _bare,
}
