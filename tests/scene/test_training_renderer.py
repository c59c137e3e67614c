"""The trainer's renderer and loss against float64 autograd of the reference, on the whole loss."""

import numpy as np
import pytest
import torch

from scene.camera import Camera
from scene.gaussians import SH_C0, Gaussians
from scene.reconstruct.losses import WINDOW, PhotometricLoss, psnr, similarity
from scene.render import reference
from scene.render.api import RenderSettings, make_renderer
from scene.render.cpu.training import TrainingRenderer, gaussians_of, parameters_of

BACKGROUND = (0.3, 0.6, 0.2)
COLUMNS = {"mean": (0, 3), "log scale": (3, 6), "quaternion": (6, 10), "logit": (10, 11)}


def _gaussians(n: int, coefficients: int, seed: int = 3) -> Gaussians:
    rng = np.random.default_rng(seed)
    quats = rng.normal(size=(n, 4))
    sh = rng.normal(0, 0.2, (n, coefficients, 3))
    sh[:, 0] = rng.normal(0, 0.6, (n, 3)) / (SH_C0 * 3)
    return Gaussians(
        means=np.stack([rng.uniform(-1.2, 1.2, n), rng.uniform(-1, 1, n), rng.uniform(2, 5, n)], 1),
        quats=quats / np.linalg.norm(quats, axis=1, keepdims=True),
        scales=np.exp(rng.normal(-2.3, 0.5, (n, 3))),
        opacities=1 / (1 + np.exp(-rng.normal(0.5, 1.2, n))),
        sh=sh,
    )


def _camera() -> Camera:
    pose = np.eye(4)
    a = 0.06
    pose[:3, :3] = [[np.cos(a), 0, np.sin(a)], [0, 1, 0], [-np.sin(a), 0, np.cos(a)]]
    pose[:3, 3] = [0.05, 0.1, 0.02]
    # not square, principal point off centre, fx != fy
    return Camera(pose, np.array([[80.0, 0, 47.3], [0, 82.0, 36.1], [0, 0, 1]]), 93, 77)


def _photo(height: int, width: int) -> np.ndarray:
    noise = np.random.default_rng(9).random((3, height, width))
    smooth = (noise + np.roll(noise, 1, 1) + np.roll(noise, 1, 2)) / 3
    return smooth.astype(np.float32)


