"""What stored scores say of the victim and by the measure that the page has chosen.

Rows are judged again whenever something changed; outcomes and rates are never stored.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from app.dome import CellState
from app.summary import ATTACKED, Summary, settings_text, summarize_sweep, victim_troubles
from envelope.cells import MEASURES, Measure, ScoreTable
from envelope.condition import Condition

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from app.scoring import Scoring
    from envelope.outcome import Criterion
    from envelope.sweep import SweepPlan

SHORT: dict[str, Measure] = {
    "ASR": "asr",
    "gain": "gain",
    "cASR": "casr",
    "confidence": "confidence",
    "omission": "omission",
    "substitution": "substitution",
    "displacement": "displacement",
}
"""The page's word -> measure."""
ENVELOPE_RATE = 0.5
"""A condition belongs to the envelope from this rate on (method.md section 6)."""
CURVE_KINDS = (ATTACKED, "gray", "clean", "overlay")
BANDS: dict[str, tuple[str, ...]] = {
    **{kind: (kind,) for kind in CURVE_KINDS},
    "adversarial and gray": (ATTACKED, "gray"),
    "all kinds": CURVE_KINDS,
    "none": (),
}
"""The page's word -> render kinds whose intervals the curves show as bands."""
INK = "#444444"
MOST_LABELLED = 11
"""Cells side by side in the dock that still have room for their number."""


class Readings:
    """Chosen victim and measure, and what the rows say by them. Safe to use from any thread."""

    def __init__(self) -> None:
        self.word = "ASR"
        self.bands = ATTACKED
        self.victim = ""
        self._lock = threading.Lock()
        self._scoring: Scoring | None = None
        self._cached: tuple[Any, ScoreTable] | None = None
        self._judged: dict[str, tuple[str, Criterion]] = {}

    @property
    def measure(self) -> Measure:
        """The chosen measure."""
        return SHORT[self.word]

    @property
    def plan(self) -> SweepPlan | None:
        """The sweep whose cells are shown."""
        return None if self._scoring is None else self._scoring.plan

    def attach(self, scoring: Scoring | None) -> None:
        """Read another run's rows from now on."""
        with self._lock:
            self._scoring, self._cached = scoring, None

    def forget(self) -> None:
        """Judge everything again: the run's thresholds changed."""
        with self._lock:
            self._cached = None

    def victims(self) -> tuple[str, ...]:
        """Victims with stored scores, then those that are being scored."""
        table, scoring = self.table(), self._scoring
        if table is None or scoring is None:
            return ()
        return tuple(dict.fromkeys([*scoring.service.progress().victims, *table.victims]))

    def shown_victim(self) -> str:
        """The chosen victim, or the first one while nobody chose."""
        names = self.victims()
        return self.victim if self.victim in names else names[0] if names else ""

    def table(self) -> ScoreTable | None:
        """The judged rows of the plan's cells; None without a run or a plan."""
        scoring = self._scoring
        if scoring is None or scoring.plan is None:
            return None
        with self._lock:
            current = tuple(scoring.store.current_settings().items())
            stamp = (scoring.plan, tuple(scoring.store.counts().values()), current)
            if self._cached is None or self._cached[0] != stamp:
                views = scoring.store.views(scoring.stage.geometry)
                criteria: dict[tuple[str, str], Criterion] = {}

                def criterion_of(name: str, answers: str) -> Criterion:
                    # asked for every row: the run would read its thresholds from disk each time
                    if (name, answers) not in criteria:
                        criteria[name, answers] = scoring.run.criterion(name, answers)
                    return criteria[name, answers]

                table = ScoreTable(
                    scoring.store.rows(views), views, criterion_of,
                    scoring.plan.cells(), scoring.plan.variants,
                )  # fmt: skip
                self._cached = (stamp, table)
                self._judged = {name: (kind, found) for (name, kind), found in criteria.items()}
            return self._cached[1]

    def states(self) -> list[tuple[Condition, CellState]]:
        """Every cell of the plan and how the shown victim did there, for the dome."""
        table, plan, victim = self.table(), self.plan, self.shown_victim()
        if table is None or plan is None:
            return []
        return [(c, _state(table, c, victim)) for c in plan.cells()]

    def heat_map(self, now: Condition) -> go.Figure:
        """The measure over the plan's axes, with a ring where the sliders stand."""
        import plotly.graph_objects as go

        from envelope.figures import heat_map

        table, plan, victim = self.table(), self.plan, self.shown_victim()
        if self._scoring is None:
            return _empty("Nothing to score yet: place and embed a patch in the Patch tab")
        if table is None or plan is None or not victim:
            return _empty("No sweep yet: choose axes in the Sweep tab and press Start")
        ring = now if _in_plane(plan, now) else None
        figure = heat_map(table, plan, victim, self.measure, ATTACKED, ring, INK)
        figure.update_layout(dragmode=False)
        _fix_margins(figure, right=58)
        figure.update_layout(margin_t=27, margin_b=38)
        _thin_out(figure, max(len(values) for values in plan.axes.values()))
        assert isinstance(figure, go.Figure)
        return figure

    def troubles(self) -> str:
        """Victims that are loading, failed, or answer with errors, one a line; plain text."""
        scoring = self._scoring
        if scoring is None:
            return ""
        victims = scoring.service.progress().victims.items()
        return victim_troubles({name: (found.state, found.message) for name, found in victims})

    def curves(self, axis: str, now: Condition) -> go.Figure:
        """The measure along one axis, a line for each render kind, bands for `banded`."""
        from envelope.figures import curves

        table, plan, victim = self.table(), self.plan, self.shown_victim()
        if table is None or plan is None or not victim or axis not in plan.axes:
            return _empty("No sweep along this axis yet")
        kinds = [ATTACKED]
        if self.measure in ("asr", "confidence"):
            kinds = [kind for kind in CURVE_KINDS if kind in table.kinds(victim)]
        ring = now if _in_plane(plan, now) else None
        shown = BANDS[self.bands]
        figure = curves(table, plan, victim, self.measure, kinds, axis, ring, INK, shown)
        _fix_margins(figure, right=10)
        return figure

    def summary(self) -> Summary:
        """Counts, rates and settings over all observable cells of the plan."""
        table, plan, victim = self.table(), self.plan, self.shown_victim()
        scoring = self._scoring
        if scoring is None:
            return Summary("no patch embedded yet")
        if table is None or plan is None or not victim:
            return Summary("no sweep yet")
        states = [state for _, state in self.states()]
        found = summarize_sweep(table, victim, self.word, self.measure, states)
        if victim in self._judged:
            answers, criterion = self._judged[victim]
            settings = settings_text(criterion, answers, plan, scoring.stage)
            found = replace(found, settings=settings)
        return found


