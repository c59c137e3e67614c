"""Reconstruction: a small made-up place comes back, the same way every time, also in two parts."""

from dataclasses import replace

import numpy as np
import pytest

from scene.camera import Camera
from scene.capture import Capture, Frame
from scene.errors import InputError
from scene.gaussians import SH_C0, Gaussians
from scene.io import load_gaussians, save_ply
from scene.reconstruct import densify
from scene.reconstruct.adam import Adam
from scene.reconstruct.photos import load_photos
from scene.reconstruct.settings import ReconstructSettings
from scene.reconstruct.train import measure, reconstruct
from scene.render.api import make_renderer
from scene.render.cpu.training import parameters_of

SMALL = ReconstructSettings(
    iterations=240,
    long_side=96,
    most_gaussians=900,
    sh_degree=1,
    sh_from=120,
    half_size_until=40,
    densify_from=40,
    densify_every=20,
    reset_every=60,
    reset_until=0.3,
)


def _place(n: int = 500) -> Gaussians:
    """A bumpy wall of opaque colored blobs and a few in front of it; y down, the wall at z = 0."""
    rng = np.random.default_rng(2)
    means = np.stack([rng.uniform(-2, 2, n), rng.uniform(-1.5, 1.5, n), rng.normal(0, 0.05, n)], 1)
    means[: n // 10, 2] -= 0.6
    quats = rng.normal(size=(n, 4))
    colors = 0.5 + 0.45 * np.sin(means[:, :1] * [2.0, 3.0, 1.0] + means[:, 1:2] * [1.0, -2.0, 2.0])
    return Gaussians(
        means,
        quats / np.linalg.norm(quats, axis=1, keepdims=True),
        np.exp(rng.normal(-2.0, 0.25, (n, 3))),
        np.full(n, 0.95),
        ((colors - 0.5) / SH_C0)[:, None],
    )


def _cameras(count: int = 14) -> list[Camera]:
    """On an arc before the wall; not square, principal point off centre."""
    cameras = []
    for i in range(count):
        a = np.radians(-35 + 70 * i / (count - 1))
        eye = [3 * np.sin(a), 0.4 * np.cos(7 * a), -3 * np.cos(a)]
        camera = Camera.look_at(eye, [0, 0, 0], [0, -1, 0], 96, 72, 50.0)
        K = camera.K.copy()
        K[:2, 2] += [4.0, -3.0]
        cameras.append(replace(camera, K=K))
    return cameras


def _capture(points: int = 200) -> Capture:
    place = _place()
    renderer = make_renderer(place, "cpu")
    frames = []
    for i, camera in enumerate(_cameras()):
        rgb = renderer.render(camera, (0.2, 0.3, 0.5)).rgb
        pixels = np.round(np.clip(rgb, 0, 1) * 255).astype(np.uint8)
        frames.append(Frame(f"{i:02d}", camera, pixels=pixels, held_out=i in (4, 9)))
    rng = np.random.default_rng(5)
    some = rng.choice(len(place), points, replace=False)
    near = place.means[some] + rng.normal(0, 0.02, (points, 3))
    return Capture(tuple(frames), points=near)


@pytest.fixture(scope="module")
def capture() -> Capture:
    return _capture()


@pytest.fixture(scope="module")
def uninterrupted(capture, tmp_path_factory):
    checkpoint = tmp_path_factory.mktemp("reconstruct") / "half.safetensors"
    seen = []

    def watch(progress) -> bool:
        seen.append(progress)
        return True

    settings = replace(SMALL, random_background=False)
    result = reconstruct(capture, settings, watch, checkpoint_to=checkpoint, checkpoint_every=140,
                         report_every=20, threads=1)  # fmt: skip
    return result, seen, settings


def test_a_small_place_comes_back(capture, uninterrupted):
    result, seen, settings = uninterrupted
    # flat gray would be 14 dB; the start points alone about 18 dB
    assert result.held_out_psnr > 26
    assert result.held_out_ssim > 0.85
    assert dict(result.held_out).keys() == {"04", "09"}
    assert 200 < len(result.gaussians) <= settings.most_gaussians
    assert result.gaussians.sh.shape[1] == 4
    assert result.start == "200 points (given points)"
    assert [p.iteration for p in seen] == [*range(20, 240, 20), 240]
    assert seen[-1].held_out_psnr == result.held_out_psnr and seen[0].held_out_psnr is None
    assert seen[-1].loss < 0.5 * seen[0].loss


def test_saved_scene_has_the_trainers_decibels(capture, uninterrupted, tmp_path):
    result, _, settings = uninterrupted
    path = tmp_path / "scene.ply"
    save_ply(result.gaussians, path)
    photos = load_photos(capture, settings.long_side)
    again = measure(load_gaussians(path).gaussians, photos.held_out)
    assert again.psnr == pytest.approx(result.held_out_psnr, abs=0.05)


def test_resumed_is_uninterrupted(capture, uninterrupted, tmp_path):
    whole, _, settings = uninterrupted
    checkpoint = tmp_path / "part.safetensors"
    # in the middle of a round of photos and of a densification interval, after a reset
    stopped = reconstruct(
        capture, settings, lambda p: p.iteration < 130, None, checkpoint, 1000, 10, threads=1
    )
    assert stopped.iterations == 130
    assert stopped.held_out_psnr < whole.held_out_psnr
    part = reconstruct(capture, settings, resume_from=checkpoint, threads=1)
    assert part.iterations == 240
    for name in ("means", "quats", "scales", "opacities", "sh"):
        np.testing.assert_array_equal(getattr(part.gaussians, name), getattr(whole.gaussians, name))


def test_a_stop_waits_until_opacities_have_recovered(capture):
    # reset after iteration 60, asked to stop at 60: 18 iterations later it may
    settings = replace(SMALL, iterations=240)
    assert settings.is_reset(60) and settings.recovery == 18
    stopped = reconstruct(capture, settings, lambda p: False, report_every=60, threads=1)
    assert stopped.iterations == 78


def test_two_threads_reach_the_same_quality(capture, uninterrupted):
    whole, _, settings = uninterrupted
    two = reconstruct(capture, settings, threads=2)
    # sums in another order: not the same scene, but as good a one
    assert two.held_out_psnr == pytest.approx(whole.held_out_psnr, abs=1.0)


def test_checkpoint_of_other_settings_is_refused(capture, tmp_path):
    path = tmp_path / "c.safetensors"
    short = replace(SMALL, iterations=2)
    reconstruct(capture, short, checkpoint_to=path, threads=1)
    with pytest.raises(InputError, match=r"other settings \(seed\)"):
        reconstruct(capture, replace(short, seed=1), resume_from=path, threads=1)
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(InputError, match="wanted a checkpoint"):
        reconstruct(capture, short, resume_from=path, threads=1)
    with pytest.raises(InputError, match="no such checkpoint"):
        reconstruct(capture, short, resume_from=tmp_path / "none", threads=1)


def test_too_few_photos_or_points(capture):
    with pytest.raises(InputError, match="at least 3 training photos, found 2"):
        reconstruct(replace(capture, frames=capture.frames[:2]), SMALL)
    with pytest.raises(InputError, match="at least 100 points to start from, found 7"):
        reconstruct(replace(capture, points=capture.points[:7]), SMALL)


def _rows(opacities, sizes, means) -> np.ndarray:
    n = len(opacities)
    return parameters_of(
        Gaussians(
            np.asarray(means, dtype=float),
            np.tile([0.5, 0.5, 0.5, 0.5], (n, 1)),
            np.repeat(np.asarray(sizes, dtype=float)[:, None], 3, axis=1),
            np.asarray(opacities, dtype=float),
            np.zeros((n, 1, 3)),
        )
    )


AROUND = densify.Surroundings(extent=2.0, centers=np.zeros((1, 3)))


def test_clone_small_split_large_drop_faint():
    # small and wanting, large and wanting, faint, content
    rows = _rows(
        [0.5, 0.5, 0.004, 0.5], [0.01, 0.1, 0.01, 0.1], [[1, 0, 0], [2, 0, 0], [3, 0, 0], [4, 0, 0]]
    )
    gradients = np.array([1e-3, 1e-3, 1e-3, 1e-5], np.float32)
    result = densify.densify(rows, gradients, 2e-4, 100, AROUND, np.random.default_rng(0))
    assert (result.cloned, result.split, result.removed) == (1, 1, 1)
    old = result.parameters[result.source >= 0]
    new = result.parameters[result.source == -1]
    np.testing.assert_array_equal(old, rows[result.source[result.source >= 0]])
    assert sorted(result.source[result.source >= 0]) == [0, 3]
    halves = new[np.abs(new[:, 0] - 2) < 0.7]
    assert len(new) == 3 and len(halves) == 2
    np.testing.assert_allclose(np.exp(halves[:, 3:6]), 0.1 / 1.6, rtol=1e-5)
    clone = new[np.abs(new[:, 0] - 1) < 1e-6]
    np.testing.assert_array_equal(clone, rows[:1])


def test_growth_is_capped_and_the_strongest_come_first():
    n = 50
    rows = _rows(
        np.full(n, 0.5), np.full(n, 0.01), np.stack([np.arange(n), np.zeros(n), np.zeros(n)], 1)
    )
    gradients = np.linspace(1e-3, 2e-3, n).astype(np.float32)
    result = densify.densify(rows, gradients, 2e-4, 60, AROUND, np.random.default_rng(0))
    assert len(result.parameters) == 60
    assert set(result.parameters[result.source == -1][:, 0].astype(int)) == set(range(40, 50))


def test_a_far_sky_is_kept_and_a_near_fog_bank_is_not():
    # sigma 30: seen from 200 away 0.15 of the distance, from 3 away ten times it
    rows = _rows([0.5, 0.5], [30.0, 30.0], [[200, 0, 0], [3, 0, 0]])
    generator = np.random.default_rng(0)
    result = densify.densify(rows, np.zeros(2, np.float32), 2e-4, 10, AROUND, generator)
    assert result.source.tolist() == [0]
    densify.limit_sizes(rows, AROUND)
    np.testing.assert_allclose(np.exp(rows[:, 3]), [30.0, 0.6], rtol=1e-5)


def test_splits_stay_within_their_gaussian():
    # a needle along the y axis after its rotation: wxyz (1/2, 1/2, 1/2, 1/2) turns x into y
    rows = _rows(np.full(400, 0.5), np.full(400, 1.0), np.tile([50.0, 0, 0], (400, 1)))
    rows[:, 3:6] = np.log([1.0, 1e-4, 1e-4])
    result = densify.densify(rows, np.ones(400, np.float32), 2e-4, 10_000, densify.Surroundings(5.0, np.zeros((1, 3))),
                             np.random.default_rng(0))  # fmt: skip
    spread = result.parameters[:, :3].std(axis=0)
    assert result.split == 400
    np.testing.assert_allclose(spread, [0, 1, 0], atol=0.06)


def test_adam_by_hand():
    parameters = np.array([[1.0, 2.0, 3.0, 4.0]], np.float32)
    gradients = np.array([[0.5, -2.0, 0.0, 1.0]], np.float32)
    rates = np.array([0.1, 0.01, 1.0, 0.0], np.float32)
    adam = Adam(parameters.shape)
    adam.step(parameters, gradients, rates)
    # the first step is the rate, against the gradient's sign
    np.testing.assert_allclose(parameters, [[0.9, 2.01, 3.0, 4.0]], rtol=1e-6)
    assert not gradients.any()
    adam.step(parameters, np.array([[-0.5, 0, 0, 0]], np.float32), rates)
    m, v = 0.9 * 0.05 - 0.05, 0.999 * 0.00025 + 0.00025
    wanted = 0.9 - 0.1 * (m / (1 - 0.9**2)) / np.sqrt(v / (1 - 0.999**2))
    assert parameters[0, 0] == pytest.approx(wanted, rel=1e-5)


def test_adam_follows_rearranged_rows():
    adam = Adam((3, 4))
    adam.first[:] = np.arange(3)[:, None] + 1
    adam.rearrange(np.array([2, -1, 0, -1]))
    assert adam.first[:, 0].tolist() == [3, 0, 1, 0]
    assert adam.second.shape == (4, 4)


def test_settings_that_cannot_work_are_refused():
    with pytest.raises(InputError, match="SH degree of 0 to 3, found 4"):
        ReconstructSettings(sh_degree=4)
    with pytest.raises(InputError, match="at least 1 iteration"):
        ReconstructSettings(iterations=0)
