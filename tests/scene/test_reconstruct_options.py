"""Masks, exposure, sky, MCMC and hidden Gaussians: each by a place whose answer is known."""

from dataclasses import replace
from math import comb

import numpy as np
import pytest

from scene.camera import Camera
from scene.capture import Capture, Frame, FrameMask
from scene.errors import InputError
from scene.gaussians import SH_C0, Gaussians
from scene.reconstruct import mcmc
from scene.reconstruct.exposure import Exposures, changed, fitted
from scene.reconstruct.hidden import find_hidden, largest_weights
from scene.reconstruct.losses import PhotometricLoss
from scene.reconstruct.options import ReconstructOptions
from scene.reconstruct.photos import Photo, load_photos
from scene.reconstruct.quality import measure
from scene.reconstruct.settings import ReconstructSettings
from scene.reconstruct.sky import FAR, sky_points, spread_directions
from scene.reconstruct.start import start_points
from scene.reconstruct.train import reconstruct
from scene.reconstruct.weighted import weighted_loss
from scene.render.api import make_renderer
from scene.render.cpu.training import gaussians_of, parameters_of

SMALL = ReconstructSettings(
    iterations=240, long_side=80, most_gaussians=700, sh_degree=0, half_size_until=40,
    densify_from=40, densify_every=20, reset_every=60, reset_until=0.3,
)  # fmt: skip
EXPOSURES = (1.0, 0.7, 1.25)


def _wall(n: int = 400) -> Gaussians:
    """Opaque colored blobs on the plane z = 0; y down."""
    rng = np.random.default_rng(2)
    means = np.stack([rng.uniform(-2, 2, n), rng.uniform(-1.5, 1.5, n), rng.normal(0, 0.05, n)], 1)
    colors = 0.5 + 0.3 * np.sin(means[:, :1] * [2.0, 3.0, 1.0] + means[:, 1:2] * [1.0, -2.0, 2.0])
    return Gaussians(
        means, np.tile([1.0, 0, 0, 0], (n, 1)), np.full((n, 3), 0.14), np.full(n, 0.95),
        ((colors - 0.5) / SH_C0)[:, None],
    )  # fmt: skip


def _cameras(count: int = 11) -> list[Camera]:
    """On an arc before the wall; not square."""
    angles = np.radians(np.linspace(-30, 30, count))
    eyes = [[3 * np.sin(a), 0.4 * np.cos(7 * a), -3 * np.cos(a)] for a in angles]
    return [Camera.look_at(eye, [0, 0, 0], [0, -1, 0], 80, 60, 50.0) for eye in eyes]


