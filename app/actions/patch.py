"""The Patch tab's commands: choose, place, nudge, embed, undo, saved placements, outside pair."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from app.actions.base import ActionGroup, client_camera
from app.embedding import EmbedOrder, EmbedStep
from app.jobs import ErrorSink, Job, Progress
from app.presenting import not_in_presentations

if TYPE_CHECKING:
    from app.viewer import Viewer

Point = tuple[float, float, float]
PLACING, EMBEDDING = "placing a patch", "embedding"


class PatchActions(ActionGroup):
    """Methods run on the worker; embedding goes on in a job."""

    def __init__(self, viewer: Viewer) -> None:
        super().__init__(viewer)
        self._placing: Callable[[Any], None] | None = None

    @not_in_presentations(PLACING)
    def choose(self, name: str) -> None:
        """Take a patch from the gallery, at the same place."""
        self._session.patchwork.choose(name)
        self._viewer.show_patch()

    @not_in_presentations("uploading")
    def add_upload(self, name: str, content: bytes) -> None:
        """Put an uploaded picture into the gallery and choose it."""
        self._session.patchwork.add(name, content)
        self._viewer.show_patch()

    @not_in_presentations(PLACING)
    def toggle_placing(self) -> None:
        """Let the next click on the scene place the patch, or no longer."""
        scene, panel = self._viewer.server.scene, self._viewer.panels.patch
        self._viewer.viewport.hide_markers(self._placing is None)
        if self._placing is not None:
            scene.remove_click_callback(self._placing)
            self._placing = None
            panel.set_placing(False)
            return

        def clicked(event: Any) -> None:
            origin, direction = event.ray_origin, event.ray_direction
            self._viewer.post(lambda: self.place(origin, direction), panel.notice.say)

        self._placing = clicked
        scene.on_click()(clicked)
        panel.set_placing(True)

    @not_in_presentations(PLACING)
    def place(self, origin: ArrayLike, direction: ArrayLike) -> None:
        """Place the patch where a click's ray meets the scene."""
        panel = self._viewer.panels.patch
        if self._placing is not None:
            self.toggle_placing()
        self._session.patchwork.place_along_ray(origin, direction, *panel.size())
        self._viewer.show_patch()

    @not_in_presentations(PLACING)
    def place_by_numbers(self, center: Point) -> None:
        """Place the patch at a point of the scene."""
        self._session.patchwork.place_at(center, *self._viewer.panels.patch.size())
        self._viewer.show_patch()

    @not_in_presentations(PLACING)
    def resize(self) -> None:
        """The size or angle slider moved."""
        panel = self._viewer.panels.patch
        self._session.patchwork.resize(*panel.size())
        self._viewer.viewport.refresh_outline()
        panel.refresh_text()

    @not_in_presentations(PLACING)
    def nudge(self, way: str) -> None:
        """Move the patch by a tenth of its size along its surface."""
        self._session.patchwork.nudge(way)
        self._viewer.show_patch()

    @not_in_presentations(PLACING)
    def show_gizmo(self, show: bool) -> None:
        """Show or hide the handles that drag and turn the patch in the scene."""
        self._viewer.viewport.gizmo.enabled = show
        self._viewer.viewport.refresh_outline()

    @not_in_presentations(PLACING)
    def drag(self, position: ArrayLike, wxyz: ArrayLike, done: bool) -> None:
        """The gizmo moved: show the patch there; `done`: it was let go, keep it there."""
        if done:
            self._session.patchwork.drag(position, wxyz)
            self._viewer.show_patch()
        elif (placed := self._session.patchwork.dragged(position, wxyz)) is not None:
            self._viewer.viewport.draw_outline(placed)

    @not_in_presentations(PLACING)
    def anchor_here(self, client: Any) -> None:
        """Make one browser's view the anchor that the patch is placed from."""
        if client is not None:
            self._session.set_anchor_camera(client_camera(client))
            self._viewer.show_scene(keep_view=True)

    @not_in_presentations("downloading")
    def save_placement(self, client: Any) -> None:
        """Send the placement file to a browser."""
        content = self._session.patchwork.placement_file()
        client.send_file_download("placement.json", content, save_immediately=True)

    @not_in_presentations("uploading")
    def load_placement(self, content: bytes) -> None:
        """Take a saved placement."""
        self._session.load_placement(content)
        self._viewer.show_scene(keep_view=True)

    @not_in_presentations("uploading")
    def take_pair_part(self, part: str, content: bytes) -> None:
        """Keep an uploaded "image" or "mask" of an outside pair."""
        self._session.patchwork.take_pair_part(part, content)
        self._viewer.panels.patch.refresh_text()

    @not_in_presentations(PLACING)
    def use_pair(self) -> None:
        """Take the outside pair as the attacked anchor at the sliders' view."""
        self._session.patchwork.use_pair(self._session.camera())
        self._viewer.show_patch()

    @not_in_presentations(EMBEDDING)
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

        ended = lambda: panel.set_embedding(False)  # noqa: E731
        viewer.desk.start(Job("embedding", work, shown, on_error, ended))

    @not_in_presentations("undoing")
    def undo(self) -> None:
        """Take back the last placement or embedding."""
        self._session.undo()
        self._viewer.show_embedding()

    @not_in_presentations(EMBEDDING)
    def stop_embedding(self) -> None:
        """Stop the running embedding and keep what it came to."""
        self._viewer.desk.cancel()
