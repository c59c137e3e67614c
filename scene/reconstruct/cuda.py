"""The same reconstruction on a CUDA device: gsplat 1.5.3 draws, and its strategies densify.

The recipe (start points, photo order, loss, learning rates, size limits, resets) is the CPU
trainer's; cloning, splitting, relocation and noise are gsplat's `DefaultStrategy` and
`MCMCStrategy`. The latter grows by 5 % per round and puts copies exactly upon each other, which
the CPU trainer's does not, so that a short run may stay below its cap. Opacity resets are made
here, since those of gsplat 1.5.3's default strategy never happen. The machine that this was
written on has no CUDA device: it ran on the CPU only, with a stand-in for gsplat's rasterization.
Two runs need not be equal.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scene.capture import Capture
from scene.errors import InputError
from scene.gaussians import Gaussians
from scene.reconstruct import densify
from scene.reconstruct.checkpoint import Checkpoint
from scene.reconstruct.hidden import Hidden, find_hidden
from scene.reconstruct.losses import WINDOW
from scene.reconstruct.options import ReconstructOptions
from scene.reconstruct.photos import Photo, Photos
from scene.reconstruct.quality import BLACK
from scene.reconstruct.settings import ReconstructSettings
from scene.reconstruct.start import first_parameters, start_points
from scene.render.api import Color, RenderSettings
from scene.render.cpu.training import gaussians_of
from scene.render.cpu.training_pack import (
    HARMONICS,
    LOG_SCALE,
    LOGIT,
    MEAN,
    QUATERNION,
    parameter_floats,
)
from scene.render.cuda import TILE, load_gsplat

log = logging.getLogger(__name__)

FloatArray = NDArray[np.float32]

_NEVER = 1 << 60
_SMOOTHING = 0.98
_C1, _C2 = 0.01**2, 0.03**2


class CudaTraining:
    """One reconstruction; see `scene.reconstruct.train.Training`."""

    def __init__(
        self,
        capture: Capture,
        photos: Photos,
        settings: ReconstructSettings,
        options: ReconstructOptions,
        device: str = "cuda",
    ) -> None:
        if options.exposure:
            raise InputError("reconstruct: exposure is learnt on the cpu device only")
        self._gsplat = load_gsplat()
        self._capture, self._photos, self._settings = capture, photos, settings
        self._options, self._device = options, device
        self._around = densify.Surroundings(photos.extent, photos.centers)
        self._rng = np.random.default_rng(settings.seed)
        torch.manual_seed(settings.seed)
        self._waiting: list[int] = []
        self._params: dict[str, torch.nn.Parameter] = {}
        self._optimizers: dict[str, torch.optim.Optimizer] = {}
        self._strategy = self._make_strategy()
        self._state: dict[str, Any] = {}
        self.loss = float("nan")
        self.iteration = 0
        self.source = "a checkpoint"

    def begin(self) -> None:
        """Start from points."""
        start = start_points(self._capture, self._photos, self._settings, self._rng, self._options)
        self.source = f"{len(start.points)} points ({start.source})"
        self._take(first_parameters(start, self._photos, self._settings.coefficients))

    def step(self) -> None:
        """One photo."""
        settings = self._settings
        self.iteration += 1
        photo = self._next_photo()
        background: Color = BLACK
        if settings.random_background:
            background = tuple(self._rng.random(3).tolist())
        picture, info = self._draw(photo, background)
        if not self._options.mcmc:
            self._strategy.step_pre_backward(
                self._params, self._optimizers, self._state, self.iteration, info
            )
        loss = photometric_loss(picture, self._planes(photo, background), settings.dssim_weight)
        objective = loss
        if self._options.mcmc:
            opacity = torch.sigmoid(self._params["opacities"]).mean()
            size = torch.exp(self._params["scales"]).mean() / self._around.extent
            penalties = (self._options.opacity_penalty, self._options.scale_penalty)
            objective = loss + penalties[0] * opacity + penalties[1] * size
        objective.backward()  # type: ignore[no-untyped-call]
        rate = self._set_rate()
        for optimizer in self._optimizers.values():
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
        self._tend(info, rate)
        value = float(loss.detach())
        smoothed = _SMOOTHING * self.loss + (1 - _SMOOTHING) * value
        self.loss = smoothed if np.isfinite(self.loss) else value

    @property
    def recovered(self) -> bool:
        """Whether opacities have had time to rise again since they were last pulled down."""
        first = max(1, self.iteration - self._settings.recovery + 1)
        resets = (self._settings.is_reset(i) for i in range(first, self.iteration + 1))
        return self._options.mcmc or not any(resets)

    @property
    def count(self) -> int:
        """Gaussians now."""
        return len(self._params["means"])

    def gaussians(self) -> Gaussians:
        """What there is now, without what is too faint to be drawn."""
        rows = self._rows()
        return gaussians_of(rows[~densify.faint(rows)], self._settings.coefficients)

    def finish(self) -> Hidden:
        """As `CpuTraining.finish`; judged by the CPU kernels."""
        rows = self._rows()
        rows = rows[~densify.faint(rows)]
        hidden = find_hidden(rows, self._photos.training, 1)
        log.info("%s%s", hidden, ", removed" if self._options.prunes_hidden else ", kept")
        self._take(rows[~hidden.unseen] if self._options.prunes_hidden else rows)
        return hidden

    def checkpoint(self) -> Checkpoint:
        """All that `restore` needs; densification's running means begin anew there."""
        rows = self._rows()
        moments = [self._rows(self._moments(key)) for key in ("exp_avg", "exp_avg_sq")]
        nothing = np.zeros(len(rows), np.float32)
        return Checkpoint(
            rows, moments[0], moments[1], nothing, nothing,
            np.array(self._waiting, dtype=np.int64), dict(self._rng.bit_generator.state),
            self.iteration,
        )  # fmt: skip

    def restore(self, checkpoint: Checkpoint) -> None:
        """Continue near where a checkpoint was taken."""
        self._take(checkpoint.parameters)
        for key, rows in (("exp_avg", checkpoint.first), ("exp_avg_sq", checkpoint.second)):
            for name, values in self._split(rows).items():
                state = self._optimizers[name].state[self._params[name]]
                state[key] = values
                state["step"] = torch.tensor(float(checkpoint.iteration))
        self._waiting = checkpoint.waiting.tolist()
        self.iteration = checkpoint.iteration
        state_of_random: Any = checkpoint.rng
        self._rng.bit_generator.state = state_of_random

    def _make_strategy(self) -> Any:
        settings, options = self._settings, self._options
        rounds = {
            "refine_start_iter": settings.densify_from - 1,
            "refine_stop_iter": int(settings.densify_until * settings.iterations) + 1,
            "refine_every": settings.densify_every,
        }
        if options.mcmc:
            return self._gsplat.MCMCStrategy(
                cap_max=settings.most_gaussians, noise_lr=options.noise, **rounds
            )
        # without its own resets the default strategy also prunes nothing for its size
        return self._gsplat.DefaultStrategy(
            grow_grad2d=settings.densify_gradient, prune_opa=densify.FAINTEST,
            grow_scale3d=densify.SMALL_SHARE, reset_every=_NEVER, **rounds,
        )  # fmt: skip

    def _tend(self, info: dict[str, Any], rate: float) -> None:
        """Densification, size limits and resets."""
        settings, at = self._settings, (self._params, self._optimizers, self._state)
        if self._options.mcmc:
            self._strategy.step_post_backward(*at, self.iteration, info, lr=rate)
        else:
            full = self.count >= settings.most_gaussians
            self._strategy.grow_grad2d = float("inf") if full else settings.densify_gradient
            self._strategy.step_post_backward(*at, self.iteration, info, packed=False)
        if self.iteration % settings.densify_every == 0:
            self._limit_sizes()
        if settings.is_reset(self.iteration) and not self._options.mcmc:
            self._pull_down_opacities()

    @torch.no_grad()
    def _limit_sizes(self) -> None:
        means = self._params["means"].detach().cpu().numpy()
        most = torch.tensor(np.log(self._around.largest_sigma(means)), device=self._device)
        scales = self._params["scales"]
        scales.copy_(torch.minimum(scales, most[:, None]))

    @torch.no_grad()
    def _pull_down_opacities(self) -> None:
        logit = float(np.log(densify.RESET_OPACITY / (1 - densify.RESET_OPACITY)))
        opacities = self._params["opacities"]
        opacities.clamp_(max=logit)
        state = self._optimizers["opacities"].state[opacities]
        for key in ("exp_avg", "exp_avg_sq"):
            state[key].zero_()

    def _draw(self, photo: Photo, background: Color) -> tuple[Tensor, dict[str, Any]]:
        """(3, H, W) picture and what gsplat says of it."""
        params, camera, render = self._params, photo.camera, RenderSettings()
        coefficients = self._settings.coefficients_at(self.iteration)
        planes, _, info = self._gsplat.rasterization(
            means=params["means"],
            quats=params["quats"],
            scales=torch.exp(params["scales"]),
            opacities=torch.sigmoid(params["opacities"]),
            colors=torch.cat([params["sh0"], params["shN"]], dim=1),
            viewmats=self._tensor(camera.camera_from_world)[None],
            Ks=self._tensor(camera.K)[None],
            width=camera.width,
            height=camera.height,
            near_plane=render.near,
            eps2d=render.low_pass,
            sh_degree=int(coefficients**0.5) - 1,
            packed=False,
            tile_size=TILE,
            backgrounds=self._tensor(np.array(background))[None],
            render_mode="RGB",
            rasterize_mode="classic",
        )
        return planes[0, :, :, :3].permute(2, 0, 1), info

    def _planes(self, photo: Photo, background: Color) -> tuple[Tensor, Tensor | None]:
        weight = None if photo.weight is None else self._tensor(photo.weight)
        return self._tensor(photo.planes(background)), weight

    def _next_photo(self) -> Photo:
        """All photos in a random order, again and again."""
        photos = self._photos
        half = self.iteration <= self._settings.half_size_until
        if not self._waiting:
            self._waiting = self._rng.permutation(len(photos.training)).tolist()
        return (photos.half if half else photos.training)[self._waiting.pop()]

    def _set_rate(self) -> float:
        """The means' falling learning rate."""
        settings = self._settings
        fallen = settings.rate_mean_end ** (self.iteration / settings.iterations)
        rate = settings.rate_mean * self._around.extent * fallen
        self._optimizers["means"].param_groups[0]["lr"] = rate
        return float(rate)

    def _take(self, rows: FloatArray) -> None:
        """Go on with these rows of parameters; optimisers and strategy begin anew."""
        settings = self._settings
        rates = {
            "means": settings.rate_mean * self._around.extent, "scales": settings.rate_scale,
            "quats": settings.rate_quaternion, "opacities": settings.rate_opacity,
            "sh0": settings.rate_sh_dc, "shN": settings.rate_sh_rest,
        }  # fmt: skip
        self._params = {k: torch.nn.Parameter(v) for k, v in self._split(rows).items()}
        self._optimizers = {
            name: torch.optim.Adam([self._params[name]], lr=rate, eps=1e-15)
            for name, rate in rates.items()
        }
        self._strategy.check_sanity(self._params, self._optimizers)
        scale = {} if self._options.mcmc else {"scene_scale": self._around.extent}
        self._state = self._strategy.initialize_state(**scale)

    def _split(self, rows: FloatArray) -> dict[str, Tensor]:
        """Rows of parameters as gsplat's tensors."""
        count = self._settings.coefficients
        sh = rows[:, HARMONICS : HARMONICS + 3 * count].reshape(len(rows), count, 3)
        return {
            "means": self._tensor(rows[:, MEAN : MEAN + 3]),
            "scales": self._tensor(rows[:, LOG_SCALE : LOG_SCALE + 3]),
            "quats": self._tensor(rows[:, QUATERNION : QUATERNION + 4]),
            "opacities": self._tensor(rows[:, LOGIT]),
            "sh0": self._tensor(sh[:, :1]),
            "shN": self._tensor(sh[:, 1:]),
        }

    def _rows(self, tensors: dict[str, Any] | None = None) -> FloatArray:
        """Tensors of gsplat's shapes as rows of parameters."""
        chosen = self._params if tensors is None else tensors
        arrays = {name: value.detach().cpu().numpy() for name, value in chosen.items()}
        count, n = self._settings.coefficients, len(arrays["means"])
        rows = np.zeros((n, parameter_floats(count)), np.float32)
        rows[:, MEAN : MEAN + 3] = arrays["means"]
        rows[:, LOG_SCALE : LOG_SCALE + 3] = arrays["scales"]
        rows[:, QUATERNION : QUATERNION + 4] = arrays["quats"]
        rows[:, LOGIT] = arrays["opacities"]
        sh = np.concatenate([arrays["sh0"], arrays["shN"]], axis=1)
        rows[:, HARMONICS : HARMONICS + 3 * count] = sh.reshape(n, 3 * count)
        return rows

    def _moments(self, key: str) -> dict[str, Any]:
        return {
            name: self._optimizers[name].state[param].get(key, torch.zeros_like(param))
            for name, param in self._params.items()
        }

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.tensor(np.array(array, dtype=np.float32), device=self._device)