def _capture(spoil=None) -> Capture:
    """spoil(number, rgb) returns the photo as it was taken, and its mask or None."""
    place = _wall()
    renderer = make_renderer(place, "cpu")
    frames = []
    for i, camera in enumerate(_cameras()):
        rgb, mask = renderer.render(camera, (0.2, 0.3, 0.5)).rgb, None
        if spoil is not None:
            rgb, mask = spoil(i, rgb.copy())
        pixels = np.round(np.clip(rgb, 0, 1) * 255).astype(np.uint8)
        held_out = i in (3, 7)
        frames.append(Frame(f"{i:02d}", camera, pixels=pixels, held_out=held_out, mask=mask))
    rng = np.random.default_rng(5)
    points = place.means[::2] + rng.normal(0, 0.02, (len(place) // 2, 3))
    return Capture(tuple(frames), points=points)


def _passer_by(i: int, rgb: np.ndarray):
    """A white block stands in the same part of every training photo; the mask says so."""
    mask = np.full(rgb.shape[:2], 255, np.uint8)
    if i not in (3, 7):
        rgb[10:40, 20:50] = 1.0
        mask[8:42, 18:52] = 0
    return rgb, FrameMask("use", pixels=mask)


def test_masked_pixels_do_not_reach_the_scene():
    capture = _capture(_passer_by)
    masked = reconstruct(capture, SMALL, threads=1)
    blind = reconstruct(capture, SMALL, threads=1, options=ReconstructOptions(masks=False))
    assert masked.held_out_psnr > blind.held_out_psnr + 4
    assert masked.held_out_psnr > 24


def test_an_objects_mask_is_no_weight():
    def spoil(i, rgb):
        mask = np.zeros(rgb.shape[:2], np.uint8)
        mask[20:30, 30:50] = 255
        return rgb, FrameMask("object", pixels=mask, label="cup")

    assert load_photos(_capture(spoil), 80).training[0].weight is None
    weight = load_photos(_capture(_passer_by), 80).training[0].weight
    assert weight.shape == (60, 80) and weight[20, 30] == 0 and weight[50, 70] == 1


def test_a_mask_without_any_pixel_is_refused():
    def spoil(i, rgb):
        return rgb, FrameMask("use", pixels=np.zeros(rgb.shape[:2], np.uint8))

    with pytest.raises(InputError, match="00: its mask leaves no pixel"):
        load_photos(_capture(spoil), 80)


def test_weighted_loss_and_its_gradient():
    rng = np.random.default_rng(0)
    photo = rng.random((3, 21, 34), dtype=np.float32)
    picture = rng.random((4, 21, 34), dtype=np.float32)
    weight = rng.random((21, 34), dtype=np.float32)
    weight[:, :12] = 0
    loss = PhotometricLoss(21, 34)
    value, gradient = weighted_loss(loss, picture, photo, weight)
    gradient = gradient.copy()
    assert value.l1 == pytest.approx(float((weight * np.abs(picture[:3] - photo)).mean()), rel=1e-5)
    assert not gradient[:, :, :12].any()
    for at in ((0, 5, 20), (2, 17, 13), (1, 20, 33)):
        ends = []
        for step in (-2e-3, 2e-3):
            moved = picture.copy()
            moved[at] += np.float32(step)
            ends.append(weighted_loss(loss, moved, photo, weight)[0].loss)
        assert gradient[at] == pytest.approx((ends[1] - ends[0]) / 4e-3, rel=0.05, abs=2e-6)


def test_weighted_decibels_by_hand():
    wall = _wall()
    camera = _cameras()[0]
    rgb = np.clip(make_renderer(wall, "cpu").render(camera).rgb, 0, 1)
    pixels = np.round(rgb * 255).astype(np.uint8).transpose(2, 0, 1).copy()
    pixels[:, :30] = np.where(pixels[:, :30] > 127, pixels[:, :30] - 51, pixels[:, :30] + 51)
    weight = np.zeros((60, 80), np.float32)
    weight[15:45] = 1  # half of what counts is wrong by 0.2
    photo = Photo("a", camera, pixels, weight)
    assert measure(wall, (photo,)).psnr == pytest.approx(-10 * np.log10(0.02), abs=0.05)
    weight[:30] = 0
    assert measure(wall, (photo,)).psnr > 50
    assert measure(wall, (photo,)).ssim > 0.99


def _metered(i: int, rgb: np.ndarray):
    """Training photos of different exposure, mean one; the held-out ones darker than the mean."""
    factor = 0.8 if i in (3, 7) else EXPOSURES[[0, 1, 2, 4, 5, 6, 8, 9, 10].index(i) % 3]
    return rgb * factor, None


def test_exposures_are_learnt_and_the_held_out_ones_are_not_touched():
    capture = _capture(_metered)
    plain = reconstruct(capture, SMALL, threads=1)
    options = ReconstructOptions(exposure=True)
    settings = replace(SMALL, iterations=400)
    learnt = reconstruct(capture, settings, threads=1, options=options)
    assert plain.exposure_fitted is None
    assert learnt.exposure_fitted is not None and learnt.exposure_fitted.exposure_fitted
    # the photos are a fifth too dark for the scene: without a fit nothing can be better than this
    assert learnt.held_out_psnr < 21.5
    assert learnt.exposure_fitted.psnr > learnt.held_out_psnr + 3
    assert learnt.exposure_fitted.psnr > 23


def test_an_exposure_step_by_differences():
    rng = np.random.default_rng(1)
    picture = rng.random((4, 7, 9), dtype=np.float32)
    seeds = rng.normal(size=(3, 7, 9)).astype(np.float32)
    exposures = Exposures(2)
    exposures.values[0] = np.eye(3, 4) + rng.normal(0, 0.1, (3, 4))
    before = exposures.values[0].copy()
    passed = exposures.step(0, picture, seeds, 0.0)
    np.testing.assert_allclose(passed, np.einsum("ck,chw->khw", before[:, :3], seeds), rtol=1e-4)
    # Adam's first step goes against the sign of the slope; then the mean is brought to identity
    np.testing.assert_allclose(exposures.values.mean(axis=0), np.eye(3, 4), atol=1e-12)
    slope = (seeds[1] * picture[2]).sum() + 0.04 * before[1, 2]
    assert exposures.first[0, 1, 2] == pytest.approx(0.1 * slope, rel=1e-4)


def test_the_fitted_exposure_is_the_one_that_was_applied():
    rng = np.random.default_rng(1)
    picture = rng.random((3, 12, 20), dtype=np.float32)
    change = np.eye(3, 4) + rng.normal(0, 0.1, (3, 4))
    photo = changed(picture, change)
    photo[:, :4] = 0
    weight = np.ones((12, 20), np.float32)
    weight[:4] = 0
    np.testing.assert_allclose(fitted(picture, photo, weight), change, atol=1e-5)


def test_exposures_survive_a_stop(tmp_path):
    capture, options = _capture(_metered), ReconstructOptions(exposure=True)
    path, settings = tmp_path / "c", replace(SMALL, iterations=70)
    whole = reconstruct(capture, settings, threads=1, options=options)
    part = reconstruct(capture, settings, lambda p: False, None, path, 1000, 30, 1, options)
    assert part.iterations == 30 and part.stopped and not whole.stopped
    rest = reconstruct(capture, settings, resume_from=path, threads=1, options=options)
    np.testing.assert_array_equal(rest.gaussians.sh, whole.gaussians.sh)
    with pytest.raises(InputError, match=r"other settings \(exposure\)"):
        reconstruct(capture, settings, resume_from=path, threads=1)


def test_sky_points_are_far_away_and_in_a_photo():
    directions = spread_directions(500)
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1)
    np.testing.assert_allclose(directions.mean(axis=0), 0, atol=0.01)
    nearest = np.sort(directions @ directions.T, axis=1)[:, -2]
    assert np.degrees(np.arccos(nearest)).min() > 3.5
    photos = load_photos(_capture(), 80)
    points = np.array([[0, 0, 9.0], [0, 0, 8.0]] * 50)
    sky = sky_points(points, photos, 500)
    middle = photos.centers.mean(axis=0)
    size = np.linalg.norm([0, 0, 9.0] - middle)
    np.testing.assert_allclose(np.linalg.norm(sky - middle, axis=1), FAR * size, rtol=1e-6)
    # the cameras look along +z, up to 30 degrees and half a field of view to the sides
    assert 30 < len(sky) < 120 and (sky[:, 2] > 0).all()


def test_a_sky_is_part_of_the_start_and_takes_the_photos_colors():
    def spoil(i, rgb):
        return np.full_like(rgb, [0.2, 0.4, 1.0]), None

    capture = _capture(spoil)
    photos, rng = load_photos(capture, 80), np.random.default_rng(0)
    start = start_points(capture, photos, SMALL, rng, ReconstructOptions(sky_points=500))
    count = len(start.points) - 200
    assert count > 30 and start.source == f"given points, {count} of them sky"
    np.testing.assert_allclose(start.colors[200:], np.tile([0.2, 0.4, 1.0], (count, 1)), atol=0.01)


def test_a_sky_fills_what_is_behind_the_scene():
    # the wall's background is (0.2, 0.3, 0.5) in all photos; only a sky can show it
    settings = replace(SMALL, iterations=200)
    small_wall = _capture()
    photos = load_photos(small_wall, 80)
    result = reconstruct(
        small_wall, settings, threads=1, options=ReconstructOptions(sky_points=3000)
    )
    alpha = make_renderer(result.gaussians, "cpu").render(photos.held_out[0].camera).alpha
    assert alpha.mean() > 0.9


def test_shared_opacity_and_size_by_hand():
    new, factor = mcmc.shared(np.array([0.75, 0.5, 0.9]), np.array([2, 1, 3]))
    # two of 0.5 let a quarter through; sum = 0.5 + (0.5 - 0.25 / sqrt 2)
    assert new[0] == pytest.approx(0.5)
    assert factor[0] == pytest.approx(0.75 / (1 - 0.25 / np.sqrt(2)))
    assert (new[1], factor[1]) == (0.5, 1.0)
    o = 1 - 0.1 ** (1 / 3)
    double = sum(
        comb(i - 1, k) * (-1) ** k * o ** (k + 1) / np.sqrt(k + 1)
        for i in range(1, 4)
        for k in range(i)
    )
    assert factor[2] == pytest.approx(0.9 / double)


def _rows(opacities, means=None, sigma=0.1) -> np.ndarray:
    n = len(opacities)
    means = np.stack([np.arange(n), np.zeros(n), np.zeros(n)], 1) if means is None else means
    return parameters_of(
        Gaussians(
            np.asarray(means, dtype=float), np.tile([1.0, 0, 0, 0], (n, 1)),
            np.broadcast_to(np.asarray(sigma, dtype=float), (n, 3)).copy(),
            np.asarray(opacities, dtype=float), np.zeros((n, 1, 3)),
        )
    )  # fmt: skip


def test_the_dead_move_to_the_living_and_the_number_grows_to_the_cap():
    rows = _rows([0.75, 0.001])
    result = mcmc.relocate(rows, 2, np.random.default_rng(0), spread=0.0)
    assert (result.split, result.cloned, len(result.parameters)) == (1, 0, 2)
    np.testing.assert_array_equal(result.parameters[0], result.parameters[1])
    opacity = 1 / (1 + np.exp(-result.parameters[:, 10]))
    np.testing.assert_allclose(opacity, 0.5, rtol=1e-5)
    sigma = 0.1 * 0.75 / (1 - 0.25 / np.sqrt(2))
    np.testing.assert_allclose(np.exp(result.parameters[:, 3:6]), sigma, rtol=1e-5)
    assert result.source.tolist() == [-1, -1]
    many = _rows(np.full(100, 0.5))
    assert len(mcmc.relocate(many, 1000, np.random.default_rng(0)).parameters) == 105
    assert len(mcmc.relocate(many, 102, np.random.default_rng(0)).parameters) == 102
    assert len(mcmc.relocate(many, 50, np.random.default_rng(0)).parameters) == 100
    dead = _rows(np.full(5, 1e-3))
    np.testing.assert_array_equal(mcmc.relocate(dead, 9, np.random.default_rng(0)).source, range(5))


def test_one_that_joins_stands_a_corrected_sigma_beside_its_host():
    n = 2000
    lone = _rows([0.75], np.zeros((1, 3)), sigma=[1.0, 0.1, 0.01])
    lone[:, 6:10] = [1, 0, 0, 1]  # wxyz: the x axis becomes y
    dead = np.repeat(lone, n, axis=0)
    dead[:, 10] = -9
    result = mcmc.relocate(np.concatenate([lone, dead]), n + 1, np.random.default_rng(0))
    moved = result.parameters[:, :3]
    assert (~moved.any(axis=1)).sum() == 1  # the host stays
    _, factor = mcmc.shared(np.array([0.75]), np.array([mcmc.MOST_SHARING]))
    np.testing.assert_allclose(moved.std(axis=0), factor[0] * np.array([0.1, 1, 0.01]), rtol=0.1)
    assert abs(moved.mean(axis=0) / moved.std(axis=0)).max() < 0.1


def test_a_short_run_grows_faster_to_reach_its_cap_halfway():
    # rounds after iterations 100, 200, ... 500; halfway is 300
    settings = replace(SMALL, iterations=500, densify_from=100, densify_every=100, densify_until=1)
    assert mcmc.growth(1000, 8000, settings, 100) == pytest.approx(2)
    assert mcmc.growth(7990, 8000, settings, 100) == 1.05
    # halfway between two rounds (600 and 700; 630): all there is left to add comes at 600
    between = replace(settings, iterations=1200, densify_from=300, densify_until=0.8)
    assert mcmc.growth(1000, 16000, between, 300) == pytest.approx(2)
    assert mcmc.growth(8000, 16000, between, 600) == pytest.approx(2)
    assert mcmc.growth(8000, 16000, between, 900) == pytest.approx(2)  # late, but not never


def test_relocation_keeps_the_picture():
    # a hundred places, each shared once by a dead one: in one place the picture stays nearly as it
    # was, beside each other it changes a little more
    wall = parameters_of(_wall(200))
    dead = wall.copy()
    dead[:, 10] = -9
    dead[:, 2] -= 1.0
    both = np.concatenate([wall, dead])
    camera = _cameras()[5]
    before = make_renderer(gaussians_of(both, 1), "cpu").render(camera).rgb
    for spread, most in ((0.0, 0.02), (mcmc.SPREAD, 0.04)):
        rng = np.random.default_rng(0)
        after = mcmc.relocate(both, len(both), rng, spread=spread).parameters
        picture = make_renderer(gaussians_of(after, 1), "cpu").render(camera).rgb
        assert np.abs(picture - before).mean() < most


def test_noise_moves_the_faint_along_their_long_axis():
    n = 2000
    rows = _rows(
        [*np.full(n, 0.001), *np.full(10, 0.9)], np.zeros((n + 10, 3)), sigma=[1.0, 0.1, 0.01]
    )
    # wxyz (1, 0, 0, 1): the x axis becomes y
    rows[:, 6:10] = [1, 0, 0, 1]
    mcmc.jitter(rows, 2.0, np.random.default_rng(0))
    spread = rows[:n, :3].std(axis=0)
    faintness = 1 / (1 + np.exp(-100 * (0.999 - 0.995)))
    np.testing.assert_allclose(spread, 2 * faintness * np.array([0.01, 1, 1e-4]), rtol=0.1)
    assert not rows[n:, :3].any()


def test_penalties_by_hand():
    rows = _rows([0.5, 0.2], sigma=0.3)
    gradients = np.zeros_like(rows)
    mcmc.add_penalties(gradients, rows, 0.01, 0.03)
    np.testing.assert_allclose(gradients[:, 10], 0.01 / 2 * np.array([0.25, 0.16]), rtol=1e-5)
    np.testing.assert_allclose(gradients[:, 3:6], 0.03 / 6 * 0.3, rtol=1e-5)
    assert not gradients[:, [0, 1, 2, 6, 7, 8, 9, 11]].any()


def test_a_place_comes_back_by_mcmc_within_its_cap():
    result = reconstruct(
        _capture(), SMALL, threads=1, options=ReconstructOptions(densification="mcmc")
    )
    assert result.held_out_psnr > 24
    assert len(result.gaussians) <= SMALL.most_gaussians
    assert result.hidden.endswith("removed")


def test_hidden_gaussians_are_found():
    wall = parameters_of(_wall())
    wall[:, 10] = 7.0
    wall[:, 3:5] = np.log(0.3)  # without gaps
    # large behind the wall; large behind all cameras; small behind the wall; in plain view
    extra = _rows(
        [0.9, 0.9, 0.9, 0.9],
        [[0, 0, 1.0], [0, 0, -60.0], [0.1, 0.1, 1.0], [0, 0, -0.8]],
        sigma=np.array([[0.3] * 3, [8.0] * 3, [0.004] * 3, [0.1] * 3]),
    )
    rows = np.concatenate([wall, extra])
    photos = load_photos(_capture(), 80).training
    hidden = find_hidden(rows, photos, 1)
    assert hidden.unseen[-4:].tolist() == [True, True, True, False]
    assert hidden.blobs[-4:].tolist() == [True, True, False, False]
    camera = photos[4].camera
    pictures = [
        make_renderer(gaussians_of(kept, 1), "cpu").render(camera).rgb
        for kept in (rows, rows[~hidden.unseen])
    ]
    assert np.abs(pictures[0] - pictures[1]).max() < 0.02
    assert "of them large and opaque" in str(hidden)


def test_a_weight_is_the_sum_of_alphas_of_one_that_stands_alone():
    rows = _rows([0.6], [[0, 0, 0]], sigma=0.05)
    photos = load_photos(_capture(), 80).training[:2]
    alphas = [
        make_renderer(gaussians_of(rows, 1), "cpu").render(photo.camera).alpha.sum()
        for photo in photos
    ]
    np.testing.assert_allclose(largest_weights(rows, photos, 1), max(alphas), rtol=1e-4)


def test_options_that_cannot_be_are_refused():
    with pytest.raises(InputError, match="wanted adc or mcmc as densification, found absgrad"):
        ReconstructOptions(densification="absgrad")
    with pytest.raises(InputError, match="0 or more sky points, found -1"):
        ReconstructOptions(sky_points=-1)
