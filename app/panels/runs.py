"""Left tab Runs: what was measured before, to open again, compare or take away."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.comparing import difference_map
from app.export import FORMS, describe_run
from app.jobs import Command
from app.panels.common import Fact, Notice, by_people, put_options, typed_path
from app.readings import INK

if TYPE_CHECKING:
    import viser

    from app.viewer import Viewer

NO_RUNS = "(none yet)"
NO_LIST = "(no list)"
MAP_ASPECT = 0.8


class RunsPanel:
    """Lists the run folders, opens one, compares it with another, exports the open one."""

    def __init__(self, gui: viser.GuiApi, viewer: Viewer) -> None:
        self._viewer = viewer
        self._session = viewer.session
        self._actions = viewer.actions.runs
        self._folders: dict[str, Path] = {}
        self._gui = gui
        self.notice = Notice(gui, announce=viewer.announce)
        self._current = Fact(gui, "Open run")
        self._list = gui.add_dropdown("Runs", (NO_RUNS,), visible=not viewer.present)
        self._list.on_update(by_people(lambda _: self._describe()))
        self._about = Fact(gui, "About", multiline=True)
        opened = gui.add_button("Open this run", visible=not viewer.present)
        opened.on_click(lambda _: self._open())
        again = gui.add_button("Look again", visible=not viewer.present)
        again.on_click(lambda _: self._do(self.refresh))
        with gui.add_folder("Compare with the open run", visible=not viewer.present):
            self._build_compare(gui)
        with gui.add_folder("Export the open run", visible=not viewer.present):
            self._build_export(gui)
        with gui.add_folder("Scenes to annotate", visible=not viewer.present):
            self._build_list(gui)
        self.refresh()

    def refresh(self) -> None:
        """Read the folder of runs again; a presentation shows only the open one."""
        folders = [] if self._viewer.present else self._session.run_folders()
        self._folders = {path.name: path for path in folders}
        scoring = self._session.scoring
        current = None if scoring is None else scoring.run.name
        put_options(self._list, tuple(self._folders) or (NO_RUNS,), current)
        self._current.set("none: embed a patch first" if scoring is None else str(current))
        put_options(self._other, tuple(n for n in self._folders if n != current) or (NO_RUNS,))
        self._describe()

    def refresh_list(self) -> None:
        """Show where in the list of scenes one is."""
        scenes = self._viewer.actions.lists.annotation
        if scenes is None:
            return
        labels = scenes.labels()
        put_options(self._scenes, labels, labels[scenes.index])
        self._scene_text.set(scenes.text())
        self._mark.label = "Not done after all" if scenes.done else "Mark as done"

    def show_export(self, text: str) -> None:
        """What became of an export."""
        self._exported.set(text)
        self._exported.visible = bool(text)

    def _build_compare(self, gui: viser.GuiApi) -> None:
        self._other = gui.add_dropdown("Minus", (NO_RUNS,))
        button = gui.add_button(
            "Show the difference",
            hint="Of the measure and victim chosen in the Envelope dock, over the conditions that "
            "both runs have scored; both are read by the open run's thresholds",
        )
        button.on_click(lambda _: self._do(self._compare))
        self._difference = Fact(gui, "Difference", multiline=True)
        self._difference.visible = False
        self._map: Any = None
        self._map_place = gui.add_folder("Difference map", visible=False)

    def _build_export(self, gui: viser.GuiApi) -> None:
        form = gui.add_dropdown("As", tuple(FORMS))
        download = gui.add_checkbox(
            "download", True, hint="The file is in the run folder's exports in any case"
        )
        save = gui.add_button("Export")
        save.on_click(
            lambda event: self._do(
                lambda: self._actions.export(
                    str(form.value), bool(download.value), event.client, self._say
                )
            )
        )
        self._exported = Fact(gui, "Written", multiline=True)
        self._exported.visible = False

    def _build_list(self, gui: viser.GuiApi) -> None:
        actions = self._viewer.actions.lists
        path = gui.add_text(
            "List", "", hint="A text file with a scene's path a line, or JSON; done marks and "
            "placements are kept beside it",
        )  # fmt: skip
        opened = gui.add_button("Open the list")
        opened.on_click(
            lambda _: self._do(lambda: actions.open_list(typed_path(path.value), self._say))
        )
        self._scenes = gui.add_dropdown("Scene", (NO_LIST,))
        self._scenes.on_update(by_people(self._go_to_scene))
        step = gui.add_button_group("Open", ("previous", "next"))
        step.on_click(
            lambda event: self._do(
                lambda: actions.step_scene(1 if event.target.value == "next" else -1, self._say)
            )
        )
        self._mark = gui.add_button("Mark as done")
        self._mark.on_click(lambda _: self._do(actions.toggle_done))
        self._scene_text = Fact(gui, "Progress")

    def _go_to_scene(self, event: Any) -> None:
        actions, chosen = self._viewer.actions.lists, event.target.value
        if actions.annotation is not None and chosen in actions.annotation.labels():
            index = actions.annotation.labels().index(chosen)
            self._do(lambda: actions.go_to_scene(index, self._say))

    def _compare(self) -> None:
        self._difference.visible = False
        self._map_place.visible = False
        found = self._actions.compare(self._folders.get(str(self._other.value)))
        self._difference.set(found.text())
        self._difference.visible = True
        figure = difference_map(found, INK)
        if self._map is None:
            with self._map_place:
                self._map = self._gui.add_plotly(
                    figure, config={"displayModeBar": False, "responsive": True}, aspect=MAP_ASPECT
                )
        self._map.figure = figure
        self._map_place.visible = True

    def _describe(self) -> None:
        folder = self._folders.get(self._list.value)
        scoring = self._session.scoring
        if self._viewer.present and scoring is not None:
            folder = scoring.run.folder
        self._about.set(describe_run(folder) if folder else "")

    def _open(self) -> None:
        folder = self._folders.get(self._list.value)
        self._do(lambda: self._actions.open_run(folder, self._say))

    def _do(self, command: Command) -> None:
        """Have the worker do `command`; what is wrong with it shows at the head of this tab."""
        self.notice.clear()
        self._viewer.post(command, self._say)

    def _say(self, text: str) -> None:
        self.notice.say(text)
