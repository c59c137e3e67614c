"""Tiny grounding models of every family, made from its own config class, with processors made here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

CHAT = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}IMAGE"
    "{% else %}{{ part['text'] }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_tokenizer(words: tuple[str, ...], **named: str) -> Any:
    """One token per byte; `words` are special tokens; named: extra attributes, as image_token."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        bos_token="<|startoftext|>",
        extra_special_tokens=named,
        padding_side="left",
    )
    fast.add_special_tokens(
        {"additional_special_tokens": ["<|im_start|>", *words]}
    ) if words else None
    return fast


def _text(tokenizer: Any, **more: Any) -> dict[str, Any]:
    return dict(
        vocab_size=len(tokenizer), hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, head_dim=32, pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id, bos_token_id=tokenizer.bos_token_id, **more,
    )  # fmt: skip


_VISION = ("<|vision_start|>", "<|vision_end|>")


def qwen3_vl() -> tuple[Any, Any]:
    from transformers import (
        Qwen2VLImageProcessor,
        Qwen3VLConfig,
        Qwen3VLForConditionalGeneration,
        Qwen3VLProcessor,
        Qwen3VLVideoProcessor,
    )

    tokenizer = byte_tokenizer(_VISION, image_token="<|image_pad|>", video_token="<|video_pad|>")
    config = Qwen3VLConfig(
        text_config=_text(
            tokenizer, rope_parameters={"rope_type": "default", "mrope_section": [6, 5, 5], "rope_theta": 1e4}
        ),
        vision_config=dict(
            depth=2, hidden_size=32, intermediate_size=64, num_heads=2, patch_size=16,
            out_hidden_size=64, num_position_embeddings=64, deepstack_visual_indexes=[0],
        ),
        **_ids(tokenizer),
    )  # fmt: skip
    images = Qwen2VLImageProcessor(
        patch_size=16, size={"shortest_edge": 32 * 32, "longest_edge": 160 * 160},
        image_mean=[0.5] * 3, image_std=[0.5] * 3,
    )  # fmt: skip
    processor = Qwen3VLProcessor(
        images, tokenizer, Qwen3VLVideoProcessor(),
        chat_template=CHAT.replace("IMAGE", "<|vision_start|><|image_pad|><|vision_end|>"),
    )  # fmt: skip
    return Qwen3VLForConditionalGeneration(config), processor


def qwen25_vl() -> tuple[Any, Any]:
    from transformers import (
        Qwen2_5_VLConfig,
        Qwen2_5_VLForConditionalGeneration,
        Qwen2_5_VLProcessor,
        Qwen2VLImageProcessor,
        Qwen2VLVideoProcessor,
    )

    tokenizer = byte_tokenizer(_VISION, image_token="<|image_pad|>", video_token="<|video_pad|>")
    config = Qwen2_5_VLConfig(
        text_config=_text(
            tokenizer, rope_parameters={"rope_type": "default", "mrope_section": [6, 5, 5], "rope_theta": 1e4}
        ),
        vision_config=dict(
            depth=2, hidden_size=32, intermediate_size=64, num_heads=2, patch_size=14,
            out_hidden_size=64, window_size=56, fullatt_block_indexes=[1],
        ),
        **_ids(tokenizer),
    )  # fmt: skip
    images = Qwen2VLImageProcessor(size={"shortest_edge": 28 * 28, "longest_edge": 112 * 112})
    processor = Qwen2_5_VLProcessor(
        images, tokenizer, Qwen2VLVideoProcessor(),
        chat_template=CHAT.replace("IMAGE", "<|vision_start|><|image_pad|><|vision_end|>"),
    )  # fmt: skip
    return Qwen2_5_VLForConditionalGeneration(config), processor


def _ids(tokenizer: Any) -> dict[str, int]:
    names = {
        "image_token_id": "<|image_pad|>", "video_token_id": "<|video_pad|>",
        "vision_start_token_id": "<|vision_start|>", "vision_end_token_id": "<|vision_end|>",
    }  # fmt: skip
    return {key: tokenizer.convert_tokens_to_ids(word) for key, word in names.items()}


