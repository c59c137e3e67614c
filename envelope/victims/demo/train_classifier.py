"""Trains the demo classifier on crops around signs and on places without any."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.nn import functional

from envelope.victims.demo.backbone import NarrowResNet, normalised
from envelope.victims.demo.classifier import INPUT_SIDE, LABELS, DemoClassifier, classifier_info
from envelope.victims.demo.dataset import Pictures
from envelope.victims.demo.training import LoopSettings, Progress, decayed_groups, run_loop
from envelope.victims.torch_tools import save_half

_NO_SIGN = LABELS.index("no sign")


@dataclass(frozen=True)
class ClassifierRecipe:
    """phases: (steps, side of the crops in pixels) in order. batch: crops a step."""

    phases: tuple[tuple[int, int], ...] = ((450, 112), (150, 160), (120, 224))
    batch: int = 48
    rate: float = 2e-3
    width: int = 24
    seed: int = 0

    @property
    def steps(self) -> int:
        """All phases together."""
        return sum(steps for steps, _ in self.phases)

    def side_at(self, step: int) -> int:
        """Side of the crops at a step."""
        for steps, side in self.phases:
            if step < steps:
                return side
            step -= steps
        return INPUT_SIDE


STAGES = (
    ClassifierRecipe(),
    ClassifierRecipe(phases=((220, 128), (80, 192)), rate=1.5e-3, seed=1),
)


def train_classifier(
    pictures: Pictures,
    recipe: ClassifierRecipe,
    folder: Path,
    progress: Progress | None = None,
    start: NarrowResNet | None = None,
) -> NarrowResNet:
    """The averaged network; goes on from a checkpoint in `folder`, or from `start`'s weights."""
    torch.manual_seed(recipe.seed)
    model = start if start is not None else NarrowResNet(recipe.width, len(LABELS))
    model.requires_grad_(True)
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.AdamW(decayed_groups([model], 0.05), lr=recipe.rate)

    def loss_at(step: int, rng: np.random.Generator) -> torch.Tensor:
        images, labels = crops_at(pictures, rng, recipe.batch, recipe.side_at(step))
        return functional.cross_entropy(model(normalised(images)), labels, label_smoothing=0.05)

    settings = LoopSettings("classifier", recipe.steps, warmup=min(100, recipe.steps // 4 + 1),
                            average=0.99, seed=recipe.seed)  # fmt: skip
    averaged = run_loop(model, [optimizer], settings, loss_at, folder, progress)
    assert isinstance(averaged, NarrowResNet)
    return averaged


def crops_at(
    pictures: Pictures, rng: np.random.Generator, count: int, side: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """(B, 3, side, side) RGB in [0, 1] and labels (B,) of about `count` crops."""
    images, labels = [], []
    for picture, boxes in pictures.draw(rng, count):
        region = crop_region(rng, picture.shape[0], boxes)
        if region is None:
            continue
        corners, label = region
        crop = Image.fromarray(picture).resize((side, side), Image.Resampling.BILINEAR, box=corners)
        images.append(np.asarray(crop))
        labels.append(label)
    batch = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).to(torch.float32).div_(255)
    gain = 1 + 0.15 * rng.standard_normal((len(images), 3, 1, 1))
    batch = (batch * torch.from_numpy(gain.astype(np.float32))).clamp_(0, 1)
    return batch.contiguous(memory_format=torch.channels_last), torch.tensor(labels)


def crop_region(
    rng: np.random.Generator, full: int, boxes: NDArray[np.float32]
) -> tuple[tuple[float, float, float, float], int] | None:
    """A square region and its label: the class of its largest sign, or "no sign"; None: no luck.

    A sign fills between a seventh of the region and all of it.
    """
    large = [box for box in boxes if min(box[3] - box[1], box[4] - box[2]) >= 16]
    wants_sign = bool(large) and rng.random() < 0.85
    for _ in range(12):
        if wants_sign:
            _, x0, y0, x1, y1 = (float(v) for v in large[int(rng.integers(len(large)))])
            own = max(x1 - x0, y1 - y0)
            side = min(float(full), own * math.exp(rng.uniform(0.0, math.log(7.0))))
            middle = np.array([(x0 + x1) / 2, (y0 + y1) / 2])
            middle = middle + rng.uniform(-0.5, 0.5, 2) * max(side - own, 0.08 * own)
        else:
            side = full * math.exp(rng.uniform(math.log(0.12), 0.0))
            middle = rng.uniform(side / 2, full - side / 2, 2)
        low = np.clip(middle - side / 2, 0, full - side)
        corners = (float(low[0]), float(low[1]), float(low[0] + side), float(low[1] + side))
        label = region_label(corners, boxes)
        if label is not None and (label != _NO_SIGN) == wants_sign:
            return corners, label
    return None


def region_label(
    corners: tuple[float, float, float, float], boxes: NDArray[np.float32]
) -> int | None:
    """The class of the largest sign that is at least 80 % inside; None when that is in doubt."""
    best, label, doubt = 0.0, _NO_SIGN, 0.0
    for class_index, x0, y0, x1, y1 in boxes:
        width = min(x1, corners[2]) - max(x0, corners[0])
        height = min(y1, corners[3]) - max(y0, corners[1])
        if width <= 0 or height <= 0:
            continue
        seen = float(width * height)
        if seen < 0.8 * float((x1 - x0) * (y1 - y0)):
            doubt = max(doubt, seen)
        elif seen > best:
            best, label = seen, int(class_index)
    return None if doubt > 0.5 * best else label


def save_classifier(model: NarrowResNet, width: int, folder: Path) -> None:
    """Write config.json and model.safetensors (float16)."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "architecture": "NarrowResNet",
        "width": width,
        "input_size": INPUT_SIDE,
        "labels": list(LABELS),
    }
    save_half(model, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")


def as_victim(model: NarrowResNet) -> DemoClassifier:
    """A network in memory behind the victim's interface, to be measured."""
    config = {"input_size": INPUT_SIDE, "labels": list(LABELS)}
    return DemoClassifier(model, classifier_info(config, "in memory"))
