"""The Victims tab's commands: load, leave out, class, thresholds."""

from __future__ import annotations

from app.actions.base import ActionGroup
from app.jobs import ErrorSink, Job
from app.presenting import not_in_presentations


class VictimActions(ActionGroup):
    """Methods run on the worker; loading goes on in a job."""

    @not_in_presentations("choosing victims")
    def load(self, spec: str, on_error: ErrorSink) -> None:
        """Load a victim in a job and score with it from then on."""
        viewer, victims = self._viewer, self._session.victims

        def work(_job: Job) -> None:
            try:
                victims.load(spec)
            finally:
                viewer.panels.victims.refresh()
            victims.choose(spec)
            self._changed()

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

    def _changed(self) -> None:
        self._session.victims_changed()
        self._viewer.panels.victims.refresh()
        self._viewer.refresh_scores_soon()