def internvl3() -> tuple[Any, Any]:
    from transformers import (
        GotOcr2ImageProcessor,
        InternVLConfig,
        InternVLForConditionalGeneration,
        InternVLProcessor,
        InternVLVideoProcessor,
    )

    tokenizer = byte_tokenizer(
        ("<ref>", "</ref>", "<box>", "</box>"), start_image_token="<img>", end_image_token="</img>",
        context_image_token="<IMG_CONTEXT>", video_token="<video>",
    )  # fmt: skip
    text = _text(tokenizer)
    del text["head_dim"]
    config = InternVLConfig(
        text_config={"model_type": "qwen2", **text},
        vision_config=dict(
            hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
            image_size=[56, 56], patch_size=[14, 14],
        ),
        image_token_id=tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>"), image_seq_length=4,
    )  # fmt: skip
    images = GotOcr2ImageProcessor(
        size={"height": 56, "width": 56}, crop_to_patches=False, min_patches=1, max_patches=2
    )
    processor = InternVLProcessor(
        images, tokenizer, InternVLVideoProcessor(), image_seq_length=4,
        chat_template=CHAT.replace("IMAGE", "<IMG_CONTEXT>\n"),
    )  # fmt: skip
    return InternVLForConditionalGeneration(config), processor


def lfm25_vl() -> tuple[Any, Any]:
    from transformers import (
        Lfm2VlConfig,
        Lfm2VlForConditionalGeneration,
        Lfm2VlImageProcessor,
        Lfm2VlProcessor,
    )

    rows = tuple(f"<|img_row_{r}_col_{c}|>" for r in range(1, 4) for c in range(1, 4))
    tokenizer = byte_tokenizer(
        rows, image_token="<image>", image_start_token="<|image_start|>",
        image_end_token="<|image_end|>", image_thumbnail_token="<|img_thumbnail|>",
    )  # fmt: skip
    text = _text(tokenizer)
    del text["head_dim"]
    config = Lfm2VlConfig(
        text_config={
            "model_type": "lfm2", **text, "layer_types": ["conv", "full_attention"],
            "full_attn_idxs": [1], "block_ff_dim": 128, "block_auto_adjust_ff_dim": False,
        },
        vision_config=dict(
            model_type="siglip2_vision_model", hidden_size=32, intermediate_size=64,
            num_hidden_layers=2, num_attention_heads=2, patch_size=16, num_patches=64,
        ),
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"), projector_hidden_size=64,
    )  # fmt: skip
    images = Lfm2VlImageProcessor(
        tile_size=64, min_tiles=2, max_tiles=4, min_image_tokens=4, max_image_tokens=16
    )
    processor = Lfm2VlProcessor(images, tokenizer, chat_template=CHAT.replace("IMAGE", "<image>"))
    return Lfm2VlForConditionalGeneration(config), processor


def minicpm_v() -> tuple[Any, Any]:
    from transformers import (
        MiniCPMV4_6Config,
        MiniCPMV4_6ForConditionalGeneration,
        MiniCPMV4_6ImageProcessor,
        MiniCPMV4_6Processor,
        MiniCPMV4_6VideoProcessor,
    )

    tokenizer = byte_tokenizer(
        ("<box>", "</box>"), image_token="<|image_pad|>", video_token="<|video_pad|>",
        image_start_token="<image>", image_end_token="</image>", slice_start_token="<slice>",
        slice_end_token="</slice>", image_id_start_token="<image_id>",
        image_id_end_token="</image_id>",
    )  # fmt: skip
    config = MiniCPMV4_6Config(
        text_config={
            "model_type": "qwen3_5_text", **_text(tokenizer),
            "layer_types": ["linear_attention", "full_attention"], "linear_num_value_heads": 2,
            "linear_num_key_heads": 2, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
        },
        vision_config=dict(
            hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
            image_size=112, patch_size=14,
        ),
        insert_layer_id=0, image_size=112,
        image_token_id=tokenizer.convert_tokens_to_ids("<|image_pad|>"),
        video_token_id=tokenizer.convert_tokens_to_ids("<|video_pad|>"),
    )  # fmt: skip
    images = MiniCPMV4_6ImageProcessor(scale_resolution=112, max_slice_nums=4)
    processor = MiniCPMV4_6Processor(
        images, MiniCPMV4_6VideoProcessor(), tokenizer,
        chat_template=CHAT.replace("IMAGE", "<|image_pad|>"),
    )  # fmt: skip
    return MiniCPMV4_6ForConditionalGeneration(config), processor


MAKERS = {
    "internvl3": internvl3,
    "qwen2.5-vl": qwen25_vl,
    "qwen3-vl": qwen3_vl,
    "lfm2.5-vl": lfm25_vl,
    "minicpm-v": minicpm_v,
}


