"""ImageNet classifiers of torchvision, their weights from a local state_dict file."""

from __future__ import annotations

import struct
import time
from dataclasses import replace
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch

from envelope.victims.boxes import require_finite
from envelope.victims.hashes import files_sha256
from envelope.victims.hub_checkpoint import torch_device
from envelope.victims.hub_classifier import ENOUGH, one_name_each
from envelope.victims.names import find_class
from envelope.victims.protocols import Classification, Images, VictimInfo, check_images
from envelope.victims.roster import Request
from envelope.victims.torch_tools import frozen, torch_threads
from patching.optimize.losses import untargeted_margin
from scene.errors import InputError


class TorchvisionClassifier:
    """Follows the Classifier protocol; also a white box for patch making."""

    def __init__(
        self, model: Any, preset: Any, info: VictimInfo, device: torch.device, threads: int
    ) -> None:
        self.model: Any = frozen(model).to(device)
        self.preset = preset
        self.info = info
        self.device = device
        self.threads = threads

    def predict(self, images: Images) -> list[Classification]:
        """images: (B, H, W, 3) uint8 RGB -> B answers."""
        images = check_images(images)
        if len(images) == 0:
            return []
        start = time.perf_counter()
        with torch_threads(self.threads), torch.no_grad():
            shown = torch.from_numpy(np.require(images, requirements=["C", "W"]))
            pixels = self.prepared(shown.permute(0, 3, 1, 2))
            chances = self.model(pixels).softmax(dim=1).cpu().numpy()
        require_finite(self.info.name, chances)
        if self.info.seconds_per_picture is None:
            seconds = (time.perf_counter() - start) / len(images)
            self.info = replace(self.info, seconds_per_picture=seconds)
        return [Classification(self.info.labels, row) for row in chances]

    def suppression_loss(self, images: torch.Tensor, label: str) -> torch.Tensor:
        """Carlini and Wagner's margin of the class; an attack makes it negative.

        images: (B, 3, H, W) float RGB in [0, 1], gradients pass. Returns (B,): the class's logit
        less the best other one, not below -5.
        """
        index = find_class(label, self.info.labels, self.info.name)
        logits = self.model(self.prepared(images))
        return untargeted_margin(logits, index, ENOUGH).to(images.device)

    def prepared(self, images: torch.Tensor) -> torch.Tensor:
        """(B, 3, H, W) uint8, or float in [0, 1] through which gradients pass -> the inputs."""
        floats = images.to(self.device)
        made: torch.Tensor = self.preset(floats if floats.is_floating_point() else floats / 255)
        return made


def load_torchvision(request: Request) -> TorchvisionClassifier:
    """`torchvision:NAME?weights=FILE`; the recipe says how pictures are prepared.

    Without one it is that of the published file, known by the hash in that file's name.
    """
    from torchvision.models import get_model, get_model_weights

    spec = request.spec
    try:
        recipes = get_model_weights(request.location)
    except ValueError as error:
        raise InputError(
            f"victim {spec!r}: torchvision has no model {request.location!r}"
        ) from error
    path = Path(request.options.get("weights", "")).expanduser()
    if not path.is_file():
        address = recipes.DEFAULT.url  # type: ignore[attr-defined]
        raise InputError(
            f"victim {spec!r}: wanted ?weights=FILE, found {request.options.get('weights', '')!r}; "
            f"get one with `curl -LO {address}` (licence: BSD-3-Clause, trained on ImageNet)"
        )
    digest = files_sha256([path])
    recipe = _recipe(recipes, request.options.get("recipe", ""), digest, spec)
    labels = one_name_each(recipe.meta["categories"]) if "categories" in recipe.meta else ()
    if not labels:
        raise InputError(f"victim {spec!r}: {request.location} is not a classifier")
    device = torch_device(request.options.get("device", "auto"), spec)
    model = get_model(request.location, weights=None)
    _fill(model, path, spec)
    preset = recipe.transforms()
    side = int(preset.crop_size[0])
    info = VictimInfo(
        name=spec, kind="classifier", licence="BSD-3-Clause for torchvision's own files",
        source=str(path), input_size=(side, side), threshold=0.5, weights_hash=digest,
        labels=labels, settings={"recipe": str(recipe), "device": device.type},
        command=f"curl -LO {recipe.url}",
    )  # fmt: skip
    return TorchvisionClassifier(model, preset, info, device, request.threads)


def _recipe(recipes: Any, name: str, digest: str, spec: str) -> Any:
    known = {recipe.name: recipe for recipe in recipes}
    if name in known:
        return known[name]
    for recipe in recipes:
        if not name and digest.startswith(Path(recipe.url).stem.rpartition("-")[2]):
            return recipe
    raise InputError(
        f"victim {spec!r}: how pictures are prepared for these weights is not known; add "
        f"recipe=NAME, one of: {', '.join(known)}"
    )


_UNREADABLE = (
    UnpicklingError, RuntimeError, TypeError, AttributeError, EOFError, LookupError, ValueError,
    struct.error,
)  # fmt: skip
"""What torch.load and load_state_dict raise for files that are damaged or of another kind."""


def _fill(model: Any, path: Path, spec: str) -> None:
    try:
        model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    except _UNREADABLE as error:
        raise InputError(
            f"victim {spec!r}: {path} is not a state_dict of this model (files with pickled "
            "objects are not opened)"
        ) from error
