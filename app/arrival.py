"""Sees to it that a browser that comes looks at the scene.

viser's page takes over the server's first camera as soon as one part of it has come (say the
position) and never again; on a busy machine the other parts come a moment later, and the page then
looks past everything. So whoever comes is watched for a while.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from scene.camera import Camera
from scene.gaussians import quaternions_to_matrices

WATCHED_S = 10.0
STEP_S = 0.4
"""Between two looks; a browser is given so long to carry out a flight."""
MOST_FLIGHTS = 5
SAME_PLACE = 1e-3
"""Of the distance looked at."""
SAME_TURN = 1e-2
"""Largest difference of two rotation matrices."""


def watch_arrival(
    view: Any,
    first: Callable[[], tuple[Camera, float]],
    fly: Callable[[], None],
    on_its_own: Callable[[], bool],
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Fly a browser to the first camera until it has been there once; returns how often.

    After that only a camera that stands there and looks elsewhere, which nobody steers to so soon,
    is put right. Returns when the browser may be left alone.

    view: viser's handle of its camera. first: the camera to start at and the distance it looks at,
    world units. on_its_own: whether the browser is still here and nobody has flown it elsewhere.
    """
    arrived, flights = False, 0
    for _ in range(round(WATCHED_S / STEP_S)):
        if not on_its_own() or flights >= MOST_FLIGHTS:
            break
        camera, distance = first()
        there, right = _compare(view, camera, distance)
        arrived = arrived or right
        if not right and (there or not arrived):
            fly()
            flights += 1
        sleep(STEP_S)
    return flights


def _compare(view: Any, camera: Camera, distance: float) -> tuple[bool, bool]:
    """Whether a browser's camera stands where `camera` does, and whether it also looks so."""
    away = np.linalg.norm(np.asarray(view.position) - camera.center)
    turn = quaternions_to_matrices(np.asarray(view.wxyz, np.float32)[None])[0]
    turned = np.abs(turn - camera.camera_from_world[:3, :3].T).max()
    there = bool(away < SAME_PLACE * distance)
    return there, there and bool(turned < SAME_TURN)
