"""APSE on a small wall: reaches the patch, leaves the rest alone, and ablates in order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from patching.anchor import Anchor, anchor_from_placement
from patching.apse.embed import Embedding, _prepare, embed
from patching.apse.fidelity import Fidelity, measure
from patching.apse.parameters import Learnable
from patching.apse.settings import ApseSettings
from patching.apse.spawn import Spawn, spawn_new
from patching.apse.texture import AnchorTexture
from patching.apse.views import auxiliary_cameras, higher_harmonics
from patching.edit import no_gaussians
from patching.embedding import anchor_of_kind
from patching.patch import Patch
from patching.placement import place_by_numbers
from scene.camera import Camera
from scene.errors import InputError
from scene.gaussians import Gaussians
from scene.render.api import Renderer, RenderSettings, make_renderer

UP = (0.0, -1.0, 0.0)
STEPS = 60

Embedded = tuple[Embedding, Fidelity]


@pytest.fixture(scope="module")
def renderer(wall: Gaussians) -> Renderer:
    return make_renderer(wall, "cpu", threads=1)


@pytest.fixture(scope="module")
def quads() -> Patch:
    rgb = np.zeros((40, 40, 3), np.float32)
    rgb[:20, :20], rgb[:20, 20:] = [0.9, 0.1, 0.1], [0.1, 0.8, 0.2]
    rgb[20:, 20:], rgb[20:, :20] = [0.1, 0.2, 0.9], [0.9, 0.9, 0.2]
    return Patch.from_rgb(rgb, "quads")


@pytest.fixture(scope="module")
def anchor(renderer: Renderer, quads: Patch) -> Anchor:
    camera = Camera.look_at((0.4, -0.2, 0.5), (0, 0, 4), UP, 160, 120, 40)
    placement = place_by_numbers((0, 0, 3.995), (0, 0, -1), 0.8, 1.0, camera, UP)
    return anchor_from_placement(renderer, placement, quads)


@pytest.fixture(scope="module")
def embedded(
    wall: Gaussians, anchor: Anchor, renderer: Renderer, quads: Patch
) -> Callable[[ApseSettings], Embedded]:
    done: dict[ApseSettings, Embedded] = {}

    def make(settings: ApseSettings) -> Embedded:
        if settings not in done:
            result = embed(wall, anchor, settings, renderer=renderer)
            figures = measure(
                renderer, result.edit.apply(wall), anchor, quads, UP, (-30.0, 0.0, 30.0), (1.0,)
            )
            done[settings] = result, figures
        return done[settings]

    return make


SMALL = ApseSettings.of("inspector", iterations=STEPS, aux_views=2)


@pytest.mark.parametrize("variant", ["inspector", "paper"])
def test_patch_appears_and_the_rest_stays(embedded, anchor, variant) -> None:  # type: ignore[no-untyped-def]
    _, figures = embedded(ApseSettings.of(variant, iterations=STEPS, aux_views=2))
    before = np.abs(anchor.clean - anchor.image).mean(axis=2)[anchor.mask].mean()
    assert before > 0.3
    assert figures.anchor_patch < 0.03
    assert figures.anchor_rest < 2e-3
    assert figures.off_patch < 0.5 * figures.clean_patch
    assert figures.depth < 0.01


def test_far_from_the_patch_nothing_changes_at_all(embedded, wall, anchor, renderer) -> None:  # type: ignore[no-untyped-def]
    result, _ = embedded(SMALL)
    after = make_renderer(result.edit.apply(wall), "cpu", threads=1).render(anchor.camera).rgb
    rows, columns = np.nonzero(anchor.mask)
    away = np.ones(anchor.mask.shape, bool)
    away[rows.min() - 20 : rows.max() + 20, columns.min() - 20 : columns.max() + 20] = False
    np.testing.assert_allclose(after[away], anchor.clean[away], atol=2e-6)


def test_ablations_in_the_paper_s_order(embedded) -> None:  # type: ignore[no-untyped-def]
    whole = embedded(SMALL)[1]
    no_new, no_old = (embedded(SMALL.without(part))[1] for part in ("new", "old"))
    no_keep, loose = (embedded(SMALL.without(part))[1] for part in ("keep", "attachment"))
    assert no_new.anchor_patch > 1.3 * whole.anchor_patch
    assert no_old.anchor_patch > whole.anchor_patch
    assert no_keep.ring > whole.ring
    assert loose.anchor_patch < whole.anchor_patch + 1e-4


def test_same_seed_same_edit_whatever_the_threads(wall, anchor, renderer) -> None:  # type: ignore[no-untyped-def]
    settings = ApseSettings.of("inspector", iterations=4, aux_views=3)
    one = embed(wall, anchor, settings, renderer=renderer, threads=1)
    two = embed(wall, anchor, settings, renderer=renderer, threads=2)
    np.testing.assert_array_equal(one.edit.added.means, two.edit.added.means)
    np.testing.assert_array_equal(one.edit.sh_dc, two.edit.sh_dc)


def test_stop_keeps_what_there_is_and_previews(wall, anchor, renderer) -> None:  # type: ignore[no-untyped-def]
    seen: list[tuple[int, int]] = []
    pictures: list[np.ndarray] = []

    def progress(step, total, terms, preview) -> bool:  # type: ignore[no-untyped-def]
        seen.append((step, total))
        assert {"patch", "keep", "aux_color", "aux_alpha", "attach", "total"} <= set(terms)
        pictures.append(preview())
        return step < 5

    settings = ApseSettings.of("inspector", iterations=50, aux_views=1)
    result = embed(wall, anchor, settings, renderer=renderer, progress=progress)
    assert seen == [(i, 50) for i in range(1, 6)]
    assert result.report.stopped and result.report.iterations == 5
    assert pictures[0].shape == (120, 160, 3)
    errors = [np.abs(p - anchor.image).mean(axis=2)[anchor.mask].mean() for p in pictures]
    assert errors[-1] < errors[0]
    kept = make_renderer(result.edit.apply(wall), "cpu", threads=1).render(anchor.camera).rgb
    assert np.abs(kept - anchor.image).mean(axis=2)[anchor.mask].mean() < errors[0]


def test_capture_cameras_are_the_auxiliary_views_where_they_see_the_patch(
    wall, anchor, renderer
) -> None:  # type: ignore[no-untyped-def]
    seeing = Camera.look_at((-0.6, 0, 0.3), (0, 0, 4), UP, 200, 150, 45)
    away = Camera.look_at((0, 0, 0), (0, 0, -4), UP, 200, 150, 45)
    settings = ApseSettings.of("inspector", aux_views=3)
    cameras = auxiliary_cameras(anchor, AnchorTexture(anchor), settings, (away, seeing))
    assert len(cameras) == 3
    np.testing.assert_allclose(cameras[0].center, seeing.center)
    assert (cameras[0].width, cameras[0].height) == (160, 120)
    # the others: a cone about the anchor, looking at the same place
    for camera in cameras[1:]:
        pixel, _ = camera.project((0, 0, 4))
        wanted, _ = anchor.camera.project((0, 0, 4))
        np.testing.assert_allclose(pixel, wanted, atol=1.0)


def test_auxiliary_terms_charge_what_floats_off_the_patch(wall, anchor, renderer) -> None:  # type: ignore[no-untyped-def]
    job = _prepare(wall, anchor, ApseSettings.of("inspector", aux_views=1), (), renderer)
    leaves = tuple(value.detach() for value in job.learnable.values())
    _, start = job.views[1].loss(leaves)
    means = leaves[0].clone()
    means[len(job.old.reused) :, 0] += 0.5  # the new ones, by more than half the patch
    _, floating = job.views[1].loss((means, *leaves[1:]))
    assert floating["aux_color"] > 20 * start["aux_color"]
    assert floating["aux_alpha"] > 20 * start["aux_alpha"]
    # alpha of about 0.9 over what left the patch, 0.5 / 0.8 of its area in that view, over |M|
    texture = AnchorTexture(anchor)
    camera = auxiliary_cameras(anchor, texture, ApseSettings.of("inspector", aux_views=1))[0]
    area = texture.coverage(camera).sum() / anchor.mask.sum()
    assert floating["aux_alpha"] == pytest.approx(area * 0.9 * 0.5 / 0.8, rel=0.2)


def _stepped(spawn: Spawn, settings: ApseSettings) -> Learnable:
    """What is learnt after one step along random gradients, clamped."""
    learnable = Learnable(no_gaussians(), spawn, settings)
    values = learnable.values()
    rng = np.random.default_rng(0)
    noise = [torch.from_numpy(rng.normal(size=tuple(v.shape)).astype(np.float32)) for v in values]
    torch.autograd.backward(values, noise)
    learnable.optimizer.step()
    learnable.clamp()
    return learnable


def test_clamps_hold_after_a_step(anchor: Anchor) -> None:
    rates = dict.fromkeys(("rate_center", "rate_normal", "rate_log_scale", "rate_color"), 50.0)
    settings = ApseSettings.of("inspector", **rates)
    spawn = spawn_new(anchor, 4.0, settings)
    learnable = _stepped(spawn, settings)
    # rates of 50 push everything onto its clamp
    np.testing.assert_allclose(learnable.tangents.detach().abs().numpy(), 1)
    np.testing.assert_allclose(learnable.normals.detach().abs().numpy(), 0.25)
    _, _, added = learnable.result()
    ratio = added.scales / spawn.scales
    assert ratio.min() == pytest.approx(0.85, rel=1e-4)
    assert ratio.max() == pytest.approx(1.5, rel=1e-4)
    assert added.base_colors.min() >= -1e-6 and added.base_colors.max() <= 1 + 1e-6
    moved = np.linalg.norm(added.means - spawn.centers, axis=1) / spawn.stride
    np.testing.assert_allclose(moved, np.sqrt(1 + 1 + 0.25**2), rtol=1e-3)


def test_a_first_step_is_one_rate_long_and_without_attachment_nothing_holds_it(anchor) -> None:
    settings = ApseSettings.of("inspector", rate_center=3.0, rate_normal=0.5).without("attachment")
    learnable = _stepped(spawn_new(anchor, 4.0, settings), settings)
    # Adam's first step is the rate itself, whatever the gradient
    np.testing.assert_allclose(learnable.tangents.detach().abs().numpy(), 3.0, rtol=1e-3)
    np.testing.assert_allclose(learnable.normals.detach().abs().numpy(), 0.5, rtol=1e-3)
    assert learnable.mean_offsets() == pytest.approx((3.0, 0.5), rel=1e-3)


def test_higher_harmonics_are_what_the_renderer_adds() -> None:
    sh = np.zeros((1, 4, 3), np.float32)
    sh[0, 2] = [0.5, 0, -0.25]  # degree 1, the z term: 0.4886 z
    along = np.array([[0.0, 0.0, 2.0]])
    np.testing.assert_allclose(
        higher_harmonics(sh, along).numpy(), [[0.4886025 * 0.5, 0, -0.4886025 * 0.25]], rtol=1e-5
    )
    sideways = np.array([[3.0, 0.0, 0.0]])
    np.testing.assert_allclose(higher_harmonics(sh, sideways).numpy(), np.zeros((1, 3)), atol=1e-9)


def test_a_patch_over_nothing_reusable_still_embeds_new_ones(anchor, renderer) -> None:  # type: ignore[no-untyped-def]
    far = np.array([[50.0, 0, 60]], np.float32)
    parts = (far, [[1, 0, 0, 0]], np.full((1, 3), 0.1), [0.9], np.zeros((1, 1, 3)))
    lonely = Gaussians(*(np.asarray(part, np.float32) for part in parts))
    settings = ApseSettings.of("inspector", iterations=2, aux_views=0)
    result = embed(lonely, anchor, settings)
    assert result.report.reused == 0 and result.report.new > 100
    with pytest.raises(InputError, match="none can be reused"):
        embed(lonely, anchor, settings.without("new"))


def test_the_optimizer_draws_as_the_renderer_does(wall, anchor, quads) -> None:  # type: ignore[no-untyped-def]
    """With antialiasing on, an embedding made without it would miss the patch by several percent."""
    compensated = make_renderer(wall, "cpu", RenderSettings(antialiased=True), threads=1)
    fine = anchor_from_placement(compensated, anchor.placement, quads)
    result = embed(wall, fine, SMALL, renderer=compensated)
    figures = measure(compensated, result.edit.apply(wall), fine, quads, UP, (0.0, 20.0), (1.0,))
    assert figures.anchor_patch < 0.03


def test_controls_have_the_anchor_s_resolution(renderer, anchor, quads) -> None:  # type: ignore[no-untyped-def]
    fine = anchor_from_placement(renderer, anchor.placement, quads, scale=2.0)
    assert (fine.camera.width, fine.camera.height) == (320, 240)
    gray = anchor_of_kind(renderer, fine, quads, "gray")
    assert gray.image.shape == fine.image.shape
    np.testing.assert_array_equal(gray.mask, fine.mask)
    for scale in (0.0, -1.0, 100.0, float("nan")):
        with pytest.raises(InputError, match="anchor scale: wanted"):
            anchor_from_placement(renderer, anchor.placement, quads, scale=scale)
