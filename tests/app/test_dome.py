"""Dome markers stand where the conditions' cameras stand, and look where they look."""

from __future__ import annotations

import numpy as np
import pytest

from app.dome import STATE_COLOR, beside, build_dome, marker_mesh
from envelope.condition import AXES, Condition, condition_camera
from scene.camera import Camera
from scene.gaussians import quaternions_to_matrices

PIVOT = np.array([0.0, 3.0, 2.0])
UP = (0.0, 0.0, 1.0)
ANCHOR = Camera.look_at([0.0, 0.0, 1.8], PIVOT, UP, 640, 480, 40)


def test_markers_are_the_conditions_cameras():
    cells = [
        (Condition(azimuth_deg=a, radius=r, yaw_deg=5), "works")
        for a in AXES["azimuth_deg"].grid
        for r in AXES["radius"].grid
    ]
    dome = build_dome(cells, ANCHOR, PIVOT, UP)
    assert len(dome) == 63
    forward = quaternions_to_matrices(dome.wxyzs)[:, :, 2]
    for i, (condition, _) in enumerate(cells):
        camera = condition_camera(condition, ANCHOR, PIVOT, UP)
        assert dome.positions[i] == pytest.approx(camera.center, abs=1e-5)
        assert forward[i] == pytest.approx(camera.forward, abs=1e-5)


def test_the_anchor_cell_is_the_anchor_and_a_right_hand_orbit_goes_right():
    cells = [(Condition(), "holds"), (Condition(azimuth_deg=90), "unscored")]
    dome = build_dome(cells, ANCHOR, PIVOT, UP)
    assert dome.positions[0] == pytest.approx(ANCHOR.center, abs=1e-6)
    # from (0, 0) looking at (0, 3), the camera's right is +x: a quarter turn ends at (3, 3)
    assert dome.positions[1] == pytest.approx([3.0, 3.0, 1.8], abs=1e-5)
    assert dome.conditions == (Condition(), Condition(azimuth_deg=90))


def test_colors_follow_the_states():
    states = ["works", "holds", "unobservable", "unscored"]
    dome = build_dome([(Condition(), s) for s in states], ANCHOR, PIVOT, UP)
    assert [tuple(c) for c in dome.colors] == [STATE_COLOR[s] for s in states]


def test_an_empty_dome_has_no_markers():
    dome = build_dome([], ANCHOR, PIVOT, UP)
    assert len(dome) == 0 and dome.positions.shape == (0, 3) and dome.colors.shape == (0, 3)


def test_marker_faces_point_outward_and_open_forward():
    vertices, faces = marker_mesh(2.0)
    middle = vertices.mean(axis=0)
    for face in faces:
        a, b, c = vertices[face]
        assert np.cross(b - a, c - a) @ (a - middle) > 0
    assert vertices[0].tolist() == [0, 0, 0] and (vertices[1:, 2] == 1).all()
    assert np.ptp(vertices[:, 0]) == 2 * np.ptp(vertices[:, 1])


def test_markers_beside_any_browsers_camera_are_told():
    positions = np.array([[0, 0, 0], [1, 0, 0], [0, 2, 0]], np.float32)
    assert beside(positions, [[0.2, 0, 0]], 0.3).tolist() == [True, False, False]
    assert beside(positions, [[0.9, 0, 0.1], [0, 2, 0.2]], 0.3).tolist() == [False, True, True]
    assert beside(positions, [], 0.3).tolist() == [False, False, False]
    assert beside(positions[:0], [[0, 0, 0]], 0.3).shape == (0,)
