"""The CUDA trainer's own code, on the CPU, with a stand-in for gsplat 1.5.3.

The stand-in's rasterization is our differentiable reference; its strategies check what they are
given and record their calls, as gsplat's source says they are to be called.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from scene.camera import Camera
from scene.capture import Capture, Frame
from scene.errors import InputError
from scene.gaussians import SH_C0, Gaussians
from scene.reconstruct import cuda
from scene.reconstruct.cuda import CudaTraining, photometric_loss
from scene.reconstruct.losses import PhotometricLoss
from scene.reconstruct.options import ReconstructOptions
from scene.reconstruct.photos import load_photos
from scene.reconstruct.quality import measure
from scene.reconstruct.settings import ReconstructSettings
from scene.reconstruct.train import reconstruct
from scene.render import reference
from scene.render.api import RenderSettings, make_renderer
from scene.render.reference import SplatTensors

SETTINGS = ReconstructSettings(
    iterations=30, long_side=40, sh_degree=1, sh_from=10, half_size_until=4, densify_from=5,
    densify_every=5, reset_every=20, most_gaussians=60, start_points=100,
)  # fmt: skip


class Strategy:
    """What both of gsplat's strategies have in common."""

    def __init__(self, **settings):
        self.settings, self.calls = settings, []
        self.grow_grad2d = settings.get("grow_grad2d")

    def check_sanity(self, params, optimizers):
        assert set(params) == set(optimizers)
        assert {"means", "scales", "quats", "opacities"} <= set(params)

    def step_pre_backward(self, params, optimizers, state, step, info):
        info["means2d"].retain_grad()


class DefaultStrategy(Strategy):
    def initialize_state(self, scene_scale=1.0):
        return {"scene_scale": scene_scale}

    def step_post_backward(self, params, optimizers, state, step, info, packed=False):
        grad = info["means2d"].grad
        assert grad.shape == (1, len(params["means"]), 2) and grad.abs().sum() > 0
        self.calls.append((step, self.grow_grad2d))


class MCMCStrategy(Strategy):
    def initialize_state(self):
        return {}

    def step_post_backward(self, params, optimizers, state, step, info, lr):
        self.calls.append((step, lr))


class Gsplat:
    DefaultStrategy, MCMCStrategy = DefaultStrategy, MCMCStrategy

    @staticmethod
    def rasterization(
        means, quats, scales, opacities, colors, viewmats, Ks, width, height, near_plane, eps2d,
        sh_degree, packed, tile_size, backgrounds, render_mode, rasterize_mode,
    ):  # fmt: skip
        assert not packed and render_mode == "RGB" and rasterize_mode == "classic"
        view = Camera(viewmats[0].numpy(), Ks[0].numpy(), width, height)
        sh = colors[:, : (sh_degree + 1) ** 2]
        splats = SplatTensors(means, quats, scales, opacities, sh)
        settings = RenderSettings(near_plane, eps2d)
        depth = (means @ viewmats[0, :3, :3].T + viewmats[0, :3, 3])[:, 2].detach()
        kept = torch.nonzero(depth >= near_plane).squeeze(1)
        kept = kept[torch.argsort(depth[kept], stable=True)]
        projected = reference.project(splats, view, settings)
        means2d = torch.zeros(1, len(means), 2).index_put(
            (torch.zeros_like(kept), kept), projected.xy
        )
        projected = replace(projected, xy=means2d[0, kept])
        planes = reference._draw(projected, 0, 0, width, height)
        rgb = planes[..., :3] + (1 - planes[..., 3:4]) * backgrounds[0]
        return rgb[None], planes[None, ..., 3:4], {"means2d": means2d}


@pytest.fixture(autouse=True)
def stand_in(monkeypatch):
    monkeypatch.setattr(cuda, "load_gsplat", lambda: Gsplat)


