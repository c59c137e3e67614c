"""The embedded demo detector as a victim."""

from __future__ import annotations

import json
import math
from pathlib import Path

import torch
from torch.nn import functional

from envelope.victims.boxes import require_finite
from envelope.victims.demo.detector_net import STRIDES, Raw, SignDetector
from envelope.victims.hashes import files_sha256
from envelope.victims.letterbox import Letterbox, fit_inside
from envelope.victims.names import find_class
from envelope.victims.protocols import (
    KEPT_CONFIDENCE,
    Detections,
    Images,
    VictimInfo,
    check_images,
)
from envelope.victims.torch_tools import (
    frozen,
    letterboxed_batch,
    letterboxed_tensor,
    load_half,
    torch_threads,
)

FILL = 114 / 255  # gray padding, as the detector saw none of it as an object
_NMS_IOU, _MAX_BOXES = 0.6, 50
_SUPPRESSED_CELLS = 20


class DemoDetector:
    """Follows the Detector protocol; also a white box for patch making."""

    def __init__(self, model: SignDetector, info: VictimInfo, threads: int = 1) -> None:
        self.model = frozen(model)
        self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.info = info
        self.threads = threads

    def predict(self, images: Images) -> list[Detections]:
        """images: (B, H, W, 3) uint8 RGB -> B answers in those pictures' pixels."""
        images = check_images(images)
        if len(images) == 0:
            return []
        box = input_box(images.shape[2], images.shape[1], self.info.input_size[0])
        with torch_threads(self.threads), torch.inference_mode():
            raw = self.model(letterboxed_batch(images, box, FILL))
            require_finite(self.info.name, raw.logits, raw.boxes)
            return [self._picture(raw, number, box) for number in range(len(images))]

    def _picture(self, raw: Raw, number: int, box: Letterbox) -> Detections:
        from torchvision.ops import batched_nms

        confidences, classes = raw.logits[number].sigmoid().max(dim=-1)
        keep = confidences >= KEPT_CONFIDENCE
        boxes, confidences, classes = raw.boxes[number][keep], confidences[keep], classes[keep]
        best = batched_nms(boxes, confidences, classes, _NMS_IOU)[:_MAX_BOXES]
        return Detections(
            box.to_source(boxes[best].numpy()),
            confidences[best].numpy(),
            tuple(self.info.labels[int(c)] for c in classes[best]),
        )

    def suppression_loss(self, images: torch.Tensor, label: str) -> torch.Tensor:
        """How visible the class still is to the detector; an attack makes it small.

        images: (B, 3, H, W) float RGB in [0, 1], gradients pass. Returns (B,): the mean of
        -log(1 - confidence) over the most confident cells of the class.
        """
        class_index = find_class(label, self.info.labels, self.info.name)
        box = input_box(images.shape[3], images.shape[2], self.info.input_size[0])
        logits = self.model(letterboxed_tensor(images, box, FILL)).logits[..., class_index]
        return functional.softplus(logits).topk(_SUPPRESSED_CELLS, dim=1).values.mean(dim=1)


def input_box(width: int, height: int, side: int) -> Letterbox:
    """Long side `side`; the short side is padded up to the next multiple of the last stride."""
    cell = STRIDES[-1]
    ratio = side / max(width, height)
    input_width, input_height = (
        min(side, max(cell, math.ceil(round(length * ratio) / cell) * cell))
        for length in (width, height)
    )
    return fit_inside(width, height, input_width, input_height)


def load_detector(folder: Path, threads: int = 1) -> DemoDetector:
    """The detector of a folder with config.json and model.safetensors."""
    config = json.loads((folder / "config.json").read_text())
    model = SignDetector(**config["network"])
    weights = folder / "model.safetensors"
    load_half(model, weights)
    return DemoDetector(model, detector_info(config, files_sha256([weights])), threads)


def detector_info(config: dict[str, object], weights_hash: str) -> VictimInfo:
    """What the demo detector says about itself."""
    side = int(config["input_size"])  # type: ignore[call-overload]
    return VictimInfo(
        name="demo-detector",
        kind="detector",
        licence="Apache-2.0",
        source="trained by `advscene train-demo` on pictures that it makes",
        input_size=(side, side),
        threshold=0.5,
        weights_hash=weights_hash,
        labels=tuple(config["labels"]),  # type: ignore[arg-type]
        settings={"nms_iou": _NMS_IOU, "kept_confidence": KEPT_CONFIDENCE, "padding": 114},
    )
