"""Clicks: through a rendered depth, and along world rays through the Gaussians."""

from __future__ import annotations

import time

import numpy as np
import pytest

from scene.camera import Camera
from scene.errors import InputError
from scene.gaussians import Gaussians
from scene.io import load_gaussians
from scene.render.api import make_renderer
from scene.surface import pick, pick_along_ray


def sheet(z: float, opacity: float, half: float = 1.0, step: float = 0.05) -> Gaussians:
    """A square sheet of flat Gaussians at depth z, facing -z."""
    x, y = np.meshgrid(np.arange(-half, half + 1e-9, step), np.arange(-half, half + 1e-9, step))
    n = x.size
    return Gaussians(
        np.stack([x.ravel(), y.ravel(), np.full(n, z)], 1),
        np.tile([1, 0, 0, 0], (n, 1)),
        np.tile([0.6 * step, 0.6 * step, 0.001], (n, 1)),
        np.full(n, opacity),
        np.zeros((n, 1, 3)),
    )


def one(mean, scales, opacity, quat=(1, 0, 0, 0)) -> Gaussians:
    return Gaussians([mean], [quat], [scales], [opacity], np.zeros((1, 1, 3)))


def test_a_ray_stops_at_the_first_solid_sheet():
    scene = Gaussians.concatenate([sheet(7, 0.9), sheet(4, 0.9), sheet(2, 0.02)])
    point = pick_along_ray(scene, [0.03, 0.02, 0], [0, 0, 2])
    np.testing.assert_allclose(point, [0.03, 0.02, 4], atol=1e-6)
    # from the other side the far sheet is first
    np.testing.assert_allclose(pick_along_ray(scene, [0, 0, 9], [0, 0, -1]), [0, 0, 7], atol=1e-6)


def test_nothing_behind_the_start_or_beside_the_ray():
    scene = sheet(4, 0.9)
    assert pick_along_ray(scene, [0, 0, 5], [0, 0, 1]) is None
    assert pick_along_ray(scene, [3, 0, 0], [0, 0, 1]) is None


def test_transmittance_must_fall_below_one_half():
    # 0.45 leaves 0.55, the second leaves 0.30: the second sheet is the surface
    two = Gaussians.concatenate(
        [one([0, 0, 3], [1, 1, 0.01], 0.45), one([0, 0, 5], [1, 1, 0.01], 0.45)]
    )
    np.testing.assert_allclose(pick_along_ray(two, [0, 0, 0], [0, 0, 1]), [0, 0, 5], atol=1e-6)
    assert pick_along_ray(one([0, 0, 3], [1, 1, 1], 0.49), [0, 0, 0], [0, 0, 1]) is None


def test_the_peak_of_a_turned_needle_is_exact():
    # a needle along (1, 0, 1), from a quaternion of -45 degrees about y that takes x there
    half = np.radians(-45) / 2
    needle = one([0, 0, 4], [1.0, 0.05, 0.05], 0.9, (np.cos(half), 0, np.sin(half), 0))
    direction, start = np.array([0.0, 0.0, 1.0]), np.array([0.3, 0.0, 0.0])
    point = pick_along_ray(needle, start, direction)
    inverse = np.linalg.inv(
        (needle.rotations()[0] * needle.scales[0] ** 2) @ needle.rotations()[0].T
    )
    t = np.linspace(2, 6, 400_001)
    offset = start + t[:, None] * direction - [0, 0, 4]
    power = np.einsum("ni,ij,nj->n", offset, inverse, offset)
    assert point is not None
    assert point[2] == pytest.approx(t[power.argmin()], abs=1e-4)
    assert point[2] == pytest.approx(4.3, abs=0.01)


def test_pick_by_depth_gives_point_and_facing_normal():
    scene = sheet(4, 0.95)
    camera = Camera.look_at([1.0, -1.5, 0], [0, 0, 4], [0, -1, 0], 96, 64, 30)
    hit = pick(make_renderer(scene, "cpu"), camera, (40.2, 30.9))
    pixel, depth = camera.project(hit.point)
    np.testing.assert_allclose(pixel, [40.5, 30.5], atol=1e-6)
    assert depth == pytest.approx(hit.depth, rel=1e-6)
    assert hit.point[2] == pytest.approx(4, abs=0.02)
    assert np.degrees(np.arccos(hit.normal @ [0, 0, -1])) < 5
    again = pick_along_ray(scene, camera.center, camera.rays([40.5, 30.5]))
    np.testing.assert_allclose(again, hit.point, atol=0.03)


def test_picks_of_nothing_are_one_sentence():
    camera = Camera.look_at([0, 0, 0], [0, 0, 4], [0, -1, 0], 96, 64, 90)
    renderer = make_renderer(sheet(4, 0.95), "cpu")
    with pytest.raises(InputError, match="nothing solid at pixel"):
        pick(renderer, camera, (2, 2))
    with pytest.raises(InputError, match="outside the 96x64 picture"):
        pick(renderer, camera, (96, 10))


@pytest.mark.real
def test_the_scanned_person_is_hit_in_under_50_ms(real_data):
    person = load_gaussians(real_data / "splats/playcanvas/biker.compressed.ply").gaussians
    durations = []
    for _ in range(5):
        start = time.process_time()
        point = pick_along_ray(person, [0, -1.5, -5], [0, 0, 1])
        durations.append(time.process_time() - start)
    assert point is not None
    assert -0.5 < point[2] < 0
    assert min(durations) < 0.05
