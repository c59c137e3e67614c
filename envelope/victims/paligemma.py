"""PaliGemma and PaliGemma 2 checkpoints, from a folder, through transformers' own classes.

The embedded demo grounder is such a folder too, so what is tested with it is the path that a real
checkpoint takes: processor, plain greedy `generate()`, location tokens.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from envelope.victims.grammars import LOC_RANGE, read_paligemma
from envelope.victims.hub_checkpoint import Checkpoint, load_checkpoint
from envelope.victims.hub_models import HubWeights, checkpoint_source
from envelope.victims.protocols import Grounding, Images, VictimInfo, check_images
from envelope.victims.torch_tools import frozen, torch_threads
from envelope.victims.vlm.finite import FiniteScores
from envelope.victims.vlm.paligemma2 import PALIGEMMA2
from scene.errors import InputError

_MAX_NEW_TOKENS = 24


class PaliGemmaVictim:
    """Follows the Grounder protocol; also a white box for patch making."""

    def __init__(
        self,
        model: Any,
        processor: Any,
        info: VictimInfo,
        threads: int = 1,
        variant: str = "native",
    ) -> None:
        self.model: Any = frozen(model)
        self.device: torch.device = next(self.model.parameters()).device
        self.variant = variant
        self.processor = processor
        self.processor.tokenizer.padding_side = "left"
        self.info = info
        self.threads = threads

    def prompt_for(self, label: str) -> str:
        """The grounding prompt; the native variant is as in `detect stop sign`."""
        return PALIGEMMA2.prompts.of(self.variant, label)

    def predict(self, images: Images, prompt: str | Sequence[str]) -> list[Grounding]:
        """images: (B, H, W, 3) uint8 RGB; prompt: one for all or B -> B answers, greedy."""
        images = check_images(images)
        prompts = [prompt] * len(images) if isinstance(prompt, str) else list(prompt)
        if len(prompts) != len(images):
            raise InputError(f"{len(images)} pictures but {len(prompts)} prompts")
        if not prompts:
            return []
        height, width = images.shape[1:3]
        start = time.perf_counter()
        # not inference_mode: the processor keeps tensors that gradients later run through
        with torch_threads(self.threads), torch.no_grad():
            inputs = self._inputs(list(images), prompts)
            tokens = self.model.generate(
                **inputs, max_new_tokens=_MAX_NEW_TOKENS, do_sample=False, use_cache=True,
                logits_processor=[FiniteScores(self.info.name)],
            )  # fmt: skip
            texts = self.processor.tokenizer.batch_decode(
                tokens[:, inputs["input_ids"].shape[1] :],
                skip_special_tokens=False,
                clean_up_tokenization_spaces=False,
            )
        if self.info.seconds_per_picture is None:
            seconds = (time.perf_counter() - start) / len(images)
            self.info = replace(self.info, seconds_per_picture=seconds)
        return [self._grounding(text, width, height) for text in texts]

    def _grounding(self, text: str, width: int, height: int) -> Grounding:
        tokenizer = self.processor.tokenizer
        for control in (tokenizer.pad_token, tokenizer.bos_token, tokenizer.eos_token):
            text = text.replace(control, "") if control else text
        reading = read_paligemma(text, width, height)
        return Grounding(text.strip(), reading.box, reading.status, reading.notes)

    def _inputs(self, images: list[np.ndarray], prompts: list[str]) -> dict[str, torch.Tensor]:
        texts = [f"{self.processor.image_token}{prompt}" for prompt in prompts]
        inputs = self.processor(text=texts, images=images, return_tensors="pt", padding=True)
        return {n: value.to(self.device) for n, value in inputs.items() if n != "labels"}

    def suppression_loss(
        self, images: torch.Tensor, label: str, boxes: Sequence[Sequence[float]] | None = None
    ) -> torch.Tensor:
        """Log-likelihood of the box under the class's prompt; an attack makes it small.

        images: (B, 3, H, W) float RGB in [0, 1], gradients pass. boxes: B xyxy boxes in pixels of
        the images; None: the boxes that the model itself answers now (no box: the likelihood of
        any location as the first word). Returns (B,) mean log-probability per location token.
        """
        count, _, height, width = images.shape
        prompts = [self.prompt_for(label)] * count
        shown = (images.detach().clamp(0, 1) * 255).round().to(torch.uint8)
        pictures = shown.permute(0, 2, 3, 1).cpu().numpy()
        if boxes is None:
            answers = self.predict(pictures, prompts)
            found: list[Sequence[float] | None] = [answer.box for answer in answers]
        else:
            found = list(boxes)
        inputs = self._inputs(list(pictures), prompts)
        pixels = self._pixels(images)
        locations = self._location_ids()
        losses = []
        for number in range(count):
            box = found[number]
            row = {name: value[number : number + 1] for name, value in inputs.items()}
            tokens = self._box_tokens(box, width, height, locations) if box is not None else None
            losses.append(self._log_likelihood(row, pixels[number : number + 1], tokens, locations))
        return torch.stack(losses).to(images.device)

    def _log_likelihood(
        self,
        row: dict[str, torch.Tensor],
        pixels: torch.Tensor,
        tokens: torch.Tensor | None,
        locations: torch.Tensor,
    ) -> torch.Tensor:
        ids, mask, types = row["input_ids"], row["attention_mask"], row["token_type_ids"]
        if tokens is not None:
            ids = torch.cat([ids, tokens[None]], dim=1)
            mask = torch.cat([mask, torch.ones_like(tokens)[None]], dim=1)
            types = torch.cat([types, torch.ones_like(tokens)[None]], dim=1)
        keep = 5 if tokens is not None else 1
        logits = self.model(
            input_ids=ids,
            attention_mask=mask,
            token_type_ids=types,
            pixel_values=pixels,
            position_ids=mask.cumsum(dim=1),
            logits_to_keep=keep,
            use_cache=False,
        ).logits[0]
        chances = torch.log_softmax(logits, dim=-1)
        if tokens is None:
            return torch.logsumexp(chances[0, locations], dim=0)
        return chances[:4].gather(1, tokens[:, None]).mean()

    def _pixels(self, images: torch.Tensor) -> torch.Tensor:
        """What the processor makes of pictures, with gradients: within a level of 8-bit ones."""
        made = self.processor.image_processor(
            images=list(images.to(self.device) * 255),
            input_data_format="channels_first",
            return_tensors="pt",
        )
        pixels: torch.Tensor = made["pixel_values"]
        return pixels

    def _location_ids(self) -> torch.Tensor:
        names = [f"<loc{value:04d}>" for value in range(LOC_RANGE)]
        numbers = self.processor.tokenizer.convert_tokens_to_ids(names)
        return torch.tensor(numbers, device=self.device)

    def _box_tokens(
        self, box: Sequence[float], width: int, height: int, locations: torch.Tensor
    ) -> torch.Tensor:
        x0, y0, x1, y1 = box
        shares = np.array([y0 / height, x0 / width, y1 / height, x1 / width])
        index = np.clip(np.round(shares * LOC_RANGE), 0, LOC_RANGE - 1).astype(np.int64)
        return locations[torch.from_numpy(index).to(locations.device)]


def load_paligemma(
    folder: Path,
    name: str,
    threads: int = 1,
    variant: str = "native",
    row: HubWeights | None = None,
    device: str = "cpu",
) -> PaliGemmaVictim:
    """The checkpoint of a folder: config.json, *.safetensors, tokenizer and processor files.

    variant: of the prompt (native, p1, p2, p3). row: of the table of hub weights.
    device: "auto" (a GPU where there is one), "cpu" or "cuda".
    """
    PALIGEMMA2.prompts.of(variant, "")
    checkpoint = load_checkpoint(
        folder, name, "PaliGemmaForConditionalGeneration", "AutoProcessor", device
    )
    info = _info(checkpoint, name, row)
    if variant != "native":
        info = replace(info, settings={**info.settings, "prompt_variant": variant})
    return PaliGemmaVictim(checkpoint.model, checkpoint.processor, info, threads, variant)


def _info(checkpoint: Checkpoint, name: str, row: HubWeights | None) -> VictimInfo:
    from envelope.victims.demo.signs import CLASSES  # all that the demo grounder has words for

    size = checkpoint.image_processor.size
    demo = name.startswith("demo-")
    own = "Apache-2.0" if demo else "the checkpoint's own (Google's: Gemma licence)"
    settings = {
        "grammar": "paligemma", "decoding": "greedy", "max_new_tokens": _MAX_NEW_TOKENS
    }  # fmt: skip
    own_setup = {"setup_hash": checkpoint.setup_hash, "device": checkpoint.device.type}
    made_here = "trained by `advscene train-demo` on pictures that it makes"
    return VictimInfo(
        name=name,
        kind="grounder",
        licence=row.licence if row else own,
        source=made_here if demo else checkpoint_source(checkpoint.folder),
        input_size=(int(size["width"]), int(size["height"])),
        threshold=0.0,
        weights_hash=checkpoint.weights_hash,
        labels=CLASSES if demo else (),
        settings=settings if demo else {**settings, **own_setup},
        command=row.command if row else "",
        coordinates=f"{PALIGEMMA2.convention} ({PALIGEMMA2.evidence})",
    )
