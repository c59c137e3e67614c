"""A page that shows a reconstruction while it grows: the splats, held-out decibels, a stop button.

Apart from the viewer, which works on a finished scene. Hosting and the check of who may connect
are the viewer's. The page only ever sets a flag; the trainer's thread sends all pictures.
"""

from __future__ import annotations

import contextlib
import io
import threading
from typing import Any

import numpy as np

from app.display import display_copy, most_important, storage_scale
from app.origin import guarded_server
from app.viewport import fly
from scene.capture import Capture
from scene.reconstruct.train import Preview, Progress

PREVIEW_BUDGET = 60_000
"""Most Gaussians sent to a browser with every preview."""
_PLOT_ASPECT = 0.75
_PLOT_CONFIG = {"displayModeBar": False, "responsive": True}


class GrowingPage:
    """The page; its methods are called by the trainer's thread."""

    def __init__(self, capture: Capture, host: str = "127.0.0.1", port: int = 8080) -> None:
        self._server: Any = guarded_server(host, port, (), label="AdvScene reconstruction")
        self._stop, self._close = threading.Event(), threading.Event()
        self._held_out = len(capture.held_out)
        self._points: list[tuple[int, float]] = []
        first = (capture.held_out or capture.frames)[0].camera
        centers = np.array([frame.camera.center for frame in capture.frames])
        size = float(np.linalg.norm(centers - centers.mean(axis=0), axis=1).max())
        self._server.scene.set_up_direction(
            capture.up if capture.up is not None else tuple((-first.down).tolist())
        )
        self._server.on_client_connect(lambda client: fly(client, first, size))
        self._splats: Any = None
        self._build()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.get_port())

    @property
    def stop_wanted(self) -> bool:
        """Whether somebody pressed the button."""
        return self._stop.is_set()

    def tell(self, now: Progress) -> None:
        """Show how far it is."""
        self._status.value = (
            f"iteration {now.iteration} of {now.iterations}, {now.gaussians} Gaussians, "
            f"loss {now.loss:.4f}, {now.seconds:.0f} s"
        )

    def show(self, preview: Preview) -> None:
        """Show what there is so far, and how good it is."""
        chosen = most_important(preview.gaussians, PREVIEW_BUDGET)
        part = preview.gaussians.select(chosen)
        if len(part):
            splats = display_copy(part, storage_scale(part))
            self._splats = self._server.scene.add_gaussian_splats(
                "/splats",
                centers=splats.centers,
                covariances=splats.covariances,
                rgbs=splats.rgbs,
                opacities=splats.opacities,
                scale=splats.scale,
            )
        self._shown.value = f"{len(part)} of {len(preview.gaussians)} Gaussians"
        if np.isfinite(preview.quality.psnr):
            self._points.append((preview.iteration, preview.quality.psnr))
            self._plot.figure = self._figure()

    def finish(self, text: str) -> None:
        """Say that it is over and how it ended; the button now closes the page."""
        self._status.value = text
        self._button.visible = False
        self._closer.visible = True

    def wait(self) -> None:
        """Until the page is closed by its button (or the program interrupted)."""
        self._close.wait()

    def close(self) -> None:
        """End the server."""
        with contextlib.redirect_stdout(io.StringIO()):
            self._server.stop()

    def _build(self) -> None:
        gui = self._server.gui
        gui.configure_theme(show_share_button=False, show_logo=False)
        self._status = gui.add_text("Progress", "finding points", disabled=True, multiline=True)
        self._shown = gui.add_text("Shown", "nothing yet", disabled=True)
        self._plot = gui.add_plotly(self._figure(), config=_PLOT_CONFIG, aspect=_PLOT_ASPECT)
        if not self._held_out:
            gui.add_markdown("No photo is held out, so there is nothing to judge by.")
        self._button = gui.add_button("Stop and keep what there is")
        self._closer = gui.add_button("Close this page", visible=False)
        self._button.on_click(self._stop_clicked)
        self._closer.on_click(lambda _: self._close.set())

    def _stop_clicked(self, _: Any) -> None:
        self._stop.set()
        self._button.label = "Stopping as soon as opacities have recovered"
        self._button.disabled = True

    def _figure(self) -> Any:
        import plotly.graph_objects as go

        iterations = [iteration for iteration, _ in self._points]
        decibels = [value for _, value in self._points]
        latest = f": {decibels[-1]:.2f} dB" if decibels else ""
        figure = go.Figure(go.Scatter(x=iterations, y=decibels, mode="lines+markers"))
        figure.update_layout(
            template=None,
            title=f"Held-out photos ({self._held_out}){latest}",
            xaxis_title="iteration",
            yaxis_title="PSNR (dB)",
            margin={"l": 55, "r": 10, "t": 40, "b": 45},
        )
        return figure
