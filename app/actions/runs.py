"""The Runs tab's commands: open, compare, export."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.actions.base import ActionGroup
from app.export import export
from app.jobs import ErrorSink, Job
from app.presenting import not_in_presentations
from scene.errors import InputError

if TYPE_CHECKING:
    from app.comparing import Comparison
    from envelope.run import Run


class RunActions(ActionGroup):
    """Methods run on the worker; exports are made in a job."""

    @not_in_presentations("opening runs")
    def open_run(self, folder: Path | None, on_error: ErrorSink) -> None:
        """Open a run folder of the list."""
        if folder is None:
            raise InputError("there is no run to open yet; start a sweep first")
        self._viewer.actions.scene.open_path(folder, on_error)

    @not_in_presentations("exporting")
    def export(self, form: str, download: bool, client: Any, on_error: ErrorSink) -> None:
        """Write the open run in one of the forms; `download`: send it to the browser too."""
        run, panel = self._open_run(), self._viewer.panels.runs
        panel.show_export(f"making {form}…")

        def work(_job: Job) -> None:
            try:
                made = export(run, form)
            except InputError:
                panel.show_export("")
                raise
            panel.show_export(made.text())
            if download and client is not None and not made.too_large:
                client.send_file_download(
                    made.path.name, made.path.read_bytes(), save_immediately=True
                )

        self.start_job("exporting", work, on_error)

    @not_in_presentations("reading other runs")
    def compare(self, other: Path | None) -> Comparison:
        """The open run minus another one, by the chosen victim and measure. Raises InputError."""
        from app.comparing import compare
        from envelope.run import open_run

        mine, readings = self._open_run(), self._session.readings
        if other is None:
            raise InputError("choose another run to compare the open one with")
        if other.resolve() == mine.folder.resolve():
            raise InputError(f"{mine.name} is the open run itself; choose another one")
        second = open_run(other, read_only=True)
        try:
            return compare(mine, second, readings.shown_victim(), readings.measure)
        finally:
            second.close()

    def _open_run(self) -> Run:
        scoring = self._session.scoring
        if scoring is None:
            raise InputError("no run is open yet; embed a patch first")
        return scoring.run
