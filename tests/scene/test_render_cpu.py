"""The CPU renderer against pixel values worked by hand and against the float64 reference."""

from __future__ import annotations

import numpy as np
import pytest
from render_scenes import camera, flat_color, one_gaussian, random_scene, straight_camera

from scene.gaussians import Gaussians
from scene.render.api import RenderSettings, make_renderer
from scene.render.cpu.renderer import CpuRenderer
from scene.render.reference import ReferenceRenderer

EVERYTHING = frozenset({"rgb", "alpha", "expected_depth", "median_depth"})


def assert_close(ours, wanted):
    """Means and percentiles, not maxima: the cut at 1/255 and the stop at 1e-4 are jumps."""
    for name, mean, most in (
        ("rgb", 1e-6, 2e-5),
        ("alpha", 1e-6, 2e-5),
        ("expected_depth", 1e-5, 3e-4),
        ("median_depth", 2e-5, 1e-4),
    ):
        error = np.abs(getattr(ours, name) - getattr(wanted, name))
        assert error.mean() <= mean, f"{name}: mean error {error.mean():.2e}"
        assert np.percentile(error, 99) <= most, f"{name}: 99 % {np.percentile(error, 99):.2e}"


def test_one_gaussian_by_hand():
    # At depth 2 and focal 100 a sigma of 0.1 is 5 px: variance 25, plus the low-pass 0.3.
    # Its centre projects to (20.5, 15.5), the centre of pixel (20, 15).
    rendered = CpuRenderer(one_gaussian((0, 0, 2)), threads=1).render(
        straight_camera(), background=(0.0, 0.0, 1.0), outputs=EVERYTHING
    )
    for (x, y), alpha in {
        (20, 15): 0.8,
        (23, 15): 0.8 * np.exp(-0.5 * 9 / 25.3),
        (18, 19): 0.8 * np.exp(-0.5 * (4 + 16) / 25.3),
    }.items():
        assert rendered.alpha[y, x] == pytest.approx(alpha, abs=1e-6)
        color = alpha * np.array([1.0, 0.5, 0.25]) + (1 - alpha) * np.array([0, 0, 1.0])
        assert rendered.rgb[y, x] == pytest.approx(color, abs=1e-6)
        assert rendered.expected_depth[y, x] == pytest.approx(2.0, abs=1e-6)
    # alpha falls to 1/255 at radius sqrt(2 ln(0.8 * 255) * 25.3) = 16.404 px: 16 is in, 17 is not
    assert rendered.alpha[15, 20 + 16] == pytest.approx(0.8 * np.exp(-128 / 25.3), abs=1e-6)
    assert rendered.alpha[15, 20 + 17] == 0.0
    assert rendered.expected_depth[15, 20 + 17] == 0.0
    assert rendered.rgb[15, 20 + 17] == pytest.approx([0, 0, 1])


def test_off_axis_gaussian_by_hand():
    # x = 0.3, z = 2: Jacobian row (50, 0, -100 * 0.3 / 4) = (50, 0, -7.5); variance in x is
    # 0.01 * (2500 + 56.25) + 0.3 = 25.8625, in y 25.3, none between; centre (35.5, 15.5)
    rendered = CpuRenderer(one_gaussian((0.3, 0, 2)), threads=1).render(straight_camera())
    assert rendered.alpha[15, 35] == pytest.approx(0.8, abs=1e-6)
    assert rendered.alpha[15, 31] == pytest.approx(0.8 * np.exp(-0.5 * 16 / 25.8625), abs=1e-6)
    assert rendered.alpha[11, 35] == pytest.approx(0.8 * np.exp(-0.5 * 16 / 25.3), abs=1e-6)