def photometric_loss(
    picture: Tensor, photo: tuple[Tensor, Tensor | None], dssim_weight: float
) -> Tensor:
    """`losses.PhotometricLoss` in torch: (1 - w) L1 + w (1 - SSIM), pictures (3, H, W).

    photo: planes and (H, W) weights or None; what does not count is made to agree.
    """
    true, weight = photo
    if weight is not None:
        picture = true + weight * (picture - true)
    l1 = (picture - true).abs().mean()
    return (1 - dssim_weight) * l1 + dssim_weight * (1 - _ssim(picture, true))


def _ssim(picture: Tensor, true: Tensor) -> Tensor:
    window = torch.tensor(WINDOW, device=picture.device, dtype=picture.dtype)
    reach = len(WINDOW) // 2
    stack = torch.stack([picture, true, picture**2, true**2, picture * true])
    flat = stack.reshape(1, 15, *picture.shape[1:])
    across = window.reshape(1, 1, 1, -1).repeat(15, 1, 1, 1)
    flat = torch.nn.functional.conv2d(flat, across, padding=(0, reach), groups=15)
    down = across.transpose(2, 3)
    flat = torch.nn.functional.conv2d(flat, down, padding=(reach, 0), groups=15)
    mean, true_mean, square, true_square, product = flat.reshape(stack.shape)
    both = 2 * mean * true_mean + _C1
    covariance = 2 * (product - mean * true_mean) + _C2
    means = mean**2 + true_mean**2 + _C1
    variances = square - mean**2 + true_square - true_mean**2 + _C2
    return (both * covariance / (means * variances)).mean()
