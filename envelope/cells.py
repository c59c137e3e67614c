"""Cells: what stored rows say about each condition of a plan, for one victim and render kind.

Everything is computed from rows, under a criterion, each time; nothing here is stored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from envelope.condition import Condition
from envelope.metrics import (
    Rate,
    Sample,
    accuracy,
    attack_gain,
    attack_success_rate,
    conditional_asr,
    mean_of,
)
from envelope.observe import Observation
from envelope.outcome import Answer, Criterion, judge, most_confident
from envelope.store import Row, View
from envelope.victims.names import same_class
from scene.errors import InputError

Measure = Literal[
    "asr", "gain", "casr", "omission", "substitution", "displacement", "confidence", "accuracy"
]
MEASURES: dict[Measure, str] = {
    "asr": "attack success rate",
    "gain": "attack gain over clean",
    "casr": "conditional attack success rate (right on gray)",
    "omission": "omission (share of gray-right)",
    "substitution": "substitution (share of gray-right)",
    "displacement": "displacement (share of gray-right)",
    "confidence": "mean confidence of the most confident box",
    "accuracy": "share right",
}
"""Measure -> its name for people."""

CellState = Literal["scored", "undefined", "unobservable", "unscored"]
CriterionOf = Callable[[str, str], Criterion]
"""(victim, answer kind) -> how its answers are read."""


@dataclass(frozen=True)
class Cell:
    """One nominal condition under one measure.

    state: "unobservable": all its views drawn so far are, or are left out because the patch is
    hidden in them; "unscored": nothing counted yet;
    "undefined": scored, but the measure has no denominator (cASR with no gray survivor).
    views, observable, hidden, extrapolated: of its views, how many were drawn, observable, with
    the patch hidden, far from every capture camera. reason: why unobservable. errors: pictures that
    got no answer.
    """

    condition: Condition
    state: CellState
    rate: Rate
    views: int = 0
    observable: int = 0
    hidden: int = 0
    extrapolated: int = 0
    reason: str = ""
    errors: int = 0

    @property
    def value(self) -> float | None:
        """The measure's value; None unless scored."""
        return self.rate.value if self.state == "scored" else None