def test_two_layers_blend_by_hand_and_give_both_depths():
    # nearer: opacity 0.4 at z 1; farther: 0.9 at z 3, given first. At the shared centre
    # transmittance goes 1, 0.6, 0.06: the median is the farther layer.
    near, far = one_gaussian((0, 0, 1), opacity=0.4), one_gaussian((0, 0, 3), opacity=0.9)
    rendered = CpuRenderer(Gaussians.concatenate([far, near]), threads=1).render(
        straight_camera(), outputs=EVERYTHING
    )
    assert rendered.alpha[15, 20] == pytest.approx(1 - 0.06, abs=1e-6)
    assert rendered.expected_depth[15, 20] == pytest.approx((0.4 + 0.54 * 3) / 0.94, abs=1e-5)
    assert rendered.median_depth[15, 20] == pytest.approx(3.0)
    # with the nearer one at 0.6 transmittance falls under a half at once
    near = one_gaussian((0, 0, 1), opacity=0.6)
    rendered = CpuRenderer(Gaussians.concatenate([far, near]), threads=1).render(
        straight_camera(), outputs=EVERYTHING
    )
    assert rendered.median_depth[15, 20] == pytest.approx(1.0)
    # alone it never does far from its centre: no median there
    assert rendered.median_depth[0, 0] == 0.0


def test_alpha_is_clamped_and_blending_stops():
    # opacity 1 is drawn as 0.999; the second leaves 1e-6 <= 1e-4 and is not drawn at all
    stack = [one_gaussian((0, 0, z), opacity=1.0, rgb=(z / 4, 0, 0)) for z in (1.0, 2.0, 3.0)]
    rendered = CpuRenderer(Gaussians.concatenate(stack), threads=1).render(straight_camera())
    assert rendered.alpha[15, 20] == pytest.approx(0.999, abs=1e-6)
    assert rendered.rgb[15, 20, 0] == pytest.approx(0.999 * 0.25, abs=1e-6)


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_matches_reference_at_every_sh_degree(degree):
    scene = random_scene(600, degree, seed=degree)
    assert scene.sh_degree == degree
    view = camera()
    assert_close(
        CpuRenderer(scene, threads=1).render(view, (0.2, 0.5, 0.9), EVERYTHING),
        ReferenceRenderer(scene).render(view, (0.2, 0.5, 0.9), EVERYTHING),
    )


@pytest.mark.parametrize(
    "view",
    [
        camera(64, 48),  # whole tiles
        camera(17, 95),  # portrait, one pixel over a tile
        camera(5, 3, focal=(6.0, 6.0)),  # less than a block
        camera(83, 58, center=(12.0, 50.0)),  # principal point off the middle
        camera(83, 58, center=(-20.0, 75.0)),  # principal point outside the picture
        camera(90, 40, focal=(30.0, 30.0)),  # very wide: the Jacobian's clamp acts
        camera(83, 58, turn_deg=175.0),  # nearly everything is behind the camera
        camera(83, 58, eye=(0.2, 0.1, 2.5)),  # inside the scene
    ],
    ids=["whole", "portrait", "tiny", "off-centre", "outside", "wide", "behind", "inside"],
)
def test_matches_reference_for_every_kind_of_camera(view):
    scene = random_scene(500, 1, seed=5)
    assert_close(
        CpuRenderer(scene, threads=2).render(view, (1.0, 1.0, 1.0), EVERYTHING),
        ReferenceRenderer(scene).render(view, (1.0, 1.0, 1.0), EVERYTHING),
    )


def test_dense_opaque_scene_matches_reference():
    # many more Gaussians per tile than a chunk holds; most blocks finish early
    scene = random_scene(4000, 0, seed=9, size=0.15)
    view = camera(48, 37)
    assert_close(
        CpuRenderer(scene, threads=1).render(view, outputs=EVERYTHING),
        ReferenceRenderer(scene).render(view, outputs=EVERYTHING),
    )


@pytest.mark.parametrize("offset", [100.0, 5000.0])
def test_far_from_the_origin_loses_no_digits(offset):
    # as in a vehicle's or a survey's frame; what is drawn are the float32 means, so both sides agree
    scene = random_scene(400, 1, seed=5)
    shift = np.array([offset, -offset, 0.5 * offset])
    moved = Gaussians(
        scene.means + shift.astype(np.float32), scene.quats, scene.scales, scene.opacities, scene.sh
    )
    view = camera(eye=tuple(np.array([0.1, -0.05, -0.2]) + shift))
    assert_close(
        CpuRenderer(moved, threads=1).render(view, outputs=EVERYTHING),
        ReferenceRenderer(moved).render(view, outputs=EVERYTHING),
    )


