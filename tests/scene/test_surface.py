"""Surfaces: planes and height fields against shapes that are known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scene.camera import Camera
from scene.errors import InputError
from scene.surface import (
    HeightField,
    Plane,
    depth_cluster,
    depth_quantile,
    fit_masked_surface,
    fit_plane,
    fit_surface,
    incidence_deg,
    unproject,
)

CAMERA = Camera.look_at([1, -2, -6], [0.2, 0.1, 0], [0, -1, 0], 64, 48, 40)


def plane_depth(plane: Plane, camera: Camera) -> np.ndarray:
    rays = camera.rays(camera.pixel_centers())
    points, hit = plane.intersect(camera.center, rays)
    assert hit.all()
    return (points - camera.center) @ camera.forward


def test_unproject_is_the_inverse_of_project_and_empty_pixels_are_nan():
    depth = np.random.default_rng(0).uniform(1, 9, (48, 64))
    depth[3, 5] = 0
    points = unproject(depth, CAMERA)
    assert np.isnan(points[3, 5]).all()
    pixels, z = CAMERA.project(points[depth > 0])
    np.testing.assert_allclose(pixels, CAMERA.pixel_centers()[depth > 0], atol=1e-9)
    np.testing.assert_allclose(z, depth[depth > 0])


def test_unproject_by_hand():
    camera = Camera(np.eye(4), np.array([[10.0, 0, 2], [0, 20, 1], [0, 0, 1]]), 4, 2)
    point = unproject(np.full((2, 4), 5.0), camera)[1, 3]
    # pixel centre (3.5, 1.5): x = 5 * 1.5/10, y = 5 * 0.5/20
    np.testing.assert_allclose(point, [0.75, 0.125, 5])


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), outliers=st.floats(0, 0.55))
def test_plane_is_found_among_outliers(seed, outliers):
    rng = np.random.default_rng(seed)
    normal = rng.normal(size=3)
    normal /= np.linalg.norm(normal)
    u, v = np.linalg.svd(normal[None])[2][1:]
    n = 600
    points = 7 + rng.uniform(-1, 1, (n, 1)) * u + rng.uniform(-1, 1, (n, 1)) * v
    points += rng.normal(0, 0.003, (n, 1)) * normal
    bad = rng.random(n) < outliers
    points[bad] += (
        rng.uniform(0.1, 2, (bad.sum(), 1)) * rng.choice([-1, 1], (bad.sum(), 1)) * normal
    )
    viewpoint = 7 + 5 * normal
    fit = fit_plane(points, 0.012, np.random.default_rng(0), viewpoint)
    assert np.degrees(np.arccos(np.clip(fit.plane.normal @ normal, -1, 1))) < 0.3
    assert fit.inlier_share == pytest.approx(1 - bad.mean(), abs=0.02)
    assert fit.residual == pytest.approx(0.003, rel=0.25)


def test_plane_fits_are_the_same_for_the_same_seed():
    points = np.random.default_rng(0).normal(size=(5000, 3)) * [1, 1, 0.05]
    a, b = (fit_plane(points, 0.02, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(a.plane.normal, b.plane.normal)
    np.testing.assert_array_equal(a.inliers, b.inliers)


@pytest.mark.parametrize(
    "points", [np.zeros((2, 3)), np.outer(np.arange(9), [1, 2, 3]), np.ones((9, 3))]
)
def test_points_that_fix_no_plane_are_refused(points):
    with pytest.raises(InputError):
        fit_plane(points, 0.1, np.random.default_rng(0))


def test_plane_intersection_by_hand_with_offset_and_misses():
    plane = Plane(np.array([0, 0, 5.0]), np.array([0, 0, -2.0]))
    directions = np.array([[0, 0, 1.0], [1, 0, 2], [1, 0, 0], [0, 0, -1]])
    points, hit = plane.intersect([0, 1, 0], directions, offset=1.0)
    assert hit.tolist() == [True, True, False, False]
    # the normal points to the viewer, so the offset surface is at z = 4
    np.testing.assert_allclose(points[:2], [[0, 1, 4], [2, 1, 4]])
    assert np.isnan(points[2:]).all()
    # one offset per ray
    points, _ = plane.intersect([0, 1, 0], directions[:2], offset=np.array([0.0, 3.0]))
    np.testing.assert_allclose(points, [[0, 1, 5], [1, 1, 2]])


@pytest.mark.parametrize(
    ("depths", "member", "behind"),
    [
        # gaps of 10 % part clusters; the near one holds 3 of 7
        ([2, 2.1, 2.2, 3, 3.1, 3.2, 3.3], [1, 1, 1, 0, 0, 0, 0], 3),
        # one stray pixel of ten in front is less than 20 %
        ([1, *[2.0] * 9], [0, *[1] * 9], np.inf),
        # a slope without gaps is one cluster however long
        (np.geomspace(1, 10, 40), [1] * 40, np.inf),
        # empty pixels belong nowhere and are not counted
        ([0, 0, 0, 0, 0, 0, 1, 5, 5], [0, 0, 0, 0, 0, 0, 1, 0, 0], 5),
        ([0, np.nan], [0, 0], np.inf),
        # no cluster of 20 %: the largest
        ([1, 2, 4, 8, 16, 16], [0, 0, 0, 0, 1, 1], np.inf),
    ],
)
def test_depth_clusters(depths, member, behind):
    found, next_depth = depth_cluster(depths)
    assert found.tolist() == [bool(m) for m in member]
    assert next_depth == behind


def test_depth_quantile_of_the_paper():
    depths = np.append(np.arange(1.0, 102.0), 0)
    # the 40 % quantile of 1..101 is 41, and 2 % more is 41.82
    assert depth_quantile(depths).sum() == 41
    assert not depth_quantile(depths)[-1]


def cylinder(n: int = 6000, noise: float = 0.002) -> np.ndarray:
    rng = np.random.default_rng(1)
    angle, z = rng.uniform(-1, 1, n), rng.uniform(-0.3, 0.3, n)
    return np.stack([0.3 * np.cos(angle), 0.3 * np.sin(angle), z], 1) + rng.normal(0, noise, (n, 3))


def test_a_bend_becomes_a_height_field_that_is_right_everywhere():
    fit = fit_surface(cylinder(), 0.01, np.random.default_rng(0), viewpoint=[3, 0, 0])
    assert isinstance(fit.surface, HeightField)
    assert fit.residual < 0.1 * fit.plane_residual
    assert "height field" in fit.summary
    rng = np.random.default_rng(2)
    origin = np.array([3.0, 0, 0])
    aims = np.stack(
        [np.full(500, 0.25), rng.uniform(-0.2, 0.2, 500), rng.uniform(-0.25, 0.25, 500)], 1
    )
    for offset in (0.01, -0.02, 0.0):
        points, hit = fit.surface.intersect(origin, aims - origin, offset)
        assert hit.all()
        radius = np.hypot(points[:, 0], points[:, 1])
        # stiff on purpose: within 1 % of the radius, not exact
        np.testing.assert_allclose(radius, 0.3 + offset, atol=0.003)
        # they stay on their rays: the picture from the anchor does not move
        np.testing.assert_allclose(np.cross(points - origin, aims - origin), 0, atol=1e-9)
    outward = np.stack([points[:, 0], points[:, 1], 0 * radius], 1) / radius[:, None]
    cosine = (fit.surface.normal_at(points) * outward).sum(axis=1)
    assert np.degrees(np.arccos(cosine.min())) < 5
    distance = fit.surface.distance([[0.35, 0, 0], [0.28, 0, 0.1]])
    np.testing.assert_allclose(distance, [0.05, -0.02], atol=0.003)


def test_noise_alone_stays_a_plane():
    rng = np.random.default_rng(0)
    points = np.stack(
        [rng.uniform(-1, 1, 3000), rng.uniform(-1, 1, 3000), rng.normal(0, 0.02, 3000)], 1
    )
    fit = fit_surface(points, 0.01, rng, viewpoint=[0, 0, 3])
    assert fit.plane.inlier_share < 0.6
    assert fit.surface.kind == "plane"
    np.testing.assert_allclose(fit.surface.normal_at(points[:1]), [[0, 0, 1]], atol=0.02)


def test_two_sheets_with_a_step_between_stay_a_plane():
    """An arm before a body: heights would need a cliff that a patch cannot lie on."""
    rng = np.random.default_rng(0)
    points = np.stack(
        [rng.uniform(-1, 1, 4000), rng.uniform(-1, 1, 4000), rng.normal(0, 0.01, 4000)], 1
    )
    points[points[:, 0] > 0, 2] += 2.5
    fit = fit_surface(points, 0.02, rng, viewpoint=[1, 0, 9])
    assert fit.surface.kind == "plane"


def test_masked_surface_ignores_what_is_behind_and_faces_the_camera():
    sign = Plane(np.zeros(3), np.array([0.5, 0, -1.0]))
    depth = plane_depth(sign, CAMERA)
    mask = np.zeros(depth.shape, dtype=bool)
    mask[10:34, 20:44] = True
    behind = depth.copy()
    behind[20:34, 20:44] *= 1.5  # more than half of the mask looks past the sign
    alpha = np.ones_like(depth)
    alpha[10:12] = 0.3  # not solid, with a wild depth
    behind[10:12] = 0.5
    fit = fit_masked_surface(mask, alpha, behind, CAMERA, np.random.default_rng(0))
    assert fit.surface.kind == "plane"
    np.testing.assert_allclose(fit.surface.normal_at(np.zeros(3)), sign.normal, atol=1e-6)
    assert fit.surface.distance(CAMERA.center) > 0
    # 2 % of the patch's size: 24 px at about depth 6.4, focal 65.9 px
    assert fit.threshold == pytest.approx(
        0.02 * 24 * np.median(depth[12:20, 20:44]) / CAMERA.K[0, 0], rel=0.01
    )
    with pytest.raises(InputError, match="0 solid pixels"):
        fit_masked_surface(mask, 0 * alpha, behind, CAMERA, np.random.default_rng(0))


def test_a_tilted_patch_keeps_its_far_half_under_the_cluster_rule_only():
    steep = Plane(np.zeros(3), np.array([1.2, 0, -1.0]))
    depth = plane_depth(steep, CAMERA)
    mask = np.zeros(depth.shape, dtype=bool)
    mask[10:38, 18:46] = True
    member, _ = depth_cluster(depth[mask])
    assert member.all()
    assert depth_quantile(depth[mask]).mean() < 0.6


def test_incidence_by_hand():
    camera = Camera.look_at([0, 0, -2], [0, 0, 0], [0, -1, 0], 64, 48, 40)
    angles = incidence_deg(
        [[0, 0, 0], [2, 0, 0], [0, 0, 0]], [[0, 0, -1], [0, 0, -1], [0, 0, 1]], camera
    )
    np.testing.assert_allclose(angles, [0, 45, 180], atol=1e-6)