class ScoreTable:
    """The rows of a run, judged, ready to be asked for cells and rates.

    Unobservable views are in no count. conditions, variants: only these count (those of a plan);
    None: all that is stored.
    """

    def __init__(
        self,
        rows: Iterable[Row],
        views: Mapping[str, View],
        criterion_of: CriterionOf,
        conditions: Iterable[Condition] | None = None,
        variants: int | None = None,
        skip_hidden: bool = False,
    ) -> None:
        """skip_hidden: leave out views in which the patch is hidden."""
        keys = None if conditions is None else {c.key for c in conditions}

        def counts(view: View) -> bool:
            return (keys is None or view.condition in keys) and (
                variants is None or view.nominal.variant < variants
            )

        self._skip_hidden = skip_hidden
        self._views: dict[str, list[View]] = defaultdict(list)
        for view in views.values():
            if counts(view):
                self._views[view.condition].append(view)
        self._samples: dict[tuple[str, str], dict[str, list[Sample]]] = {}
        self._confidences: dict[tuple[str, str], dict[str, list[float]]] = {}
        self.errors: dict[tuple[str, str], int] = defaultdict(int)
        self._failed: dict[tuple[str, str, str], int] = defaultdict(int)
        self.omissions: dict[tuple[str, str], dict[str, int]] = {}
        for row in rows:
            seen = row.view.observation
            if counts(row.view) and seen.observable and not (skip_hidden and seen.patch_hidden):
                self._take(row, criterion_of(row.score.victim, row.score.answer.kind))

    @property
    def victims(self) -> tuple[str, ...]:
        """Victims with rows, in order of appearance."""
        return tuple(dict.fromkeys(victim for victim, _ in self._samples))

    def kinds(self, victim: str) -> tuple[str, ...]:
        """Render kinds with rows of a victim."""
        return tuple(kind for name, kind in self._samples if name == victim)

    def samples(
        self, victim: str, kind: str, conditions: Iterable[Condition] | None = None
    ) -> list[Sample]:
        """The counted samples, of some conditions or all."""
        by_condition = self._samples.get((victim, kind), {})
        keys = by_condition if conditions is None else [c.key for c in conditions]
        return [sample for key in keys for sample in by_condition.get(key, ())]

    def rate(
        self,
        victim: str,
        measure: Measure,
        kind: str = "adversarial",
        conditions: Sequence[Condition] | None = None,
        seed: int = 0,
    ) -> Rate:
        """A measure of a render kind over some conditions (None: all)."""
        if measure not in MEASURES:
            raise InputError(f"measure {measure!r}: wanted one of {', '.join(MEASURES)}")
        attacked = self.samples(victim, kind, conditions)
        if measure == "asr":
            return attack_success_rate(attacked, seed)
        if measure == "accuracy":
            return accuracy(attacked, seed)
        if measure == "gain":
            return attack_gain(attacked, self.samples(victim, "clean", conditions), seed)
        if measure == "confidence":
            return mean_of(self._confidence_samples(victim, kind, conditions), seed)
        conditional = conditional_asr(self.samples(victim, "gray", conditions), attacked, seed)
        return conditional.rate if measure == "casr" else conditional.modes[measure]

    def cell(
        self, condition: Condition, victim: str, measure: Measure, kind: str = "adversarial"
    ) -> Cell:
        """One condition under one measure."""
        views = self._views.get(condition.key, [])
        rate = self.rate(victim, measure, kind, [condition])
        seen = [view.observation for view in views]
        observable = [o for o in seen if o.observable]
        left_out = self._skip_hidden and all(o.patch_hidden for o in observable)
        state: CellState = "scored"
        if views and (left_out or not observable):
            state = "unobservable"
        elif not self.samples(victim, kind, [condition]) or self._lacks(measure, victim, condition):
            state = "unscored"
        elif rate.value is None:
            state = "undefined"
        return Cell(
            condition=condition,
            state=state,
            rate=rate,
            views=len(seen),
            observable=len(observable),
            hidden=sum(o.patch_hidden for o in observable),
            extrapolated=sum(o.extrapolated for o in observable),
            reason=self._why(seen) if state == "unobservable" else "",
            errors=self._failed.get((victim, kind, condition.key), 0),
        )

    def cells(
        self,
        conditions: Iterable[Condition],
        victim: str,
        measure: Measure,
        kind: str = "adversarial",
    ) -> list[Cell]:
        """Several conditions under one measure."""
        return [self.cell(c, victim, measure, kind) for c in conditions]

    def _lacks(self, measure: Measure, victim: str, condition: Condition) -> bool:
        """Whether the render kind that the measure compares with is not scored yet."""
        other = {"gain": "clean", "asr": None, "accuracy": None, "confidence": None}.get(
            measure, "gray"
        )
        return other is not None and not self.samples(victim, other, [condition])

    def _why(self, seen: Sequence[Observation]) -> str:
        return seen[0].unobservable_because or "patch hidden in all its views, which are left out"

    def _take(self, row: Row, criterion: Criterion) -> None:
        view, score = row.view, row.score
        if score.answer.kind != "classifier" and not same_class(score.label, criterion.label):
            return  # boxes of the class that was asked for before: they say nothing of this one
        series = score.victim, score.kind
        samples = self._samples.setdefault(series, {})
        if score.answer.status == "error":
            self.errors[series] += 1
            self._failed[*series, view.condition] += 1
            return
        shown = view.observation.footprint if score.kind != "clean" else None
        outcome = judge(score.answer, criterion, view.observation.box, shown)
        sample = Sample.of(view.condition, view.nominal.variant, outcome)
        if sample is None:
            return
        samples.setdefault(view.condition, []).append(sample)
        values = self._confidences.setdefault(series, {}).setdefault(view.condition, [])
        values.append(confidence_of(score.answer, criterion.label))
        if outcome.omission is not None:
            counts = self.omissions.setdefault(series, defaultdict(int))
            counts[outcome.omission] += 1

    def _confidence_samples(
        self, victim: str, kind: str, conditions: Sequence[Condition] | None
    ) -> list[tuple[str, float]]:
        known = self._confidences.get((victim, kind), {})
        keys = known if conditions is None else [c.key for c in conditions]
        return [(key, value) for key in keys for value in known.get(key, ())]


def confidence_of(answer: Answer, label: str) -> float:
    """How sure an answer is of the class, 0 to 1; 0 without a box.

    A detector's most confident box, 1 for a grounder's box, a classifier's probability of the
    class (0 when it is not among its best five).
    """
    if answer.kind == "classifier":
        return next((p for name, p in answer.top if same_class(name, label)), 0.0)
    best = most_confident(answer)
    return 0.0 if best is None else best.confidence
