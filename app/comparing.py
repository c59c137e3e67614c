"""Two runs beside each other: may they be compared, and by how much do they differ, where.

The first run minus the second, over the conditions (and noise variants) that both have scored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from envelope.cells import MEASURES, Measure, ScoreTable
from envelope.condition import Condition
from envelope.metrics import Rate, Sample, attack_gain, conditional_difference, ratio_difference
from envelope.outcome import FAILURE_MODES
from scene.errors import InputError
from scene.scene import file_sha256

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from envelope.run import Run
    from envelope.sweep import SweepPlan

ATTACKED = "adversarial"
MOST_NAMED = 4
MADE_BY_THE_PATCH = ("edit", "patch", "placement")
"""Fields of a picture that may differ: which patch it is is what two runs are compared for."""


@dataclass(frozen=True)
class CellDifference:
    """One condition. first, second: each run's own rate there. value: their difference, or None."""

    condition: Condition
    first: Rate
    second: Rate
    value: float | None


@dataclass(frozen=True)
class Comparison:
    """first minus second. overall: over all common conditions, with its interval."""

    first: str
    second: str
    victim: str
    measure: Measure
    plan: SweepPlan
    cells: Mapping[str, CellDifference]
    overall: Rate

    def text(self) -> str:
        """What the difference is and rests on, a line each."""
        compared = sum(cell.value is not None for cell in self.cells.values())
        return "\n".join(
            [
                f"{MEASURES[self.measure]}, {self.victim}",
                f"{self.first} minus {self.second}: {self.overall}",
                f"{compared} of {len(self.cells)} conditions are scored in both",
            ]
        )


def compare(first: Run, second: Run, victim: str, measure: Measure) -> Comparison:
    """The measure of `first` minus that of `second`, both read by the thresholds of `first`.

    Raises InputError, naming what differs, when the runs were not made alike.
    """
    plan = first.settings.sweep
    if plan is None or second.settings.sweep is None:
        lacking = first if plan is None else second
        raise InputError(f"{lacking.name}: nothing was swept yet; there is nothing to compare")
    differ = differing_settings(first, second, victim)
    if differ:
        more = f" and {len(differ) - MOST_NAMED} more" if len(differ) > MOST_NAMED else ""
        raise InputError(
            f"{first.name} and {second.name} cannot be compared: they differ in "
            f"{'; '.join(differ[:MOST_NAMED])}{more}"
        )
    tables = [run.table(plan, criterion_of=first.criterion) for run in (first, second)]
    for run, table in zip((first, second), tables, strict=True):
        if ATTACKED not in table.kinds(victim):
            raise InputError(f"{run.name}: {victim} has scored none of these conditions yet")
    cells = {c.key: _cell(tables, c, victim, measure) for c in plan.cells()}
    overall = _overall(tables, victim, measure, list(plan.cells()))
    return Comparison(first.name, second.name, victim, measure, plan, cells, overall)


def differing_settings(first: Run, second: Run, victim: str) -> list[str]:
    """What keeps two runs from being compared, in words; [] when nothing does.

    The patch may differ, and thresholds (stored answers are read again). Scene, target, anchor,
    cameras, render, victim, class and prompt may not.
    """
    found = []
    for name, a, b in _run_facts(first, second):
        if a != b:
            found.append(f"{name} ({_brief(a)} and {_brief(b)})")
    mine, theirs = _victim_facts(first, victim), _victim_facts(second, victim)
    if mine is None or theirs is None:
        return found
    for name in sorted({*mine, *theirs}):
        if mine.get(name) != theirs.get(name):
            found.append(f"{name} ({_brief(mine.get(name))} and {_brief(theirs.get(name))})")
    return found


