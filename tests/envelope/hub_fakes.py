"""Tiny checkpoints of every family, made from its own config class and a processor made here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

LABELS = ("person", "traffic light", "stop sign")
SIDE = 96


def _named(**settings: Any) -> dict[str, Any]:
    names = dict(enumerate(LABELS))
    return {"id2label": names, "label2id": {name: i for i, name in names.items()}, **settings}


def _resnet_backbone() -> Any:
    from transformers import RTDetrResNetConfig

    return RTDetrResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 1, 1], layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    )  # fmt: skip


def _detr_sizes() -> dict[str, Any]:
    return dict(
        encoder_hidden_dim=32, encoder_in_channels=[16, 16, 16], feat_strides=[8, 16, 32],
        encoder_ffn_dim=32, encoder_attention_heads=2, d_model=32,
        decoder_in_channels=[32, 32, 32], decoder_ffn_dim=32, decoder_layers=2,
        decoder_attention_heads=2, num_queries=30, num_denoising=0, dropout=0.0,
    )  # fmt: skip


def save_rtdetr(folder: Path) -> Any:
    from transformers import RTDetrConfig, RTDetrForObjectDetection, RTDetrImageProcessor

    config = RTDetrConfig(**_named(**_detr_sizes()), backbone_config=_resnet_backbone())
    return _saved(
        RTDetrForObjectDetection(config),
        RTDetrImageProcessor(size={"height": SIDE, "width": SIDE}),
        folder,
    )


def save_rtdetrv2(folder: Path) -> Any:
    from transformers import RTDetrImageProcessor, RTDetrV2Config, RTDetrV2ForObjectDetection

    config = RTDetrV2Config(**_named(**_detr_sizes()), backbone_config=_resnet_backbone())
    return _saved(
        RTDetrV2ForObjectDetection(config),
        RTDetrImageProcessor(size={"height": SIDE, "width": SIDE}),
        folder,
    )


def save_dfine(folder: Path) -> Any:
    from transformers import (
        DFineConfig,
        DFineForObjectDetection,
        HGNetV2Config,
        RTDetrImageProcessor,
    )

    backbone = HGNetV2Config(
        stem_channels=[3, 8, 8], stage_in_channels=[8, 16, 16, 16],
        stage_mid_channels=[8, 8, 8, 8], stage_out_channels=[16, 16, 16, 16],
        stage_num_blocks=[1, 1, 1, 1], stage_numb_of_layers=[1, 1, 1, 1],
        stage_downsample=[False, True, True, True], stage_light_block=[False, False, True, True],
        stage_kernel_size=[3, 3, 3, 3], hidden_sizes=[16, 16, 16, 16], depths=[1, 1, 1, 1],
        out_features=["stage2", "stage3", "stage4"],
    )  # fmt: skip
    config = DFineConfig(**_named(**_detr_sizes()), backbone_config=backbone, depth_mult=0.4,
                         layer_scale=1.0)  # fmt: skip
    return _saved(
        DFineForObjectDetection(config),
        RTDetrImageProcessor(size={"height": SIDE, "width": SIDE}),
        folder,
    )


def save_detr(folder: Path) -> Any:
    """A detector with softmax scores and a column "no object", its aspect ratio kept."""
    from transformers import DetrConfig, DetrForObjectDetection, DetrImageProcessor, ResNetConfig

    backbone = ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic",
        out_features=["stage2"],
    )  # fmt: skip
    config = DetrConfig(
        **_named(), backbone_config=backbone, use_timm_backbone=False, use_pretrained_backbone=False,
        backbone=None, d_model=32, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=32,
        decoder_ffn_dim=32, encoder_attention_heads=2, decoder_attention_heads=2, num_queries=12,
    )  # fmt: skip
    size = {"shortest_edge": SIDE, "longest_edge": 2 * SIDE}
    return _saved(DetrForObjectDetection(config), DetrImageProcessor(size=size), folder)


def save_gdino(folder: Path) -> Any:
    from transformers import (
        BertConfig,
        BertTokenizer,
        GroundingDinoConfig,
        GroundingDinoForObjectDetection,
        GroundingDinoImageProcessor,
        GroundingDinoProcessor,
        SwinConfig,
    )

    folder.mkdir(parents=True, exist_ok=True)
    # [CLS], [SEP], full stop and question mark have BERT's ids: the model frames phrases by them
    entries = {f"[unused{i}]": i for i in range(1050)}
    vocabulary = {word: i for i, word in enumerate(entries)}
    for name, index in (("[PAD]", 0), ("[UNK]", 100), ("[CLS]", 101), ("[SEP]", 102),
                        ("[MASK]", 103), (".", 1012), ("?", 1029)):  # fmt: skip
        vocabulary = {w: i for w, i in vocabulary.items() if i != index} | {name: index}
    for index, word in enumerate(("stop", "sign", "person", "traffic", "light", "##s", "red")):
        vocabulary = {w: i for w, i in vocabulary.items() if i != 200 + index} | {word: 200 + index}
    tokenizer = BertTokenizer(vocab=vocabulary, do_lower_case=True)
    config = GroundingDinoConfig(
        backbone_config=SwinConfig(
            image_size=SIDE, embed_dim=8, depths=[1, 1, 1, 1], num_heads=[1, 1, 2, 2],
            window_size=4, out_features=["stage2", "stage3", "stage4"],
        ),
        text_config=BertConfig(
            vocab_size=1100, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
            intermediate_size=32,
        ),
        d_model=32, encoder_layers=1, decoder_layers=2, encoder_ffn_dim=32, decoder_ffn_dim=32,
        encoder_attention_heads=2, decoder_attention_heads=2, num_queries=20, dropout=0.0,
        fusion_droppath=0.0, fusion_dropout=0.0, max_text_len=32,
        decoder_bbox_embed_share=False,
    )  # fmt: skip
    processor = GroundingDinoProcessor(
        GroundingDinoImageProcessor(size={"shortest_edge": SIDE, "longest_edge": 160}), tokenizer
    )
    return _saved(GroundingDinoForObjectDetection(config), processor, folder)


def save_owlv2(folder: Path) -> Any:
    from transformers import (
        CLIPTokenizer,
        Owlv2Config,
        Owlv2ForObjectDetection,
        Owlv2ImageProcessor,
        Owlv2Processor,
    )

    letters = [*"abcdefghijklmnopqrstuvwxyz"]
    tokens = [*letters, *(f"{letter}</w>" for letter in letters)]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    vocabulary |= {"<|startoftext|>": 90, "<|endoftext|>": 91}
    tokenizer = CLIPTokenizer(vocab=vocabulary, merges=[], model_max_length=40)
    config = Owlv2Config(
        text_config=dict(
            vocab_size=100, hidden_size=32, intermediate_size=32, num_hidden_layers=1,
            num_attention_heads=2, max_position_embeddings=40, bos_token_id=90, eos_token_id=91,
            pad_token_id=0,
        ),
        vision_config=dict(
            hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
            image_size=SIDE, patch_size=16,
        ),
        projection_dim=32,
    )  # fmt: skip
    processor = Owlv2Processor(Owlv2ImageProcessor(size={"height": SIDE, "width": SIDE}), tokenizer)
    model = Owlv2ForObjectDetection(config)
    with torch.no_grad():
        # so narrow a model starts with saturated heads, through which nothing is learnt
        for head in (model.box_head, model.class_head):
            for weights in head.parameters():
                weights.mul_(0.1)
    return _saved(model, processor, folder)


def save_vit(folder: Path) -> Any:
    from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor

    config = ViTConfig(
        **_named(), hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, image_size=64, patch_size=16,
    )  # fmt: skip
    return _saved(
        ViTForImageClassification(config),
        ViTImageProcessor(size={"height": 64, "width": 64}),
        folder,
    )


def save_resnet(folder: Path) -> Any:
    from transformers import ConvNextImageProcessor, ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(
        **_named(), embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic"
    )
    return _saved(
        ResNetForImageClassification(config),
        ConvNextImageProcessor(size={"shortest_edge": 64}, crop_pct=0.875),
        folder,
    )


def save_convnext(folder: Path) -> Any:
    from transformers import (
        ConvNextConfig,
        ConvNextForImageClassification,
        ConvNextImageProcessor,
    )

    config = ConvNextConfig(**_named(), hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 1, 1])
    return _saved(
        ConvNextForImageClassification(config),
        ConvNextImageProcessor(size={"shortest_edge": 64}, crop_pct=0.875),
        folder,
    )


def _saved(model: Any, processor: Any, folder: Path) -> Any:
    folder.mkdir(parents=True, exist_ok=True)
    for module in model.modules():
        if isinstance(module, torch.nn.Conv2d):
            # the classes' own start lets hardly anything of a picture through so few layers
            torch.nn.init.kaiming_normal_(module.weight)
    model.eval().save_pretrained(folder)
    processor.save_pretrained(folder)
    return model


MAKERS = {
    "rtdetr": ("rtdetr", save_rtdetr),
    "rtdetrv2": ("rtdetr", save_rtdetrv2),
    "d-fine": ("d-fine", save_dfine),
    "detr": ("rtdetr", save_detr),
    "gdino": ("gdino", save_gdino),
    "owlv2": ("owlv2", save_owlv2),
    "vit": ("classifier", save_vit),
    "resnet": ("classifier", save_resnet),
    "convnext": ("classifier", save_convnext),
}
"""Name -> (what stands before the colon of its spec, what saves it into a folder)."""


def made(name: str, folder: Path, seed: int = 0) -> str:
    """Save a tiny checkpoint with seeded random weights; the spec that loads it."""
    torch.manual_seed(seed)
    family, save = MAKERS[name]
    save(folder)
    assert json.loads((folder / "config.json").read_text())
    return f"{family}:{folder}"
