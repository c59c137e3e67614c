"""The Victims tab's commands: load, leave out, class, thresholds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.actions.base import ActionGroup
from app.jobs import ErrorSink, Job
from app.presenting import not_in_presentations
from app.victim_desk import row_name
from scene.errors import InputError

if TYPE_CHECKING:
    from envelope.victims.probe import ProbeReport

MOST_SAID = 80


class VictimActions(ActionGroup):
    """Methods run on the worker; loading goes on in a job."""

    @not_in_presentations("choosing victims")
    def load(self, spec: str, on_error: ErrorSink) -> None:
        """Load a victim in a job and score with it from then on."""
        victims, panel = self._session.victims, self._viewer.panels.victims
        victims.may_choose(spec)

        def work(_job: Job) -> None:
            try:
                victims.load(spec)
            finally:
                panel.refresh()
            victims.choose(spec)
            self._changed()
            panel.show_row(spec)

        self.start_job(f"loading {spec.split('?')[0]}", work, on_error)

    @not_in_presentations("choosing victims")
    def leave_out(self, spec: str) -> None:
        """Score without a victim from now on."""
        self._session.victims.leave_out(spec)
        self._changed()

    @not_in_presentations("changing the class")
    def set_label(self, label: str) -> None:
        """Ask for another class."""
        self._session.set_label(label)
        self._viewer.panels.victims.refresh()
        self._viewer.panels.scene.refresh()
        self._viewer.refresh_scores_soon()

    @not_in_presentations("changing thresholds")
    def set_thresholds(self, gamma: float | None, tau: float) -> None:
        """Read the stored answers again under other thresholds (gamma None: each victim's own)."""
        self._session.set_thresholds(gamma, tau)
        self._viewer.refresh_scores_soon()

    @not_in_presentations("probing victims")
    def probe(self, spec: str, on_error: ErrorSink) -> None:
        """Show a victim an object at known places, in a job; what it found shows in the tab."""
        victims, panel = self._session.victims, self._viewer.panels.victims

        def work(_job: Job) -> None:
            from envelope.victims.probe import probe
            from envelope.victims.probe_pictures import LABEL, sign_pictures
            from envelope.victims.registry import find_entry
            from envelope.victims.timings import note_seconds

            panel.show_probe(spec, "loading and asking…")
            try:
                report = probe(victims.load(spec), LABEL, sign_pictures())
            except InputError:
                panel.show_probe(spec, "")
                raise
            if find_entry(spec) is not None:
                note_seconds(spec.partition("?")[0], report.seconds)
            panel.show_probe(spec, probe_text(report))
            panel.refresh()

        self.start_job(f"probing {row_name(spec)}", work, on_error)

    def _changed(self) -> None:
        self._session.victims_changed()
        self._viewer.panels.victims.refresh()
        self._viewer.refresh_scores_soon()


def probe_text(report: ProbeReport) -> str:
    """The verdict, then a line for each picture; plain text."""
    lines = [report.verdict, f"{report.seconds:.3g} s a picture"]
    for look in report.looks:
        said = " ".join(look.said.split())[:MOST_SAID]
        lines.append(f"{look.place}: IoU {look.overlap:.2f} {said}".rstrip())
    return "\n".join(lines)
