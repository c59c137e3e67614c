"""A grounding model that runs here: a chat prompt and a picture in, one box out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from envelope.victims.conventions import Frame
from envelope.victims.hub_checkpoint import Checkpoint
from envelope.victims.hub_victim import HubVictim
from envelope.victims.protocols import Grounding, Images, VictimInfo, check_images
from envelope.victims.torch_tools import resized_tensor
from envelope.victims.vlm.family import Box, Family
from envelope.victims.vlm.finite import FiniteScores
from envelope.victims.vlm.stopping import BoxComplete
from scene.errors import InputError


@dataclass(frozen=True)
class VlmSettings:
    """How a model is asked.

    variant: of the prompt. side: the picture is stretched to side x side pixels before the
    model's processor sees it, 0: it is given as it is. max_new_tokens: of an answer.
    """

    variant: str = "native"
    side: int = 448
    max_new_tokens: int = 128


class VlmVictim(HubVictim[Grounding]):
    """Follows the Grounder protocol, greedy, one box; also a white box for patch making."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        info: VictimInfo,
        family: Family,
        settings: VlmSettings,
        threads: int = 1,
    ) -> None:
        super().__init__(checkpoint, info, threads)
        self.family = family
        self.settings = settings
        self.processor: Any = checkpoint.processor
        self.tokenizer: Any = self.processor.tokenizer
        self.tokenizer.padding_side = "left"

    def prompt_for(self, label: str) -> str:
        """The chosen variant of the family's prompt for a class."""
        return self.family.prompts.of(self.settings.variant, label)

    def predict(self, images: Images, prompt: str | Sequence[str]) -> list[Grounding]:
        """images: (B, H, W, 3) uint8 RGB; prompt: one for all or B -> B answers."""
        images = check_images(images)
        prompts = [prompt] * len(images) if isinstance(prompt, str) else list(prompt)
        if len(prompts) != len(images):
            raise InputError(f"{len(images)} pictures but {len(prompts)} prompts")
        return self._timed(images, lambda pictures: self._answers(pictures, prompts))

    def suppression_loss(
        self, images: torch.Tensor, label: str, boxes: Sequence[Sequence[float]] | None = None
    ) -> torch.Tensor:
        """Log-likelihood of the box under the class's prompt; an attack makes it small.

        images: (B, 3, H, W) float RGB in [0, 1], gradients pass. boxes: B xyxy boxes in pixels of
        the images; None: the boxes that the model itself answers now (no box: the likelihood that
        it begins one). Returns (B,) mean log-probability per token of the box.
        """
        from envelope.victims.vlm.white_box import box_log_likelihood

        wanted: list[Box | None] = [None] * len(images)
        if boxes is not None:
            wanted = [(box[0], box[1], box[2], box[3]) for box in boxes]
        else:
            shown = (images.detach().clamp(0, 1) * 255).round().to(torch.uint8)
            pictures = shown.permute(0, 2, 3, 1).cpu().numpy()
            wanted = [answer.box for answer in self.predict(pictures, self.prompt_for(label))]
        return box_log_likelihood(self, images, label, wanted)

    def encoded(self, images: torch.Tensor, prompts: Sequence[str]) -> dict[str, Any]:
        """What the processor makes of pictures and prompts, for the model.

        images: (B, 3, H, W), uint8, or float in [0, 1] through which gradients pass; the two
        agree within one 8-bit level.
        """
        images = images.to(self.checkpoint.device)
        exact = images.dtype == torch.uint8
        levels = images.float() if exact else images * 255
        if self.settings.side:
            levels = resized_tensor(levels, self.settings.side, self.settings.side)
        if exact:
            levels = levels.round().clamp(0, 255).to(torch.uint8)
        made = self.processor(
            text=[self._chat(prompt) for prompt in prompts],
            images=[[picture] for picture in levels],
            input_data_format="channels_first",
            padding=True,
            return_tensors="pt",
        )
        return {
            name: value.to(self.checkpoint.device) if hasattr(value, "to") else value
            for name, value in made.items()
            if name in self._takes
        }

    def frames(self, inputs: dict[str, Any], width: int, height: int) -> list[Frame]:
        """Per picture its size and the size to which the processor resized it."""
        grids = inputs.get("image_grid_thw")
        if grids is None:
            side = self.settings.side
            seen = (side, side) if side else (width, height)
            return [Frame(width, height, *seen)] * len(inputs["input_ids"])
        patch = self.checkpoint.image_processor.patch_size
        return [
            Frame(width, height, int(across) * patch, int(down) * patch)
            for _, down, across in grids.tolist()
        ]

    def _answers(self, images: torch.Tensor, prompts: list[str]) -> list[Grounding]:
        inputs = self.encoded(images, prompts)
        start = inputs["input_ids"].shape[1]
        tokens = self.model.generate(
            **inputs,
            max_new_tokens=self.settings.max_new_tokens,
            do_sample=False,
            stopping_criteria=[BoxComplete(self.tokenizer, start)],
            logits_processor=[FiniteScores(self.info.name)],
        )
        texts = self.tokenizer.batch_decode(
            tokens[:, start:], skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        height, width = images.shape[2:]
        frames = self.frames(inputs, width, height)
        return [self._read(text, frame) for text, frame in zip(texts, frames, strict=True)]

    def _read(self, text: str, frame: Frame) -> Grounding:
        pad = self.tokenizer.pad_token
        raw = (text.replace(pad, "") if pad else text).strip()
        reading = self.family.reads(raw, frame)
        return Grounding(raw, reading.box, reading.status, reading.notes)

    def _chat(self, prompt: str) -> str:
        content = [{"type": "image"}, {"type": "text", "text": prompt}]
        text = self.processor.apply_chat_template(
            [{"role": "user", "content": content}],
            add_generation_prompt=True,
            tokenize=False,
            **self.family.template,
        )
        return str(text)