def _torch_ssim(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    line = torch.tensor(WINDOW, dtype=torch.float64)
    window = torch.outer(line, line).expand(3, 1, 11, 11)

    def blur(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.conv2d(x[None], window, padding=5, groups=3)[0]

    m1, m2 = blur(a), blur(b)
    s1, s2, s12 = blur(a * a) - m1 * m1, blur(b * b) - m2 * m2, blur(a * b) - m1 * m2
    top = (2 * m1 * m2 + 0.01**2) * (2 * s12 + 0.03**2)
    return (top / ((m1 * m1 + m2 * m2 + 0.01**2) * (s1 + s2 + 0.03**2))).mean()


def _exact_gradients(gaussians, camera, settings, photo):
    """dL/d(parameter rows) in float64, by autograd through activation, reference and loss."""
    rows = torch.tensor(parameters_of(gaussians).astype(np.float64), requires_grad=True)
    coefficients = gaussians.sh.shape[1]
    splats = reference.SplatTensors(
        means=rows[:, :3],
        scales=rows[:, 3:6].exp(),
        quats=rows[:, 6:10],
        opacities=torch.sigmoid(rows[:, 10]),
        sh=rows[:, 11 : 11 + 3 * coefficients].reshape(len(gaussians), coefficients, 3),
    )
    images = reference.render_tensors(splats, camera, settings)
    background = torch.tensor(BACKGROUND, dtype=torch.float64)
    picture = (images.rgb + (1 - images.alpha)[..., None] * background).permute(2, 0, 1)
    true = torch.tensor(photo, dtype=torch.float64)
    ssim = _torch_ssim(picture, true)
    loss = 0.8 * (picture - true).abs().mean() + 0.2 * (1 - ssim)
    loss.backward()
    return rows.grad.numpy(), float(loss.detach()), float(ssim.detach())


# degrees 0 to 3; with and without opacity compensation; one thread and two
@pytest.mark.parametrize(
    ("coefficients", "antialiased", "threads"),
    [(1, False, 1), (4, False, 1), (4, True, 2), (9, False, 2), (16, False, 1)],
)
def test_whole_loss_gradients(coefficients, antialiased, threads):
    gaussians, camera = _gaussians(200, coefficients), _camera()
    settings = RenderSettings(antialiased=antialiased)
    photo = _photo(camera.height, camera.width)
    parameters = parameters_of(gaussians)
    # stored quaternions need not be unit: their length must not matter, but scales the gradient
    parameters[:, 6:10] *= 1.7
    renderer = TrainingRenderer(settings, threads)
    picture = renderer.forward(parameters, coefficients, camera, BACKGROUND)
    value, seeds = PhotometricLoss(camera.height, camera.width, threads=threads)(picture, photo)
    screen, seen = np.zeros(200, np.float32), np.zeros(200, np.float32)
    got = renderer.backward(seeds, screen, seen).copy()
    got[:, 6:10] *= 1.7

    true, loss, ssim = _exact_gradients(gaussians, camera, settings, photo)
    assert value.loss == pytest.approx(loss, rel=1e-5)
    assert value.ssim == pytest.approx(ssim, rel=1e-5)
    parts = {**COLUMNS, "sh": (11, 11 + 3 * coefficients)}
    for name, (first, last) in parts.items():
        difference = np.linalg.norm(got[:, first:last] - true[:, first:last])
        assert difference < 1e-5 * np.linalg.norm(true[:, first:last]), name
    assert (seen <= 1).all() and 100 < seen.sum() <= 200
    assert (screen[seen == 0] == 0).all() and (screen[seen == 1] > 0).mean() > 0.9


def test_screen_gradient_is_in_half_pictures():
    # a single Gaussian, loss = red of one pixel; move the mean by one pixel and look
    gaussians, camera = _gaussians(1, 1), _camera()
    parameters = parameters_of(gaussians)
    parameters[0, :3] = camera.center + 3.0 * camera.rays([40.5, 30.5])
    parameters[0, 3:6] = np.log(0.2)
    parameters[0, 11:14] = 1.0
    renderer = TrainingRenderer(threads=1)
    screen, seen = np.zeros(1, np.float32), np.zeros(1, np.float32)
    seeds = np.zeros((3, 77, 93), np.float32)
    seeds[0, 30, 43] = 1.0

    def red(pixel_x: float) -> float:
        moved = parameters.copy()
        moved[0, :3] = camera.center + 3.0 * camera.rays([pixel_x, 30.5])
        return float(renderer.forward(moved, 1, camera, (0, 0, 0))[0, 30, 43])

    slope = (red(40.5 + 0.05) - red(40.5 - 0.05)) / 0.1
    renderer.forward(parameters, 1, camera, (0, 0, 0))
    renderer.backward(seeds, screen, seen)
    assert screen[0] == pytest.approx(slope * 93 / 2, rel=0.02)


def test_trainer_draws_what_the_renderer_draws():
    gaussians, camera = _gaussians(400, 4), _camera()
    parameters = parameters_of(gaussians)
    picture = TrainingRenderer(threads=1).forward(parameters, 4, camera, BACKGROUND)
    same = make_renderer(gaussians_of(parameters, 4), "cpu").render(camera, BACKGROUND)
    np.testing.assert_allclose(picture[:3], same.rgb.transpose(2, 0, 1), atol=2e-6)
    np.testing.assert_allclose(picture[3], same.alpha, atol=2e-6)


def test_two_threads_are_one_thread():
    gaussians, camera = _gaussians(400, 4), _camera()
    parameters, photo = parameters_of(gaussians), _photo(77, 93)
    results = []
    for threads in (1, 2):
        renderer = TrainingRenderer(threads=threads)
        picture = renderer.forward(parameters, 4, camera, BACKGROUND)
        value, seeds = PhotometricLoss(77, 93, threads=threads)(picture, photo)
        zeros = np.zeros((2, 400), np.float32)
        results.append((value.loss, picture, seeds.copy(), renderer.backward(seeds, *zeros)))
    (loss_1, picture_1, seeds_1, got_1), (loss_2, picture_2, seeds_2, got_2) = results
    assert loss_1 == pytest.approx(loss_2, rel=1e-6)
    np.testing.assert_array_equal(picture_1, picture_2)
    np.testing.assert_allclose(seeds_1, seeds_2, atol=1e-9)
    assert np.linalg.norm(got_1 - got_2) < 1e-6 * np.linalg.norm(got_1)


def test_number_of_gaussians_may_change_between_pictures():
    renderer, camera = TrainingRenderer(threads=2), _camera()
    for n in (50, 333, 17):
        gaussians = _gaussians(n, 4, seed=n)
        picture = renderer.forward(parameters_of(gaussians), 1, camera, BACKGROUND)
        flat = Gaussians(gaussians.means, gaussians.quats, gaussians.scales, gaussians.opacities,
                         gaussians.sh[:, :1])  # fmt: skip
        same = make_renderer(flat, "cpu").render(camera, BACKGROUND)
        np.testing.assert_allclose(picture[:3], same.rgb.transpose(2, 0, 1), atol=2e-6)
        seeds = np.ones((3, 77, 93), np.float32)
        got = renderer.backward(seeds, np.zeros(n, np.float32), np.zeros(n, np.float32))
        assert got.shape == (n, 24) and np.isfinite(got).all()
        assert not got[:, 14:].any()


def test_similarity_and_psnr_by_hand():
    a = np.full((3, 20, 30), 0.5, np.float32)
    b = np.full((3, 20, 30), 0.6, np.float32)
    assert psnr(a, b) == pytest.approx(20.0, abs=1e-3)
    assert psnr(a + 9, np.ones_like(a)) == np.inf
    assert similarity(b, b) == pytest.approx(1.0, abs=1e-4)
    # far from the edges a constant picture has no variance: (2 m1 m2 + C1) / (m1^2 + m2^2 + C1)
    inner = (2 * 0.5 * 0.6 + 1e-4) / (0.25 + 0.36 + 1e-4)
    assert similarity(np.tile(a, (1, 10, 10)), np.tile(b, (1, 10, 10))) == pytest.approx(
        inner, abs=0.01
    )
