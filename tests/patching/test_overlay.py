from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from patching.overlay import overlay_angle_deg, paste_overlay
from patching.patch import Patch
from patching.placement import Placement, place_by_numbers
from scene.camera import Camera

UP = (0.0, -1.0, 0.0)


def _moved(camera: Camera, rotation: np.ndarray, center) -> Camera:  # type: ignore[no-untyped-def]
    """rotation: extra world_from_camera turn in camera axes."""
    pose = np.eye(4)
    pose[:3, :3] = rotation.T @ camera.camera_from_world[:3, :3]
    pose[:3, 3] = -pose[:3, :3] @ np.asarray(center, float)
    return replace(camera, camera_from_world=pose)


def _box(picture: np.ndarray) -> tuple[int, int, int, int]:
    rows, columns = np.nonzero(picture.max(axis=2) > 0.5)
    return columns.min(), rows.min(), columns.max(), rows.max()


def test_at_the_anchor_it_equals_the_paste(placed: Placement, stripes: Patch) -> None:
    black = np.zeros((120, 160, 3), np.float32)
    out = paste_overlay(black, placed.camera, placed, stripes)
    # 27 x 18 px about (87, 56.5): see test_placement
    np.testing.assert_allclose(out[50, 77], [1, 0, 0], atol=1e-5)
    np.testing.assert_allclose(out[62, 97], [0, 0, 1], atol=1e-5)
    assert out.sum() == pytest.approx(27 * 18 * (1 + 1 + 1 + 2) / 4, rel=0.02)


def test_half_as_far_is_twice_as_large(placed: Placement, stripes: Patch) -> None:
    camera = _moved(placed.camera, np.eye(3), (0.1, -0.05, 2.0))
    out = paste_overlay(np.zeros((120, 160, 3), np.float32), camera, placed, stripes)
    # straight ahead at z = 2: centre (84, 58), 54 x 36 px
    assert _box(out) == (57, 40, 110, 75)


def test_oblique_view_is_not_foreshortened(placed: Placement, stripes: Patch) -> None:
    camera = Camera.look_at((3.5, -0.05, 2.0), (0.1, -0.05, 4.0), UP, 160, 120, 53.13)
    out = paste_overlay(np.zeros((120, 160, 3), np.float32), camera, placed, stripes)
    x0, y0, x1, y1 = _box(out)
    assert (x1 - x0 + 1) / (y1 - y0 + 1) == pytest.approx(1.5, abs=0.1)


def test_roll_turns_it_the_other_way(placed: Placement) -> None:
    roll = Rotation.from_rotvec(np.radians(20) * np.array([0, 0, 1])).as_matrix()
    camera = _moved(placed.camera, roll, (0, 0, 0))
    # the camera turns clockwise, so what it sees turns counter-clockwise
    assert overlay_angle_deg(camera, placed) == pytest.approx(-20, abs=1e-6)
    yaw = Rotation.from_rotvec(np.radians(25) * np.array([0, 1, 0])).as_matrix()
    assert overlay_angle_deg(_moved(placed.camera, yaw, (0, 0, 0)), placed) == pytest.approx(0)


def test_in_plane_angle_is_kept(front_camera: Camera) -> None:
    turned = place_by_numbers((0, 0, 4), (0, 0, -1), 1, 1, front_camera, UP, in_plane_deg=30)
    assert overlay_angle_deg(front_camera, turned) == pytest.approx(30, abs=1e-6)


def test_nothing_hides_it_and_behind_it_vanishes(placed: Placement, stripes: Patch) -> None:
    white = np.ones((120, 160, 3), np.float32)
    back = Rotation.from_rotvec(np.pi * np.array([0, 1, 0])).as_matrix()
    camera = _moved(placed.camera, back, (0, 0, 0))
    np.testing.assert_array_equal(paste_overlay(white, camera, placed, stripes), white)
    far_side = _moved(
        placed.camera, back, (0.1, -0.05, 8.0)
    )  # behind the wall: pasted all the same
    assert (paste_overlay(white, far_side, placed, stripes) != white).any()


def test_partly_outside_the_picture(placed: Placement, stripes: Patch) -> None:
    camera = _moved(placed.camera, np.eye(3), (2.6, -0.05, 0.0))
    out = paste_overlay(np.zeros((120, 160, 3), np.float32), camera, placed, stripes)
    # centre at x = 84 - 120 * 2.5 / 4 = 9, so 4.5 px of its 27 are cut off
    assert out[:, 0].max() > 0.5 and _box(out)[2] == pytest.approx(22, abs=1)