def saved(name: str, folder: Path, seed: int = 0) -> Path:
    """A family's tiny model with seeded random weights in a folder."""
    torch.manual_seed(seed)
    model, processor = MAKERS[name]()
    folder.mkdir(parents=True, exist_ok=True)
    model.eval().save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


LABEL = "stop sign"
WIDTH, HEIGHT = 100, 60
BOXES = ((12.0, 30.0, 40.0, 54.0), (55.0, 6.0, 95.0, 21.0))
"""Asymmetric places in pictures that are not square."""


def pictures() -> Any:
    """(2, 60, 100, 3) uint8: a red object at the first place, a blue one at the second."""
    import numpy as np

    shown = np.full((2, HEIGHT, WIDTH, 3), 90, np.uint8)
    for picture, (x0, y0, x1, y1), color in zip(
        shown, BOXES, ((220, 30, 30), (30, 60, 220)), strict=True
    ):
        picture[int(y0) : int(y1), int(x0) : int(x1)] = color
    return shown


def teach(victim: Any, count: int = 1, steps: int = 400, enough: float = 0.003) -> float:
    """Train a tiny model to write the boxes of the first `count` pictures; the loss it reached.

    The loss is the mean over an answer's tokens: far below that of the digits that pictures differ in.
    """
    from envelope.victims.vlm.white_box import box_log_likelihood

    torch.manual_seed(1)
    shown = torch.from_numpy(pictures()[:count]).permute(0, 3, 1, 2)
    for name, weights in victim.model.named_parameters():
        weights.requires_grad_(True)
        seeing = any(part in name for part in ("visi", "visual", "vit", "merger", "projector"))
        if seeing and weights.ndim >= 2:  # so that a picture tells as much as a word
            torch.nn.init.kaiming_normal_(weights.detach(), nonlinearity="linear")
    optimizer = torch.optim.Adam(victim.model.parameters(), lr=4e-3)
    loss = torch.tensor(9.0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # sums of several threads take another path, which not all models bear
    try:
        for _ in range(steps):
            loss = -box_log_likelihood(victim, shown, LABEL, BOXES[:count], whole=True).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if loss < enough:
                break
    finally:
        torch.set_num_threads(threads)
    victim.model.requires_grad_(False)
    return float(loss.detach())


def save_paligemma2(folder: Path, seed: int = 0) -> Path:
    """A tiny PaliGemma 2 (Gemma 2 inside) that knows its location words and a few others."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers
    from transformers import (
        PaliGemmaConfig,
        PaliGemmaForConditionalGeneration,
        PaliGemmaProcessor,
        PreTrainedTokenizerFast,
        SiglipImageProcessor,
    )

    torch.manual_seed(seed)
    words = [
        "<pad>",
        "<bos>",
        "<eos>",
        "<unk>",
        "<image>",
        "\n",
        *"detect the one find and stop sign".split(),
    ]
    words += [f"<loc{value:04d}>" for value in range(1024)] + [
        f"<seg{value:03d}>" for value in range(128)
    ]
    tokenizer = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"<[a-z]+\d*>|\n|\w+"), "isolated"), pre_tokenizers.Split(" ", "removed"),
    ])  # fmt: skip
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<bos>", eos_token="<eos>", pad_token="<pad>",
        unk_token="<unk>", extra_special_tokens={"image_token": "<image>"}, padding_side="left",
    )  # fmt: skip
    images = SiglipImageProcessor(size={"height": 56, "width": 56})
    images.image_seq_length = 16
    ids = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2)
    config = PaliGemmaConfig(
        text_config=dict(
            model_type="gemma2", vocab_size=len(words), hidden_size=64, intermediate_size=128,
            num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, head_dim=32,
            query_pre_attn_scalar=32, **ids,
        ),
        vision_config=dict(
            model_type="siglip_vision_model", hidden_size=32, intermediate_size=64,
            num_hidden_layers=2, num_attention_heads=2, image_size=56, patch_size=14,
            vision_use_head=False, projection_dim=64,
        ),
        image_token_index=4, projection_dim=64, hidden_size=64, **ids,
    )  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    PaliGemmaForConditionalGeneration(config).eval().save_pretrained(folder)
    PaliGemmaProcessor(image_processor=images, tokenizer=fast).save_pretrained(folder)
    return folder
