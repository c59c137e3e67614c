"""Dome markers stand where the conditions' cameras stand, and look where they look."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from app.client_markers import CLEARANCE, MARKER_SIZE, ClientMarkers, ViewFrustum
from app.dome import STATE_COLOR, beside, between, build_dome, marker_mesh
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


class _Node:
    """What viser's batched meshes are to us."""

    def __init__(self, **fields) -> None:
        self.__dict__.update(fields)
        self.removed = False

    def on_click(self, handler) -> None:
        self.click = handler

    def remove(self) -> None:
        self.removed = True


class _Client:
    """A browser: its scene keeps what was added to it."""

    def __init__(self, client_id: int, position) -> None:
        self.client_id = client_id
        self.camera = SimpleNamespace(position=np.asarray(position, float))
        self.scene = self
        self.nodes: list[_Node] = []
        self.frustums: list[_Node] = []

    def add_camera_frustum(self, name, **fields) -> _Node:
        self.frustums.append(_Node(name=name, **fields))
        return self.frustums[-1]

    def add_batched_meshes_simple(self, name, vertices, faces, **fields) -> _Node:
        self.nodes.append(_Node(name=name, vertices=vertices, **fields))
        return self.nodes[-1]


def _domes(*clients, clicked=lambda index, client: None):
    server = SimpleNamespace(clients=list(clients))
    server.get_clients = lambda: {c.client_id: c for c in server.clients}
    return server, ClientMarkers(server, clicked)


def _three(states=("works", "holds", "unscored")):
    conditions = [Condition(azimuth_deg=a) for a in (-40, 0, 40)]
    return build_dome(list(zip(conditions, states, strict=True)), ANCHOR, PIVOT, UP)


def test_a_marker_is_taken_away_only_for_the_browser_that_stands_in_it():
    dome = _three()
    there, away = _Client(1, dome.positions[1]), _Client(2, [50, 50, 50])
    _, domes = _domes(there, away)
    domes.show(dome, np.float32([1, 1, 0.5]), 3.0, PIVOT)
    (mine,), (other,) = there.nodes, away.nodes
    assert mine.batched_scales == pytest.approx([1, 1e-4, 0.5])
    assert other.batched_scales == pytest.approx([1, 1, 0.5])
    # they change places: each gets back what the other loses
    domes.make_way({1: [50, 50, 50], 2: dome.positions[2]})
    assert mine.batched_scales == pytest.approx([1, 1, 0.5])
    assert other.batched_scales == pytest.approx([1, 1, 1e-4])
    # just outside the clearance nothing is taken away
    reach = CLEARANCE * MARKER_SIZE * 3.0
    domes.make_way({2: dome.positions[2] + [0, 0, 1.01 * reach]})
    assert other.batched_scales == pytest.approx([1, 1, 0.5])


def test_browsers_that_come_later_get_the_dome_and_those_that_left_are_not_spoken_to():
    first, late = _Client(1, [50, 50, 50]), _Client(2, [50, 50, 50])
    server, domes = _domes(first)
    domes.show(_three(), np.ones(3, np.float32), 3.0, PIVOT)
    domes.set_visible(dome=False, view=True)
    server.clients.append(late)
    domes.welcome(late)
    domes.welcome(late)
    assert len(late.nodes) == 1 and not late.nodes[0].visible
    assert late.nodes[0].batched_positions == pytest.approx(_three().positions)
    domes.recolor(_three(("holds", "holds", "holds")))
    assert (first.nodes[0].batched_colors == late.nodes[0].batched_colors).all()
    server.clients.remove(first)
    domes.see_off(first)
    domes.show(_three(), np.ones(3, np.float32), 3.0, PIVOT)
    assert not first.nodes[0].removed and len(first.nodes) == 1
    assert late.nodes[0].removed and len(late.nodes) == 2


def test_a_click_names_the_marker_and_its_browser():
    clicks = []
    here = _Client(7, [0, 0, 0])
    _, domes = _domes(here, clicked=lambda index, client: clicks.append((index, client)))
    domes.show(_three(), np.ones(3, np.float32), 3.0, PIVOT)
    here.nodes[0].click(SimpleNamespace(instance_index=2, client=here))
    here.nodes[0].click(SimpleNamespace(instance_index=None, client=here))
    assert clicks == [(2, here)]


def test_the_sliders_view_covers_nobody_who_stands_at_it():
    """Its picture filled the viewport of whoever had flown to it: no splats, outline or dome."""
    there, away = _Client(1, [1, 2, 3]), _Client(2, [9, 9, 9])
    server, markers = _domes(there, away)
    markers.show(_three(), np.ones(3, np.float32), 3.0, PIVOT)
    markers.show_view(ViewFrustum(np.array([1.0, 2.0, 3.05]), {"fov": 0.5}))
    assert not there.frustums[-1].visible and away.frustums[-1].visible
    markers.make_way({1: [5, 5, 5], 2: [1, 2, 3]})
    assert there.frustums[-1].visible and not away.frustums[-1].visible
    # hidden for all while a click is waited for, and back for whom it does not cover
    there.camera.position, away.camera.position = np.array([5.0, 5, 5]), np.array([1.0, 2, 3])
    markers.set_visible(dome=False, view=False)
    assert not there.frustums[-1].visible and not away.frustums[-1].visible
    markers.set_visible(dome=True, view=True)
    assert there.frustums[-1].visible and not away.frustums[-1].visible
    late = _Client(3, [1, 2, 3])
    server.clients.append(late)
    markers.welcome(late)
    assert len(late.frustums) == 1 and not late.frustums[0].visible


def test_from_a_marker_nothing_hides_the_patch():
    """A nearer camera on the same ray stood right before the sign that one had come to see."""
    conditions = [Condition(azimuth_deg=a, radius=r) for a in (0, 15) for r in (0.6, 1.0, 1.6)]
    dome = build_dome([(c, "works") for c in conditions], ANCHOR, PIVOT, UP)
    here = _Client(1, dome.positions[1])
    _, markers = _domes(here)
    markers.show(dome, np.ones(6, np.float32), 3.0, PIVOT)
    (node,) = here.nodes
    # gone: where one stands, and the nearer one; the farther one and the other ray stay
    assert (node.batched_scales < 0.5).tolist() == [True, True, False, False, False, False]
    # from anywhere else all are there to be clicked, on the line of sight or not
    markers.make_way({1: 0.5 * (dome.positions[0] + dome.positions[1])})
    assert (node.batched_scales > 0.5).all()


def test_between_is_the_distance_to_the_stretch_not_the_line():
    positions = np.array([[0, 1, 0.2], [0, -1, 0], [0, 3, 0], [0.5, 1, 0]], np.float32)
    assert between(positions, [0, 0, 0], [0, 2, 0], 0.3).tolist() == [True, False, False, False]
    assert between(positions, [0, 1, 0], [0, 1, 0], 0.3).tolist() == [True, False, False, False]
