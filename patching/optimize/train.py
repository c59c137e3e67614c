"""Making a patch: Adam against a victim's loss under EOT; restarts, early stop, best of all."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from patching.optimize.eot import Background, Box, transformed
from patching.optimize.losses import regularizers
from patching.optimize.paste import paste
from patching.optimize.settings import MakeSettings
from patching.patch import Patch
from patching.printing import non_printability, printable_colors, total_variation
from scene.errors import InputError

log = logging.getLogger(__name__)

VictimLoss = Callable[[torch.Tensor, Sequence[Box | None]], torch.Tensor]
"""Pictures (B, 3, H, W) in [0, 1] and the target's box in each -> (B,) losses, low where the
victim is fooled; differentiable in the pictures."""

Progress = Callable[[int, int, dict[str, float]], bool | None]
"""(step from 1, total steps, terms by name) -> False to stop and keep the best so far."""

_SLOW_FROM, _SLOW = 0.7, 0.3
_START_CELL_PX = 4
_START_SPREAD = 0.4


@dataclass(frozen=True, eq=False)
class Restart:
    """What one restart reached.

    rgb: (3, h, w) of its best look, rounded to 8 bits. loss: the victim's mean loss then, on the
    views kept aside. step: when that was. steps: how many were done. looks: (step, loss) of all.
    """

    rgb: torch.Tensor
    loss: float
    step: int
    steps: int
    looks: tuple[tuple[int, float], ...]
    stopped: bool


def make_patch(
    loss: VictimLoss,
    backgrounds: Sequence[Background],
    settings: MakeSettings | None = None,
    progress: Progress | None = None,
    *,
    aside: Sequence[Background] | None = None,
    name: str = "adversarial",
    about: Mapping[str, Any] | None = None,
) -> Patch:
    """A square patch that makes `loss` small in the backgrounds.

    aside: views of the same kind that are never trained on; the best state of the best restart is
    chosen by its loss there, untransformed and rounded to 8 bits. None: the backgrounds serve.
    about: what the caller knows (victim, weights hash, scene); goes into the provenance with the
    settings, the names of the views and all losses. The same arguments give the same patch.
    """
    settings = settings or MakeSettings()
    _check(backgrounds)
    aside = backgrounds if aside is None else aside
    _check(aside)
    done: list[Restart] = []
    for number in range(settings.restarts):
        done.append(_restart(loss, backgrounds, aside, settings, number, progress))
        if done[-1].stopped:
            break
    best = min(range(len(done)), key=lambda number: done[number].loss)
    picture = done[best].rgb.permute(1, 2, 0).numpy()
    provenance = {**(about or {}), **_account(done, best, settings, backgrounds, aside)}
    return Patch.from_rgb(picture, name, provenance=provenance)


def mean_loss(
    loss: VictimLoss, rgb: torch.Tensor, backgrounds: Sequence[Background], batch: int = 8
) -> float:
    """Mean victim loss of a patch (3, h, w) in untransformed views."""
    total = 0.0
    with torch.no_grad():
        for first in range(0, len(backgrounds), batch):
            some = backgrounds[first : first + batch]
            pictures = [paste(b.picture, rgb, b.pixel_from_uv, b.shown) for b in some]
            total += float(loss(torch.stack(pictures), [b.box_xyxy for b in some]).sum())
    return total / len(backgrounds)


def _restart(
    loss: VictimLoss,
    backgrounds: Sequence[Background],
    aside: Sequence[Background],
    settings: MakeSettings,
    number: int,
    progress: Progress | None,
) -> Restart:
    rng = np.random.default_rng([settings.seed, number])
    learnt = _Learnt(settings, rng)
    order = _rounds(len(backgrounds), rng)
    looks: list[tuple[int, float]] = []
    best: tuple[float, int, torch.Tensor] | None = None
    stopped, step = False, 0
    for step in range(1, settings.steps + 1):
        chosen = [backgrounds[next(order)] for _ in range(settings.eot.views)]
        value, whole = learnt.step(loss, chosen, step)
        if step % settings.check_every == 0 or step == settings.steps:
            rgb = learnt.rounded()
            reached = mean_loss(loss, rgb, aside)
            looks.append((step, reached))
            if best is None or reached < best[0]:
                best = reached, step, rgb
        terms = {"restart": number + 1.0, "victim": value, "total": whole}
        terms["aside"] = looks[-1][1] if looks else float("nan")
        passed = number * settings.steps + step
        if progress and progress(passed, settings.restarts * settings.steps, terms) is False:
            stopped = True
            break
        if _settled(looks, settings):
            log.debug("restart %d ended early at step %d", number + 1, step)
            break
    if best is None:
        best = mean_loss(loss, learnt.rounded(), aside), step, learnt.rounded()
        looks.append((step, best[0]))
    return Restart(best[2], best[0], best[1], step, tuple(looks), stopped)


class _Learnt:
    """The patch while it is learnt: its parameters and their optimizer."""

    def __init__(self, settings: MakeSettings, rng: np.random.Generator) -> None:
        self._settings = settings
        self._rng = rng
        logits = _start_logits(settings.size_px, rng)
        self._start = torch.sigmoid(logits)
        values = logits if settings.parameters == "logits" else self._start
        self._values = values.clone().requires_grad_()
        self._colors = torch.from_numpy(printable_colors())
        self._optimizer = torch.optim.Adam([self._values], lr=settings.rate)

    @property
    def rgb(self) -> torch.Tensor:
        """(3, h, w) in [0, 1]."""
        by_logits = self._settings.parameters == "logits"
        return torch.sigmoid(self._values) if by_logits else self._values

    def rounded(self) -> torch.Tensor:
        """The patch as its file will hold it."""
        return (self.rgb.detach() * 255).round() / 255

    def step(
        self, loss: VictimLoss, chosen: Sequence[Background], step: int
    ) -> tuple[float, float]:
        """One step; the victim's mean loss before it, and with the regularizers."""
        settings = self._settings
        slow = step > _SLOW_FROM * settings.steps
        self._optimizer.param_groups[0]["lr"] = settings.rate * (_SLOW if slow else 1.0)
        rgb = self.rgb
        views = [transformed(background, rgb, settings.eot, self._rng) for background in chosen]
        fooled = loss(torch.stack([view for view, _ in views]), [box for _, box in views]).mean()
        whole = fooled + regularizers(rgb, self._start, self._colors, settings.weights)
        self._optimizer.zero_grad(set_to_none=True)
        whole.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        if settings.parameters == "pixels":
            with torch.no_grad():
                self._values.clamp_(0, 1)
        return float(fooled.detach()), float(whole.detach())


