"""The browser's copy: the budget keeps what shows most, and float16 keeps every splat."""

from __future__ import annotations

import numpy as np
import pytest

from app.display import display_copy, importance, most_important, storage_scale
from scene.gaussians import Gaussians


def _gaussians(scales, opacities=None, dc=0.0) -> Gaussians:
    scales = np.asarray(scales, dtype=np.float32)
    n = len(scales)
    return Gaussians(
        means=np.arange(3 * n, dtype=np.float32).reshape(n, 3),
        quats=np.tile(np.float32([1, 0, 0, 0]), (n, 1)),
        scales=scales,
        opacities=np.full(n, 0.5, np.float32) if opacities is None else np.float32(opacities),
        sh=np.full((n, 1, 3), dc, np.float32),
    )


def test_importance_is_opacity_times_the_area_of_the_two_longest_axes():
    value = importance(_gaussians([[1, 2, 3], [0.1, 4, 5]], [0.5, 0.25]))
    assert value == pytest.approx([0.5 * 2 * 3, 0.25 * 4 * 5])


@pytest.mark.parametrize(
    ("budget", "kept"),
    [(0, []), (1, [2]), (2, [0, 2]), (3, [0, 1, 2]), (4, [0, 1, 2, 3]), (9, [0, 1, 2, 3])],
)
def test_budget_keeps_the_largest_in_scene_order(budget, kept):
    # opacity x area: 2, 1, 3, 0.5
    gaussians = _gaussians(
        [[1, 1, 0.1], [1, 1, 0.1], [2, 2, 0.1], [1, 1, 0.1]], [1, 0.5, 0.75, 0.25]
    )
    gaussians = Gaussians(gaussians.means, gaussians.quats,
                          np.float32([[2, 1, 0.1], [2, 1, 0.1], [2, 2, 0.1], [2, 1, 0.1]]),
                          gaussians.opacities, gaussians.sh)  # fmt: skip
    assert most_important(gaussians, budget).tolist() == kept


def test_from_an_eye_the_near_sign_goes_before_the_far_house():
    sign, house = [0.02, 0.02, 0.001], [0.1, 0.1, 0.1]
    gaussians = _gaussians([sign, house])
    gaussians = Gaussians(np.float32([[0, 0, 1], [0, 0, 20]]), gaussians.quats, gaussians.scales,
                          gaussians.opacities, gaussians.sh)  # fmt: skip
    assert most_important(gaussians, 1).tolist() == [1]
    assert most_important(gaussians, 1, [0, 0, 0]).tolist() == [0]
    value = importance(gaussians, [0, 0, 0])
    assert value == pytest.approx([0.5 * 4e-4, 0.5 * 0.01 / 400])
    # one that the eye is inside of counts once, not infinitely
    assert np.isfinite(importance(gaussians, [0, 0, 20])).all()


def test_the_target_is_kept_before_anything_larger():
    from scene.scene import TargetBox

    gaussians = _gaussians([[1, 1, 1], [0.1, 0.1, 0.1], [0.2, 0.2, 0.2], [2, 2, 2]])
    # means are (0, 1, 2), (3, 4, 5), (6, 7, 8), (9, 10, 11): the box holds the second and third
    box = TargetBox(np.array([4.5, 5.5, 6.5]), np.eye(3), np.array([2.0, 2.0, 2.0]))
    assert most_important(gaussians, 2, None, box).tolist() == [1, 2]
    assert most_important(gaussians, 3, None, box).tolist() == [1, 2, 3]
    assert most_important(gaussians, 1, None, box).tolist() == [2]


@pytest.mark.parametrize("factor", [1e-4, 1.0, 1e4])
def test_covariances_survive_float16_whatever_the_scene_unit(factor):
    rng = np.random.default_rng(1)
    scales = np.exp(rng.normal(np.log(0.01), 1.0, (500, 3))) * [1, 1, 0.02] * factor
    splats = display_copy(_gaussians(scales))
    half = splats.covariances.astype(np.float16)
    assert np.isfinite(half).all()
    assert (np.diagonal(half, axis1=1, axis2=2) > 0).all()
    # what the browser draws, in world units, is what the scene says, to float16's accuracy
    sigmas = np.sqrt(np.diagonal(half.astype(float), axis1=1, axis2=2)) * splats.scale
    big = scales / splats.scale > 0.05
    assert sigmas[big] == pytest.approx(scales[big], rel=0.01)
    assert splats.centers * splats.scale == pytest.approx(_gaussians(scales).means, rel=1e-5)


def test_one_splat_as_large_as_the_sky_does_not_flatten_the_rest():
    scales = np.full((100, 3), 0.01)
    scales[0] = 1e5
    splats = display_copy(_gaussians(scales))
    half = splats.covariances.astype(np.float16)
    assert np.isfinite(half).all()
    assert np.sqrt(half[1, 0, 0]) * splats.scale == pytest.approx(0.01, rel=0.3)


def test_colors_are_the_base_colors_clipped():
    splats = display_copy(_gaussians([[1, 1, 1]], dc=10.0))
    assert (splats.rgbs == 1).all() and splats.opacities.shape == (1, 1)


def test_a_given_scale_is_used_so_that_parts_share_one():
    gaussians = _gaussians([[1, 1, 1], [2, 2, 2]])
    assert storage_scale(gaussians) == pytest.approx(0.01)
    assert display_copy(gaussians, 0.5).scale == 0.5
