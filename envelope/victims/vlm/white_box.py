"""How likely a model finds a box, token by token, with gradients to the pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from envelope.victims.names import normalised
from envelope.victims.vlm.family import Box, Written

if TYPE_CHECKING:
    from envelope.victims.vlm.victim import VlmVictim


@dataclass(frozen=True, eq=False)
class Spoken:
    """An answer in tokens. ids: (n,). counted: (n,) bool, those of the box."""

    ids: torch.Tensor
    counted: torch.Tensor


def box_log_likelihood(
    victim: VlmVictim,
    images: torch.Tensor,
    label: str,
    boxes: Sequence[Box | None],
    whole: bool = False,
) -> torch.Tensor:
    """(B, 3, H, W) pictures in [0, 1] -> (B,) mean log-probability per token of their boxes.

    The answer is forced upon the model in its own grammar; None: only that a box begins.
    whole: all of the answer's tokens and its end count, as when a model is trained to give it.
    """
    height, width = images.shape[2:]
    inputs = victim.encoded(images, [victim.prompt_for(label)] * len(images))
    frames = victim.frames(inputs, width, height)
    spoken = []
    for box, frame in zip(boxes, frames, strict=True):
        frame_box = (0.0, 0.0, float(width), float(height))
        written = victim.family.writes(normalised(label), box or frame_box, frame)
        spoken.append(
            _whole(victim, written) if whole else _spoken(victim, written, begins_only=box is None)
        )
    longest = max(len(one.ids) for one in spoken)
    device = inputs["input_ids"].device
    pad = victim.tokenizer.pad_token_id or 0
    ids = torch.full((len(spoken), longest), pad, device=device)
    counted = torch.zeros((len(spoken), longest), dtype=torch.bool, device=device)
    for row, one in enumerate(spoken):
        ids[row, : len(one.ids)] = one.ids.to(device)
        counted[row, : len(one.ids)] = one.counted.to(device)
    logits = victim.model(
        **_forced(inputs, ids), logits_to_keep=longest + 1, use_cache=False
    ).logits
    logits = logits[:, -longest - 1 : -1]  # not every family heeds logits_to_keep
    chances = torch.log_softmax(logits.float(), dim=-1).gather(2, ids[..., None])[..., 0]
    losses = (chances * counted).sum(dim=1) / counted.sum(dim=1)
    return losses.to(images.device)


def _spoken(victim: VlmVictim, written: Written, begins_only: bool) -> Spoken:
    """The tokens of an answer and which of them are the box's."""
    gated = victim.family.gated
    text = written.opening + ("" if begins_only else written.box)
    if begins_only and not text:
        text = written.box
    made = victim.tokenizer(
        text, add_special_tokens=False, return_offsets_mapping=True, return_tensors="pt"
    )
    ids, ends = made["input_ids"][0], made["offset_mapping"][0][:, 1]
    if begins_only:
        ids, ends = (ids[:1], ends[:1]) if gated else (ids, ends)
        return Spoken(ids, torch.ones_like(ids, dtype=torch.bool))
    counted = torch.ones_like(ids, dtype=torch.bool) if gated else ends > len(written.opening)
    return Spoken(ids, counted)


def _whole(victim: VlmVictim, written: Written) -> Spoken:
    text = written.opening + written.box + written.closing + victim.tokenizer.eos_token
    ids = victim.tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"][0]
    return Spoken(ids, torch.ones_like(ids, dtype=torch.bool))


def _forced(inputs: dict[str, Any], ids: torch.Tensor) -> dict[str, Any]:
    """The model's inputs with the answer's tokens behind the prompt."""
    prompt = inputs["input_ids"]
    fills = {"attention_mask": 1, "mm_token_type_ids": 0, "token_type_ids": 1}
    made = dict(inputs)
    made["input_ids"] = torch.cat([prompt, ids], dim=1)
    for name, fill in fills.items():
        value = inputs.get(name)
        if value is not None and value.shape == prompt.shape:
            made[name] = torch.cat([value, torch.full_like(ids, fill).to(value.dtype)], dim=1)
    return made
