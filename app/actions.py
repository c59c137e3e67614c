"""What buttons do: open, place, embed, undo, load victims; each on the worker or as a job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from app.embedding import EmbedOrder, EmbedStep
from app.jobs import ErrorSink, Job, Progress
from app.opening import upload_path
from scene.camera import Camera
from scene.gaussians import quaternions_to_matrices

if TYPE_CHECKING:
    from app.viewer import Viewer

Up = tuple[float, float, float]
VIEW_SIZE = (640, 480)
"""Size of an anchor that is taken from a browser's view."""


class Actions:
    """The commands of one viewer; methods return at once."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        self._session = viewer.session
        self._placing: Callable[[Any], None] | None = None
        self._drawing: Callable[[Any], None] | None = None

    # --- scenes and runs ------------------------------------------------------------------------

    def open_path(self, path: Path, on_error: ErrorSink | None = None) -> None:
        """Open a splat file or a run folder, as a job."""
        viewer = self._viewer
        say = on_error or viewer.panels.scene.notice.say

        def work(_job: Job) -> None:
            self._session.reopen(path)
            viewer.show_scene()
            viewer.panels.scene.remember(str(path))
            viewer.worker.post_latest(self._session.condition)

        viewer.post(lambda: self._start(f"opening {path.name}", work, say), say)

    def open_upload(self, name: str, content: bytes) -> None:
        """Keep an uploaded splat file and open it."""

        def keep() -> None:
            path = upload_path(name, self._session.runs)
            path.write_bytes(content)
            self.open_path(path)

        self._viewer.post(keep, self._viewer.panels.scene.notice.say)

    def set_up(self, up: Up | None) -> None:
        """Take another up axis (None: the one found on opening)."""
        self._session.set_up(up)
        self._viewer.show_scene()

    def toggle_target_box(self) -> None:
        """Let the next drag on the scene draw the target's box, or no longer."""
        scene, panel = self._viewer.server.scene, self._viewer.panels.scene
        if self._drawing is not None:
            scene.remove_rect_select_callback(self._drawing)
            self._drawing = None
            panel.set_drawing(False)
            return

        def drawn(event: Any) -> None:
            camera = client_camera(event.client)
            size = np.array([camera.width, camera.height])
            low, high = np.array(event.screen_min) * size, np.array(event.screen_max) * size
            box = (float(low[0]), float(low[1]), float(high[0]), float(high[1]))
            self._viewer.post(lambda: self._take_target(camera, box), panel.notice.say)

        self._drawing = drawn
        scene.on_rect_select()(drawn)
        panel.set_drawing(True)

    def _take_target(self, camera: Camera, box: tuple[float, float, float, float]) -> None:
        self._viewer.panels.scene.notice.clear()
        if self._drawing is not None:
            self.toggle_target_box()
        self._session.set_target(camera, box)
        self._viewer.show_scene()

    # --- patch ----------------------------------------------------------------------------------

    def choose_patch(self, name: str) -> None:
        """Take a patch from the gallery, at the same place."""
        self._session.patchwork.choose(name)
        self._viewer.show_patch()

    def toggle_placing(self) -> None:
        """Let the next click on the scene place the patch, or no longer."""
        scene, panel = self._viewer.server.scene, self._viewer.panels.patch
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
        if self._placing is not None:
            self.toggle_placing()
        self._session.patchwork.place_along_ray(origin, direction, *panel.size())
        self._viewer.show_patch()

    def place_by_numbers(self, center: Up) -> None:
        """Place the patch at a point of the scene."""
        panel = self._viewer.panels.patch
        panel.notice.clear()
        self._session.patchwork.place_at(center, *panel.size())
        self._viewer.show_patch()

    def placement_moved(self) -> None:
        """The size or angle slider moved."""
        panel = self._viewer.panels.patch

        def resize() -> None:
            panel.notice.clear()
            self._session.patchwork.resize(*panel.size())
            self._viewer.viewport.refresh_outline()
            panel.refresh_text()

        self._viewer.post(resize, panel.notice.say)

    def nudge(self, way: str) -> None:
        """Move the patch by a tenth of its size along its surface."""
        self._session.patchwork.nudge(way)
        self._viewer.show_patch()

    def anchor_here(self, client: Any) -> None:
        """Make one browser's view the anchor that the patch is placed from."""
        if client is not None:
            self._session.set_anchor_camera(client_camera(client))
            self._viewer.show_scene(keep_view=True)

    def embed(self, order: EmbedOrder, on_error: ErrorSink) -> None:
        """Embed the placed patch and its controls in a job with a preview."""
        viewer, panel = self._viewer, self._viewer.panels.patch
        iterations: list[int] = []
        losses: list[float] = []

        def step(job: Job, now: EmbedStep) -> bool:
            job.report(now.fraction, now.text)
            if now.kind == "adversarial":
                iterations.append(now.iteration)
                losses.append(now.loss)
            if now.pictures is not None:
                panel.show_preview(*now.pictures)
                panel.show_loss(iterations, losses)
            return not job.cancelled

        def work(job: Job) -> None:
            panel.set_embedding(True)
            self._session.embed(order, lambda now: step(job, now))
            viewer.show_embedding()

        def shown(report: Progress) -> None:
            panel.show_embedding(report.fraction, report.text)

        def start() -> None:
            ended = lambda: panel.set_embedding(False)  # noqa: E731
            viewer.desk.start(Job("embedding", work, shown, on_error, ended))

        viewer.post(start, on_error)

    def undo(self) -> None:
        """Take back the last placement or embedding."""
        self._session.undo()
        self._viewer.show_embedding()

    # --- victims --------------------------------------------------------------------------------

    def load_victim(self, spec: str, on_error: ErrorSink) -> None:
        """Load a victim in a job and score with it from then on."""
        viewer, victims = self._viewer, self._session.victims

        def work(_job: Job) -> None:
            try:
                victims.load(spec)
            finally:
                viewer.panels.victims.refresh()
            victims.choose(spec)
            self.victims_changed()

        viewer.post(lambda: self._start(f"loading {spec.split('?')[0]}", work, on_error), on_error)

    def victims_changed(self) -> None:
        """Score with another set of victims."""
        self._session.victims_changed()
        self._viewer.panels.victims.refresh()
        self._viewer.refresh_scores_soon()

    def set_label(self, label: str, on_error: ErrorSink) -> None:
        """Ask for another class."""

        def change() -> None:
            self._session.set_label(label)
            self._viewer.panels.victims.refresh()
            self._viewer.panels.scene.refresh()
            self._viewer.refresh_scores_soon()

        self._viewer.post(change, on_error)

    def thresholds_moved(self) -> None:
        """Read the stored answers again under other gamma and tau."""
        viewer = self._viewer

        def change() -> None:
            self._session.set_thresholds(*viewer.panels.victims.thresholds())
            viewer.refresh_scores_soon()

        viewer.post(change, viewer.panels.victims.notice.say)

    def _start(self, name: str, work: Callable[[Job], None], on_error: ErrorSink) -> None:
        self._viewer.desk.start(Job(name, work, lambda _: None, on_error, lambda: None))


def client_camera(client: Any, size: tuple[int, int] = VIEW_SIZE) -> Camera:
    """A browser's view as a camera of `size` pixels, its vertical field of view kept."""
    view = client.camera
    width, height = size
    wxyz = np.asarray(view.wxyz, dtype=np.float32)
    pose = np.eye(4)
    pose[:3, :3] = quaternions_to_matrices(wxyz[None])[0].T
    pose[:3, 3] = -pose[:3, :3] @ np.asarray(view.position)
    focal = 0.5 * height / np.tan(0.5 * float(view.fov))
    K = np.array([[focal, 0, width / 2], [0, focal, height / 2], [0, 0, 1]])
    return Camera(pose, K, width, height)
