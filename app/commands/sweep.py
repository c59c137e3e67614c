"""`advscene sweep`: score a run over one or two axes."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from scene.errors import InputError

if TYPE_CHECKING:
    from envelope.engine.local import ScoringService
    from envelope.run import Run
    from envelope.sweep import SweepPlan


@dataclass(frozen=True)
class Sweep:
    """Score a run's renders over a grid of conditions; interrupted sweeps go on where they were."""

    run_folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(name="run")]
    """Run folder made by `advscene embed` or the viewer."""
    victims: tuple[str, ...] = ()
    """Victims by name, `onnx:FILE`, `my_models:make`, ...; `advscene victim list` has them all."""
    axes: tuple[str, ...] = ("azimuth", "radius")
    """One or two axes, each NAME, NAME=LOW:HIGH:COUNT or NAME=V1,V2,...; names: azimuth,
    elevation, radius, yaw, pitch, roll, focal, shift_x, shift_y."""
    kinds: tuple[str, ...] = ("clean", "gray", "adversarial", "overlay")
    """Render kinds to score."""
    variants: int = 3
    """Noise variants per cell, the exact one included."""
    each: bool = False
    """Move the axes one at a time from the anchor instead of crossing them."""
    retry_errors: bool = False
    """Ask again where a victim failed before."""
    scene: Path | None = None
    """Where the scene is now, if it moved."""
    threads: int | None = None
    """CPU threads of one render; default: all cores."""
    json: bool = False
    """Print the summary as JSON."""

    def run(self) -> None:
        """Score what is missing and print the summary."""
        from app.commands.output import say, say_json
        from envelope.run import open_run
        from envelope.summary import summarize, summary_text

        plan = parse_plan(self.axes, self.kinds, self.variants, self.each)
        run = open_run(self.run_folder, scene_path=self.scene)
        try:
            _choose(run, self.victims, plan)
            self._score(run, plan)
            summary = summarize(run, plan)
            if self.json:
                say_json(summary)
            else:
                say(summary_text(summary))
        finally:
            run.close()

    def _score(self, run: Run, plan: SweepPlan) -> None:
        from app.commands.output import progress_line, say

        service = run.service(threads=self.threads)
        line = progress_line("scoring")
        start = time.monotonic()
        stored = run.store.done(with_errors=not self.retry_errors)
        before = self._through(run, service, plan)
        try:
            service.start(plan, retry_errors=self.retry_errors)
            line(f"{before}/{_total(service)} scores", min(0.999, before / _total(service)))
            while not service.wait(0.5):
                progress = service.progress()
                through = progress.done + progress.skipped
                if any(victim.state == "loading" for victim in progress.victims.values()):
                    through = max(through, before)  # its stored scores are known when it is there
                line(f"{through}/{progress.total} scores", min(0.999, through / _total(service)))
            progress = service.progress()
            failed = [v for v in progress.victims.values() if v.state == "failed"]
            line(f"{progress.done}/{progress.total} scores", 1.0)
        except KeyboardInterrupt:
            service.stop()
            raise
        finally:
            with _uninterrupted():
                service.close()
        if not self.json:
            now = len(run.store.done() - stored)
            say(f"{now} scored now in {time.monotonic() - start:.1f} s, "
                f"{max(0, progress.done - now)} were there before ({progress.errors} errors), "
                f"{progress.skipped} not observable")  # fmt: skip
            for name, victim in progress.victims.items():
                if victim.usage:
                    say(f"{name}: {victim.usage}")
        if failed:
            raise InputError(failed[0].message)

    def _through(self, run: Run, service: ScoringService, plan: SweepPlan) -> int:
        """How many scores of the plan need no work, by the rows alone."""
        from app.scoring import stored_progress

        names = list(service.progress().victims)
        errors = not self.retry_errors
        there = stored_progress(run.store, service.stage.geometry, plan, names, errors)
        return there.done + there.skipped


def _total(service: ScoringService) -> int:
    return max(1, service.progress().total)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ignore a further Ctrl-C: closing takes seconds, and threads left behind abort the exit."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _choose(run: Run, specs: tuple[str, ...], plan: SweepPlan) -> None:
    """Add the named victims to the run and make the plan its sweep; the demo detector if none."""
    from envelope.settings import VictimChoice
    from envelope.victims.registry import check_victim

    known = {choice.spec: choice for choice in run.settings.victims}
    wanted = specs or tuple(known) or ("demo-detector",)
    for spec in wanted:
        if spec not in known:  # a mistyped name must not stay in the run
            check_victim(spec)
        known.setdefault(spec, VictimChoice(spec))
    run.update(replace(run.settings, victims=tuple(known.values()), sweep=plan))


def parse_plan(
    axes: tuple[str, ...], kinds: tuple[str, ...], variants: int, each: bool
) -> SweepPlan:
    """The plan that the command line names. Raises InputError."""
    from envelope.sweep import SweepPlan, parse_axes

    return SweepPlan(
        parse_axes(axes), variants=variants, kinds=kinds, mode="each" if each else "grid"
    )
