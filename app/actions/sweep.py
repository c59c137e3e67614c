"""The Sweep tab's commands: start, pause, resume, stop."""

from __future__ import annotations

from app.actions.base import ActionGroup
from app.presenting import not_in_presentations
from app.scoring import SweepChoice
from scene.errors import InputError


class SweepActions(ActionGroup):
    """Methods run on the worker."""

    @not_in_presentations("sweeping")
    def toggle(self, choice: SweepChoice) -> None:
        """Start `choice`, pause or resume, whichever comes next. Raises InputError."""
        scoring = self._session.scoring
        if scoring is None:
            raise InputError("there is nothing to sweep yet; embed a patch in the Patch tab first")
        state = scoring.status().state
        if state == "running":
            scoring.service.pause()
        elif state == "paused":
            scoring.service.resume()
        else:
            scoring.start(choice.plan(self._session.condition))
        self._show_at_once()

    @not_in_presentations("sweeping")
    def stop(self) -> None:
        """End the sweep; what was scored stays."""
        if self._session.scoring is not None:
            self._session.scoring.service.stop()
        self._show_at_once()

    def _show_at_once(self) -> None:
        """The state now; the numbers, which wait for views being scored, when they are read."""
        self._viewer.panels.sweep.refresh_state()
        self._viewer.refresh_scores_soon()