@pytest.fixture(scope="module")
def capture() -> Capture:
    rng = np.random.default_rng(2)
    n = 120
    means = np.stack([rng.uniform(-2, 2, n), rng.uniform(-1.5, 1.5, n), rng.normal(0, 0.05, n)], 1)
    colors = 0.5 + 0.3 * np.sin(means[:, :1] * [2.0, 3.0, 1.0])
    place = Gaussians(
        means, np.tile([1.0, 0, 0, 0], (n, 1)), np.full((n, 3), 0.2), np.full(n, 0.9),
        ((colors - 0.5) / SH_C0)[:, None],
    )  # fmt: skip
    renderer, frames = make_renderer(place, "cpu"), []
    for i in range(5):
        eye = [3 * np.sin(0.15 * i), 0.1 * i, -3 * np.cos(0.15 * i)]
        camera = Camera.look_at(eye, [0, 0, 0], [0, -1, 0], 40, 30, 50.0)
        rgb = np.clip(renderer.render(camera, (0.5, 0.5, 0.5)).rgb, 0, 1)
        pixels = np.round(rgb * 255).astype(np.uint8)
        frames.append(Frame(f"{i}", camera, pixels=pixels, held_out=i == 2))
    return Capture(tuple(frames), points=means)


def _training(capture, settings=SETTINGS, options=None) -> CudaTraining:
    photos = load_photos(capture, settings.long_side)
    return CudaTraining(capture, photos, settings, options or ReconstructOptions(), "cpu")


def test_the_loss_is_the_cpu_trainers_value_and_gradient():
    rng = np.random.default_rng(0)
    picture, photo = (rng.random((3, 21, 34), dtype=np.float32) for _ in range(2))
    wanted, slope = PhotometricLoss(21, 34, 0.2)(picture, photo)
    drawn = torch.tensor(picture, requires_grad=True)
    loss = photometric_loss(drawn, (torch.tensor(photo), None), 0.2)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(wanted.loss, rel=1e-5)
    np.testing.assert_allclose(drawn.grad.numpy(), slope, atol=2e-7)


def test_training_makes_the_scene_better_and_calls_the_strategy(capture):
    training = _training(capture)
    training.begin()
    before = measure(training.gaussians(), load_photos(capture, 40).held_out).psnr
    for _ in range(30):
        training.step()
    assert measure(training.gaussians(), load_photos(capture, 40).held_out).psnr > before + 1
    strategy = training._strategy
    assert strategy.settings["refine_start_iter"] == 4
    assert strategy.settings["refine_stop_iter"] == 25
    # of 120 points as many are taken as the cap of 60 allows: nothing may grow
    assert [step for step, _ in strategy.calls] == list(range(1, 31))
    assert {threshold for _, threshold in strategy.calls} == {float("inf")}
    assert training._state["scene_scale"] == pytest.approx(load_photos(capture, 40).extent)
    assert "60 points" in training.source


def test_opacities_are_pulled_down_and_recover(capture):
    training = _training(capture, replace(SETTINGS, iterations=50))
    training.begin()
    for _ in range(20):
        training.step()
    assert training._rows()[:, 10].max() <= np.log(0.05 / 0.95) + 1e-5
    assert not training.recovered
    for _ in range(6):
        training.step()
    assert training.recovered


def test_mcmc_is_given_its_cap_and_the_falling_rate(capture):
    training = _training(capture, options=ReconstructOptions(densification="mcmc"))
    training.begin()
    for _ in range(3):
        training.step()
    strategy = training._strategy
    assert strategy.settings["cap_max"] == 60 and strategy.settings["noise_lr"] == 5e5
    rates = [rate for _, rate in strategy.calls]
    extent = load_photos(capture, 40).extent
    np.testing.assert_allclose(rates, [1.6e-4 * extent * 0.01 ** (i / 30) for i in (1, 2, 3)])


def test_a_restored_training_goes_on_where_it_was(capture):
    whole, part = _training(capture), _training(capture)
    whole.begin()
    for _ in range(7):
        whole.step()
    part.restore(whole.checkpoint())
    for _ in range(4):
        whole.step()
        part.step()
    np.testing.assert_allclose(part._rows(), whole._rows(), atol=1e-5)


def test_the_way_in_takes_the_device(capture, monkeypatch):
    made = []

    def on_cpu(*given):
        made.append(CudaTraining(*given, device="cpu"))
        return made[0]

    monkeypatch.setattr(cuda, "CudaTraining", on_cpu)
    result = reconstruct(capture, replace(SETTINGS, iterations=6), device="cuda")
    assert result.iterations == 6 and len(made) == 1
    assert np.isfinite(result.held_out_psnr)


def test_exposure_on_cuda_is_refused(capture):
    with pytest.raises(InputError, match="exposure is learnt on the cpu device only"):
        _training(capture, options=ReconstructOptions(exposure=True))