def difference_map(comparison: Comparison, ink: str) -> go.Figure:
    """The differences over the plan's axes; blue: lower in the first run, orange: higher."""
    import plotly.graph_objects as go

    from envelope.figure_data import DIVERGING, PRETTY, short

    plan, cells = comparison.plan, comparison.cells
    x, *rest = plan.axes
    ys = plan.axes[rest[0]] if rest and plan.mode == "grid" else (None,)
    rows = []
    for y in ys:
        at = {} if y is None else {rest[0]: y}
        rows.append([cells.get(_key(plan, x, v, at)) for v in plan.axes[x]])
    scale = [[i / (len(DIVERGING) - 1), color] for i, color in enumerate(DIVERGING)]
    figure = go.Figure(
        go.Heatmap(
            x=[short(v) for v in plan.axes[x]],
            y=["" if y is None else short(y) for y in ys],
            z=[[None if c is None else c.value for c in row] for row in rows],
            text=[[_in_cell(c) for c in row] for row in rows],
            hovertext=[[_hover(c) for c in row] for row in rows],
            texttemplate="%{text}", textfont={"size": 9}, hoverinfo="text",
            colorscale=scale, zmin=-1, zmax=1, xgap=1, ygap=1,
            colorbar={"thickness": 10, "outlinewidth": 0},
        )
    )  # fmt: skip
    figure.update_layout(
        template=None, dragmode=False, font={"color": ink, "size": 11},
        paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)",
        margin={"l": 48, "r": 52, "t": 12, "b": 42, "autoexpand": False},
    )  # fmt: skip
    figure.update_xaxes(type="category", title=PRETTY[x], showgrid=False)
    figure.update_yaxes(type="category", title=PRETTY[rest[0]] if rest else "", showgrid=False)
    return figure


def _cell(
    tables: Sequence[ScoreTable], condition: Condition, victim: str, measure: Measure
) -> CellDifference:
    first, second = (t.cell(condition, victim, measure, ATTACKED) for t in tables)
    value = None
    if first.value is not None and second.value is not None:
        value = first.value - second.value
    return CellDifference(condition, first.rate, second.rate, value)


def _overall(
    tables: Sequence[ScoreTable], victim: str, measure: Measure, cells: list[Condition]
) -> Rate:
    """The difference over all common conditions, these resampled for both runs together."""

    def samples(kind: str) -> list[list[Sample]]:
        return [table.samples(victim, kind, cells) for table in tables]

    attacked = samples(ATTACKED)
    if measure == "asr":
        return attack_gain(attacked[0], attacked[1])
    if measure == "casr":
        gray = samples("gray")
        return conditional_difference((gray[0], attacked[0]), (gray[1], attacked[1]))
    if measure == "gain":
        pairs = zip(attacked, samples("clean"), strict=True)
        return _compare_sums([_gain_sums(*pair) for pair in pairs], (-2.0, 2.0))
    if measure == "confidence":
        return _compare_sums([_confidence_sums(t, victim, cells) for t in tables], (-1.0, 1.0))
    if measure not in FAILURE_MODES:
        raise InputError(f"measure {measure!r}: two runs are not compared by it")
    gray = samples("gray")
    sums = [_mode_sums(g, a, measure) for g, a in zip(gray, attacked, strict=True)]
    return _compare_sums(sums, (-1.0, 1.0))


Sums = dict[str, tuple[float, float]]
"""Condition -> (sum of the values, number of samples)."""


def _compare_sums(sums: Sequence[Sums], bounds: tuple[float, float]) -> Rate:
    first, second = sums
    common = first.keys() & second.keys()
    return ratio_difference({key: (*first[key], *second[key]) for key in common}, bounds)


def _gain_sums(attacked: Sequence[Sample], clean: Sequence[Sample]) -> Sums:
    return _sums(
        [(a.condition, float(a.success) - float(c.success)) for c, a in _pairs(clean, attacked)]
    )


def _mode_sums(gray: Sequence[Sample], attacked: Sequence[Sample], mode: str) -> Sums:
    counted = [(g, a) for g, a in _pairs(gray, attacked) if g.right]
    return _sums([(a.condition, float(a.success and a.mode == mode)) for _, a in counted])