def test_gaussians_over_more_rows_of_tiles_than_a_vector_holds():
    # 700 px tall: 44 rows of tiles, binned 16 at a time; tilted needles and big balls
    scene = random_scene(60, 0, seed=12, size=0.3)
    view = camera(37, 700, focal=(300.0, 300.0))
    assert_close(
        CpuRenderer(scene, threads=1).render(view, outputs=EVERYTHING),
        ReferenceRenderer(scene).render(view, outputs=EVERYTHING),
    )


@pytest.mark.parametrize("low_pass", [0.3, 0.1])
def test_antialiased_matches_reference_and_dims_small_gaussians(low_pass):
    settings = RenderSettings(low_pass=low_pass, antialiased=True)
    scene = random_scene(600, 0, seed=3, size=0.02)
    view = camera()
    assert_close(
        CpuRenderer(scene, settings, threads=1).render(view, outputs=EVERYTHING),
        ReferenceRenderer(scene, settings).render(view, outputs=EVERYTHING),
    )
    # by hand: sigma 0.01 at depth 2 is 0.5 px, variance 0.25; sqrt(0.25^2 / (0.25 + low_pass)^2)
    small = one_gaussian((0, 0, 2), scale=0.01)
    rendered = CpuRenderer(small, settings, threads=1).render(straight_camera())
    assert rendered.alpha[15, 20] == pytest.approx(0.8 * 0.25 / (0.25 + low_pass), abs=3e-6)


def test_near_plane_drops_what_is_closer():
    scene = Gaussians.concatenate([one_gaussian((0, 0, 0.5)), one_gaussian((0, 0, 2))])
    settings = RenderSettings(near=1.0)
    rendered = CpuRenderer(scene, settings, threads=1).render(straight_camera(), outputs=EVERYTHING)
    assert rendered.alpha[15, 20] == pytest.approx(0.8, abs=1e-6)
    assert rendered.expected_depth[15, 20] == pytest.approx(2.0)
    with pytest.raises(ValueError, match="near"):
        CpuRenderer(scene, RenderSettings(near=0.0))


def test_equal_depths_keep_the_scenes_order():
    # 40 coplanar Gaussians on one pixel: the first of the scene is in front
    n = 40
    colors = np.zeros((n, 3))
    colors[:, 0] = np.linspace(0.1, 1.0, n)
    means = np.tile([0.0, 0.0, 2.0], (n, 1)) + np.random.default_rng(0).permutation(n)[
        :, None
    ] * np.array([1e-4, 0, 0])
    coplanar = Gaussians(
        means, np.tile([1.0, 0, 0, 0], (n, 1)), np.full((n, 3), 0.1), np.full(n, 0.2),
        np.concatenate([flat_color(tuple(c)) for c in colors]),
    )  # fmt: skip
    assert_close(
        CpuRenderer(coplanar, threads=2).render(straight_camera(), outputs=EVERYTHING),
        ReferenceRenderer(coplanar).render(straight_camera(), outputs=EVERYTHING),
    )


def test_recolored_shares_geometry_and_uses_colors_as_they_are():
    scene = random_scene(300, 3, seed=2)
    renderer = CpuRenderer(scene, threads=1)
    chosen = np.zeros((len(scene), 3), np.float32)
    chosen[::3] = 1.0
    marked = renderer.recolored(chosen)
    assert marked.packed.geometry is renderer.packed.geometry
    # the weight of the chosen ones, with everything else occluding: a degree-0 scene of 0 and 1
    plain = Gaussians(
        scene.means, scene.quats, scene.scales, scene.opacities,
        np.concatenate([flat_color((c,) * 3) for c in chosen[:, 0]]),
    )  # fmt: skip
    wanted = ReferenceRenderer(plain).render(camera())
    ours = marked.render(camera())
    assert np.abs(ours.rgb - wanted.rgb).mean() < 1e-6
    everything = renderer.recolored(np.ones((len(scene), 3), np.float32)).render(camera())
    assert np.abs(everything.rgb[..., 0] - everything.alpha).max() < 1e-5
    with pytest.raises(ValueError, match="colors"):
        renderer.recolored(chosen[:-1])


def test_make_renderer_chooses_the_back_end():
    scene = one_gaussian((0, 0, 2))
    assert make_renderer(scene, "cpu").backend == "cpu"
    assert make_renderer(scene, "reference").backend == "reference"
    assert make_renderer(scene, "auto").backend in ("cpu", "cuda")
