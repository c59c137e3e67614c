from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patching.placement import (
    Placement,
    footprint,
    load_placement,
    place_at_pixel,
    place_by_numbers,
    save_placement,
)
from patching.raycast import cast_patch, visible_rays
from scene.camera import Camera
from scene.errors import InputError
from scene.render.api import Rendered
from scene.surface import Plane

UP = (0.0, -1.0, 0.0)


def test_corners_upright(placed: Placement) -> None:
    # centre (0.1, -0.05, 4), width 0.9 along +x, height 0.6 along +y (down)
    wanted = [[-0.35, -0.35, 4], [0.55, -0.35, 4], [0.55, 0.25, 4], [-0.35, 0.25, 4]]
    np.testing.assert_allclose(placed.corners(), wanted, atol=1e-9)
    np.testing.assert_allclose(placed.outward, [0, 0, -1], atol=1e-12)
    np.testing.assert_allclose(np.cross(placed.right, placed.down), [0, 0, 1], atol=1e-12)


def test_in_plane_angle_turns_clockwise_in_the_picture(front_camera: Camera) -> None:
    turned = place_by_numbers((0, 0, 4), (0, 0, -1), 1.0, 1.0, front_camera, UP, in_plane_deg=90)
    pixels, _ = front_camera.project(turned.corners())
    # a quarter turn clockwise brings the patch's top left corner to the top right
    center, _ = front_camera.project([0, 0, 4])
    assert pixels[0, 0] > center[0] and pixels[0, 1] < center[1]


def test_normal_of_wrong_sign_and_length_is_turned_to_the_camera(front_camera: Camera) -> None:
    placement = place_by_numbers((0, 0, 4), (0, 0, 7), 1.0, 1.0, front_camera, UP)
    np.testing.assert_allclose(placement.outward, [0, 0, -1], atol=1e-12)


def test_floor_patch_stands_upright_by_the_camera(front_camera: Camera) -> None:
    floor = place_by_numbers((0, 1, 4), (0, -1, 0), 1.0, 1.0, front_camera, UP)
    # its lower edge is the one near to the camera
    np.testing.assert_allclose(floor.down, [0, 0, -1], atol=1e-9)


def test_uv_round_trip(placed: Placement) -> None:
    uv = np.array([[0.0, 0.0], [1.0, 0.0], [0.25, 0.75]])
    np.testing.assert_allclose(placed.to_uv(placed.from_uv(uv)), uv, atol=1e-12)


def test_homography_equals_projection(placed: Placement, front_camera: Camera) -> None:
    uv = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.3, 0.8]])
    homogeneous = np.concatenate([uv, np.ones((4, 1))], axis=1) @ placed.homography(front_camera).T
    wanted, _ = front_camera.project(placed.from_uv(uv))
    np.testing.assert_allclose(homogeneous[:, :2] / homogeneous[:, 2:], wanted, atol=1e-9)


def test_footprint_area_and_incidence_by_hand(placed: Placement, front_camera: Camera) -> None:
    view = footprint(placed, front_camera, None)
    # f / z = 30 px per unit: 27 x 18 px
    assert view.coverage.sum() == pytest.approx(27 * 18, rel=0.01)
    # x from 84 - 10.5 to 84 + 16.5, y from 58 - 10.5 to 58 + 7.5
    rows, columns = np.nonzero(view.coverage > 0.9)
    assert (columns.min(), columns.max()) == (74, 99)
    assert (rows.min(), rows.max()) == (48, 64)
    # the camera is 4 units ahead and sqrt(0.1^2 + 0.05^2) aside
    assert view.incidence_deg == pytest.approx(np.degrees(np.arctan2(np.hypot(0.1, 0.05), 4)))


def test_footprint_from_behind_is_empty(placed: Placement) -> None:
    behind = Camera.look_at((0.1, 0, 8), (0.1, 0, 4), UP, 160, 120, 45)
    view = footprint(placed, behind, None)
    assert view.coverage.max() == 0 and view.incidence_deg > 90


def test_occluder_hides_half(placed: Placement, front_camera: Camera) -> None:
    depth = np.full((120, 160), 4.0, np.float32)
    depth[:, :87] = 2.0  # something nearer over the patch's left half (patch centre at x = 87)
    view = footprint(placed, front_camera, depth)
    columns = np.nonzero(view.visible)[1]
    assert columns.min() == 87 and columns.max() in (99, 100)  # the edge halves pixel 100
    assert view.coverage[50, 80] == 1 and not view.visible[50, 80]


def test_surface_noise_does_not_hide_the_patch(placed: Placement, front_camera: Camera) -> None:
    depth = np.full((120, 160), 3.9, np.float32)  # 2.5 % before the patch's plane
    assert footprint(placed, front_camera, depth).visible.sum() >= 26 * 17


class _FlatRenderer:
    """Stands for a renderer of a tilted wall: z = 4 + x / 2."""

    def render(self, camera, background=(0, 0, 0), outputs=frozenset()):  # type: ignore[no-untyped-def]
        plane = Plane(np.array([0, 0, 4.0]), np.array([0.5, 0, -1.0]))
        points, _ = plane.intersect(camera.center, camera.rays(camera.pixel_centers()))
        depth = ((points - camera.center) @ camera.forward).astype(np.float32)
        return Rendered(np.zeros((*depth.shape, 3), np.float32), np.ones_like(depth), depth, depth)