def _settled(looks: Sequence[tuple[int, float]], settings: MakeSettings) -> bool:
    """Whether the last `patience` looks brought less than `least_gain`."""
    if len(looks) <= settings.patience:
        return False
    losses = [value for _, value in looks]
    before = min(losses[: -settings.patience])
    return min(losses[-settings.patience :]) > before - settings.least_gain


def _start_logits(size: int, rng: np.random.Generator) -> torch.Tensor:
    """(3, size, size) smooth noise about mid gray."""
    cells = max(2, size // _START_CELL_PX)
    noise = _START_SPREAD * rng.standard_normal((1, 3, cells, cells), dtype=np.float32)
    return torch.nn.functional.interpolate(
        torch.from_numpy(noise), size=(size, size), mode="bilinear", align_corners=False
    )[0]


def _rounds(count: int, rng: np.random.Generator) -> Iterator[int]:
    """Background numbers without end: each once per round, every round shuffled."""
    while True:
        yield from (int(number) for number in rng.permutation(count))


def _check(backgrounds: Sequence[Background]) -> None:
    if not backgrounds:
        raise InputError("patch making: wanted at least one background picture, found none")
    shapes = {tuple(background.picture.shape) for background in backgrounds}
    if len(shapes) > 1 or next(iter(shapes))[0] != 3:
        raise ValueError(f"backgrounds: wanted (3, H, W) pictures of one size, found {shapes}")


def _account(
    done: Sequence[Restart],
    best: int,
    settings: MakeSettings,
    backgrounds: Sequence[Background],
    aside: Sequence[Background],
) -> dict[str, Any]:
    """The provenance fields that the loop itself knows."""
    rgb, colors = done[best].rgb, torch.from_numpy(printable_colors())
    return {
        "settings": asdict(settings),
        "views": [background.name for background in backgrounds],
        "views_aside": [background.name for background in aside],
        "restarts": [
            {"loss": r.loss, "step": r.step, "steps": r.steps, "looks": [list(x) for x in r.looks]}
            for r in done
        ],
        "chosen_restart": best,
        "stopped_by_user": done[-1].stopped,
        "non_printability": float(non_printability(rgb, colors)),
        "total_variation": float(total_variation(rgb)),
    }
