"""The numbers that figures draw, so that browser and PNG figures cannot disagree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from envelope.cells import MEASURES, Cell, Measure, ScoreTable
from envelope.condition import AXES, Condition
from envelope.metrics import Rate
from envelope.sweep import SweepPlan
from scene.errors import InputError

KIND_COLORS = {
    "adversarial": "#d55e00",
    "gray": "#8c8c8c",
    "clean": "#009e73",
    "overlay": "#0072b2",
    "noise": "#e69f00",
    "shuffled": "#cc79a7",
}
"""Okabe and Ito's palette: told apart by color-blind readers; lines differ in dash as well."""

WORKS = (213, 94, 0)
HOLDS = (0, 114, 178)
"""Where the attack works and where the victim holds, sRGB: Okabe and Ito's vermillion and blue."""

RATES = ("#0072b2", "#f0eeea", "#d55e00")
"""For rates of success, 0 to 1: from HOLDS to WORKS, as the viewer's dome has them."""

BANDED = ("adversarial",)
"""Render kinds whose intervals are drawn as bands; more of them overlap into one gray. The
others' are whiskers."""

WHISKER_STEP = 0.011
"""Between two kinds' whiskers at one value, in lengths of the axis, so that none hides another."""

SEQUENTIAL = ("#00204d", "#31446b", "#666970", "#958f78", "#cab969", "#ffea46")
"""Cividis, for confidences: even for color-blind readers."""

DIVERGING = ("#2d5a8c", "#7fa6cf", "#e6e6e6", "#e3a25b", "#a35409")
"""For differences: blue below zero, orange above."""

PRETTY = {
    "azimuth_deg": "azimuth, °",
    "elevation_deg": "elevation, °",
    "radius": "radius, × anchor",
    "yaw_deg": "yaw, °",
    "pitch_deg": "pitch, °",
    "roll_deg": "roll, °",
    "focal": "focal, × anchor",
    "shift_x": "shift x, of picture",
    "shift_y": "shift y, of picture",
}


def scale_of(measure: Measure) -> tuple[str, ...]:
    """Colors of a heat map of `measure`, from its lowest value to its highest, evenly spaced."""
    return {"gain": DIVERGING, "confidence": SEQUENTIAL}.get(measure, RATES)