def test_click_on_a_tilted_wall(front_camera: Camera, stripes) -> None:  # type: ignore[no-untyped-def]
    placement = place_at_pixel(_FlatRenderer(), front_camera, (100.5, 50.5), stripes, 0.9, UP)
    pixel, _ = front_camera.project(placement.center)
    np.testing.assert_allclose(pixel, [100.5, 50.5], atol=1e-6)
    # lifted by 4 % of the fitted square's size, which is the patch's: 0.9 x 0.6
    wall = Plane(np.array([0, 0, 4.0]), np.array([0.5, 0, -1.0]))
    assert wall.distance(placement.center) == pytest.approx(0.04 * np.sqrt(0.54), rel=0.06)
    np.testing.assert_allclose(placement.outward, np.array([0.5, 0, -1]) / np.sqrt(1.25), atol=1e-4)
    assert placement.height == pytest.approx(0.6)


def test_click_outside_or_on_nothing_is_refused(front_camera: Camera, stripes) -> None:  # type: ignore[no-untyped-def]
    class Empty:
        def render(self, camera, background=(0, 0, 0), outputs=frozenset()):  # type: ignore[no-untyped-def]
            zero = np.zeros((camera.height, camera.width), np.float32)
            return Rendered(np.zeros((*zero.shape, 3), np.float32), zero, zero, zero)

    with pytest.raises(InputError, match="inside"):
        place_at_pixel(Empty(), front_camera, (160, 5), stripes, 0.9, UP)
    with pytest.raises(InputError, match="nothing solid"):
        place_at_pixel(Empty(), front_camera, (20, 20), stripes, 0.9, UP)


finite = st.floats(-5, 5)


@given(
    center=st.tuples(finite, finite, st.floats(1, 9)),
    normal=st.tuples(finite, finite, st.floats(0.1, 3)),
    width=st.floats(1e-3, 50),
    angle=st.floats(-180, 180),
)
def test_json_round_trip(center, normal, width, angle) -> None:  # type: ignore[no-untyped-def]
    camera = Camera.look_at((0.5, 0.2, -3), (0, 0, 5), UP, 64, 48, 50)
    placement = place_by_numbers(center, normal, width, 1.5, camera, UP, angle)
    again = Placement.from_dict(json.loads(json.dumps(placement.to_dict())))
    for name in ("center", "right", "down"):
        np.testing.assert_array_equal(getattr(again, name), getattr(placement, name))
    assert (again.width, again.height) == (placement.width, placement.height)
    # a plane normalises its normal again on load: the last bit may differ
    np.testing.assert_allclose(again.corners(), placement.corners(), atol=1e-12 * (1 + width))
    np.testing.assert_array_equal(again.camera.K, camera.K)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "other"}, "placement file"),
        ({"version": 9}, "version 1"),
        ({"width": -1}, "size > 0"),
        ({"right": [1, 0]}, "3 finite numbers"),
        ({"down": [1, 0, 0]}, "perpendicular"),
        ({"surface": {"kind": "sphere"}}, "surface kind"),
        ({"surface": {"kind": "plane", "point": [0, 0, 1]}}, "normal"),
        ({"camera": {}}, "camera"),
    ],
)
def test_bad_files_are_refused_in_one_sentence(placed, tmp_path, change, words) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "p.json"
    path.write_text(json.dumps({**placed.to_dict(), **change}))
    with pytest.raises(InputError, match=words) as caught:
        load_placement(path)
    assert str(path) in str(caught.value)


def test_file_round_trip_and_missing_file(placed: Placement, tmp_path) -> None:  # type: ignore[no-untyped-def]
    save_placement(placed, tmp_path / "deep" / "p.json")
    assert load_placement(tmp_path / "deep" / "p.json").width == placed.width
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["p.json"]
    with pytest.raises(InputError, match="no such"):
        load_placement(tmp_path / "none.json")


def test_footprint_of_a_plane_equals_its_rays(front_camera: Camera) -> None:
    rng = np.random.default_rng(3)
    seen = 0
    for number in range(40):
        normal = rng.normal(size=3)
        placed = place_by_numbers(
            rng.uniform(-0.5, 0.5, 3) + np.array([0, 0, 2]), normal, rng.uniform(0.3, 3), 0.7, front_camera,
            UP, rng.uniform(0, 360), surface=None,
        )  # fmt: skip
        if number % 4 == 0:  # the centre beside its plane, as a file may have it
            off = Plane(placed.center + 0.1 * placed.outward, placed.outward)
            placed = replace(placed, surface=off)
        camera = Camera.look_at(
            rng.uniform(-1, 1, 3), placed.center + rng.normal(size=3) * 0.2, UP, 160, 120, 70
        )
        depth = rng.uniform(0.5, 5, (120, 160)).astype(np.float32)
        depth[:40] = 0
        view, rays = footprint(placed, camera, depth), cast_patch(placed, camera)
        coverage, visible = np.zeros((120, 160), np.float32), np.zeros((120, 160), bool)
        if rays is not None:
            where = (rays.rows, rays.columns)
            coverage[where] = rays.pooled(rays.inside.astype(np.float32))
            shown = visible_rays(rays, placed, depth)
            visible[where] = rays.pooled(shown.astype(np.float32)) >= 0.5
        np.testing.assert_array_equal(view.coverage, coverage)
        np.testing.assert_array_equal(view.visible, visible)
        seen += visible.any()
    assert seen >= 10
