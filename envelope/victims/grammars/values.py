"""Numbers in brackets, as models write them: nested, quoted, spaced, or cut off."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOKEN = re.compile(
    r"\s*(?:(?P<open>[\[(])|(?P<close>[\])])|(?P<between>[,;\"'])|"
    r"(?P<number>[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,4})?)(?![\w.%])|"
    r"(?P<missing>(?:[-+]?(?:nan|inf(?:inity)?)|null|none)\b))",
    re.IGNORECASE,
)
_POINT, _BOX = 2, 4


@dataclass(frozen=True)
class Leaf:
    """An innermost list. values: NaN for what is no number. closed: its bracket is there."""

    values: tuple[float, ...]
    closed: bool


@dataclass(frozen=True)
class Group:
    """A bracketed run of numbers: text[start:end]. closed: the outermost bracket is there."""

    start: int
    end: int
    leaves: tuple[Leaf, ...]
    closed: bool

    @property
    def boxes(self) -> tuple[tuple[float, ...], ...]:
        """The runs of four values; two pairs (corner points) make one."""
        found = []
        if self.leaves and all(len(leaf.values) == _POINT for leaf in self.leaves):
            ends = [leaf.values for leaf in self.leaves if leaf.closed]
            found = [ends[i] + ends[i + 1] for i in range(0, len(ends) - 1, 2)]
        else:
            found = [leaf.values for leaf in self.leaves if self._whole(leaf)]
        return tuple(found)

    @property
    def problem(self) -> str:
        """Why the first list is no box; "" when it is one."""
        if not self.leaves:
            return "an empty list" if self.closed else "cut off before the first number"
        first = self.leaves[0]
        if self.boxes and (self._whole(first) or len(first.values) == _POINT):
            return ""
        cut = "" if first.closed else ", cut off"
        count = len(first.values)
        return f"{count} of 4 values{cut}" if count < _BOX else f"{count} values in place of 4{cut}"

    @staticmethod
    def _whole(leaf: Leaf) -> bool:
        return leaf.closed and len(leaf.values) == _BOX


def group_at(text: str, start: int) -> Group | None:
    """The numbers in the brackets that open at `start`; None when other things are in them."""
    depth, position = 0, start
    leaves: list[Leaf] = []
    values: list[float] = []
    while token := _TOKEN.match(text, position):
        position = token.end()
        kind = token.lastgroup
        if kind == "number":
            values.append(float(token.group("number")))
        elif kind == "missing":
            values.append(float("nan"))
        elif kind in ("open", "close"):
            if values:
                leaves.append(Leaf(tuple(values), closed=True))
                values = []
            depth += 1 if kind == "open" else -1
            if depth <= 0:
                return Group(start, position, tuple(leaves), closed=True)
    if text[position:].strip():
        return None
    if values:
        leaves.append(Leaf(tuple(values), closed=False))
    return Group(start, len(text), tuple(leaves), closed=False)


def groups_in(text: str) -> list[Group]:
    """All bracketed runs of numbers, in the order of the text."""
    found: list[Group] = []
    position = 0
    while bracket := re.search(r"[\[(]", text[position:]):
        start = position + bracket.start()
        group = group_at(text, start)
        if group is None:
            position = start + 1
            continue
        found.append(group)
        position = max(group.end, start + 1)
    return found
