"""GroundingDINO: boxes for the phrases of a text, through transformers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
from envelope.victims.names import normalised, phrase_has_class
from envelope.victims.protocols import KEPT_CONFIDENCE, Detections, Images, VictimInfo
from scene.errors import InputError

COORDINATES = (
    "cx, cy, w, h as shares of the whole picture; its processor's "
    "post_process_grounded_object_detection scales them by (height, width)"
)
BOX_THRESHOLD, TEXT_THRESHOLD = 0.3, 0.25
_SUPPRESSED_QUERIES = 20


@dataclass(frozen=True, eq=False)
class Text:
    """A prompt as the model reads it.

    tensors: input_ids and masks, each (1, n). spans: for each phrase its first and past-the-last
    token.
    """

    phrases: tuple[str, ...]
    tensors: dict[str, torch.Tensor]
    spans: tuple[tuple[int, int], ...]


class GroundingDinoDetector(HubVictim[Detections]):
    """Follows the OpenDetector protocol, phrases as labels; also a white box for patch making.

    A box's confidence is that of its best word; its label are the words above the text threshold.
    A box less confident than 0.3 gets a text threshold that is smaller in proportion, so that it
    keeps its words.
    """

    def __init__(self, checkpoint: Checkpoint, info: VictimInfo, threads: int = 1) -> None:
        super().__init__(checkpoint, info, threads)
        self._read: dict[str, Text] = {}

    def prompt_for(self, label: str) -> str:
        """The class as a phrase: lower case, a full stop behind it: "stop sign."."""
        return f"{normalised(label)}."

    def predict(self, images: Images, prompt: str) -> list[Detections]:
        """images: (B, H, W, 3) uint8 RGB; prompt: phrases, a full stop after each -> B answers."""
        text = self._text(prompt)
        return self._timed(images, lambda pictures: self._answers(pictures, text))

    def _answers(self, images: torch.Tensor, text: Text) -> list[Detections]:
        outputs = self._run(images, text)
        # the tokens that a text leaves free have -inf by design; NaN and +inf pass the clamp
        logits = outputs.logits.clamp(min=torch.finfo(outputs.logits.dtype).min)
        require_finite(self.info.name, logits, outputs.pred_boxes)
        height, width = images.shape[2:]
        chances = outputs.logits.sigmoid()
        boxes = corners(outputs.pred_boxes, width, height)
        return [
            self._picture(chances[number], boxes[number], text, (width, height))
            for number in range(len(images))
        ]

    def _picture(
        self, chances: torch.Tensor, boxes: torch.Tensor, text: Text, size: tuple[int, int]
    ) -> Detections:
        """chances: (Q, tokens) of one picture. boxes: (Q, 4) pixels."""
        scores = chances.max(dim=1).values
        kept = scores >= KEPT_CONFIDENCE
        chances, boxes, scores = chances[kept], boxes[kept], scores[kept]
        wanted = self.info.settings["text_threshold"] * (scores / BOX_THRESHOLD).clamp(max=1)
        above = chances > wanted[:, None]
        labels = [self._words(row, text) for row in above]
        return detections_within(boxes, scores, labels, *size)

    def _words(self, above: torch.Tensor, text: Text) -> str:
        """The words of the tokens that are above the threshold; what frames the text left out."""
        ids = text.tensors["input_ids"][0]
        places = above.nonzero()[:, 0].tolist()
        words = [int(ids[place]) for place in places if 0 < place < len(ids) - 1]
        return str(self.checkpoint.processor.tokenizer.decode(words)).strip(" .")

    def _text(self, prompt: str) -> Text:
        if prompt not in self._read:
            self._read[prompt] = text_of(self.checkpoint, prompt, self.info.name)
        return self._read[prompt]

    def _run(self, images: torch.Tensor, text: Text) -> Any:
        words = {
            name: value.expand(len(images), -1)
            for name, value in text.tensors.items()
            if name in self._takes
        }
        return self.model(**self.inputs(images), **words)

    def suppression_loss(
        self, images: torch.Tensor, label: str, prompt: str | None = None
    ) -> torch.Tensor:
        """How similar the picture's regions still are to the class's phrase.

        images: (B, 3, H, W) float RGB in [0, 1], gradients pass. prompt: another than the native
        one; it must hold the class. Returns (B,): the mean of -log(1 - confidence) over the most
        similar regions, a region's confidence being that of the phrase's best word. An attack
        makes it small.
        """
        text = self._text(prompt or self.prompt_for(label))
        first, last = text.spans[phrase_of(label, text.phrases, self.info.name)]
        similarity = self._run(images, text).logits[..., first:last].amax(dim=-1)
        return suppressed(similarity, _SUPPRESSED_QUERIES).to(images.device)


def phrase_of(label: str, phrases: tuple[str, ...], spec: str) -> int:
    """Which phrase asks for a class, i.e. contains it as words."""
    for number, phrase in enumerate(phrases):
        if phrase_has_class(phrase, label):
            return number
    raise InputError(f"{spec}: the prompt does not hold the class {label!r}: {'. '.join(phrases)}")


def phrases_of(prompt: str, spec: str) -> tuple[str, ...]:
    """A prompt's phrases, lower case: 'Stop Sign. person' -> ('stop sign', 'person')."""
    phrases = tuple(" ".join(part.lower().split()) for part in prompt.split(".") if part.strip())
    if not phrases:
        raise InputError(f"{spec}: wanted a prompt such as 'stop sign. person.', found {prompt!r}")
    return phrases