def measure_hint() -> str:
    """What each word of the Measure menu means."""
    return "; ".join(f"{word}: {MEASURES[measure]}" for word, measure in SHORT.items())


def _fix_margins(figure: go.Figure, right: int) -> None:
    """Keep plotly from fitting margins: that draws twice, and fails when the tab closes between."""
    figure.update_layout(margin={"r": right, "autoexpand": False})


def _thin_out(figure: go.Figure, cells: int) -> None:
    """Leave out the numbers in cells that are too narrow for them, and every other tick."""
    if cells <= MOST_LABELLED:
        return
    figure.update_traces(texttemplate=None, selector={"type": "heatmap"})
    for axis in (figure.layout.xaxis, figure.layout.yaxis):
        ticks = list(axis.tickvals or ())
        if len(ticks) > MOST_LABELLED:
            step = -(-len(ticks) // MOST_LABELLED)
            words = list(axis.ticktext)
            axis.update(tickvals=ticks[::step], ticktext=words[::step])


def _state(table: ScoreTable, condition: Condition, victim: str) -> CellState:
    cell = table.cell(condition, victim, "asr", ATTACKED)
    if cell.state == "unobservable":
        return "unobservable"
    if cell.value is None:
        return "unscored"
    return "works" if cell.value >= ENVELOPE_RATE else "holds"


def _in_plane(plan: SweepPlan, now: Condition) -> bool:
    """Whether only swept axes differ between the sliders and the plan's base."""
    still = {name: getattr(plan.base, name) for name in plan.axes}
    return now.nominal().with_values(**still).key == plan.base.key


def _empty(words: str) -> go.Figure:
    import plotly.graph_objects as go

    figure = go.Figure()
    figure.update_layout(
        template=None, margin={"l": 8, "r": 8, "t": 8, "b": 8},
        xaxis={"visible": False}, yaxis={"visible": False},
        annotations=[
            {"text": words, "showarrow": False, "x": 0.5, "y": 0.5, "xref": "paper",
             "yref": "paper", "font": {"size": 12, "color": INK}}
        ],
    )  # fmt: skip
    return figure
