"""Trains the demo detector: small pictures first, then larger ones."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from envelope.victims.demo.dataset import MAX_BOXES, Pictures
from envelope.victims.demo.detector import DemoDetector, detector_info
from envelope.victims.demo.detector_loss import detection_loss
from envelope.victims.demo.detector_net import SignDetector
from envelope.victims.demo.signs import CLASSES
from envelope.victims.demo.training import LoopSettings, Progress, decayed_groups, run_loop
from envelope.victims.torch_tools import save_half

INPUT_SIDE = 320


@dataclass(frozen=True)
class DetectorRecipe:
    """phases: (steps, sides of the square input in pixels) in order. rate: AdamW's.

    batch: pictures a step. width, channels: of the network.
    """

    phases: tuple[tuple[int, tuple[int, ...]], ...] = (
        (700, (128, 160, 192)),
        (250, (224, 256)),
        (350, (320,)),
    )
    batch: int = 16
    rate: float = 2e-3
    width: int = 24
    channels: int = 64
    seed: int = 0

    @property
    def steps(self) -> int:
        """All phases together."""
        return sum(steps for steps, _ in self.phases)

    def side_at(self, step: int, rng: np.random.Generator) -> int:
        """Side of the input at a step."""
        for steps, sides in self.phases:
            if step < steps:
                return int(rng.choice(sides))
            step -= steps
        return INPUT_SIDE


STAGES = (
    DetectorRecipe(phases=((700, (128, 160, 192)), (275, (224, 256)))),
    DetectorRecipe(phases=((260, (160, 192, 224)), (140, (256, 320))), rate=1.5e-3, seed=1),
    DetectorRecipe(phases=((110, (160, 192, 224)), (150, (320, 256))), rate=1.2e-3, seed=2),
)
"""On drawn pictures first, then on drawn, street and close-up pictures together."""


def train_detector(
    pictures: Pictures,
    recipe: DetectorRecipe,
    folder: Path,
    progress: Progress | None = None,
    start: SignDetector | None = None,
) -> SignDetector:
    """The averaged network; goes on from a checkpoint in `folder`, or from `start`'s weights."""
    torch.manual_seed(recipe.seed)
    model = start or SignDetector(len(CLASSES), recipe.width, recipe.channels)
    model.requires_grad_(True)
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.AdamW(decayed_groups([model], 1e-3), lr=recipe.rate)

    def loss_at(step: int, rng: np.random.Generator) -> torch.Tensor:
        side = recipe.side_at(step, rng)
        images, boxes = batch_at(pictures, rng, recipe.batch, side)
        return detection_loss(model(images), boxes)

    settings = LoopSettings("detector", recipe.steps, warmup=min(150, recipe.steps // 4 + 1),
                            seed=recipe.seed)  # fmt: skip
    averaged = run_loop(model, [optimizer], settings, loss_at, folder, progress)
    assert isinstance(averaged, SignDetector)
    return averaged


def batch_at(
    pictures: Pictures, rng: np.random.Generator, count: int, side: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """`count` pictures at another size, colors varied: (B, 3, side, side), (B, M, 5)."""
    rows = pictures.draw(rng, count)
    images = torch.from_numpy(np.stack([image for image, _ in rows])).permute(0, 3, 1, 2)
    images = images.to(torch.float32).div_(255)
    full = images.shape[-1]
    if side != full:
        images = functional.interpolate(
            images, size=(side, side), mode="bilinear", antialias=True, align_corners=False
        )
    gain = 1 + 0.12 * rng.standard_normal((count, 3, 1, 1)) * rng.random((count, 1, 1, 1))
    images = (images * torch.from_numpy(gain.astype(np.float32))).clamp_(0, 1)
    boxes = torch.full((count, MAX_BOXES, 5), -1.0)
    for number, (_, own) in enumerate(rows):
        boxes[number, : len(own)] = torch.from_numpy(own.copy())
    boxes[..., 1:] *= side / full
    return images.contiguous(memory_format=torch.channels_last), boxes


def save_detector(model: SignDetector, folder: Path) -> None:
    """Write config.json and model.safetensors (float16)."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "architecture": "SignDetector",
        "network": model.settings,
        "input_size": INPUT_SIDE,
        "labels": list(CLASSES),
    }
    save_half(model, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")


def as_victim(model: SignDetector) -> DemoDetector:
    """A network in memory behind the victim's interface, to be measured."""
    config = {"input_size": INPUT_SIDE, "labels": list(CLASSES)}
    return DemoDetector(model, detector_info(config, "in memory"))
