"""Classifiers in timm's own folders: config.json with its pretrained_cfg, and model.safetensors."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import torch

from envelope.victims.hashes import files_sha256
from envelope.victims.hub_checkpoint import loading_errors, torch_device
from envelope.victims.hub_classifier import one_name_each
from envelope.victims.hub_models import checkpoint_source
from envelope.victims.hub_victim import HubRequest
from envelope.victims.protocols import VictimInfo
from envelope.victims.roster import needs_packages
from envelope.victims.torchvision_classifier import TorchvisionClassifier
from scene.errors import InputError
from scene.io.json_file import read_json_object

EXTRA = "timm"
WEIGHTS = "model.safetensors"


def is_timm_folder(folder: Path) -> bool:
    """Whether a checkpoint's config.json is one that timm writes."""
    file = folder / "config.json"
    return file.is_file() and "pretrained_cfg" in read_json_object(file)


class TimmClassifier(TorchvisionClassifier):
    """Scored through timm's own transform on 8-bit pictures; its float form is the white box's."""

    def prepared(self, images: torch.Tensor) -> torch.Tensor:
        """(B, 3, H, W) uint8, or float in [0, 1] through which gradients pass -> the inputs.

        Pillow resizes the former and rounds to 8 bits, so that the two agree within one level.
        """
        if images.dtype != torch.uint8:
            made: torch.Tensor = self.preset(images.to(self.device))
            return made
        from PIL import Image

        pictures = images.permute(0, 2, 3, 1).cpu().numpy()
        inputs = [self.preset(Image.fromarray(picture)) for picture in pictures]
        return torch.stack(inputs).to(self.device)


def load_timm_classifier(request: HubRequest) -> TimmClassifier:
    """The classifier in a folder as `timm.models.save_for_hf` and the hub's timm pages have it."""
    spec, folder = request.spec, request.folder
    state = needs_packages(EXTRA, "timm")
    if state.status != "ready":
        raise InputError(f"victim {spec!r} needs packages that are not installed: {state.hint}")
    if not (folder / WEIGHTS).is_file():
        raise InputError(f"victim {spec!r}: {folder} holds no {WEIGHTS}, which is wanted")
    import timm

    config = read_json_object(folder / "config.json")
    device = torch_device(request.device, spec)
    try:
        model = timm.create_model(f"local-dir:{folder}", pretrained=True)
        data = timm.data.resolve_data_config(model.pretrained_cfg, model=model)
        transform = timm.data.create_transform(**data, is_training=False)
    except loading_errors() as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"victim {spec!r}: {folder} cannot be loaded: {reason}") from error
    labels = _labels(config, int(str(model.num_classes)), request)
    _, height, width = data["input_size"]
    info = VictimInfo(
        name=spec, kind="classifier", licence="the checkpoint's own",
        source=checkpoint_source(folder), input_size=(int(width), int(height)), threshold=0.5,
        weights_hash=files_sha256([folder / WEIGHTS]), labels=labels,
        settings={
            "setup_hash": files_sha256([folder / "config.json"]),
            "transform": str(transform),
            "device": device.type,
        },
        extra=EXTRA,
    )  # fmt: skip
    return TimmClassifier(model, transform, info, device, request.threads)


def _labels(config: dict[str, Any], outputs: int, request: HubRequest) -> tuple[str, ...]:
    """Names of the outputs: the config's own, else ImageNet's of that many classes."""
    from timm.data import ImageNetInfo, infer_imagenet_subset

    own: Any = config.get("pretrained_cfg")
    places = [config, own if isinstance(own, dict) else {}]
    names: Any = next((p["label_names"] for p in places if p.get("label_names")), None)
    told: Any = next((p["label_descriptions"] for p in places if p.get("label_descriptions")), {})
    subset = infer_imagenet_subset({"num_classes": outputs})
    if names is None and subset:
        known = ImageNetInfo(subset)
        names, told = known.label_names(), _distinct(known)
    if not isinstance(names, list) or len(names) != outputs or outputs < 2:
        found = len(names) if isinstance(names, list) else 0
        raise InputError(
            f"victim {request.spec!r}: {request.folder} names {found} classes for {outputs} "
            "outputs; add label_names, in the outputs' order, to its config.json"
        )
    described = told if isinstance(told, dict) else {}
    return one_name_each([str(described.get(name, name)) for name in names])


def _distinct(known: Any) -> dict[str, str]:
    """ImageNet's names by synset; of two that are equal ('crane') each with its definition."""
    short: dict[str, str] = known.label_descriptions(as_dict=True)
    long: dict[str, str] = known.label_descriptions(detailed=True, as_dict=True)
    times = Counter(short.values())
    return {key: name if times[name] == 1 else long[key] for key, name in short.items()}
