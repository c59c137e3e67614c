"""Left tab Runs: what was measured before, to open again or take away."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from app.export import FORMS, describe_run
from app.jobs import Command
from app.panels.common import Fact, Notice, by_people, put_options

if TYPE_CHECKING:
    import viser

    from app.viewer import Viewer

NO_RUNS = "(none yet)"


class RunsPanel:
    """Lists the run folders, opens one, exports the open one."""

    def __init__(self, gui: viser.GuiApi, viewer: Viewer) -> None:
        self._viewer = viewer
        self._session = viewer.session
        self._actions = viewer.actions.runs
        self._folders: dict[str, Path] = {}
        self._current = Fact(gui, "Open run")
        self._list = gui.add_dropdown("Runs", (NO_RUNS,))
        self._list.on_update(by_people(lambda _: self._describe()))
        self._about = Fact(gui, "About", multiline=True)
        opened = gui.add_button("Open this run")
        opened.on_click(lambda _: self._open())
        again = gui.add_button("Look again")
        again.on_click(lambda _: self._do(self.refresh))
        with gui.add_folder("Export the open run"):
            form = gui.add_dropdown("As", tuple(FORMS))
            save = gui.add_button("Download")
            save.on_click(
                lambda event: self._do(lambda: self._actions.export(form.value, event.client))
            )
        self.notice = Notice(gui)
        self.refresh()

    def refresh(self) -> None:
        """Read the folder of runs again."""
        self._folders = {path.name: path for path in self._session.run_folders()}
        scoring = self._session.scoring
        current = None if scoring is None else scoring.run.name
        put_options(self._list, tuple(self._folders) or (NO_RUNS,), current)
        self._current.set("none: embed a patch first" if scoring is None else str(current))
        self._describe()

    def _describe(self) -> None:
        folder = self._folders.get(self._list.value)
        self._about.set(describe_run(folder) if folder else "")

    def _open(self) -> None:
        folder = self._folders.get(self._list.value)
        self._do(lambda: self._actions.open_run(folder, self._say))

    def _do(self, command: Command) -> None:
        """Have the worker do `command`; what is wrong with it shows at the foot of this tab."""
        self.notice.clear()
        self._viewer.post(command, self._say)

    def _say(self, text: str) -> None:
        self.notice.say(text)
