"""Making a patch: Adam against a victim's loss under EOT, with restarts and early stop."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from patching.optimize.eot import EotSettings, draw_jitter, paste, photographed
from patching.optimize.losses import PatchWeights, regularizers
from patching.patch import Patch
from patching.printing import printable_colors
from scene.errors import InputError

log = logging.getLogger(__name__)

FloatArray = NDArray[np.float32]
VictimLoss = Callable[[torch.Tensor, Sequence["Background"]], torch.Tensor]
"""Pictures (B, 3, H, W) in [0, 1] and the backgrounds they were made from -> (B,) losses, low
where the victim is fooled; differentiable in the pictures."""

Progress = Callable[[int, int, dict[str, float]], bool]
"""(step from 1, total, terms) -> False to stop and keep the best so far."""


@dataclass(frozen=True, eq=False)
class Background:
    """A clean picture and where the patch lies in it.

    picture: (H, W, 3) float32 sRGB in [0, 1].
    homography: (3, 3) from patch coordinates (u, v, 1) to pixels, as `Placement.homography` says.
    box_xyxy: (4,) pixels, the target's true box, for losses that need it.
    """

    picture: FloatArray
    homography: NDArray[np.float64]
    box_xyxy: tuple[float, float, float, float] | None = None


@dataclass(frozen=True)
class MakeSettings:
    """How a patch is made.

    size_px: side of the square patch. steps: per restart. rate: Adam's, on the logits.
    patience: steps without an improvement of `least_gain` (of the smoothed loss) until a restart
    stops early.
    """

    size_px: int = 160
    steps: int = 400
    restarts: int = 1
    rate: float = 0.05
    seed: int = 0
    eot: EotSettings = field(default_factory=lambda: EotSettings.of("strong"))
    weights: PatchWeights = field(default_factory=PatchWeights)
    patience: int = 120
    least_gain: float = 0.002
    smooth_px: int = 2

    def __post_init__(self) -> None:
        if self.size_px < 8 or self.steps < 1 or self.restarts < 1:
            raise InputError(
                f"patch making: wanted size >= 8 px, steps and restarts >= 1, found "
                f"{self.size_px}, {self.steps}, {self.restarts}"
            )


def make_patch(
    loss: VictimLoss,
    backgrounds: Sequence[Background],
    settings: MakeSettings | None = None,
    name: str = "adversarial",
    victim: str = "",
    progress: Progress | None = None,
) -> Patch:
    """A patch that lowers `loss` on the backgrounds, seeded.

    The same settings, backgrounds and victim give the same patch. Its provenance holds the
    settings, the victim's name and the losses reached; the restart with the lowest loss wins.
    """
    settings = settings or MakeSettings()
    if not backgrounds:
        raise InputError("patch making: wanted at least one background picture, found none")
    best: tuple[float, torch.Tensor] | None = None
    reached: list[float] = []
    go_on = True
    for restart in range(settings.restarts):
        value, rgb, go_on = _restart(loss, backgrounds, settings, restart, progress)
        reached.append(value)
        if best is None or value < best[0]:
            best = value, rgb
        if not go_on:
            break
    assert best is not None
    provenance = {
        "made_by": "advscene make-patch",
        "victim": victim,
        "settings": asdict(settings),
        "backgrounds": len(backgrounds),
        "losses": reached,
        "stopped": not go_on,
    }
    picture = np.rint(best[1].permute(1, 2, 0).numpy() * 255) / 255
    return Patch.from_rgb(picture, name, provenance=provenance)


def _restart(
    loss: VictimLoss,
    backgrounds: Sequence[Background],
    settings: MakeSettings,
    restart: int,
    progress: Progress | None,
) -> tuple[float, torch.Tensor, bool]:
    """One restart: its best smoothed victim loss, that patch (3, h, w), whether to go on."""
    rng = np.random.default_rng([settings.seed, restart])
    start = _start_logits(settings, rng)
    logits = start.clone().requires_grad_()
    start_rgb = torch.sigmoid(start)
    optimizer = torch.optim.Adam([logits], lr=settings.rate)
    colors = torch.from_numpy(printable_colors())
    inverses = [np.linalg.inv(background.homography) for background in backgrounds]
    pictures = [
        torch.from_numpy(np.ascontiguousarray(background.picture.transpose(2, 0, 1)))
        for background in backgrounds
    ]
    order = _endless_order(len(backgrounds), rng)
    smoothed, best, best_rgb, best_step = None, np.inf, start_rgb, 0
    total = settings.steps * settings.restarts
    for step in range(settings.steps):
        for group in optimizer.param_groups:
            group["lr"] = settings.rate * (1.0 if step < 0.7 * settings.steps else 0.3)
        rgb = torch.sigmoid(logits)
        chosen = [next(order) for _ in range(settings.eot.views)]
        views = []
        for index in chosen:
            jitter = draw_jitter(settings.eot, rng)
            pasted = paste(pictures[index], rgb, inverses[index], jitter)
            views.append(photographed(pasted, settings.eot, rng))
        fooled = loss(torch.stack(views), [backgrounds[index] for index in chosen]).mean()
        whole = fooled + regularizers(rgb, start_rgb, colors, settings.weights)
        optimizer.zero_grad(set_to_none=True)
        whole.backward()
        optimizer.step()
        value = float(fooled.detach())
        smoothed = value if smoothed is None else 0.95 * smoothed + 0.05 * value
        # the first steps' mean is one sample: no state is best before it has settled
        if step >= 40 and smoothed < best - settings.least_gain:
            best, best_rgb, best_step = smoothed, rgb.detach().clone(), step
        terms = {"victim": value, "smoothed": smoothed, "total": float(whole.detach())}
        if progress and progress(restart * settings.steps + step + 1, total, terms) is False:
            return (
                (smoothed, rgb.detach(), False)
                if not np.isfinite(best)
                else (best, best_rgb, False)
            )
        if step - best_step > settings.patience and np.isfinite(best):
            log.info("restart %d stopped early at step %d", restart, step + 1)
            break
    if not np.isfinite(best):
        return smoothed or 0.0, torch.sigmoid(logits).detach(), True
    return best, best_rgb, True


def _start_logits(settings: MakeSettings, rng: np.random.Generator) -> torch.Tensor:
    """Smooth noise about mid gray, (3, h, w)."""
    cells = max(2, settings.size_px // max(settings.smooth_px, 1))
    noise = torch.from_numpy(rng.normal(0, 0.4, (1, 3, cells, cells)).astype(np.float32))
    size = (settings.size_px, settings.size_px)
    return torch.nn.functional.interpolate(noise, size=size, mode="bilinear")[0]


def _endless_order(count: int, rng: np.random.Generator):  # type: ignore[no-untyped-def]
    """Background numbers, each once per round, rounds shuffled."""
    while True:
        yield from rng.permutation(count)
