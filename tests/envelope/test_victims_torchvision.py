"""Classifiers of torchvision from a local file with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from envelope.victims.protocols import Classifier
from envelope.victims.registry import load_victim
from scene.errors import InputError

pytestmark = pytest.mark.usefixtures("no_network")


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from torchvision.models import squeezenet1_1

    torch.manual_seed(1)
    path = tmp_path_factory.mktemp("tv") / "own.pth"
    torch.save(squeezenet1_1(weights=None).state_dict(), path)
    return path


def test_a_state_dict_is_scored_and_attacked(
    weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torchvision.models import SqueezeNet1_1_Weights

    spec = f"torchvision:squeezenet1_1?weights={weights}&recipe=IMAGENET1K_V1"
    victim: Any = load_victim(spec, "street sign")
    assert isinstance(victim, Classifier)
    images = np.random.default_rng(0).integers(0, 256, (2, 240, 400, 3)).astype(np.uint8)
    answers = victim.predict(images)
    floats = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255
    with torch.no_grad():
        pixels = SqueezeNet1_1_Weights.IMAGENET1K_V1.transforms()(floats)
        wanted = victim.model(pixels).softmax(-1).numpy()
    assert pixels.shape == (2, 3, 224, 224)
    assert answers[1].probabilities == pytest.approx(wanted[1], abs=1e-6)
    assert len(victim.info.labels) == 1000
    with monkeypatch.context() as broken:
        broken.setattr(victim.model, "forward", lambda x: torch.full((len(x), 1000), torch.nan))
        with pytest.raises(InputError, match="wanted finite numbers from the network"):
            victim.predict(images)
    before = {key: value.clone() for key, value in victim.model.state_dict().items()}
    floats.requires_grad_()
    victim.suppression_loss(floats, "street sign").sum().backward()
    assert floats.grad is not None
    assert floats.grad.abs().max() > 0
    assert all(torch.equal(v, before[k]) for k, v in victim.model.state_dict().items())


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("?weights=/nowhere.pth", "curl -LO https://download.pytorch.org/models/squeezenet1_1"),
        ("", "wanted .weights=FILE"),
        ("?weights={weights}", "add recipe=NAME, one of: IMAGENET1K_V1"),
        ("?weights={junk}&recipe=IMAGENET1K_V1", "is not a state_dict of this model"),
    ],
)
def test_what_is_refused(query: str, message: str, weights: Path, tmp_path: Path) -> None:
    junk = tmp_path / "junk.pth"
    junk.write_bytes(b"junk")
    with pytest.raises(InputError, match=message):
        load_victim("torchvision:squeezenet1_1" + query.format(weights=weights, junk=junk))


def test_unknown_model() -> None:
    with pytest.raises(InputError, match="torchvision has no model 'alexnet99'"):
        load_victim("torchvision:alexnet99?weights=x")
