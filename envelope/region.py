"""The operational envelope as a set of conditions: its size, its extent, its nearest edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envelope.cells import Cell
from envelope.condition import ANCHOR, AXES, Condition, condition_distance
from envelope.metrics import MIN_RANKED_CONDITIONS

ENVELOPE_RATE = 0.5
"""A condition belongs to the envelope from this rate on (method.md section 6)."""


@dataclass(frozen=True)
class Extent:
    """How far the envelope reaches from the anchor along one axis, without a gap.

    low, high: the outermost values of the unbroken run of envelope cells through the anchor; None
    when the anchor cell itself is outside. open_low, open_high: the run goes to the end of what
    was swept (or of what is observable), so the true edge may lie farther.
    """

    low: float | None
    high: float | None
    open_low: bool = False
    open_high: bool = False


@dataclass(frozen=True)
class Region:
    """The set of observable conditions whose rate is at least one half.

    inside: its conditions. size: their share of the observable ones that are scored; None when
    none is. undefined: observable and scored, but without a rate (counted as outside).
    """

    inside: tuple[Condition, ...]
    size: float | None
    observable: int
    undefined: int
    unobservable: int
    unscored: int
    extents: Mapping[str, Extent]

    @property
    def ranked(self) -> bool:
        """Whether the size may be compared: at least five observable conditions."""
        return self.observable >= MIN_RANKED_CONDITIONS

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "size": self.size,
            "inside": len(self.inside),
            "observable": self.observable,
            "undefined": self.undefined,
            "unobservable": self.unobservable,
            "unscored": self.unscored,
            "ranked": self.ranked,
            "extent": {name: vars(extent) for name, extent in self.extents.items()},
        }


def region_of(
    cells: Sequence[Cell],
    axes: Sequence[str],
    base: Condition = ANCHOR,
    rate: float = ENVELOPE_RATE,
) -> Region:
    """The envelope of some cells. axes: those swept; base: the condition that extents start from.

    An extent runs along its axis through the swept cell nearest to `base`.
    """
    inside = tuple(c.condition for c in cells if is_inside(c, rate))
    counted = [c for c in cells if c.state in ("scored", "undefined")]
    return Region(
        inside=inside,
        size=len(inside) / len(counted) if counted else None,
        observable=len(counted),
        undefined=sum(c.state == "undefined" for c in cells),
        unobservable=sum(c.state == "unobservable" for c in cells),
        unscored=sum(c.state == "unscored" for c in cells),
        extents={name: extent_along(cells, name, base, rate) for name in axes},
    )


def is_inside(cell: Cell, rate: float = ENVELOPE_RATE) -> bool:
    """Whether the attack works there: observable, scored, rate at least `rate`."""
    return cell.value is not None and cell.value >= rate


def extent_along(
    cells: Sequence[Cell], axis: str, base: Condition = ANCHOR, rate: float = ENVELOPE_RATE
) -> Extent:
    """The unbroken run of envelope cells along an axis through the cell nearest to `base`."""
    if not cells:
        return Extent(None, None)
    start = min(cells, key=lambda c: condition_distance(c.condition, base))
    others = [name for name in AXES if name != axis]
    line = sorted(
        (
            c
            for c in cells
            if all(getattr(c.condition, n) == getattr(start.condition, n) for n in others)
        ),
        key=lambda c: float(getattr(c.condition, axis)),
    )
    works = [is_inside(c, rate) for c in line]
    known = [c.state in ("scored", "undefined") for c in line]
    middle = line.index(start)
    if not works[middle]:
        return Extent(None, None)
    low = high = middle
    while low > 0 and works[low - 1]:
        low -= 1
    while high < len(line) - 1 and works[high + 1]:
        high += 1
    return Extent(
        float(getattr(line[low].condition, axis)),
        float(getattr(line[high].condition, axis)),
        open_low=low == 0 or not known[low - 1],
        open_high=high == len(line) - 1 or not known[high + 1],
    )


def nearest(
    cells: Sequence[Cell], to: Condition, works: bool, rate: float = ENVELOPE_RATE
) -> Cell | None:
    """The nearest scored cell where the attack works (True) or where the victim holds (False).

    Distance is in comfortable steps of each axis (`condition_distance`). None when there is none.
    """
    found = [c for c in cells if c.value is not None and is_inside(c, rate) == works]
    return min(found, key=lambda c: condition_distance(c.condition, to), default=None)
