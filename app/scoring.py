"""One run under way: its stage, its store, its background service, and the sweep's words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from app.views import ViewScores, describe_answer
from envelope.condition import ANCHOR, AXES, Condition, spaced
from envelope.outcome import judge
from envelope.sweep import DEFAULT_KINDS, SweepPlan, all_axes
from scene.errors import InputError

if TYPE_CHECKING:
    from envelope.engine.jobs import Progress, ScoredView, VictimSlot
    from envelope.run import Run
    from envelope.store import ScoreStore

RENDER_S = 0.06
PREDICT_S = 0.15
"""Seconds a picture before anything was measured, for the first estimate only."""


@dataclass(frozen=True)
class SweepChoice:
    """What the Sweep tab asks for. axes: name -> number of values over the slider's grid."""

    axes: dict[str, int]
    variants: int = 3
    kinds: tuple[str, ...] = DEFAULT_KINDS
    every_axis: bool = False

    @classmethod
    def of(cls, plan: SweepPlan) -> SweepChoice | None:
        """The choice that makes `plan`, but for where axes stand that are not swept.

        None where it has values that the tab cannot ask for, as those given in words may be.
        """
        counts = {name: len(values) for name, values in plan.axes.items()}
        choice = cls(counts, plan.variants, plan.kinds, plan.mode == "each")
        made = choice.plan()
        same = made.mode == plan.mode and list(made.axes.items()) == list(plan.axes.items())
        return choice if same else None

    def plan(self, base: Condition = ANCHOR) -> SweepPlan:
        """The plan; axes that are not swept stand where the sliders stand. Raises InputError."""
        if self.every_axis:
            return all_axes(self.variants, self.kinds)
        if not self.axes:
            raise InputError("sweep: wanted one or two axes, found none; choose Axis 1")
        grids = {}
        for name, count in self.axes.items():
            axis = AXES[name]
            low, high = min(axis.grid), max(axis.grid)
            grids[name] = spaced(low, high, count, axis.log, axis.anchor)
        still = base.nominal().with_values(**{name: AXES[name].anchor for name in self.axes})
        return SweepPlan(grids, still, self.variants, self.kinds)


@dataclass(frozen=True)
class SweepStatus:
    """For the Sweep tab. done, total: scores. text: one line."""

    state: Literal["idle", "running", "paused"]
    done: int
    total: int
    text: str


