"""The target in a view: visible mask, box, whole silhouette, selection."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scene.camera import Camera
from scene.errors import InputError
from scene.gaussians import Gaussians
from scene.render.api import make_renderer
from scene.scene import CaptureCamera, Scene, TargetBox
from scene.target import (
    CaptureRing,
    TargetViewer,
    mask_box,
    select_from_anchor_box,
    select_in_box,
)

# Looks along +z from the origin; 100 px focal, so a length L at depth 4 is 25 L pixels.
CAMERA = Camera(np.eye(4), np.array([[100.0, 0, 64], [0, 100, 40], [0, 0, 1]]), 128, 80)


def plate(x0: float, x1: float, y0: float, y1: float, z: float, step: float = 0.02) -> Gaussians:
    """A dense opaque rectangle facing the camera."""
    x, y = np.meshgrid(np.arange(x0 + step / 2, x1, step), np.arange(y0 + step / 2, y1, step))
    n = x.size
    return Gaussians(
        np.stack([x.ravel(), y.ravel(), np.full(n, z)], 1),
        np.tile([1, 0, 0, 0], (n, 1)),
        np.tile([0.6 * step, 0.6 * step, 0.002], (n, 1)),
        np.full(n, 0.95),
        np.random.default_rng(0).normal(size=(n, 4, 3)),
    )


# 30 x 20 px at (44..74, 30..50); each edge draws half a pixel wider, by the Gaussians' own width and
# the low-pass, so that 31 x 21 to 32 x 22 pixels are over one half
TARGET = plate(-0.8, 0.4, -0.4, 0.4, 4.0)
AREA = 31.5 * 21.5
ROWS = np.arange(len(TARGET))


def test_alone_the_mask_is_the_silhouette():
    scene = Gaussians.concatenate([TARGET, plate(-3, 3, -3, 3, 8.0, 0.1)])
    view = TargetViewer(scene, ROWS, backend="cpu").view(CAMERA)
    assert view.box is not None
    np.testing.assert_allclose(view.box, [44, 30, 74, 50], atol=1)
    assert view.visible_px == pytest.approx(AREA, rel=0.05)
    assert view.silhouette_px == pytest.approx(view.visible_px, rel=0.02)
    assert view.visible_share == pytest.approx(1, abs=0.02)
    assert view.mask.sum() == view.visible_px


def test_an_occluder_hides_its_part_but_not_the_silhouette():
    # covers x > -0.2 at depth 2, that is the pixels right of 54: a third of the target is left
    scene = Gaussians.concatenate([TARGET, plate(-0.2, 0.6, -0.4, 0.4, 2.0, 0.01)])
    view = TargetViewer(scene, ROWS, backend="cpu").view(CAMERA)
    assert view.box is not None
    np.testing.assert_allclose(view.box, [44, 30, 54, 50], atol=1)
    assert view.visible_share == pytest.approx(1 / 3, abs=0.04)


def test_out_of_the_frame_the_silhouette_stays_whole():
    K = CAMERA.K.copy()
    K[0, 2] -= 64  # the target moves 64 px to the left: 20 of its 30 columns leave the picture
    K[1, 2] += 35  # and 35 px down: 65..85 of 80 rows
    camera = replace(CAMERA, K=K)
    view = TargetViewer(TARGET, ROWS, backend="cpu").view(camera)
    assert view.box is not None
    np.testing.assert_allclose(view.box, [0, 65, 10, 80], atol=1)
    assert view.silhouette_px == pytest.approx(AREA, rel=0.05)
    assert view.visible_share == pytest.approx(10.5 * 15.5 / AREA, abs=0.03)


def test_wholly_out_of_the_frame_or_behind():
    K = CAMERA.K.copy()
    K[0, 2] += 200
    view = TargetViewer(TARGET, ROWS, backend="cpu").view(replace(CAMERA, K=K))
    assert (view.visible_px, view.box) == (0, None)
    assert view.silhouette_px == pytest.approx(AREA, rel=0.05)
    turned = Camera(np.diag([-1.0, 1, -1, 1]), CAMERA.K, 128, 80)
    view = TargetViewer(TARGET, ROWS, backend="cpu").view(turned)
    assert (view.visible_px, view.silhouette_px, view.box, view.visible_share) == (0, 0, None, 0)


def test_a_huge_close_target_is_counted_at_a_bounded_size():
    camera = Camera(np.eye(4), np.array([[2000.0, 0, 64], [0, 2000, 40], [0, 0, 1]]), 128, 80)
    view = TargetViewer(TARGET, ROWS, backend="cpu").view(camera)
    # 600 x 400 px, of which all 128 x 80 of the picture are covered
    assert view.visible_px == 128 * 80
    assert view.silhouette_px == pytest.approx(600 * 400, rel=0.06)


def test_a_shared_renderer_gives_the_same_view():
    scene = Gaussians.concatenate([TARGET, plate(-0.2, 0.6, -0.4, 0.4, 2.0, 0.01)])
    shared = TargetViewer(scene, ROWS, renderer=make_renderer(scene, "cpu")).view(CAMERA)
    own = TargetViewer(scene, ROWS, backend="cpu").view(CAMERA)
    np.testing.assert_array_equal(shared.mask, own.mask)
    assert shared.silhouette_px == own.silhouette_px


def test_mask_box_is_tight_with_exclusive_ends():
    mask = np.zeros((5, 9), dtype=bool)
    assert mask_box(mask) is None
    mask[2, 3] = mask[4, 6] = True
    assert mask_box(mask) == (3, 2, 7, 5)


def test_selection_by_turned_box():
    points = np.array([[0, 0, 0], [1.5, 0, 0], [0, 1.5, 0], [1, 1, 0], [0, 0, 0.6]])
    g = Gaussians(
        points, np.tile([1, 0, 0, 0], (5, 1)), np.ones((5, 3)), np.ones(5), np.zeros((5, 1, 3))
    )
    straight = TargetBox(np.zeros(3), np.eye(3), np.array([2.0, 0.5, 0.5]))
    assert select_in_box(g, straight).indices.tolist() == [0, 1]
    c = 0.5**0.5
    turned = TargetBox(
        np.zeros(3), np.array([[c, c, 0], [-c, c, 0], [0, 0, 1]]), np.array([2.0, 0.5, 0.5])
    )
    assert select_in_box(g, turned).indices.tolist() == [0, 3]
    with pytest.raises(InputError, match="holds no Gaussian"):
        select_in_box(g, TargetBox(np.full(3, 99.0), np.eye(3), np.ones(3)))


def test_selection_by_the_anchor_box_takes_the_front_thing_and_its_back():
    back = plate(-0.7, 0.3, -0.3, 0.3, 4.3)
    wall = plate(-3, 3, -2, 2, 6.0, 0.05)
    speck = plate(-0.2, -0.15, -0.1, -0.05, 1.0)
    scene = Gaussians.concatenate([wall, TARGET, back, speck])
    depth = (
        make_renderer(scene, "cpu").render(CAMERA, outputs=frozenset({"median_depth"})).median_depth
    )
    found = select_from_anchor_box(scene, CAMERA, (43, 29, 75, 51), depth).indices
    n, m, k = len(wall), len(TARGET), len(back)
    np.testing.assert_array_equal(found, np.arange(n, n + m + k))
    # a wall only half a target's width behind is told apart, though within 10 % of the depth
    near_wall = plate(-3, 3, -2, 2, 4.38, 0.05)
    scene = Gaussians.concatenate([near_wall, TARGET])
    depth = (
        make_renderer(scene, "cpu").render(CAMERA, outputs=frozenset({"median_depth"})).median_depth
    )
    found = select_from_anchor_box(scene, CAMERA, (43, 29, 75, 51), depth).indices
    np.testing.assert_array_equal(found, len(near_wall) + np.arange(m))
    with pytest.raises(InputError, match="nothing solid"):
        select_from_anchor_box(scene, CAMERA, (43, 29, 75, 51), np.zeros((80, 128)))


def scene_with(*cameras: Camera) -> Scene:
    entries = tuple(CaptureCamera(f"c{i}", camera) for i, camera in enumerate(cameras))
    box = TargetBox(np.zeros(3), np.eye(3), np.ones(3), "sign")
    return Scene(TARGET, "test", cameras=entries, target=box)


def looking(eye) -> Camera:
    return Camera.look_at(eye, [0, 0, 0], [0, -1, 0], 64, 48, 40)


def test_nearest_capture_by_angle_and_distance():
    scene = scene_with(looking([0, 0, -4]), looking([4, 0, 0]))
    near = CaptureRing(scene).nearest(looking([0, 0, -6]))
    assert near is not None
    assert near.name == "c0"
    assert near.distance_ratio == pytest.approx(1.5)
    assert near.angle_deg == pytest.approx(0, abs=1e-5)
    aside = looking([4 * np.cos(np.radians(20)), 0, -4 * np.sin(np.radians(20))])
    near = CaptureRing(scene).nearest(aside)
    assert near is not None
    assert (near.name, round(near.angle_deg, 6), round(near.distance_ratio, 6)) == ("c1", 20, 1)


def test_a_capture_within_both_limits_comes_before_a_nearer_one_that_is_not():
    def turned(degrees: float, distance: float) -> Camera:
        angle = np.radians(degrees)
        return looking([distance * np.sin(angle), 0, -distance * np.cos(angle)])

    # c0 costs 31, c1 25 + 30 log2(1.875) = 52; only c1 is within 30 degrees and twice the distance
    near = CaptureRing(scene_with(turned(31, 6), turned(25, 3.2))).nearest(turned(0, 6))
    assert near is not None
    assert (near.name, round(near.angle_deg, 6), round(near.distance_ratio, 6)) == ("c1", 25, 1.875)


def test_captures_that_do_not_see_the_target_do_not_count():
    away = Camera.look_at([0, 0, -4], [0, 0, -9], [0, -1, 0], 64, 48, 40)
    ring = CaptureRing(scene_with(away, looking([4, 0, 0])))
    near = ring.nearest(looking([0, 0, -4]))
    assert near is not None
    assert (near.name, round(near.angle_deg, 6)) == ("c1", 90)
    assert CaptureRing(scene_with()).nearest(looking([0, 0, -4])) is None
