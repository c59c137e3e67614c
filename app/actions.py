"""What buttons do: open, place, embed, undo, load victims; each on the worker or as a job."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.jobs import ErrorSink, Job, Progress
from scene.errors import InputError

if TYPE_CHECKING:
    from app.viewer import Viewer

Up = tuple[float, float, float]


class Actions:
    """The commands of one viewer; methods return at once."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        self._session = viewer.session
        self._placing: Any = None

    # -- scenes and runs -------------------------------------------------------------------------

    def open_path(self, path: Path, on_error: ErrorSink | None = None) -> None:
        """Open a splat file or a run folder."""
        viewer = self._viewer
        say = on_error or viewer.panels.scene.notice.say

        def work(job: Job) -> None:
            if viewer.desk.current is not job:
                return
            self._session.reopen(path)
            viewer.show_scene()
            viewer.panels.scene.remember(str(path))
            viewer.worker.post_latest(self._session.condition)

        viewer.post(lambda: self._start(f"opening {path.name}", work, say), say)

    def open_upload(self, name: str, content: bytes) -> None:
        """Open an uploaded splat file."""
        folder = Path(tempfile.mkdtemp(prefix="advscene-upload-"))
        path = folder / (Path(name).name or "upload.ply")
        path.write_bytes(content)
        self.open_path(path)

    def set_up(self, up: Up | None) -> None:
        """Take another up axis (None: the one found on opening)."""
        self._session.set_up(up)
        self._viewer.show_scene()

    # -- patch -----------------------------------------------------------------------------------

    def choose_patch(self, name: str) -> None:
        """Take a patch from the gallery, at the same place."""
        self._session.choose_patch(name)
        self._viewer.show_patch()

    def toggle_placing(self) -> None:
        """Let the next click on the scene place the patch, or no longer."""
        scene = self._viewer.server.scene
        panel = self._viewer.panels.patch
        if self._placing is not None:
            scene.remove_click_callback(self._placing)
            self._placing = None
            panel.set_placing(False)
            return

        def clicked(event: Any) -> None:
            origin, direction = event.ray_origin, event.ray_direction
            self._viewer.post(lambda: self._place(origin, direction), panel.notice.say)

        self._placing = clicked
        scene.on_click()(clicked)
        panel.set_placing(True)

    def _place(self, origin: Any, direction: Any) -> None:
        panel = self._viewer.panels.patch
        panel.notice.clear()
        self._session.place_along_ray(origin, direction, *panel.size())
        if self._placing is not None:
            self.toggle_placing()
        self._viewer.show_patch()

    def place_by_numbers(self, center: Up) -> None:
        """Place the patch at a point of the scene."""
        panel = self._viewer.panels.patch
        panel.notice.clear()
        self._session.place_at(center, *panel.size())
        self._viewer.show_patch()

    def placement_moved(self) -> None:
        """The size or angle slider moved."""
        panel = self._viewer.panels.patch

        def resize() -> None:
            panel.notice.clear()
            self._session.resize_placement(*panel.size())
            self._viewer.viewport.refresh_outline()

        self._viewer.post(resize, panel.notice.say)

    def nudge(self, way: str) -> None:
        """Move the patch by a tenth of its size along its surface."""
        self._session.nudge_placement(way)
        self._viewer.show_patch()

    def embed(self, iterations: int, variant: str, on_error: ErrorSink) -> None:
        """Embed the placed patch (and its gray twin) in a job with a preview."""
        viewer, session = self._viewer, self._session
        panel = viewer.panels.patch
        iterations_done: list[int] = []
        losses: list[float] = []

        def progress(job: Job, fraction: float, text: str, loss: float, preview: Any) -> bool:
            job.report(fraction, text)
            iterations_done.append(len(iterations_done))
            losses.append(loss)
            panel.show_loss(iterations_done, losses)
            if preview is not None:
                panel.show_preview(*preview)
            return not job.cancelled

        def work(job: Job) -> None:
            panel.set_embedding(True)
            session.embed(
                iterations, variant, lambda *report: progress(job, *report)
            )
            viewer.show_embedding()

        def shown(report: Progress) -> None:
            panel.show_embedding(report.fraction, report.text)

        def start() -> None:
            job = Job("embedding", work, shown, on_error, lambda: panel.set_embedding(False))
            viewer.desk.start(job)

        viewer.post(start, on_error)

    def undo(self) -> None:
        """Take back the last placement or embedding."""
        self._session.undo()
        self._viewer.show_embedding()

    # -- victims ---------------------------------------------------------------------------------

    def load_victim(self, spec: str, on_error: ErrorSink) -> None:
        """Load a victim in a job and score with it from then on."""
        viewer, victims = self._viewer, self._session.victims

        def work(job: Job) -> None:
            try:
                victims.load(spec)
            finally:
                viewer.panels.victims.refresh()
            self.victims_changed()

        viewer.post(lambda: self._start(f"loading {spec.split('?')[0]}", work, on_error), on_error)

    def victims_changed(self) -> None:
        """Score with another set of victims."""
        self._session.victims_changed()
        self._viewer.panels.victims.refresh()
        self._viewer.refresh_scores_soon()
        self._viewer.worker.post_latest(self._session.condition)

    def set_label(self, label: str) -> None:
        """Ask for another class."""
        if not label.strip():
            raise InputError("class: wanted the name of an object, such as stop sign; found nothing")
        self._session.set_label(label)
        self.victims_changed()

    def thresholds_moved(self) -> None:
        """Read the stored answers again under other gamma and tau."""
        viewer = self._viewer
        gamma, tau = viewer.panels.victims.thresholds()
        self._session.set_thresholds(gamma, tau)
        viewer.refresh_scores_soon()

    def _start(self, name: str, work: Any, on_error: ErrorSink) -> None:
        self._viewer.desk.start(Job(name, work, lambda _: None, on_error, lambda: None))
