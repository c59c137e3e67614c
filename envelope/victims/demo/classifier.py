"""The embedded demo classifier: a narrow ResNet-18 that names the main sign of a picture."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from envelope.victims.boxes import require_finite
from envelope.victims.demo.backbone import NarrowResNet, normalised
from envelope.victims.demo.signs import CLASSES
from envelope.victims.hashes import files_sha256
from envelope.victims.letterbox import Letterbox, fit_inside
from envelope.victims.names import find_class
from envelope.victims.protocols import Classification, Images, VictimInfo, check_images
from envelope.victims.torch_tools import (
    frozen,
    letterboxed_batch,
    letterboxed_tensor,
    load_half,
    torch_threads,
)

LABELS = (*CLASSES, "no sign")
INPUT_SIDE = 224
FILL = 114 / 255
_ENOUGH = 5.0  # logits of margin beyond which an attack gains nothing more


class DemoClassifier:
    """Follows the Classifier protocol; also a white box for patch making."""

    def __init__(self, model: nn.Module, info: VictimInfo, threads: int = 1) -> None:
        self.model = frozen(model)
        self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.info = info
        self.threads = threads

    def predict(self, images: Images) -> list[Classification]:
        """images: (B, H, W, 3) uint8 RGB -> B answers."""
        images = check_images(images)
        if len(images) == 0:
            return []
        with torch_threads(self.threads), torch.inference_mode():
            placed = letterboxed_batch(images, self._box(images.shape[2], images.shape[1]), FILL)
            chances = self.model(normalised(placed)).softmax(dim=1).numpy()
        require_finite(self.info.name, chances)
        return [Classification(self.info.labels, row) for row in chances]

    def suppression_loss(self, images: torch.Tensor, label: str) -> torch.Tensor:
        """Carlini and Wagner's margin of the class; an attack makes it negative.

        images: (B, 3, H, W) float RGB in [0, 1], gradients pass. Returns (B,): the class's logit
        less the best other one, not below -5.
        """
        index = find_class(label, self.info.labels, self.info.name)
        logits = self._logits(images)
        others = torch.cat([logits[:, :index], logits[:, index + 1 :]], dim=1)
        return (logits[:, index] - others.amax(dim=1)).clamp(min=-_ENOUGH)

    def _box(self, width: int, height: int) -> Letterbox:
        side = self.info.input_size[0]
        return fit_inside(width, height, side, side, centered=True)

    def _logits(self, images: torch.Tensor) -> torch.Tensor:
        box = self._box(images.shape[3], images.shape[2])
        logits: torch.Tensor = self.model(normalised(letterboxed_tensor(images, box, FILL)))
        return logits


def load_classifier(folder: Path, threads: int = 1) -> DemoClassifier:
    """The classifier of a folder with config.json and model.safetensors."""
    config = json.loads((folder / "config.json").read_text())
    model = NarrowResNet(config["width"], len(config["labels"]))
    weights = folder / "model.safetensors"
    load_half(model, weights)
    return DemoClassifier(model, classifier_info(config, files_sha256([weights])), threads)


def classifier_info(config: Mapping[str, Any], weights_hash: str) -> VictimInfo:
    """What the demo classifier says about itself."""
    side = int(config["input_size"])
    return VictimInfo(
        name="demo-classifier",
        kind="classifier",
        licence="Apache-2.0",
        source="trained by `advscene train-demo` on pictures that it makes",
        input_size=(side, side),
        threshold=0.5,
        weights_hash=weights_hash,
        labels=tuple(config["labels"]),
        settings={"padding": 114},
    )
