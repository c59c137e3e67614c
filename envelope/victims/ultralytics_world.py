"""YOLO-World: boxes of any words, by ultralytics (AGPL-3.0, an extra).

Words become features through CLIP's text tower. The published checkpoints carry the features of
COCO's 80 classes, so those need no CLIP; for other words a folder with CLIP's text tower in
transformers' format is named (`yolo-world:FILE?clip=FOLDER`).
"""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from envelope.victims.coco_names import COCO_NAMES
from envelope.victims.hub_checkpoint import load_checkpoint
from envelope.victims.names import find_class, normalised
from envelope.victims.protocols import Detections, Images
from envelope.victims.torch_tools import frozen
from envelope.victims.ultralytics_model import (
    Options,
    UltralyticsDetector,
    WhiteUltralyticsDetector,
    describe,
    place_for,
    read_checkpoint,
)
from scene.errors import InputError

THRESHOLD = 0.3
CLIP_NAME = "openai/clip-vit-base-patch32"


class TextTower:
    """CLIP's text encoder and tokenizer."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self._model: Any = frozen(model)
        self._tokenizer = tokenizer

    def features(self, text: str) -> torch.Tensor:
        """(1, 1, D) unit features of one text."""
        tokens = self._tokenizer([text], return_tensors="pt", padding=True, truncation=True)
        with torch.no_grad():
            found = self._model(**tokens).text_embeds
        return (found / found.norm(dim=-1, keepdim=True))[None]


class WorldDetector(WhiteUltralyticsDetector):
    """Follows the OpenDetector protocol: one class at a time, by its words."""

    def __init__(self, model: Any, tower: TextTower, *rest: Any) -> None:
        super().__init__(model, "dense", *rest)
        self._tower = tower
        self._lock = threading.Lock()
        self._words = ""

    def prompt_for(self, label: str) -> str:
        """The class's own words."""
        return normalised(label)

    def predict(self, images: Images, prompt: str = "") -> list[Detections]:
        """images: (B, H, W, 3) uint8 RGB; prompt: the words -> B answers."""
        with self._lock:
            self._look_for(prompt)
            return super().predict(images)

    def suppression_loss(self, images: torch.Tensor, label: str) -> torch.Tensor:
        """As of the closed detectors; a place's logit is its similarity to the words."""
        with self._lock:
            self._look_for(self.prompt_for(label))
            return self._suppression(images, 0)

    def _look_for(self, prompt: str) -> None:
        if not prompt.strip():
            raise InputError(f"victim {self.info.name!r}: wanted words to look for, found none")
        if prompt != self._words:
            self.model.txt_feats = self._tower.features(prompt)
            self.model.model[-1].nc = 1
            self._words = prompt

    def _name(self, number: int) -> str:
        return self._words


def load_world(
    path: Path, name: str, options: Options, clip: Path | None, label: str | None, threads: int
) -> UltralyticsDetector:
    """A YOLO-World checkpoint; `clip`: folder of CLIP's text tower, None for the file's classes."""
    model = read_checkpoint(path, name)
    if type(model).__name__ != "WorldModel":
        raise InputError(f"victim {name!r}: wanted a YOLO-World checkpoint, found {path.name}")
    names = getattr(model, "names", None) or dict(enumerate(COCO_NAMES))
    info = describe(path, name, "dense", (options.size, options.size), names, options)
    info = replace(info, threshold=THRESHOLD)
    place = place_for("dense", options.size)
    if clip is None:
        _check_features(model, name, info.labels, label)
        fused = model.fuse(verbose=False)
        return WhiteUltralyticsDetector(fused, "dense", place, info, threads)
    tower, hashes = load_tower(clip, name, int(model.txt_feats.shape[-1]))
    settings = {**info.settings, "text": "clip", **hashes}
    info = replace(info, labels=(), settings=settings)
    return WorldDetector(model.fuse(verbose=False), tower, place, info, threads)


def load_tower(folder: Path, name: str, width: int) -> tuple[TextTower, dict[str, str]]:
    """CLIP's text tower from a folder, and the hashes of all that changes its features.

    width: of the features that are wanted.
    """
    if not folder.is_dir() or not any(folder.glob("*.safetensors")):
        raise InputError(
            f"victim {name!r}: {folder} holds no CLIP checkpoint; get one with: "
            f"hf download {CLIP_NAME} --local-dir FOLDER"
        )
    loaded = load_checkpoint(folder, name, "CLIPTextModelWithProjection", "AutoTokenizer", "cpu")
    found = loaded.model.config.projection_dim
    if found != width:
        raise InputError(
            f"victim {name!r}: wanted a CLIP with {width} text features (as {CLIP_NAME}), found "
            f"{found} in {folder}"
        )
    hashes = {"clip": loaded.weights_hash, "clip_setup": loaded.setup_hash}
    return TextTower(loaded.model, loaded.processor), hashes


def _check_features(model: Any, name: str, labels: tuple[str, ...], label: str | None) -> None:
    """Refuse words that the file carries no features for."""
    if model.txt_feats.shape[1] != len(labels):
        raise InputError(
            f"victim {name!r}: the file carries features of {model.txt_feats.shape[1]} texts but "
            f"names {len(labels)} classes; name CLIP's text tower: ?clip=FOLDER of {CLIP_NAME}"
        )
    if label is None:
        return
    try:
        find_class(label, labels, name)
    except InputError as error:
        raise InputError(
            f"{error}; it carries the text features of these only, for other words name CLIP's "
            f"text tower: yolo-world:FILE?clip=FOLDER of {CLIP_NAME}"
        ) from error