def corners(boxes: torch.Tensor, width: int, height: int) -> torch.Tensor:
    """(..., 4) cx, cy, w, h in [0, 1] -> xyxy pixels of a (width x height) picture."""
    center, size = boxes[..., :2], boxes[..., 2:]
    edges = boxes.new_tensor([width, height] * 2)
    return torch.cat([center - size / 2, center + size / 2], dim=-1) * edges


def text_of(checkpoint: Checkpoint, prompt: str, spec: str) -> Text:
    """A prompt's tokens, a full stop after each phrase, and where each phrase lies in them."""
    phrases = phrases_of(prompt, spec)
    made = checkpoint.processor.tokenizer(
        " ".join(f"{phrase}." for phrase in phrases),
        return_tensors="pt",
        return_token_type_ids=True,
        return_offsets_mapping=True,
    )
    offsets = made.pop("offset_mapping")[0].tolist()
    most = checkpoint.model.config.max_text_len
    if len(offsets) > most:
        raise InputError(
            f"{spec}: the prompt makes {len(offsets)} tokens, the model reads {most}; name fewer "
            "classes"
        )
    spans, start = [], 0
    for phrase in phrases:
        end = start + len(phrase)
        inside = [n for n, (low, high) in enumerate(offsets) if start <= low < high <= end]
        spans.append((inside[0], inside[-1] + 1))
        start = end + 2  # the full stop and a space
    tensors = {name: value.to(checkpoint.device) for name, value in made.items()}
    return Text(phrases, tensors, tuple(spans))


def load_grounding_dino(request: HubRequest) -> GroundingDinoDetector:
    """The detector in a checkpoint's folder."""
    checkpoint = load_checkpoint(
        request.folder,
        request.spec,
        "AutoModelForZeroShotObjectDetection",
        "AutoProcessor",
        request.device,
    )
    if not hasattr(checkpoint.model.config, "max_text_len"):
        raise InputError(
            f"victim {request.spec!r}: wanted a GroundingDINO checkpoint, found "
            f"{checkpoint.model.config.model_type!r} in {request.folder}"
        )
    _set_size(checkpoint.image_processor, request)
    settings = {
        "kept_confidence": KEPT_CONFIDENCE,
        "text_threshold": request.number("text", TEXT_THRESHOLD, 0.0, 1.0),
    }
    info = victim_info(
        request, checkpoint, "detector", BOX_THRESHOLD, COORDINATES, settings=settings
    )
    return GroundingDinoDetector(checkpoint, info, request.threads)


def _set_size(processor: Any, request: HubRequest) -> None:
    """The short side that the request or the table wants, else the processor's own."""
    default = request.row.input_size[1] if request.row else 0
    short = int(request.number("size", default, 0, 4096))
    if short == 0:
        return
    size = processor.size
    if not size.shortest_edge or not size.longest_edge:
        raise InputError(f"victim {request.spec!r}: its processor has a fixed size, no short side")
    longest = round(short * size.longest_edge / size.shortest_edge)
    processor.size = type(size)(shortest_edge=short, longest_edge=longest)
