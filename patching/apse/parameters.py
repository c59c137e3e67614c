"""What an embedding learns, how it becomes Gaussians, and the clamps after every step."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from patching.apse.settings import ApseSettings
from patching.apse.spawn import Spawn
from patching.edit import no_gaussians
from scene.gaussians import SH_C0, Gaussians, matrices_to_quaternions

FloatArray = NDArray[np.float32]

OPACITY_LIMITS = (0.01, 0.99)
"""Reused opacities start inside these, since a logit of 0 or 1 would never move."""


class Learnable:
    """Parameters of reused Gaussians (color, opacity) and new ones (also centre and scale).

    tangents: (new, 2), normals: (new,) displacement of each new centre in its own frame
    (t1, t2 | n), strides; None without new Gaussians.
    """

    def __init__(self, reused: Gaussians, spawn: Spawn | None, settings: ApseSettings) -> None:
        self._settings = settings
        self._reused = reused
        self._spawn = spawn
        self._old_means = torch.from_numpy(reused.means.copy())
        self._old_scales = torch.from_numpy(reused.scales.copy())
        opacities = np.clip(reused.opacities, *OPACITY_LIMITS)
        self._old_logits = _learnt(_logit(opacities))
        self._old_colors = _learnt(reused.base_colors)
        self.tangents: torch.Tensor | None = None
        self.normals: torch.Tensor | None = None
        groups = [
            {"params": [self._old_colors], "lr": settings.rate_color},
            {"params": [self._old_logits], "lr": settings.rate_opacity},
        ]
        if spawn is not None:
            count = len(spawn.centers)
            self._centers = _tensor(spawn.centers)
            self._frames = _tensor(spawn.frames)
            self._start_log_scales = torch.log(_tensor(spawn.scales))
            self.tangents = _learnt(np.zeros((count, 2)))
            self.normals = _learnt(np.zeros(count))
            self._log_scales = self._start_log_scales.clone().requires_grad_()
            self._logits = _learnt(_logit(np.full(count, settings.start_opacity)))
            self._colors = _learnt(spawn.colors)
            groups += [
                {"params": [self._colors], "lr": settings.rate_color},
                {"params": [self._logits], "lr": settings.rate_opacity},
                {"params": [self.tangents], "lr": settings.rate_center},
                {"params": [self.normals], "lr": settings.rate_normal},
                {"params": [self._log_scales], "lr": settings.rate_log_scale},
            ]
        self.optimizer = torch.optim.Adam(groups, betas=(0.9, 0.99))
        self._rates = [group["lr"] for group in self.optimizer.param_groups]

    def set_rates(self, factor: float) -> None:
        """Every rate becomes its start times `factor`."""
        for group, rate in zip(self.optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate * factor

    def values(self) -> list[torch.Tensor]:
        """Means (n, 3), scales (n, 3), opacities (n,), base colors (n, 3); reused ones first.

        Differentiable where something is learnt; world units and sRGB.
        """
        opacities, colors = torch.sigmoid(self._old_logits), self._old_colors
        if self.tangents is None:
            # the fixed geometry takes part in the sum of gradients, so it must accept one
            means = self._old_means.clone().requires_grad_()
            return [means, self._old_scales.clone().requires_grad_(), opacities, colors]
        return [
            torch.cat([self._old_means, self._new_means()]),
            torch.cat([self._old_scales, self._log_scales.exp()]),
            torch.cat([opacities, torch.sigmoid(self._logits)]),
            torch.cat([colors, self._colors]),
        ]

    @torch.no_grad()
    def clamp(self) -> None:
        """Hold new Gaussians near their start: centre, scale and color."""
        if self.tangents is None or self.normals is None:
            return
        s = self._settings
        if s.use_attachment:
            self.tangents.clamp_(-s.tangent_clamp, s.tangent_clamp)
            self.normals.clamp_(-s.normal_clamp, s.normal_clamp)
        low = self._start_log_scales + float(np.log(s.scale_min))
        high = self._start_log_scales + float(np.log(s.scale_max))
        self._log_scales.copy_(torch.maximum(torch.minimum(self._log_scales, high), low))
        self._colors.clamp_(0, 1)

    @torch.no_grad()
    def mean_offsets(self) -> tuple[float, float]:
        """Mean absolute tangential and normal displacement of new centres, strides."""
        if self.tangents is None or self.normals is None or len(self.normals) == 0:
            return 0.0, 0.0
        return float(self.tangents.abs().mean()), float(self.normals.abs().mean())

    @torch.no_grad()
    def result(self) -> tuple[FloatArray, FloatArray, Gaussians]:
        """Reused opacities (m,), their degree-0 harmonics (m, 3), and the new Gaussians."""
        opacities = torch.sigmoid(self._old_logits).numpy()
        sh_dc = (self._old_colors.numpy() - np.float32(0.5)) / np.float32(SH_C0)
        if self.tangents is None or self._spawn is None:
            return opacities, sh_dc, no_gaussians()
        added = Gaussians(
            self._new_means().numpy(),
            matrices_to_quaternions(self._spawn.frames),
            self._log_scales.exp().numpy(),
            torch.sigmoid(self._logits).numpy(),
            ((self._colors.numpy() - np.float32(0.5)) / np.float32(SH_C0))[:, None, :],
        )
        return opacities, sh_dc, added

    def _new_means(self) -> torch.Tensor:
        assert self.tangents is not None and self.normals is not None and self._spawn is not None
        offsets = torch.cat([self.tangents, self.normals[:, None]], dim=1)
        world = torch.einsum("nij,nj->ni", self._frames, offsets)
        return self._centers + self._spawn.stride * world


def _tensor(array: NDArray[np.floating]) -> torch.Tensor:
    return torch.from_numpy(np.array(array, dtype=np.float32))


def _learnt(array: NDArray[np.floating]) -> torch.Tensor:
    return _tensor(array).requires_grad_()


def _logit(p: NDArray[np.floating]) -> NDArray[np.floating]:
    return np.asarray(np.log(p / (1 - p)))
