"""The loop that all three demo victims train in: seeded, resumable, averaged.

A batch is a function of (seed, step), never of what happened before, so a run that was stopped
goes on exactly as if it had not been.
"""

from __future__ import annotations

import copy
import json
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

LossAt = Callable[[int, np.random.Generator], torch.Tensor]
Progress = Callable[[str, int, int, float], None]


@dataclass(frozen=True)
class LoopSettings:
    """name: for progress. steps: optimiser steps. warmup: steps of rising rate.

    hold: share of the steps after which the rate starts to fall (cosine, to 2 %).
    average: decay of the weights' running average. seed: of the batches.
    """

    name: str
    steps: int
    warmup: int = 100
    hold: float = 0.0
    average: float = 0.998
    clip: float = 10.0
    seed: int = 0
    checkpoint_seconds: float = 120.0


def rate_factor(step: int, settings: LoopSettings) -> float:
    """Share of the full learning rate at a step: rise, hold, cosine fall to 2 %."""
    rise = min(1.0, (step + 1) / max(1, settings.warmup))
    progress = step / max(1, settings.steps)
    if progress < settings.hold:
        return rise
    fall = (progress - settings.hold) / (1 - settings.hold)
    return rise * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * fall)))


def decayed_groups(modules: Sequence[nn.Module], weight_decay: float) -> list[dict[str, object]]:
    """Parameter groups: matrices and kernels decay, gains and biases do not."""
    parameters = [p for module in modules for p in module.parameters() if p.requires_grad]
    return [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]


def run_loop(
    model: nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    settings: LoopSettings,
    loss_at: LossAt,
    folder: Path,
    progress: Progress | None = None,
) -> nn.Module:
    """Train `model` in place; returns the running average of it, in eval mode.

    folder: where `<name>.checkpoint.safetensors` is kept; a run found there is continued.
    """
    average = copy.deepcopy(model).eval().requires_grad_(False)
    path = folder / f"{settings.name}.checkpoint.safetensors"
    start = _resume(path, model, average, optimizers)
    rates = [[group["lr"] for group in optimizer.param_groups] for optimizer in optimizers]
    parameters = [p for p in model.parameters() if p.requires_grad]
    saved_at = time.monotonic()
    model.train()
    for step in range(start, settings.steps):
        _set_rates(optimizers, rates, rate_factor(step, settings))
        loss = loss_at(step, np.random.default_rng([settings.seed, step]))
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, settings.clip)
        for optimizer in optimizers:
            optimizer.step()
        _follow(average, model, settings.average * (1 - math.exp(-(step + 1) / 200)))
        if progress is not None:
            progress(settings.name, step + 1, settings.steps, float(loss.detach()))
        last = step + 1 == settings.steps
        if last or time.monotonic() - saved_at > settings.checkpoint_seconds:
            _set_rates(optimizers, rates, 1.0)
            _save(path, step + 1, model, average, optimizers)
            saved_at = time.monotonic()
    return average.eval()


def _set_rates(
    optimizers: Sequence[torch.optim.Optimizer], rates: list[list[float]], factor: float
) -> None:
    for optimizer, group_rates in zip(optimizers, rates, strict=True):
        for group, rate in zip(optimizer.param_groups, group_rates, strict=True):
            group["lr"] = rate * factor


@torch.no_grad()
def _follow(average: nn.Module, model: nn.Module, decay: float) -> None:
    # parameters() and buffers() name a tied weight once
    for kept, new in zip(average.parameters(), model.parameters(), strict=True):
        kept.lerp_(new, 1 - decay)
    for own, new_buffer in zip(average.buffers(), model.buffers(), strict=True):
        if own.dtype.is_floating_point:
            own.lerp_(new_buffer, 1 - decay)
        else:
            own.copy_(new_buffer)


def _save(
    path: Path,
    step: int,
    model: nn.Module,
    average: nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
) -> None:
    from safetensors.torch import save_file

    tensors: dict[str, torch.Tensor] = {}
    for prefix, module in (("model.", model), ("average.", average)):
        for name, value in module.state_dict().items():
            tensors[prefix + name] = value.detach().contiguous().clone()
    for number, optimizer in enumerate(optimizers):
        for slot, state in optimizer.state_dict()["state"].items():
            for key, value in state.items():
                tensors[f"optimizer.{number}.{slot}.{key}"] = (
                    torch.as_tensor(value).contiguous().clone()
                )
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".part")
    save_file(tensors, temporary, metadata={"step": json.dumps(step)})
    os.replace(temporary, path)


def _resume(
    path: Path,
    model: nn.Module,
    average: nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
) -> int:
    """The step to go on from; 0 when there is no checkpoint."""
    if not path.exists():
        return 0
    from safetensors import safe_open

    with safe_open(path, framework="pt") as stream:
        step = int(json.loads(stream.metadata()["step"]))
        tensors = {name: stream.get_tensor(name) for name in stream.keys()}
    for prefix, module in (("model.", model), ("average.", average)):
        own = {n.removeprefix(prefix): v for n, v in tensors.items() if n.startswith(prefix)}
        module.load_state_dict(own)
    for number, optimizer in enumerate(optimizers):
        states: dict[int, dict[str, torch.Tensor]] = {}
        prefix = f"optimizer.{number}."
        for name, value in tensors.items():
            if name.startswith(prefix):
                slot, key = name.removeprefix(prefix).split(".", 1)
                states.setdefault(int(slot), {})[key] = value
        optimizer.load_state_dict(
            {"state": states, "param_groups": optimizer.state_dict()["param_groups"]}
        )
    return step
