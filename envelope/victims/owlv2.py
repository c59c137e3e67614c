"""OWLv2: boxes for text queries, through transformers."""

from __future__ import annotations

from typing import Any

import torch

from envelope.victims.boxes import require_finite
from envelope.victims.grounding_dino import phrase_of
from envelope.victims.hub_checkpoint import Checkpoint, load_checkpoint
from envelope.victims.hub_victim import (
    HubRequest,
    HubVictim,
    detections_within,
    suppressed,
    victim_info,
)
from envelope.victims.names import normalised
from envelope.victims.protocols import KEPT_CONFIDENCE, Detections, Images
from scene.errors import InputError

COORDINATES = (
    "cx, cy, w, h as shares of a square of the picture's longer side, the picture at its top "
    "left; its processor pads right and below, its post_process_object_detection scales by the "
    "longer side"
)
_MAX_BOXES = 300
_SUPPRESSED_REGIONS = 20


class Owlv2Detector(HubVictim[Detections]):
    """Follows the OpenDetector protocol, the queries as labels; also a white box."""

    def prompt_for(self, label: str) -> str:
        """The query for a class, as in `a photo of a stop sign`."""
        return f"a photo of a {normalised(label)}"

    def predict(self, images: Images, prompt: str) -> list[Detections]:
        """images: (B, H, W, 3) uint8 RGB; prompt: queries, semicolons between -> B answers."""
        queries = queries_of(prompt, self.info.name)
        return self._timed(images, lambda pictures: self._answers(pictures, queries))

    def _answers(self, images: torch.Tensor, queries: tuple[str, ...]) -> list[Detections]:
        height, width = images.shape[2:]
        outputs = self._run(images, queries)
        require_finite(self.info.name, outputs.logits, outputs.pred_boxes)
        found = self.checkpoint.image_processor.post_process_object_detection(
            outputs,
            threshold=KEPT_CONFIDENCE,
            target_sizes=[(height, width)] * len(images),
        )
        return [
            detections_within(
                picture["boxes"],
                picture["scores"],
                [queries[index] for index in picture["labels"].tolist()],
                width,
                height,
                _MAX_BOXES,
            )
            for picture in found
        ]

    def _run(self, images: torch.Tensor, queries: tuple[str, ...]) -> Any:
        text = query_tokens(self.checkpoint, queries, self.info.name)
        rows = {name: value.repeat(len(images), 1) for name, value in text.items()}
        return self.model(**self.inputs(images), **rows)

    def suppression_loss(
        self, images: torch.Tensor, label: str, prompt: str | None = None
    ) -> torch.Tensor:
        """How similar the picture's regions still are to the class's query.

        images: (B, 3, H, W) float RGB in [0, 1], gradients pass. prompt: another than the native
        one; it must hold the class. Returns (B,): the mean of -log(1 - confidence) over the most
        similar regions. An attack makes it small.
        """
        queries = queries_of(prompt or self.prompt_for(label), self.info.name)
        query = phrase_of(label, queries, self.info.name)
        similarity = self._run(images, queries).logits[..., query]
        return suppressed(similarity, _SUPPRESSED_REGIONS).to(images.device)


def queries_of(prompt: str, spec: str) -> tuple[str, ...]:
    """A prompt's queries, lower case."""
    queries = tuple(" ".join(part.lower().split()) for part in prompt.split(";") if part.strip())
    if not queries:
        raise InputError(f"{spec}: wanted a prompt such as 'a photo of a stop sign', found none")
    return queries


def query_tokens(
    checkpoint: Checkpoint, queries: tuple[str, ...], spec: str
) -> dict[str, torch.Tensor]:
    """(queries, words) token ids and mask, padded to what the model reads."""
    most = int(checkpoint.model.config.text_config.max_position_embeddings)
    made = checkpoint.processor.tokenizer(list(queries), padding="max_length", max_length=most)
    lengths = [len(row) for row in made["input_ids"]]
    if max(lengths) > most:
        longest = queries[lengths.index(max(lengths))]
        raise InputError(
            f"{spec}: {longest!r} makes {max(lengths)} tokens, the model reads {most}; ask in "
            "fewer words"
        )
    return {
        name: torch.tensor(made[name], device=checkpoint.device)
        for name in ("input_ids", "attention_mask")
    }


def load_owlv2(request: HubRequest) -> Owlv2Detector:
    """The detector in a checkpoint's folder."""
    checkpoint = load_checkpoint(
        request.folder,
        request.spec,
        "AutoModelForZeroShotObjectDetection",
        "AutoProcessor",
        request.device,
    )
    if checkpoint.model.config.model_type != "owlv2":
        raise InputError(
            f"victim {request.spec!r}: wanted an OWLv2 checkpoint, found "
            f"{checkpoint.model.config.model_type!r} in {request.folder}"
        )
    settings = {"kept_confidence": KEPT_CONFIDENCE, "max_boxes": _MAX_BOXES}
    info = victim_info(request, checkpoint, "detector", 0.3, COORDINATES, settings=settings)
    return Owlv2Detector(checkpoint, info, request.threads)
