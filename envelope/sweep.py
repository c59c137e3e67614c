"""What a sweep scores: the cells of a plan, their noise variants, and how much work that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

from envelope.condition import ANCHOR, AXES, Condition, condition_distance, spaced
from scene.errors import InputError

KINDS: tuple[str, ...] = ("clean", "gray", "adversarial", "overlay", "noise", "shuffled")
"""All render kinds. "overlay" is pasted on the clean render, the others are drawn."""

DEFAULT_KINDS: tuple[str, ...] = ("clean", "gray", "adversarial", "overlay")

Mode = Literal["grid", "each"]


@dataclass(frozen=True)
class SweepPlan:
    """Which conditions are scored, as which render kinds.

    axes: axis name -> values, in the order of the figure (x first). mode: "grid" crosses one or
    two axes; "each" moves one axis at a time from `base`, any number of axes.
    base: the values of all other axes. variants: noise variants per cell, the exact one included.
    """

    axes: Mapping[str, tuple[float, ...]]
    base: Condition = ANCHOR
    variants: int = 3
    kinds: tuple[str, ...] = DEFAULT_KINDS
    mode: Mode = "grid"
    _cells: tuple[Condition, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        axes = {name: tuple(float(v) for v in values) for name, values in self.axes.items()}
        for name, values in axes.items():
            if name not in AXES:
                raise InputError(f"sweep axis {name}: wanted one of {', '.join(AXES)}")
            if not values or len(set(values)) != len(values):
                raise InputError(f"sweep axis {name}: wanted distinct values, found {values}")
        if self.mode == "grid" and not 1 <= len(axes) <= 2:
            raise InputError(
                f"sweep: wanted one or two axes, found {len(axes)}; move more than two one at a "
                f"time with mode 'each'"
            )
        if not axes:
            raise InputError("sweep: wanted at least one axis")
        unknown = [kind for kind in self.kinds if kind not in KINDS]
        if unknown or not self.kinds or len(set(self.kinds)) != len(self.kinds):
            raise InputError(f"sweep kinds {self.kinds}: wanted some of {', '.join(KINDS)}")
        if self.variants < 1:
            raise InputError(f"sweep variants: wanted at least 1, found {self.variants}")
        object.__setattr__(self, "axes", MappingProxyType(axes))
        object.__setattr__(self, "base", self.base.nominal())
        object.__setattr__(self, "_cells", self._list_cells())

    def cells(self) -> tuple[Condition, ...]:
        """The nominal conditions, each once, in grid order (last axis fastest)."""
        return self._cells

    def views(self) -> list[Condition]:
        """Every nominal condition with every variant number."""
        return [replace(c, variant=v) for c in self._cells for v in range(self.variants)]

    @property
    def pictures(self) -> int:
        """Number of pictures that each victim scores."""
        return len(self._cells) * self.variants * len(self.kinds)

    def seconds(
        self, picture_ms: Sequence[float], render_ms: float = 30.0, cores: int = 2
    ) -> float:
        """About how long a sweep takes on `cores` cores.

        picture_ms: of each victim. render_ms: of one render; a view takes one per drawn kind, and
        about two for its truth.
        """
        views = len(self._cells) * self.variants
        drawn = sum(kind != "overlay" for kind in self.kinds) + 2
        work_ms = views * drawn * render_ms + self.pictures * sum(picture_ms)
        slowest_ms = self.pictures * max(picture_ms, default=0.0)
        return max(work_ms / cores, slowest_ms) / 1000

    def nearest_first(self, to: Condition = ANCHOR) -> list[Condition]:
        """The views by distance from a condition; exact variants of a cell before its noise."""
        return sorted(self.views(), key=lambda c: (condition_distance(c, to), c.variant))

    def near_anchor(self) -> tuple[Condition, ...]:
        """The block of up to three values per axis around the anchor (nine cells of a grid).

        Per axis: the value nearest to the base value and its neighbours on either side.
        """
        near = {name: _neighbours(name, values, self.base) for name, values in self.axes.items()}
        return tuple(
            cell
            for cell in self._cells
            if all(getattr(cell, name) in values for name, values in near.items())
        )

    def at_end(self, name: str, both: bool) -> tuple[Condition, ...]:
        """The cells at the largest value of an axis; also at the smallest when `both`.

        An end lies beyond the base: a sweep over azimuths 0 to 60 has no oblique end at 0.
        """
        if name not in self.axes:
            return ()
        values, start = self.axes[name], getattr(self.base, name)
        ends = {v for v in (max(values),) if v > start}
        ends |= {v for v in (min(values),) if both and v < start}
        return tuple(c for c in self._cells if getattr(c, name) in {_stored(name, e) for e in ends})

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as run.toml holds them."""
        return {
            "mode": self.mode,
            "variants": self.variants,
            "kinds": list(self.kinds),
            "axes": {name: list(values) for name, values in self.axes.items()},
            "base": self.base.to_dict(),
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> SweepPlan:
        """Inverse of `to_dict`."""
        axes = {str(name): tuple(values) for name, values in dict(fields["axes"]).items()}
        base = {k: v for k, v in dict(fields.get("base", {})).items() if k != "variant"}
        return cls(
            axes,
            Condition.from_dict(base),
            int(fields.get("variants", 3)),
            tuple(fields.get("kinds", DEFAULT_KINDS)),
            fields.get("mode", "grid"),
        )

    def _list_cells(self) -> tuple[Condition, ...]:
        if self.mode == "each":
            cells = [self.base]
            for name, values in self.axes.items():
                cells += [self.base.with_values(**{name: value}) for value in values]
        else:
            cells = [self.base]
            for name, values in self.axes.items():
                cells = [cell.with_values(**{name: value}) for cell in cells for value in values]
        return tuple(dict.fromkeys(cells))


def all_axes(variants: int = 3, kinds: tuple[str, ...] = DEFAULT_KINDS) -> SweepPlan:
    """All nine axes at their default grids, one at a time."""
    grids = {name: axis.grid for name, axis in AXES.items()}
    return SweepPlan(grids, variants=variants, kinds=kinds, mode="each")


def parse_axes(texts: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """Axes from words such as `azimuth`, `radius=0.6:2.5:7` or `yaw=-10,0,10`.

    A name alone takes the default grid; low:high:count is spaced through the anchor's value (by
    ratio for radius and focal). `_deg` may be left off. Raises InputError.
    """
    axes: dict[str, tuple[float, ...]] = {}
    for text in texts:
        name, _, values = text.partition("=")
        key = axis_name(name)
        axis = AXES[key]
        if not values:
            axes[key] = axis.grid
            continue
        try:
            if ":" in values:
                low, high, count = values.split(":")
                axes[key] = spaced(float(low), float(high), int(count), axis.log, axis.anchor)
            else:
                axes[key] = tuple(float(value) for value in values.split(","))
        except InputError:
            raise
        except ValueError as error:
            raise InputError(
                f"axis {text!r}: wanted name=low:high:count or name=value,value,..."
            ) from error
    return axes


def axis_name(text: str) -> str:
    """The full name of an axis; `_deg` may be left off."""
    for name in AXES:
        if text.strip() in (name, name.removesuffix("_deg")):
            return name
    short = ", ".join(name.removesuffix("_deg") for name in AXES)
    raise InputError(f"axis {text!r}: wanted one of {short}")


def _neighbours(name: str, values: tuple[float, ...], base: Condition) -> set[float]:
    axis = AXES[name]
    ordered = sorted(values)
    center = axis.steps(getattr(base, name))
    middle = min(range(len(ordered)), key=lambda i: abs(axis.steps(ordered[i]) - center))
    return {_stored(name, v) for v in ordered[max(0, middle - 1) : middle + 2]}


def _stored(name: str, value: float) -> float:
    """An axis value as a condition holds it (rounded)."""
    return float(getattr(ANCHOR.with_values(**{name: value}), name))
