"""Classifiers in timm's folders against timm's own transform and forward."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from envelope.victims.protocols import Classifier, ask
from envelope.victims.registry import load_victim
from scene.errors import InputError

pytest.importorskip("timm")
pytestmark = pytest.mark.usefixtures("no_network")

CFG = {
    "input_size": [3, 48, 64],
    "crop_pct": 0.8,
    "interpolation": "bicubic",
    "mean": [0.5, 0.4, 0.3],
    "std": [0.2, 0.25, 0.3],
    "crop_mode": "center",
    "first_conv": "conv1",
    "classifier": "fc",
}
LABELS = ["person", "car", "stop sign"]


def saved(folder: Path, **changes: Any) -> Path:
    import timm
    from safetensors.torch import save_file

    folder.mkdir(exist_ok=True)
    torch.manual_seed(3)
    arguments = {"channels": [8, 8, 8, 8], "layers": [1, 1, 1, 1]}
    model = timm.create_model("resnet18", num_classes=3, pretrained=False, **arguments)
    for buffer in model.parameters():
        buffer.data.add_(torch.randn_like(buffer) * 0.1)
    save_file(model.state_dict(), folder / "model.safetensors")
    config = {
        "architecture": "resnet18",
        "num_classes": 3,
        "label_names": LABELS,
        "model_args": arguments,
        "pretrained_cfg": CFG,
        **changes,
    }
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def pictures() -> np.ndarray:
    return np.random.default_rng(2).integers(0, 256, (2, 70, 130, 3)).astype(np.uint8)


def test_probabilities_are_timms_own(tmp_path: Path) -> None:
    import timm

    folder = saved(tmp_path)
    victim: Any = load_victim(f"classifier:{folder}", "Stop-Sign")
    assert isinstance(victim, Classifier)
    assert victim.info.labels == tuple(LABELS)
    assert victim.info.input_size == (64, 48)
    reference = timm.create_model(f"local-dir:{folder}", pretrained=True).eval()
    transform = timm.data.create_transform(
        (3, 48, 64), mean=CFG["mean"], std=CFG["std"], crop_pct=0.8, interpolation="bicubic"
    )
    pixels = torch.stack([transform(Image.fromarray(picture)) for picture in pictures()])
    assert pixels.shape == (2, 3, 48, 64)
    with torch.no_grad():
        wanted = reference(pixels).softmax(-1).numpy()
    assert abs(wanted[0] - wanted[1]).max() > 1e-4
    for answer, row in zip(ask(victim, pictures(), "stop sign"), wanted, strict=True):
        assert answer.probabilities == pytest.approx(row, abs=1e-6)


def test_white_box_is_within_a_level(tmp_path: Path) -> None:
    victim: Any = load_victim(f"classifier:{saved(tmp_path)}", "stop sign")
    smooth = np.linspace(20, 230, 70 * 130 * 3).reshape(1, 70, 130, 3).astype(np.uint8)
    exact = torch.from_numpy(smooth).permute(0, 3, 1, 2)
    floats = (exact / 255).requires_grad_()
    difference = (victim.prepared(floats) - victim.prepared(exact)).abs().max()
    assert difference <= 1.01 / 255 / min(CFG["std"])
    victim.suppression_loss(floats, "stop sign").sum().backward()
    assert floats.grad is not None
    assert floats.grad.abs().max() > 0
    assert all(p.grad is None for p in victim.model.parameters())


def test_what_changes_an_answer_changes_the_victim(tmp_path: Path) -> None:
    first = load_victim(f"classifier:{saved(tmp_path)}").info
    other = load_victim(f"classifier:{saved(tmp_path, pretrained_cfg={**CFG, 'crop_pct': 1})}").info
    assert first.weights_hash == other.weights_hash
    assert first.settings != other.settings


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"label_names": ["person"]}, "names 1 classes for 3 outputs; add label_names"),
        ({"num_classes": 4}, "cannot be loaded"),
        ({"model_args": {}}, "cannot be loaded"),
        ({"architecture": "resnet99"}, "cannot be loaded"),
    ],
)
def test_what_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        load_victim(f"classifier:{saved(tmp_path, **changes)}")
    assert "\n" not in str(caught.value)


def test_imagenets_names() -> None:
    from envelope.victims.hub_victim import HubRequest
    from envelope.victims.timm_classifier import _labels

    labels = _labels({"pretrained_cfg": {}}, 1000, HubRequest("classifier:x", Path("x")))
    assert labels[0] == "tench"
    assert labels[919] == "street sign"
    assert len(set(labels)) == 1000