@dataclass(frozen=True)
class Grid:
    """Cells of a heat map. rows[j][i] is at (x_values[i], y_values[j]).

    In a plan that moves one axis at a time each row is an axis: y_axis is "", x_values are
    positions in that axis's grid, and rows may be shorter than the widest.
    """

    x_axis: str
    y_axis: str
    x_values: tuple[float, ...]
    y_labels: tuple[str, ...]
    y_values: tuple[float, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @property
    def cells(self) -> list[Cell]:
        """All of them, row by row."""
        return [cell for row in self.rows for cell in row]


@dataclass(frozen=True)
class CurvePoint:
    """One value of an axis: the rate over all cells of the plan there."""

    value: float
    rate: Rate


def grid_of(
    table: ScoreTable, plan: SweepPlan, victim: str, measure: Measure, kind: str = "adversarial"
) -> Grid:
    """The plan's cells as a grid; x is the plan's first axis."""
    names = list(plan.axes)
    if plan.mode == "each":
        rows = tuple(
            tuple(
                table.cell(plan.base.with_values(**{name: v}), victim, measure, kind)
                for v in plan.axes[name]
            )
            for name in names
        )
        longest = max(len(row) for row in rows)
        labels = tuple(PRETTY[name].split(",")[0] for name in names)
        positions = tuple(float(i) for i in range(longest))
        return Grid("", "", positions, labels, tuple(map(float, range(len(names)))), rows)
    x, y = names[0], (names[1] if len(names) == 2 else "")
    y_values = plan.axes[y] if y else (0.0,)

    def at(x_value: float, y_value: float) -> Condition:
        values = {x: x_value, **({y: y_value} if y else {})}
        return plan.base.with_values(**values)

    rows = tuple(
        tuple(table.cell(at(xv, yv), victim, measure, kind) for xv in plan.axes[x])
        for yv in y_values
    )
    labels = tuple(short(v) for v in y_values) if y else ("",)
    return Grid(x, y, plan.axes[x], labels, y_values, rows)


def curve_of(
    table: ScoreTable,
    plan: SweepPlan,
    victim: str,
    measure: Measure,
    axis: str,
    kind: str = "adversarial",
) -> list[CurvePoint]:
    """The measure along one axis of the plan, pooled over the plan's other axis."""
    if axis not in plan.axes:
        raise InputError(f"curve: wanted one of the swept axes {', '.join(plan.axes)}")
    points = []
    for value in sorted(plan.axes[axis]):
        if plan.mode == "each":
            cells = [plan.base.with_values(**{axis: value})]
        else:
            held = getattr(plan.base.with_values(**{axis: value}), axis)
            cells = [c for c in plan.cells() if getattr(c, axis) == held]
        points.append(CurvePoint(value, table.rate(victim, measure, kind, cells)))
    return points


def band_runs(points: Sequence[CurvePoint]) -> list[list[CurvePoint]]:
    """Neighbouring points with an interval; a point without one ends a band, however sure it looks.

    A band that went on to it would shrink to nothing there, as if one condition were certainty.
    """
    runs: list[list[CurvePoint]] = [[]]
    for point in points:
        if point.rate.low is None or point.rate.high is None:
            runs.append([])
        else:
            runs[-1].append(point)
    return [run for run in runs if run]


def whisker_places(
    at: Sequence[float], axis: str, rank: int, count: int, span: tuple[float, float]
) -> list[float]:
    """Where the whiskers of the `rank`-th of `count` render kinds stand: beside their values.

    at: values of `axis`. span: its lowest and highest swept value.
    """
    share = WHISKER_STEP * (rank - (count - 1) / 2)
    low, high = span
    if AXES[axis].log:
        return [value * (high / low) ** share for value in at]
    return [value + share * (high - low) for value in at]


def place_on(values: Sequence[float], axis: str, value: float) -> float:
    """Where a value lies between grid positions 0, 1, ...; beyond the ends at most half a cell."""
    import numpy as np

    steps = np.array([AXES[axis].steps(v) for v in values])
    at = AXES[axis].steps(value)
    order = np.argsort(steps)
    position = float(np.interp(at, steps[order], order.astype(float)))
    upwards = 0.5 if order[-1] >= order[0] else -0.5
    if at < steps.min() - 1e-9:
        return position - upwards
    return position + upwards if at > steps.max() + 1e-9 else position


def describe(cell: Cell, measure: Measure) -> list[str]:
    """Lines for a cell's hover: where, what, how much it rests on."""
    moved = [
        f"{PRETTY[name].split(',')[0]} {short(value)}{'°' if name.endswith('_deg') else ''}"
        for name, value in zip(AXES, cell.condition.values, strict=True)
        if value != AXES[name].anchor
    ]
    lines = [", ".join(moved) or "the anchor"]
    if cell.state == "unobservable":
        left_out = cell.observable > 0
        return [*lines, f"{'not counted' if left_out else 'not observable'}: {cell.reason}"]
    if cell.state == "unscored":
        failed = f"no answer: {cell.errors} errors" if cell.errors else "not scored yet"
        return [*lines, failed]
    rate = cell.rate
    if cell.state == "undefined":
        lacking = "scored on both" if measure == "gain" else "right on gray"
        lines.append(f"{MEASURES[measure]}: undefined (no sample is {lacking})")
    else:
        counts = f"{rate.numerator:g} of {rate.denominator} samples"
        lines.append(f"{MEASURES[measure]}: {short(rate.value or 0.0)} ({counts})")
    if cell.hidden:
        lines.append(f"patch hidden in {cell.hidden} of {cell.observable} views")
    if cell.observable < cell.views:
        lines.append(f"{cell.views - cell.observable} of {cell.views} views not observable")
    if cell.extrapolated:
        lines.append("extrapolated: far from every capture camera")
    return lines


def short(value: float) -> str:
    """A number for an axis or a cell: three significant digits."""
    return f"{value:.3g}"