def _confidence_sums(table: ScoreTable, victim: str, cells: list[Condition]) -> Sums:
    rates = {c.key: table.rate(victim, "confidence", ATTACKED, [c]) for c in cells}
    return {k: (r.numerator, float(r.denominator)) for k, r in rates.items() if r.denominator}


def _pairs(first: Sequence[Sample], second: Sequence[Sample]) -> list[tuple[Sample, Sample]]:
    others = {(s.condition, s.variant): s for s in second}
    found = ((s, others.get((s.condition, s.variant))) for s in first)
    return [(s, other) for s, other in found if other is not None]


def _sums(values: Sequence[tuple[str, float]]) -> Sums:
    sums: Sums = {}
    for condition, value in values:
        total, count = sums.get(condition, (0.0, 0.0))
        sums[condition] = total + value, count + 1
    return sums


def _run_facts(first: Run, second: Run) -> list[tuple[str, Any, Any]]:
    """(name, of the first, of the second) of everything that must agree."""
    a, b = first.settings.to_dict(), second.settings.to_dict()
    facts: list[tuple[str, Any, Any]] = [
        ("scene", first.about["scene"]["sha256"], second.about["scene"]["sha256"]),
        ("target", _target(first), _target(second)),
        ("anchor camera", _anchor(first), _anchor(second)),
    ]
    for section in ("conditions", "render"):
        facts += [(k, a[section].get(k), b[section].get(k)) for k in {**a[section], **b[section]}]
    facts.append(("class", first.settings.reading.label, second.settings.reading.label))
    return facts


def _target(run: Run) -> str:
    from envelope.stage import array_hash

    return array_hash(run.target)


def _anchor(run: Run) -> Any:
    """The anchor camera and the point that its conditions turn about, as the run keeps them."""
    from envelope.run import ADVERSARIAL
    from patching.adversarial import ABOUT
    from scene.io.json_file import read_json_object

    folder = run.folder / ADVERSARIAL
    fields = read_json_object(folder / ABOUT).get("anchor", {})
    if fields.get("placement"):
        return fields.get("camera"), fields["placement"].get("center")
    mask = folder / "anchor-mask.png"  # of an outside pair, which has no placement
    return fields.get("camera"), file_sha256(mask) if mask.is_file() else None


def _victim_facts(run: Run, victim: str) -> dict[str, Any] | None:
    """What decides a victim's answers besides the patch; None before it scored anything."""
    known, current = run.store.settings(), run.store.current_settings()
    fields = known.get(current.get((victim, ATTACKED), ""))
    if fields is None:
        return None
    picture = {k: v for k, v in fields["picture"].items() if k not in MADE_BY_THE_PATCH}
    facts: dict[str, Any] = {f"{victim}'s {k}": v for k, v in fields["victim"].items()}
    facts.update({f"picture's {k}": v for k, v in picture.items()})
    return {**facts, "class asked for": fields["label"], "prompt": fields["prompt"]}


def _brief(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 24 else text[:12] + "…"


def _key(plan: SweepPlan, x: str, value: float, others: Mapping[str, float]) -> str:
    return plan.base.with_values(**{x: value, **others}).key


def _in_cell(cell: CellDifference | None) -> str:
    if cell is None or cell.value is None:
        return ""
    return f"{cell.value:+.2f}".replace("0.", ".") if round(cell.value, 2) else "0"


def _hover(cell: CellDifference | None) -> str:
    if cell is None or cell.value is None:
        return "not scored in both runs"
    return "<br>".join(
        [
            f"difference {cell.value:+.2f}",
            f"first: {cell.first.numerator:g} of {cell.first.denominator} samples",
            f"second: {cell.second.numerator:g} of {cell.second.denominator} samples",
            "one condition: no interval",
        ]
    )
