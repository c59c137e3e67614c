"""The demo grounder's parts: transformers' PaliGemma classes at a small size, and a word tokenizer.

SigLIP 5 x 128 and Gemma 3 x 128, 224 px, 16 px patches, built from configurations; the vocabulary
holds PaliGemma's location and segment words and the few words of its prompts.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from torch import nn

from envelope.victims.demo.signs import CLASSES
from envelope.victims.grammars import LOC_RANGE

SIDE, PATCH = 224, 16
GRID = SIDE // PATCH
_SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>", "<image>", "\n")
PAD, BOS, EOS, IMAGE = 0, 1, 2, 4


def vocabulary() -> list[str]:
    """Every word, in the order of its number."""
    words = "detect ;".split()
    for name in CLASSES:
        words += name.split()
    locations = [f"<loc{value:04d}>" for value in range(LOC_RANGE)]
    segments = [f"<seg{value:03d}>" for value in range(128)]
    return [*_SPECIAL, *locations, *segments, *dict.fromkeys(words)]


FIRST_LOCATION = len(_SPECIAL)


def build_processor() -> Any:
    """The PaliGemma processor of the demo model."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers
    from transformers import PaliGemmaProcessor, PreTrainedTokenizerFast, SiglipImageProcessor

    words = {word: number for number, word in enumerate(vocabulary())}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"<[a-z]+\d*>|\n|;|\w+"), "isolated"),
            pre_tokenizers.Split(" ", "removed"),
        ]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<bos>",
        eos_token="<eos>",
        pad_token="<pad>",
        unk_token="<unk>",
        extra_special_tokens={"image_token": "<image>"},
        padding_side="left",
    )
    images: Any = SiglipImageProcessor(size={"height": SIDE, "width": SIDE})
    images.image_seq_length = GRID * GRID
    return PaliGemmaProcessor(image_processor=images, tokenizer=fast)


def build_model(
    vision_layers: int = 5, text_layers: int = 3, width: int = 128, heads: int = 4
) -> Any:
    """A PaliGemmaForConditionalGeneration with structured initial weights."""
    from transformers import (
        GemmaConfig,
        PaliGemmaConfig,
        PaliGemmaForConditionalGeneration,
        SiglipVisionConfig,
    )

    ids: dict[str, Any] = {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS}
    vision = SiglipVisionConfig(
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=vision_layers,
        num_attention_heads=heads,
        image_size=SIDE,
        patch_size=PATCH,
        vision_use_head=False,
    )
    vision.projection_dim = width  # type: ignore[attr-defined]
    text = GemmaConfig(
        vocab_size=len(vocabulary()),
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=text_layers,
        num_attention_heads=heads,
        num_key_value_heads=1,
        head_dim=width // heads,
        **ids,
    )
    config = PaliGemmaConfig(
        vision_config=vision,
        text_config=text,
        image_token_index=IMAGE,
        projection_dim=width,
        hidden_size=width,
        **ids,
    )
    model = PaliGemmaForConditionalGeneration(config)
    with torch.no_grad():
        _structure(model, width)
    return model


def vision_tower(model: Any) -> Any:
    """The SigLIP encoder inside."""
    tower = model.model.vision_tower
    return getattr(tower, "vision_model", tower)


def save_grounder(model: Any, folder: Path) -> None:
    """A folder that transformers loads: float16 safetensors, config, tokenizer, processor."""
    folder.mkdir(parents=True, exist_ok=True)
    import copy

    copy.deepcopy(model).to(torch.float16).save_pretrained(folder)
    build_processor().save_pretrained(folder)


def _structure(model: Any, width: int) -> None:
    """Start from known structure: positions, patches and locations that already mean something."""
    embeddings = vision_tower(model).embeddings
    embeddings.position_embedding.weight.copy_(_grid_positions(width) * 0.5)
    embeddings.patch_embedding.weight.copy_(_cosine_patches(width))
    embeddings.patch_embedding.bias.zero_()
    share = torch.arange(LOC_RANGE) / LOC_RANGE
    waves = _waves(share, 2 ** torch.linspace(-1, 5, width // 2)) @ _rotation(width)
    words = model.model.language_model.embed_tokens.weight
    words[FIRST_LOCATION : FIRST_LOCATION + LOC_RANGE] = waves * 0.08


def _waves(values: torch.Tensor, frequencies: torch.Tensor) -> torch.Tensor:
    angles = math.pi * values[:, None] * frequencies
    return torch.cat([torch.sin(angles), torch.cos(angles)], dim=1)


def _rotation(width: int) -> torch.Tensor:
    return torch.linalg.qr(torch.randn(width, width))[0]


def _grid_positions(width: int) -> torch.Tensor:
    """(GRID * GRID, width) sines and cosines of the row and the column."""
    centers = (torch.arange(GRID) + 0.5) / GRID
    line = _waves(centers, 2 ** torch.linspace(0, 4, width // 4))
    rows = line[:, None].expand(GRID, GRID, -1)
    columns = line[None].expand(GRID, GRID, -1)
    return torch.cat([rows, columns], dim=-1).reshape(GRID * GRID, -1)


def _cosine_patches(width: int) -> torch.Tensor:
    """(width, 3, PATCH, PATCH) low-frequency cosine kernels, brightness before color, mixed."""
    order = torch.arange(PATCH).float()
    basis = torch.cos(math.pi / PATCH * (order[None] + 0.5) * order[:, None])
    basis = basis / basis.norm(dim=1, keepdim=True)
    colors = torch.tensor([[0.58, 0.58, 0.58], [0.7, 0.0, -0.7], [0.41, -0.82, 0.41]])
    ranked = sorted(
        ((row + column + 1) * (1.0 if color == 0 else 2.2), row, column, color)
        for row in range(PATCH)
        for column in range(PATCH)
        for color in range(3)
    )[:width]
    kernels = torch.stack(
        [
            colors[color][:, None, None]
            * torch.outer(basis[row], basis[column])
            * (0.12 + 0.05 * (row + column))
            for _, row, column, color in ranked
        ]
    )
    return (_rotation(width) @ kernels.flatten(1)).view_as(kernels)


class DenseHead(nn.Linear):
    """Used only in training: the class and the distances to the box's sides, per patch."""

    def __init__(self, width: int = 128) -> None:
        super().__init__(width, 1 + len(CLASSES) + 4)
