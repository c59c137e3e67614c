"""Commands on lists: saved views, and scenes to annotate one after the other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.actions.base import ActionGroup
from app.annotation import AnnotationList
from app.jobs import ErrorSink, Job
from app.presenting import not_in_presentations
from scene.errors import InputError

if TYPE_CHECKING:
    from app.viewer import Viewer


class ListActions(ActionGroup):
    """Methods run on the worker; opening a scene goes on in a job."""

    def __init__(self, viewer: Viewer) -> None:
        super().__init__(viewer)
        self.annotation: AnnotationList | None = None

    # --- views ----------------------------------------------------------------------------------

    @not_in_presentations("saving views")
    def save_view(self, name: str) -> None:
        """Keep the sliders' view."""
        self._session.saved_views.add(self._session.condition, name)
        self._viewer.panels.sweep.refresh_views()

    @not_in_presentations("saving views")
    def remove_view(self, name: str) -> None:
        """Forget a saved view."""
        self._session.saved_views.remove(name)
        self._viewer.panels.sweep.refresh_views()

    def go_to_view(self, name: str, client: Any) -> None:
        """Set every slider to a saved view and fly there."""
        self._viewer.go_to(self._session.saved_views.get(name).condition, client)

    def step_view(self, by: int, client: Any) -> None:
        """The next or previous saved view."""
        view = self._session.saved_views.step(by)
        self._viewer.panels.sweep.refresh_views(view.name)
        self._viewer.go_to(view.condition, client)

    # --- scenes ---------------------------------------------------------------------------------

    @not_in_presentations("opening files")
    def open_list(self, path: Path, on_error: ErrorSink) -> None:
        """Open a list and its first scene that is not done."""
        self.annotation = AnnotationList(path)
        self._open_scene(self.annotation, on_error)

    @not_in_presentations("opening files")
    def step_scene(self, by: int, on_error: ErrorSink) -> None:
        """Keep this scene's placement and open the next or previous scene."""
        scenes = self._list()
        self._keep_placement(scenes)
        scenes.step(by)
        self._open_scene(scenes, on_error)

    @not_in_presentations("opening files")
    def go_to_scene(self, index: int, on_error: ErrorSink) -> None:
        """Keep this scene's placement and open another one of the list."""
        scenes = self._list()
        self._keep_placement(scenes)
        scenes.go_to(index)
        self._open_scene(scenes, on_error)

    @not_in_presentations("marking scenes")
    def toggle_done(self) -> None:
        """Mark the scene at hand done, or no longer, and keep its placement."""
        scenes = self._list()
        self._keep_placement(scenes)
        scenes.mark(not scenes.done)
        self._viewer.panels.runs.refresh_list()

    def _list(self) -> AnnotationList:
        if self.annotation is None:
            raise InputError("no list of scenes is open; name its file first")
        return self.annotation

    def _keep_placement(self, scenes: AnnotationList) -> None:
        """Only of the scene that the list stands at: another one may have been opened since."""
        here = self._session.path.resolve() == scenes.scene.resolve()
        if here and self._session.patchwork.placement is not None:
            scenes.keep_placement(self._session.patchwork.placement_file())

    def _open_scene(self, scenes: AnnotationList, on_error: ErrorSink) -> None:
        viewer, path, placement = self._viewer, scenes.scene, scenes.placement
        viewer.panels.runs.refresh_list()

        def work(_job: Job) -> None:
            self._session.reopen(path)
            if placement is not None and self._session.scoring is None:
                self._session.load_placement(placement)
            viewer.show_scene()
            viewer.worker.post_latest(self._session.condition)

        self.start_job(f"opening {path.name}", work, on_error)
