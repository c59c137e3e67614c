"""Cameras: hand-computed pixels, both directions, on non-square pictures."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from scene.camera import Camera, load_camera, save_camera
from scene.errors import InputError

K = np.array([[100.0, 0, 41], [0, 120, 28], [0, 0, 1]])
FLOATS = st.floats(-20, 20)


def test_a_point_lands_on_the_hand_computed_pixel():
    pose = np.eye(4)
    pose[:3, 3] = 1, -2, 3
    camera = Camera(pose, K, 80, 60)
    # (2, 3, 7) is at (3, 1, 10): x = 41 + 100 * 0.3, y = 28 + 120 * 0.1
    pixel, depth = camera.project([2, 3, 7])
    np.testing.assert_allclose(pixel, [71, 40])
    assert depth == 10
    np.testing.assert_allclose(camera.center, [-1, 2, -3])
    np.testing.assert_allclose(camera.center + 10 * camera.rays([71, 40]), [2, 3, 7])
    assert np.isnan(camera.project([2, 3, -4])[0]).all()


@given(turn=st.tuples(FLOATS, FLOATS, FLOATS), move=st.tuples(FLOATS, FLOATS, FLOATS),
       pixel=st.tuples(st.floats(0, 80), st.floats(0, 60)), depth=st.floats(0.1, 50))  # fmt: skip
def test_rays_and_projection_are_inverse(turn, move, pixel, depth):
    pose = np.eye(4)
    pose[:3, :3] = Rotation.from_rotvec(turn).as_matrix()
    pose[:3, 3] = move
    camera = Camera(pose, K, 80, 60)
    found, z = camera.project(camera.center + depth * camera.rays(pixel))
    np.testing.assert_allclose(found, pixel, atol=1e-6)
    assert z == pytest.approx(depth)
    np.testing.assert_allclose(camera.world_from_camera @ pose, np.eye(4), atol=1e-9)


def test_look_at_puts_the_target_in_the_middle_and_up_on_top():
    camera = Camera.look_at([3, 1, 2], [0, 0, 0.5], [0, 0, 1], 80, 60, 40)
    np.testing.assert_allclose(camera.project([0, 0, 0.5])[0], [40, 30], atol=1e-9)
    above, _ = camera.project([0, 0, 0.7])
    assert above[1] < 30
    assert above[0] == pytest.approx(40)
    # right-handed: seen along -x, world +y is on the right
    along_x = Camera.look_at([5, 0, 0], [0, 0, 0], [0, 0, 1], 80, 60, 40)
    assert along_x.project([0, 1, 0])[0][0] > 40
    # the upper edge of the picture is half the field of view away
    edge = along_x.rays([40, 0])
    assert np.degrees(np.arctan2(edge @ [0, 0, 1], edge @ [-1, 0, 0])) == pytest.approx(20)


def test_resizing_keeps_what_is_seen():
    camera = Camera(np.eye(4), K, 80, 60)
    small = camera.resized(40, 20)
    np.testing.assert_allclose(small.K, [[50, 0, 20.5], [0, 40, 28 / 3], [0, 0, 1]])
    point = [0.2, 0.1, 2.0]
    np.testing.assert_allclose(small.project(point)[0], camera.project(point)[0] * [0.5, 1 / 3])
    assert (camera.fitted(640).width, camera.fitted(640).height) == (640, 480)
    np.testing.assert_allclose(camera.pixel_centers()[2, 5], [5.5, 2.5])
    assert camera.pixel_centers().shape == (60, 80, 2)


def test_files_come_back_exactly(tmp_path):
    camera = Camera.look_at([3, 1, 2], [0, 0, 0.5], [0, 0, 1], 80, 60, 40)
    save_camera(camera, tmp_path / "c.json")
    again = load_camera(tmp_path / "c.json")
    np.testing.assert_array_equal(again.camera_from_world, camera.camera_from_world)
    np.testing.assert_array_equal(again.K, camera.K)
    assert (again.width, again.height) == (80, 60)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"camera_from_world": np.diag([2, 2, 2, 1]).tolist()}, "scale, shear or a mirror"),
        ({"camera_from_world": np.diag([1, 1, -1, 1]).tolist()}, "mirror"),
        ({"camera_from_world": np.full((4, 4), np.nan).tolist()}, "finite 4x4"),
        ({"camera_from_world": [[1, 2], [3]]}, "c.json"),
        ({"K": [[0, 0, 1], [0, 1, 1], [0, 0, 1]]}, "focal lengths > 0"),
        ({"width": 0}, "wanted >= 1x1"),
        ({"width": None}, "c.json"),
    ],
)
def test_wrong_files_are_one_sentence(tmp_path, change, sentence):
    fields = Camera(np.eye(4), K, 80, 60).to_dict() | change
    (tmp_path / "c.json").write_text(json.dumps(fields))
    with pytest.raises(InputError, match=sentence):
        load_camera(tmp_path / "c.json")
    (tmp_path / "c.json").write_text('{"K": 1}')
    with pytest.raises(InputError, match="missing width, height, camera_from_world"):
        load_camera(tmp_path / "c.json")
