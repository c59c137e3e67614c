"""Browsers that come with a camera that took over only a part of the first one."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from app.arrival import MOST_FLIGHTS, STEP_S, WATCHED_S, watch_arrival
from scene.camera import Camera
from scene.gaussians import matrices_to_quaternions

FIRST = Camera.look_at([1.0, -4.0, 2.0], [0.5, 0.0, 1.5], [0, 0, 1], 320, 200, 50.0)
OTHER = Camera.look_at([1.0, -4.0, 2.0], [0.0, 0.0, 0.0], [0, 0, 1], 320, 200, 50.0)
AWAY = Camera.look_at([3.0, 3.0, 3.0], [0.0, 0.0, 0.0], [0, 0, 1], 320, 200, 50.0)
LOOKS = round(WATCHED_S / STEP_S)


def _set(view, camera: Camera) -> None:
    view.position = camera.center
    view.wxyz = matrices_to_quaternions(camera.camera_from_world[:3, :3].T[None])[0]


def _watch(start: Camera, moves=(), obeys=True, own=lambda: True):
    """(flights, looks, view): `moves` are (look, camera) that the browser does by itself."""
    view, looks = SimpleNamespace(), []
    _set(view, start)

    def sleep(_) -> None:
        looks.append(np.array(view.position))
        for at, camera in moves:
            if at == len(looks):
                _set(view, camera)

    flights = watch_arrival(
        view, lambda: (FIRST, 4.0), lambda: obeys and _set(view, FIRST), own, sleep
    )
    return flights, len(looks), view


def test_a_browser_that_looks_right_is_left_alone_and_may_go_where_it_likes():
    assert _watch(FIRST)[0] == 0
    flights, _, view = _watch(FIRST, [(3, AWAY)])
    assert flights == 0 and np.allclose(view.position, AWAY.center)


def test_one_that_looks_past_the_scene_is_flown_there_once():
    for start in (OTHER, AWAY):
        flights, _, view = _watch(start)
        assert flights == 1 and np.allclose(view.position, FIRST.center)


def test_parts_of_the_first_camera_that_come_late_do_not_turn_it_away():
    flights, _, view = _watch(AWAY, [(4, OTHER)])
    assert flights == 2
    rotation = matrices_to_quaternions(FIRST.camera_from_world[:3, :3].T[None])[0]
    assert np.allclose(view.wxyz, rotation)


def test_one_that_does_not_obey_or_is_led_elsewhere_is_given_up():
    flights, looks, _ = _watch(AWAY, obeys=False)
    assert flights == MOST_FLIGHTS and looks == MOST_FLIGHTS < LOOKS
    assert _watch(AWAY, own=lambda: False)[:2] == (0, 0)
