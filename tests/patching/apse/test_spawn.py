from __future__ import annotations

import numpy as np
import pytest

from patching.anchor import Anchor
from patching.apse.settings import ApseSettings
from patching.apse.spawn import spawn_new
from scene.camera import Camera
from scene.surface import Plane


def _anchor(camera: Camera, plane: Plane) -> Anchor:
    mask = np.zeros((120, 160), bool)
    mask[50:65, 78:93] = True  # 15 x 15 px: 10 x 10 strides of 1.5
    image = np.zeros((120, 160, 3), np.float32)
    image[..., 0] = np.arange(160)[None, :] / 160
    image[..., 1] = np.arange(120)[:, None] / 120
    return Anchor(camera, image, mask, image, plane)


FRONTAL = Plane(np.array([0, 0, 4.0]), np.array([0, 0, -1.0]))


def test_fronto_parallel_by_hand(front_camera: Camera) -> None:
    settings = ApseSettings.of("inspector", layer_strides=0.0, edge_sigma=1.0)
    spawn = spawn_new(_anchor(front_camera, FRONTAL), 4.0, settings)
    assert len(spawn.centers) == 100
    # one pixel is 4 / 120 world units there
    assert spawn.stride == pytest.approx(1.5 * 4 / 120)
    sigma = 0.6 * 1.5 * 4 / 120
    np.testing.assert_allclose(
        spawn.scales, np.tile([sigma, sigma, 0.1 * sigma], (100, 1)), rtol=1e-6
    )
    # the first is half a stride inside the mask's corner (78, 50)
    np.testing.assert_allclose(spawn.pixels[0], [78.75, 50.75])
    np.testing.assert_allclose(spawn.centers[0], [(78.75 - 84) / 30, (50.75 - 58) / 30, 4.0])
    # color: linear in the pixel's centre
    np.testing.assert_allclose(
        spawn.colors[0], [(78.75 - 0.5) / 160, (50.75 - 0.5) / 120, 0], atol=1e-6
    )
    np.testing.assert_allclose(spawn.frames[..., 2], np.tile([0, 0, -1.0], (100, 1)), atol=1e-12)
    np.testing.assert_allclose(np.linalg.det(spawn.frames), 1.0)


def test_gaussians_at_the_edge_are_smaller_in_plane(front_camera: Camera) -> None:
    settings = ApseSettings.of("inspector", layer_strides=0.0)
    spawn = spawn_new(_anchor(front_camera, FRONTAL), 4.0, settings)
    sigma = 0.6 * 1.5 * 4 / 120
    # 10 x 10 of them; the outermost row all round is within a stride of the edge
    grid = spawn.scales.reshape(10, 10, 3)
    np.testing.assert_allclose(grid[1:-1, 1:-1, :2], sigma, rtol=1e-6)
    border = np.ones((10, 10), bool)
    border[1:-1, 1:-1] = False
    np.testing.assert_allclose(grid[border][:, :2], 0.7 * sigma, rtol=1e-6)
    np.testing.assert_allclose(grid[..., 2], 0.1 * sigma, rtol=1e-6)


def test_tilted_plane_stretches_along_the_tilt(front_camera: Camera) -> None:
    # turned 60 degrees about the vertical through (0, 0, 4)
    plane = Plane(np.array([0, 0, 4.0]), np.array([np.sin(np.radians(60)), 0, -0.5]))
    settings = ApseSettings.of("inspector", layer_strides=0.0)
    spawn = spawn_new(_anchor(front_camera, plane), 4.0, settings)
    center = np.argmin(np.abs(spawn.pixels - (84, 58)).sum(axis=1))
    sigma = 0.6 * 1.5 * 4 / 120
    # one pixel covers 1 / cos(60) = 2 times as much along the tilt, 1 across it
    assert spawn.scales[center, 0] == pytest.approx(2 * sigma, rel=0.05)
    assert spawn.scales[center, 1] == pytest.approx(sigma, rel=0.05)
    tilt = np.array([0.5, 0, np.sin(np.radians(60))])
    assert abs(spawn.frames[center, :, 0] @ tilt) == pytest.approx(1, abs=1e-3)


def test_layers_keep_every_pixel_and_spread_both_ways(front_camera: Camera) -> None:
    plane = Plane(np.array([0, 0, 4.0]), np.array([0.4, 0.2, -1.0]))
    anchor = _anchor(front_camera, plane)
    flat = spawn_new(anchor, 4.0, ApseSettings.of("inspector", layer_strides=0.0))
    spread = spawn_new(anchor, 4.0, ApseSettings.of("inspector", layer_strides=0.5))
    # along anchor rays: the picture at the anchor does not move
    np.testing.assert_allclose(
        *(front_camera.project(s.centers)[0] for s in (flat, spread)), atol=1e-9
    )
    heights = plane.distance(spread.centers) / spread.stride
    assert heights.min() == pytest.approx(-0.5) and heights.max() == pytest.approx(0.5)
    assert len(np.unique(heights.round(6))) == 16


def test_paper_offset_is_towards_the_camera(front_camera: Camera) -> None:
    spawn = spawn_new(_anchor(front_camera, FRONTAL), 4.0, ApseSettings.of("paper"))
    np.testing.assert_allclose(FRONTAL.distance(spawn.centers), 0.375 * 4 / 120, rtol=1e-9)


def test_as_gaussians(front_camera: Camera) -> None:
    spawn = spawn_new(_anchor(front_camera, FRONTAL), 4.0, ApseSettings())
    made = spawn.gaussians(0.8)
    assert made.sh_degree == 0 and np.allclose(made.opacities, 0.8)
    np.testing.assert_allclose(made.base_colors, spawn.colors, atol=1e-6)
    np.testing.assert_allclose(made.rotations(), spawn.frames, atol=1e-6)
