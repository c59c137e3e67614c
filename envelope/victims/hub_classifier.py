"""Image classifiers of transformers: ViT, ResNet, ConvNeXT and any other of its Auto class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch

from envelope.victims.boxes import require_finite
from envelope.victims.hub_checkpoint import load_checkpoint
from envelope.victims.hub_victim import HubRequest, HubVictim, victim_info
from envelope.victims.names import find_class, normalised
from envelope.victims.protocols import Classification, Images
from patching.optimize.losses import untargeted_margin
from scene.errors import InputError

ENOUGH = 5.0
"""Logits of margin beyond which an attack gains nothing more."""


class HubClassifier(HubVictim[Classification]):
    """Follows the Classifier protocol; also a white box for patch making."""

    def predict(self, images: Images) -> list[Classification]:
        """images: (B, H, W, 3) uint8 RGB -> B answers."""
        return self._timed(images, self._answers)

    def _answers(self, images: torch.Tensor) -> list[Classification]:
        chances = self.model(**self.inputs(images)).logits.softmax(dim=1).cpu().numpy()
        require_finite(self.info.name, chances)
        return [Classification(self.info.labels, row) for row in chances]

    def suppression_loss(self, images: torch.Tensor, label: str) -> torch.Tensor:
        """Carlini and Wagner's margin of the class; an attack makes it negative.

        images: (B, 3, H, W) float RGB in [0, 1], gradients pass. Returns (B,): the class's logit
        less the best other one, not below -5.
        """
        index = find_class(label, self.info.labels, self.info.name)
        logits = self.model(**self.inputs(images)).logits
        return untargeted_margin(logits, index, ENOUGH).to(images.device)


def one_name_each(names: Sequence[str]) -> tuple[str, ...]:
    """A class name for each of ImageNet's lists of synonyms.

    'traffic light, traffic signal, stoplight' -> 'traffic light'; where two classes share the
    first word ('crane' the bird and the machine), the whole list stays the name.
    """
    first = [name.split(",")[0].strip() for name in names]
    times = Counter(normalised(name) for name in first)
    return tuple(
        short if short and times[normalised(short)] == 1 else " ".join(name.split())
        for name, short in zip(names, first, strict=True)
    )


def load_hub_classifier(request: HubRequest) -> HubClassifier:
    """The classifier in a checkpoint's folder."""
    checkpoint = load_checkpoint(
        request.folder,
        request.spec,
        "AutoModelForImageClassification",
        "AutoImageProcessor",
        request.device,
    )
    labels = one_name_each(checkpoint.labels)
    outputs = checkpoint.model.config.num_labels
    if len(labels) < 2 or len(labels) != outputs:
        raise InputError(
            f"victim {request.spec!r}: {request.folder} names {len(labels)} classes for "
            f"{outputs} outputs; wanted a classifier of two classes or more"
        )
    info = victim_info(request, checkpoint, "classifier", threshold=0.5, labels=labels)
    return HubClassifier(checkpoint, info, request.threads)
