"""What all groups of commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from app.jobs import ErrorSink, Job
from scene.camera import Camera
from scene.gaussians import quaternions_to_matrices

if TYPE_CHECKING:
    from app.viewer import Viewer

VIEW_SIZE = (640, 480)
"""Size of a camera that is taken from a browser's view."""


class ActionGroup:
    """The commands of one tab."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        self._session = viewer.session

    @property
    def present(self) -> bool:
        """Whether the viewer only presents."""
        return self._viewer.present

    def start_job(self, name: str, work: Callable[[Job], None], on_error: ErrorSink) -> None:
        """Do long work on its own thread; its error shows at `on_error`."""
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
