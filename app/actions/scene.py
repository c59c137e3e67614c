"""The Scene tab's commands: open, upload, up axis, target."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from app.actions.base import ActionGroup, client_camera
from app.captures import thumbnails
from app.jobs import ErrorSink, Job
from app.opening import remember_path, upload_path
from app.presenting import not_in_presentations
from scene.camera import Camera
from scene.errors import InputError
from scene.io.atomic import atomic_write

if TYPE_CHECKING:
    from app.viewer import Viewer
    from scene.candidates import TargetCandidate

Up = tuple[float, float, float]


class SceneActions(ActionGroup):
    """Methods run on the worker; opening goes on in a job."""

    def __init__(self, viewer: Viewer) -> None:
        super().__init__(viewer)
        self._drawing: Callable[[Any], None] | None = None
        self.candidates: list[TargetCandidate] = []

    @not_in_presentations("opening files")
    def open_path(self, path: Path, on_error: ErrorSink | None = None) -> None:
        """Open a splat file or a run folder, as a job."""
        viewer = self._viewer
        say = on_error or viewer.panels.scene.notice.say
        viewer.panels.scene.notice.clear()

        def work(_job: Job) -> None:
            self._session.reopen(path)
            viewer.show_scene()
            viewer.panels.scene.show_recent(remember_path(path, self._session.runs))

        self.start_job(f"opening {path.name}", work, say)

    @not_in_presentations("uploading")
    def open_upload(self, name: str, content: bytes) -> None:
        """Keep an uploaded splat file and open it (`app.uploads` limits its size)."""
        path = upload_path(name, self._session.runs)
        with atomic_write(path) as file:
            file.write(content)
        self.open_path(path)

    @not_in_presentations("changing the up axis")
    def set_up(self, up: Up | None) -> None:
        """Take another up axis (None: the one found on opening)."""
        self._session.set_up(up)
        self._viewer.show_scene()

    @not_in_presentations("choosing a target")
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
            self._viewer.post(lambda: self.take_target(camera, box), panel.notice.say)

        self._drawing = drawn
        scene.on_rect_select()(drawn)
        panel.set_drawing(True)

    @not_in_presentations("choosing a target")
    def take_target(self, camera: Camera, box: tuple[float, float, float, float]) -> None:
        """Take what `box` (xyxy pixels of `camera`) shows as the target."""
        self._viewer.panels.scene.notice.clear()
        if self._drawing is not None:
            self.toggle_target_box()
        self._session.set_target(camera, box)
        self._viewer.show_scene(keep_view=True)

    @not_in_presentations("opening files")
    def find_candidates(self, path: Path, on_error: ErrorSink) -> None:
        """List what a capture's data marks as objects, in a job."""
        panel = self._viewer.panels.scene

        def work(_job: Job) -> None:
            from scene.candidates import find_candidates
            from scene.captures.load import load_capture

            self.candidates = find_candidates(self._session.scene, load_capture(path))
            panel.show_candidates()

        self.start_job("looking for targets", work, on_error)

    @not_in_presentations("choosing a target")
    def take_candidate(self, index: int) -> None:
        """Take one of the listed candidates as the target."""
        if not 0 <= index < len(self.candidates):
            raise InputError("there is no candidate to take; name the scene's capture first")
        self._session.take_target(self.candidates[index].box)
        self._viewer.show_scene(keep_view=True)

    @not_in_presentations("placing a patch")
    def anchor_at_capture(self, index: int) -> None:
        """Place the patch from a capture camera."""
        cameras = self._session.scene.cameras
        if not 0 <= index < len(cameras):
            raise InputError("this scene has no such capture camera; use 'Anchor from my view'")
        self._session.set_anchor_camera(cameras[index].camera)
        self._viewer.show_scene(keep_view=True)

    def show_captures(self, show: bool) -> None:
        """Show the capture cameras, then fill in what they see; or hide them."""
        viewport, session = self._viewer.viewport, self._session
        viewport.refresh_captures(show)
        if not show:
            return
        scene = session.scene
        renderer = session.patchwork.renderer

        def work(job: Job) -> None:
            for index, picture in thumbnails(renderer, scene.cameras, scene.background):
                if job.cancelled or session.scene is not scene or not viewport.captures_shown:
                    return
                viewport.show_thumbnail(index, picture)

        if self._viewer.desk.current is None:
            self.start_job("drawing thumbnails", work, self._viewer.notify)

    def fly_to_capture(self, index: int, client: Any) -> None:
        """Fly one browser to a capture camera and show what it sees."""
        cameras = self._session.scene.cameras
        if not cameras:
            raise InputError("this scene comes without capture cameras")
        index %= len(cameras)
        self._viewer.panels.scene.show_capture(index)
        self._viewer.viewport.stand_at_capture(index)
        if client is not None:
            self._viewer.fly_to(cameras[index].camera, client)