class Scoring:
    """Scores one run in the background. on_change: called from its threads; must be quick."""

    def __init__(
        self, run: Run, slots: Sequence[VictimSlot], on_change: Callable[[], None]
    ) -> None:
        from envelope.engine.local import ScoringService

        self.run = run
        self.stage = run.stage()
        self.store = run.store
        self.plan: SweepPlan | None = run.settings.sweep
        self._counted: tuple[Any, list[int]] | None = None
        self.service = ScoringService(self.stage, slots, self.store, on_change=on_change)

    def close(self, keep_run: bool = False) -> None:
        """End the service's threads and, unless it goes on being used, close the run."""
        self.service.close()
        if not keep_run:
            self.run.close()

    def start(self, plan: SweepPlan) -> None:
        """Begin `plan`, or go on with it: nothing stored is scored again. Raises InputError."""
        if not self.service.progress().victims:
            raise InputError("no victim is chosen; choose one in the Victims tab first")
        if why := self._nobody_scores():
            raise InputError(f"nothing would be scored: {why}")
        self.plan = plan
        self.run.update(replace(self.run.settings, sweep=plan))
        self.service.start(plan)

    def _nobody_scores(self) -> str:
        """Why no victim can score; "" while one can, or may once it is loaded."""
        victims = self.service.progress().victims
        if victims and all(victim.state == "failed" for victim in victims.values()):
            return "; ".join(victim.message or name for name, victim in victims.items())
        return ""

    def status(self) -> SweepStatus:
        """How far the sweep is, in words."""
        progress = self.service.progress()
        if why := self._nobody_scores():
            return SweepStatus("idle", 0, progress.total, f"no victim scores; {why}")
        through = progress.done + progress.skipped
        if progress.state == "running":
            words = f"running, {_left(progress.left_s)}"
        else:
            words = progress.state
        text = words
        if progress.total:
            text = f"{words}: {progress.views_done} of {progress.views} views"
        if progress.message:
            text += f"; {progress.message}"
        state = progress.state if progress.state in ("running", "paused") else "idle"
        return SweepStatus(state, through, progress.total, text)  # type: ignore[arg-type]

    def estimate(self, plan: SweepPlan) -> str:
        """How much work a plan is, and about how long it takes on this machine."""
        from envelope.victims.timings import known_seconds

        known = known_seconds()
        names = tuple(self.service.progress().victims)
        left = self._left(plan, names)
        specs = {choice.name: choice.spec for choice in self.run.settings.victims}
        times, guessed = [], []
        for name, victim in self.service.progress().victims.items():
            if victim.picture_ms:
                times.append(victim.picture_ms)
            elif (seconds := known.get(specs.get(name, "").partition("?")[0])) is not None:
                times.append(1000 * seconds)
            else:
                times.append(1000 * PREDICT_S)
                guessed.append(name)
        shares = [count / plan.pictures for count in left]
        ms = [time * share for time, share in zip(times, shares, strict=True)]
        seconds = plan.seconds(ms, 1000 * RENDER_S * max(shares, default=1.0))
        text = f"{len(plan.cells())} conditions x {plan.variants} x {len(plan.kinds)} kinds"
        text += f" x {len(names)} victims" if len(names) > 1 else ""
        text += f", {_of(sum(left), len(names) * plan.pictures)}" if names else ""
        if names and not any(left):
            return text
        text += f", about {_duration(seconds)}"
        return text + (f"; {', '.join(guessed)} not measured yet" if guessed else "")

    def _left(self, plan: SweepPlan, names: tuple[str, ...]) -> list[int]:
        """How many pictures of `plan` each victim has yet to score; kept until rows come in."""
        stamp = (plan, names, tuple(self.store.counts().values()), self.stage.geometry)
        if self._counted is None or self._counted[0] != stamp:
            stored = [stored_progress(self.store, self.stage.geometry, plan, [n]) for n in names]
            self._counted = (stamp, [progress.left for progress in stored])
        return self._counted[1]

    def view_scores(self) -> ViewScores | None:
        """The view that the user looks at, judged by the thresholds of now."""
        seen = self.service.scored_view()
        return None if seen is None else judged_view(seen, self.run)


def stored_progress(
    store: ScoreStore, geometry: str, plan: SweepPlan, names: Sequence[str], errors: bool = True
) -> Progress:
    """How far `plan` is by the rows alone, under each victim's last settings.

    geometry: the stage's hash. errors: whether stored errors count as done.
    """
    from envelope.engine.queue import SweepQueue

    queue = SweepQueue(plan, geometry, store.done(with_errors=errors))
    views = store.views(geometry)
    queue.unobservable = {key for key, view in views.items() if not view.observation.observable}
    return queue.progress(names, [], store.current_settings())


def judged_view(seen: ScoredView, run: Run) -> ViewScores:
    """A scored view with every answer judged and in words."""
    truth = seen.observation
    said = {}
    for (victim, kind), score in sorted(seen.scores.items()):
        criterion = run.criterion(victim, score.answer.kind)
        outcome = judge(
            score.answer,
            criterion,
            truth.box if truth else None,
            truth.footprint if truth and kind != "clean" else None,
        )
        said[victim, kind] = describe_answer(score.answer, outcome, criterion)
    return ViewScores(
        condition=seen.condition,
        pictures=dict(seen.pictures),
        ground_truth=truth.box if truth else None,
        footprint=truth.footprint if truth else None,
        observable=truth.observable if truth else True,
        why_not=truth.unobservable_because if truth else "",
        patch_hidden=truth.patch_hidden if truth else False,
        extrapolated=truth.extrapolated if truth else False,
        said=said,
        seconds=seen.seconds,
        error=seen.error,
        complete=seen.complete,
    )


def _of(left: int, total: int) -> str:
    """Pictures that remain of a total."""
    if not left:
        return f"all {total} pictures scored or not observable"
    return f"{total} pictures" if left == total else f"{left} of {total} pictures remain"


def _left(seconds: float | None) -> str:
    return "time left not known yet" if seconds is None else f"{_duration(seconds)} left"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"
