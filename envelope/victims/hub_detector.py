"""Closed-vocabulary detectors of transformers: RT-DETR, RT-DETRv2, D-FINE, DETR, YOLOS and kin."""

from __future__ import annotations

import torch

from envelope.victims.boxes import require_finite
from envelope.victims.hub_checkpoint import Checkpoint, load_checkpoint
from envelope.victims.hub_victim import (
    HubRequest,
    HubVictim,
    detections_within,
    suppressed,
    victim_info,
)
from envelope.victims.names import find_class
from envelope.victims.protocols import KEPT_CONFIDENCE, Detections, Images, VictimInfo
from scene.errors import InputError

COORDINATES = (
    "cx, cy, w, h as shares of the whole picture; its processor's post_process_object_detection "
    "scales them by (height, width)"
)
_SUPPRESSED_QUERIES = 20


class HubDetector(HubVictim[Detections]):
    """Follows the Detector protocol; also a white box for patch making.

    These models match each object to one query, so no suppression of overlaps follows.
    """

    def __init__(self, checkpoint: Checkpoint, info: VictimInfo, threads: int = 1) -> None:
        super().__init__(checkpoint, info, threads)
        self._names = dict(enumerate(info.labels))

    def predict(self, images: Images) -> list[Detections]:
        """images: (B, H, W, 3) uint8 RGB -> B answers in those pictures' pixels."""
        return self._timed(images, self._answers)

    def _answers(self, images: torch.Tensor) -> list[Detections]:
        height, width = images.shape[2:]
        outputs = self.model(**self.inputs(images))
        require_finite(self.info.name, outputs.logits, outputs.pred_boxes)
        found = self.checkpoint.image_processor.post_process_object_detection(
            outputs, threshold=KEPT_CONFIDENCE, target_sizes=[(height, width)] * len(images)
        )
        return [
            detections_within(
                picture["boxes"],
                picture["scores"],
                [self._names[index] for index in picture["labels"].tolist()],
                width,
                height,
            )
            for picture in found
        ]

    def suppression_loss(self, images: torch.Tensor, label: str) -> torch.Tensor:
        """How visible the class still is to the detector; an attack makes it small.

        images: (B, 3, H, W) float RGB in [0, 1], gradients pass. Returns (B,): the mean of
        -log(1 - confidence) over the queries that are most confident of the class.
        """
        index = find_class(label, self.info.labels, self.info.name)
        logits = self.model(**self.inputs(images)).logits
        own = logits[..., index]
        if logits.shape[-1] > len(self.info.labels):
            # a softmax with a column "no object": the odds of the class against all the rest
            rest = torch.cat([logits[..., :index], logits[..., index + 1 :]], dim=-1)
            own = own - rest.logsumexp(dim=-1)
        return suppressed(own, _SUPPRESSED_QUERIES).to(images.device)


def load_hub_detector(request: HubRequest) -> HubDetector:
    """The detector in a checkpoint's folder."""
    checkpoint = load_checkpoint(
        request.folder,
        request.spec,
        "AutoModelForObjectDetection",
        "AutoImageProcessor",
        request.device,
    )
    if not hasattr(checkpoint.image_processor, "post_process_object_detection"):
        raise InputError(
            f"victim {request.spec!r}: {request.folder} has a processor that reads no boxes "
            f"({type(checkpoint.image_processor).__name__}); wanted a detector's"
        )
    info = victim_info(
        request,
        checkpoint,
        "detector",
        threshold=0.5,
        coordinates=COORDINATES,
        labels=checkpoint.labels,
        settings={"kept_confidence": KEPT_CONFIDENCE},
    )
    return HubDetector(checkpoint, info, request.threads)
