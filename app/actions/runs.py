"""The Runs tab's commands: open and export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from app.actions.base import ActionGroup
from app.export import export
from app.jobs import ErrorSink
from app.presenting import not_in_presentations
from scene.errors import InputError


class RunActions(ActionGroup):
    """Methods run on the worker."""

    @not_in_presentations("opening runs")
    def open_run(self, folder: Path | None, on_error: ErrorSink) -> None:
        """Open a run folder of the list."""
        if folder is None:
            raise InputError("there is no run to open yet; start a sweep first")
        self._viewer.actions.scene.open_path(folder, on_error)

    @not_in_presentations("exporting")
    def export(self, form: str, client: Any) -> None:
        """Send the open run in one of the forms to the browser that asked."""
        scoring = self._session.scoring
        if scoring is None:
            raise InputError("there is no run to export yet; embed a patch first")
        name, content = export(scoring.run, form)
        client.send_file_download(name, content)
