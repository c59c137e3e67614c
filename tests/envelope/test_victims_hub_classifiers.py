"""Classifiers of transformers: tiny checkpoints in folders, loaded by the specs that users write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hub_fakes
import numpy as np
import pytest
import torch
from PIL import Image

from envelope.victims.hub_classifier import one_name_each
from envelope.victims.protocols import Classifier, ask
from envelope.victims.registry import load_victim
from scene.errors import InputError

CLASSIFIERS = ("vit", "resnet", "convnext")
pytestmark = pytest.mark.usefixtures("no_network")


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    base = tmp_path_factory.mktemp("hub")
    return {name: hub_fakes.made(name, base / name) for name in CLASSIFIERS}


def pictures() -> np.ndarray:
    return np.random.default_rng(2).integers(0, 256, (2, 70, 130, 3)).astype(np.uint8)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_probabilities_are_the_models_own(name: str, specs: dict[str, str]) -> None:
    victim: Any = load_victim(specs[name], "Stop-Sign")
    assert isinstance(victim, Classifier)
    assert victim.info.kind == "classifier"
    assert victim.info.labels == hub_fakes.LABELS
    assert victim.info.input_size == (64, 64)
    answers = ask(victim, pictures(), "stop sign")
    listed = [Image.fromarray(image) for image in pictures()]
    pixels = victim.checkpoint.processor(images=listed, return_tensors="pt")
    with torch.no_grad():
        wanted = victim.model(**pixels).logits.softmax(-1).numpy()
    for answer, row in zip(answers, wanted, strict=True):
        assert answer.probabilities == pytest.approx(row, abs=1e-5)
        assert answer.top == hub_fakes.LABELS[int(row.argmax())]
    assert victim.info.seconds_per_picture > 0


def test_nan_of_the_network_is_an_error(specs: dict[str, str]) -> None:
    victim: Any = load_victim(specs["vit"], "stop sign")
    torch.nn.init.constant_(victim.model.classifier.bias, torch.nan)
    with pytest.raises(InputError, match=r"vit.*wanted finite numbers .* 6 of 6 outputs"):
        victim.predict(pictures())


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_white_box(name: str, specs: dict[str, str]) -> None:
    victim: Any = load_victim(specs[name], "stop sign")
    ask(victim, pictures(), "stop sign")
    before = {key: value.clone() for key, value in victim.model.state_dict().items()}
    pixels = torch.from_numpy(pictures()).permute(0, 3, 1, 2).float().div(255).requires_grad_()
    loss = victim.suppression_loss(pixels, "stop sign")
    with torch.no_grad():
        logits = victim.model(**victim.inputs(pixels)).logits
    assert loss.tolist() == pytest.approx((logits[:, 2] - logits[:, :2].amax(dim=1)).tolist())
    loss.sum().backward()
    assert pixels.grad is not None
    assert (pixels.grad.abs().amax(dim=(1, 2, 3)) > 0).all()
    after = victim.model.state_dict()
    assert all(torch.equal(value, after[key]) for key, value in before.items())
    assert not victim.model.training
    assert all(p.grad is None and not p.requires_grad for p in victim.model.parameters())


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_preprocessing_with_gradients_is_the_processors_own(
    name: str, specs: dict[str, str]
) -> None:
    """Within one 8-bit level; bicubic floats also overshoot 0..255, which 8 bits cut off."""
    victim: Any = load_victim(specs[name], "stop sign")
    smooth = np.linspace(20, 230, 70 * 130 * 3).reshape(1, 70, 130, 3).astype(np.uint8)
    floats = victim.inputs(torch.from_numpy(smooth).permute(0, 3, 1, 2).float() / 255)
    wanted = victim.checkpoint.processor(images=[Image.fromarray(smooth[0])], return_tensors="pt")
    level = 1 / 255 / min(victim.checkpoint.image_processor.image_std)
    difference = (floats["pixel_values"] - wanted["pixel_values"]).abs().max()
    assert difference <= 1.01 * level


def test_unknown_classes_are_refused(specs: dict[str, str]) -> None:
    with pytest.raises(InputError, match=r"no class 'stop sing'; near names: stop sign"):
        load_victim(specs["vit"], "stop sing")


def test_one_name_of_imagenets_lists() -> None:
    names = (
        "traffic light, traffic signal, stoplight",
        "crane",
        "crane, hoist",
        "maillot, tank suit",
        "maillot",
        "cat",
    )
    assert one_name_each(names) == (
        "traffic light",
        "crane",
        "crane, hoist",
        "maillot, tank suit",
        "maillot",
        "cat",
    )


def test_a_detectors_folder_is_refused(tmp_path: Path) -> None:
    spec = hub_fakes.made("rtdetr", tmp_path).replace("rtdetr:", "classifier:")
    with pytest.raises(InputError, match="cannot be loaded") as caught:
        load_victim(spec)
    assert "\n" not in str(caught.value)
