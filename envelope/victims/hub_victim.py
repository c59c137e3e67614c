"""What every victim over a transformers checkpoint does the same way.

Pictures go through the checkpoint's own processor, whose arithmetic is torch: 8-bit pictures when
a victim is scored, floats with gradients when it is a white box.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch

from envelope.victims.boxes import require_finite
from envelope.victims.hub_checkpoint import Checkpoint
from envelope.victims.hub_models import HubWeights, checkpoint_source
from envelope.victims.protocols import (
    KEPT_CONFIDENCE,
    Detections,
    Images,
    Kind,
    VictimInfo,
    check_images,
)
from envelope.victims.torch_tools import torch_threads
from scene.errors import InputError

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class HubRequest:
    """Which checkpoint a user wants, and how.

    spec: the user's own words. folder: where the checkpoint lies. options: what follows the
    question mark. row: of the table of hub weights, None for a folder of the user's own.
    """

    spec: str
    folder: Path
    options: Mapping[str, str] = field(default_factory=dict)
    threads: int = 1
    row: HubWeights | None = None

    @property
    def device(self) -> str:
        """auto, cpu or cuda."""
        return self.options.get("device", "auto")

    def number(self, name: str, default: float, low: float, high: float) -> float:
        """An option's number, checked."""
        text = self.options.get(name, "")
        try:
            value = float(text) if text else default
        except ValueError:
            value = float("nan")
        if not low <= value <= high:
            raise InputError(
                f"victim {self.spec!r}: {name} wants a number in {low:g}..{high:g}, found {text!r}"
            )
        return value


class HubVictim(Generic[Answer]):
    """A checkpoint that runs; subclasses say how its outputs are read."""

    def __init__(self, checkpoint: Checkpoint, info: VictimInfo, threads: int = 1) -> None:
        self.checkpoint = checkpoint
        self.model: Any = checkpoint.model
        self.info = info
        self.threads = threads
        self._takes = set(inspect.signature(self.model.forward).parameters)

    def _timed(
        self, images: Images, answers_to: Callable[[torch.Tensor], list[Answer]]
    ) -> list[Answer]:
        """Ask about (B, H, W, 3) uint8 pictures, given as (B, 3, H, W) on the model's device."""
        images = check_images(images)
        if len(images) == 0:
            return []
        start = time.perf_counter()
        pictures = torch.from_numpy(np.require(images, requirements=["C", "W"]))
        # not inference_mode: processors and models keep tensors that gradients later run through
        with torch_threads(self.threads), torch.no_grad():
            answers = answers_to(pictures.permute(0, 3, 1, 2).to(self.checkpoint.device))
        if self.info.seconds_per_picture is None:
            seconds = (time.perf_counter() - start) / len(images)
            self.info = replace(self.info, seconds_per_picture=seconds)
        return answers

    def inputs(self, images: torch.Tensor) -> dict[str, torch.Tensor]:
        """What the processor makes of pictures, for the model.

        images: (B, 3, H, W), uint8, or float in [0, 1] through which gradients pass. The two agree
        within one 8-bit level: resizing rounds the former.
        """
        if images.dtype != torch.uint8:
            images = images.to(self.checkpoint.device) * 255
        made = self.checkpoint.image_processor(
            images=list(images), input_data_format="channels_first", return_tensors="pt"
        )
        return {
            name: value.to(self.checkpoint.device)
            for name, value in made.items()
            if name in self._takes
        }


def victim_info(
    request: HubRequest,
    checkpoint: Checkpoint,
    kind: Kind,
    threshold: float,
    coordinates: str = "",
    labels: tuple[str, ...] = (),
    settings: Mapping[str, Any] | None = None,
) -> VictimInfo:
    """What a victim says about itself, from the request, the table's row and the checkpoint."""
    row = request.row
    return VictimInfo(
        name=request.spec,
        kind=kind,
        licence=row.licence if row else "the checkpoint's own",
        source=checkpoint_source(request.folder),
        input_size=processor_size(checkpoint.image_processor, request.spec),
        threshold=row.threshold if row else threshold,
        weights_hash=checkpoint.weights_hash,
        labels=labels,
        settings={
            "setup_hash": checkpoint.setup_hash,
            "device": checkpoint.device.type,
            **(settings or {}),
        },
        extra=row.extra if row else "",
        command=row.command if row else "",
        coordinates=coordinates,
    )


def processor_size(processor: Any, spec: str) -> tuple[int, int]:
    """(width, height) in pixels that a processor makes; the largest where it keeps the aspect."""
    if getattr(processor, "do_center_crop", False) and getattr(processor, "crop_size", None):
        size = processor.crop_size
    else:
        size = processor.size
    sizes = size if isinstance(size, Mapping) else vars(size)
    for width, height in (
        ("width", "height"), ("longest_edge", "shortest_edge"), ("max_width", "max_height"),
        ("shortest_edge", "shortest_edge"),
    ):  # fmt: skip
        if sizes.get(width) and sizes.get(height):
            return int(sizes[width]), int(sizes[height])
    raise InputError(f"victim {spec!r}: its processor names no input size, found {size}")


def detections_within(
    boxes: torch.Tensor, scores: torch.Tensor, labels: list[str], width: int, height: int,
    limit: int | None = None,
) -> Detections:  # fmt: skip
    """One picture's boxes (n, 4) xyxy pixels, clipped to the picture; those outside are dropped.

    limit: keeps that many of the most confident. Raises InputError for NaN or infinity.
    """
    edges = torch.tensor([width, height, width, height], device=boxes.device)
    clipped = boxes.clamp(min=0).minimum(edges.to(boxes.dtype))
    require_finite("the detector", scores, boxes)
    there = (clipped[:, 2:] > clipped[:, :2]).all(dim=1) & (scores >= KEPT_CONFIDENCE)
    kept = there.nonzero()[:, 0]
    if limit is not None and len(kept) > limit:
        kept = kept[scores[kept].topk(limit).indices]
    rows = kept.tolist()
    return Detections(
        clipped[kept].cpu().numpy(), scores[kept].cpu().numpy(), tuple(labels[i] for i in rows)
    )


def suppressed(logits: torch.Tensor, count: int = 20) -> torch.Tensor:
    """(B, n) logits of one class at n places -> (B,) how visible the class still is.

    The mean of -log(1 - confidence) over the most confident places; an attack makes it small.
    """
    losses = torch.nn.functional.softplus(logits)
    return losses.topk(min(count, losses.shape[1]), dim=1).values.mean(dim=1)
