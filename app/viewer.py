"""The viewer: one viser server on one Session; callbacks post, the worker works."""

from __future__ import annotations

import contextlib
import io
import logging
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.actions import Actions
from app.arrival import watch_arrival
from app.commands.output import say
from app.draw import fitted
from app.gizmo import Vector
from app.hotkeys import add_commands
from app.jobs import Command, ErrorSink, JobDesk, Worker
from app.layout import Layout, build_layout
from app.origin import guarded_server
from app.panels.scene import LEAST_BUDGET, MOST_BUDGET
from app.session import Session
from app.uploads import MOST_UPLOAD_BYTES, limit_uploads
from app.viewport import Viewport, fitting_fov, fly, view_of
from envelope.condition import AXES, Condition
from scene.camera import Camera
from scene.errors import InputError

log = logging.getLogger(__name__)

DISPLAY_BUDGET = 200_000
REFRESH_S = 0.6
"""Least time between two refreshes of heat map and dome while a sweep runs."""
REFRESH_WAIT_S = 2.0
"""For how long at most such a refresh waits for the view that the user looks at."""
FIRST_VIEW = Condition(azimuth_deg=14, elevation_deg=9, radius=1.75)


def serve(
    session: Session,
    host: str = "127.0.0.1",
    port: int = 8080,
    allow_origins: Sequence[str] = (),
    display_budget: int = DISPLAY_BUDGET,
    block: bool = True,
    present: bool = False,
) -> Viewer:
    """Start the viewer on `session` and print its address, one line, when it can be opened.

    port: the next free one is taken, and said, where it is in use.
    allow_origins: page origins besides our own that may connect.
    display_budget: most Gaussians sent to a browser.
    present: read-only, for showing to others (see `app.presenting`).
    block: stay until interrupted; else return the running viewer (close it with `stop`).
    """
    if not LEAST_BUDGET <= display_budget <= MOST_BUDGET:
        raise InputError(
            f"display budget: wanted {LEAST_BUDGET} to {MOST_BUDGET} Gaussians, found "
            f"{display_budget}"
        )
    server = guarded_server(host, port, allow_origins, label="AdvScene Inspector")
    limit_uploads(server, 0 if present else MOST_UPLOAD_BYTES)
    viewer = Viewer(server, session, display_budget, present)
    if server.get_port() != port:
        log.warning("port %d is in use; took %d instead", port, server.get_port())
    shown_host = "127.0.0.1" if host in ("0.0.0.0", "") else host
    say(f"AdvScene Inspector is ready: http://{shown_host}:{server.get_port()}")
    if block:
        try:
            threading.Event().wait()
        finally:
            viewer.stop()
    return viewer


class Viewer:
    """Joins a server, a session, the worker and the panels.

    Public methods may be called from any thread; what takes time goes through `post` or a job.
    """

    def __init__(
        self, server: Any, session: Session, display_budget: int, present: bool = False
    ) -> None:
        self.server = server
        self.present = present
        self.session = session
        self.desk = JobDesk()
        self.worker: Worker[Condition] = Worker(self._look, self.notify)
        self._painter: Worker[None] = Worker(lambda _: self._show_view(), self.notify)
        self._refresher: Worker[None] = Worker(lambda _: self._refresh_scores(), self.notify)
        self._usher: Worker[None] = Worker(lambda _: self._make_way(), self.notify)
        self._herald: Worker[None] = Worker(lambda _: self._show_state(), self.notify)
        self._dragger: Worker[tuple[Vector, Vector]] = Worker(
            lambda at: self.actions.patch.drag(*at, done=False), self.notify
        )
        self.viewport = Viewport(
            server, session, display_budget, self._marker_clicked, self._capture_clicked,
            self._dragged,
        )  # fmt: skip
        self.actions = Actions(self)
        self._victims_eye = False
        self._led: set[int] = set()
        self._frame: NDArray[np.uint8] | None = None
        self.panels: Layout = build_layout(self)
        add_commands(self)
        server.on_client_connect(self._client_came)
        server.on_client_disconnect(self._client_left)
        self.show_scene()
        session.on_view = lambda: self._painter.post_latest(None)
        session.on_rows = self.refresh_scores_soon
        session.victims.on_change = lambda: self._herald.post_latest(None)
        self.worker.post_latest(session.condition)

    def stop(self) -> None:
        """Close jobs, scoring and the server."""
        self.desk.cancel()
        self.session.close()
        self.worker.stop()
        self._painter.stop()
        self._refresher.stop()
        self._dragger.stop()
        self._usher.stop()
        self._herald.stop()
        with contextlib.redirect_stdout(io.StringIO()):
            self.server.stop()

    def post(self, command: Command, on_error: ErrorSink | None = None) -> None:
        """Queue a command for the worker; its error shows at `on_error`."""
        self.worker.post(command, on_error)

    def notify(self, text: str) -> None:
        """Say something that belongs to no panel, in every browser, as plain text."""
        log.warning("%s", text)
        self.announce(text)

    def announce(self, text: str) -> None:
        """Show a problem over the viewport of every browser for a while, as plain text."""
        for client in self.server.get_clients().values():
            client.add_notification("Problem", text, color="orange", auto_close_seconds=15)

    def slider_moved(self, axis: str, value: float) -> None:
        """A slider stands at `value`: keep the other eight numbers exact, score the new view."""
        condition = self.session.condition.with_values(**{axis: float(value)})
        self.session.condition = condition
        self.worker.post_latest(condition)

    def nudge_axis(self, axis: str, by: float) -> None:
        """Move one slider by a step, within its range."""
        limits = AXES[axis]
        now = float(getattr(self.session.condition, axis))
        self.slider_moved(axis, min(max(now + by, limits.low), limits.high))
        self.panels.sweep.set_condition(self.session.condition)

    def toggle_victims_eye(self) -> None:
        """Switch between the browser's splats and our renderer's frame."""
        self.set_victims_eye(not self._victims_eye)

    def go_to(self, condition: Condition, client: Any = None) -> None:
        """Set all nine sliders to `condition`, score it, and fly `client` (if given) there."""
        self.session.condition = condition
        self.panels.sweep.set_condition(condition)
        self.worker.post_latest(condition)
        if client is not None:
            self.fly_to(self.session.camera(condition), client)

    def fly_to_anchor(self, client: Any) -> None:
        """Fly one browser to the anchor camera; the sliders stay."""
        if client is not None:
            self.fly_to(self.session.anchor_camera, client)

    def fly_to(self, camera: Camera, client: Any) -> None:
        """Put one browser's camera where `camera` is."""
        self._led.add(client.client_id)
        self._fly(camera, client)

    def _fly(self, camera: Camera, client: Any) -> None:
        fly(client, camera, self._orbit_distance(camera))

    def _orbit_distance(self, camera: Camera) -> float:
        """How far ahead of `camera` the point lies that a browser orbits: as far as the pivot."""
        return max(float(np.linalg.norm(camera.center - self.session.pivot)), 1e-3)

    def set_victims_eye(self, on: bool) -> None:
        """Show our renderer's frame of the sliders' view instead of the browser's splats."""
        self._victims_eye = on
        self.viewport.set_victims_eye(on)
        self.panels.scene.set_mode(on)
        self._show_frame()

    def show_kind(self, kind: str) -> None:
        """Show one render kind in the viewport and in the victim's-eye frame."""
        if kind not in self.session.kinds():
            return
        self.viewport.show_kind(kind)
        self.panels.scene.set_kind(kind)
        self._show_view()

    def set_display_budget(self, budget: int) -> None:
        """Send browsers at most `budget` Gaussians from now on."""
        if self.present:
            return
        self.viewport.display_budget = int(budget)
        self.post(self._send_splats)

    def show_scene(self, keep_view: bool = False) -> None:
        """Draw another scene, placement and run everywhere.

        keep_view: leave the browsers' cameras where they are.
        """
        self.viewport.kind = best_kind(self.session.kinds())
        self.viewport.refresh_all()
        self._show_frame()
        if not keep_view:  # a first camera that changes would move all browsers
            self._set_first_camera()
            for client in self.server.get_clients().values():
                self.fly_to(self.session.camera(FIRST_VIEW), client)
            self.panels.sweep.show_plan()
        self.panels.sweep.set_condition(self.session.condition)
        self.panels.sweep.refresh_views()
        self.panels.scene.refresh()
        self.panels.runs.refresh()
        self.panels.victims.refresh()
        self.show_patch()
        self.panels.renders.refresh(self.session.view)
        self.viewport.refresh_view(None)
        self.refresh_scores_soon()
        self.worker.post_latest(self.session.condition)

    def show_patch(self) -> None:
        """Draw another patch or placement; the sliders turn about it, so draw their view anew."""
        self.viewport.refresh_outline()
        self.panels.patch.refresh()
        if self.session.scoring is None:
            self.worker.post_latest(self.session.condition)

    def show_embedding(self) -> None:
        """Draw another embedding: splats, kinds, figures; and score the view anew."""
        self.viewport.kind = best_kind(self.session.kinds())
        self._send_splats()
        self.show_patch()
        self.refresh_scores_soon()
        self.worker.post_latest(self.session.condition)

    def refresh_scores_soon(self) -> None:
        """Bring heat map, dome and progress up to date, at most every `REFRESH_S`."""
        self._refresher.post_latest(None)

    def _look(self, condition: Condition) -> None:
        """The worker's answer to moved sliders: have the newest view scored first."""
        self.session.look(condition)
        self.viewport.refresh_view(self._frame)
        self.refresh_scores_soon()

    def _refresh_scores(self) -> None:
        """Read the rows again; not while a view is being scored, and a fifth of the time at most.

        Reading takes the interpreter's lock, for which the drawing thread would have to wait.
        """
        until = time.monotonic() + REFRESH_WAIT_S
        while self.session.view_under_way and time.monotonic() < until:
            time.sleep(0.05)
        start = time.monotonic()
        self.viewport.refresh_dome()
        self.panels.envelope.refresh()
        self.panels.sweep.refresh()
        self.panels.victims.refresh()
        time.sleep(max(REFRESH_S, 4 * (time.monotonic() - start)))

    def _show_state(self) -> None:
        """Which victims are loading, ready or failed, and the sweep's state; no row is read."""
        self.panels.victims.refresh()
        self.panels.envelope.refresh_troubles()
        self.panels.sweep.refresh_state()

    def _show_view(self) -> None:
        """Show what the current view's scores have come to."""
        scores = self.session.view
        self.panels.renders.refresh(scores)
        if scores is None or not scores.pictures:
            return
        kind = self.viewport.kind
        self._frame = scores.pictures.get(kind, next(iter(scores.pictures.values())))
        self.viewport.refresh_view(self._frame)
        if self._victims_eye:
            self._show_frame()

    def _show_frame(self) -> None:
        for client in self.server.get_clients().values():
            self._show_frame_to(client)

    def _show_frame_to(self, client: Any) -> None:
        """The victim's-eye frame, with bars to the browser's own aspect."""
        if not self._victims_eye or self._frame is None:
            client.scene.set_background_image(self.viewport.sky())
            return
        height, width = self._frame.shape[:2]
        aspect = max(client.camera.aspect, 1e-3)
        size = (max(width, round(height * aspect)), max(height, round(width / aspect)))
        client.scene.set_background_image(fitted(self._frame, *size)[0], format="png")

    def _send_splats(self) -> None:
        self.viewport.refresh_splats()
        self.panels.scene.refresh()

    def _marker_clicked(self, index: int, client: Any) -> None:
        dome = self.viewport.dome
        if dome is not None and index < len(dome):
            self.post(lambda: self.go_to(dome.conditions[index], client))

    def _capture_clicked(self, index: int, client: Any) -> None:
        go = self.actions.scene.fly_to_capture
        self.post(lambda: go(index, client), self.panels.scene.notice.say)

    def _dragged(self, position: Vector, wxyz: Vector, done: bool) -> None:
        """Of a drag only the newest place is drawn; where it ends is kept."""
        drag, say = self.actions.patch.drag, self.panels.patch.notice.say
        if done:
            self.post(lambda: drag(position, wxyz, True), say)
        else:
            self._dragger.post_latest((position, wxyz))

    def _set_first_camera(self) -> None:
        """New browsers start near the anchor, a little behind it and to a side, to see the dome."""
        camera = self.session.camera(FIRST_VIEW)
        first = self.server.initial_camera
        distance = self._orbit_distance(camera)
        first.position, first.look_at, first.up = view_of(camera, distance)
        first.fov = fitting_fov(camera, 1.0)
        first.near = self.viewport.unit * 0.01
        first.far = self.viewport.unit * 300

    def _client_came(self, client: Any) -> None:
        self.viewport.welcome(client)
        client.camera.on_update(lambda _: self._usher.post_latest(None))
        self._show_frame_to(client)
        threading.Thread(target=self._receive, args=(client,), name="arrival", daemon=True).start()

    def _receive(self, client: Any) -> None:
        """See a browser that came to the first view."""
        ident = client.client_id
        watch_arrival(
            client.camera,
            lambda: (self.session.camera(FIRST_VIEW), self.viewport.unit),
            lambda: self._fly(self.session.camera(FIRST_VIEW), client),
            lambda: ident not in self._led and ident in self.server.get_clients(),
        )

    def _client_left(self, client: Any) -> None:
        self.viewport.see_off(client)
        self._led.discard(client.client_id)

    def _make_way(self) -> None:
        """Take away the markers that a browser's own camera stands in."""
        clients = self.server.get_clients().items()
        self.viewport.make_way({ident: client.camera.position for ident, client in clients})


def best_kind(kinds: Sequence[str]) -> str:
    """The kind to show first: the adversarial one where there is one."""
    return "adversarial" if "adversarial" in kinds else kinds[0]
