"""PaliGemma 2 (Gemma 2 inside) through `paligemma:FOLDER`, taught one box of a picture."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from vlm_fakes import BOXES, HEIGHT, LABEL, WIDTH, pictures, save_paligemma2

from envelope.victims.paligemma import PaliGemmaVictim
from envelope.victims.registry import load_victim
from scene.errors import InputError

pytestmark = pytest.mark.usefixtures("no_network")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = save_paligemma2(tmp_path_factory.mktemp("paligemma2"))
    victim = load_victim(f"paligemma:{path}")
    assert isinstance(victim, PaliGemmaVictim)
    images = torch.from_numpy(pictures()[:1]).permute(0, 3, 1, 2).float() / 255
    victim.model.requires_grad_(True)
    optimizer = torch.optim.Adam(victim.model.parameters(), lr=4e-3)
    loss = torch.tensor(9.0)
    for _ in range(150):
        loss = -victim.suppression_loss(images, LABEL, BOXES[:1]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss < 0.03:
            break
    assert loss < 0.03
    victim.model.save_pretrained(path)
    return path


def test_a_taught_box_comes_back_in_the_pictures_pixels(folder: Path) -> None:
    victim = load_victim(f"paligemma:{folder}", LABEL)
    assert type(victim.model.config.text_config).__name__ == "Gemma2Config"  # type: ignore
    assert victim.info.seconds_per_picture is None
    answers = victim.predict(pictures()[[0, 0]], "detect stop sign")  # type: ignore
    for answer in answers:
        assert answer.status == "ok", answer
        x0, y0, x1, y1 = BOXES[0]
        assert answer.box == pytest.approx((x0, y0, x1, y1), abs=max(WIDTH, HEIGHT) / 1024 + 1e-6)
    assert victim.info.seconds_per_picture > 0
    assert "1024ths" in victim.info.coordinates


def test_prompts(folder: Path) -> None:
    asked = [
        load_victim(f"paligemma:{folder}?prompt={v}").prompt_for(LABEL)  # type: ignore
        for v in ("native", "p1", "p2", "p3")
    ]
    assert asked[0] == "detect stop sign"
    assert len(set(asked)) == 4
    native, other = (load_victim(f"paligemma:{folder}{o}").info for o in ("", "?prompt=p1"))
    assert native.settings != other.settings
    with pytest.raises(InputError, match="prompt: wanted native, p1, p2, p3, found 'x'"):
        load_victim(f"paligemma:{folder}?prompt=x")


def test_gradients_see_what_is_scored(folder: Path) -> None:
    """The white box resizes as the processor does, within one 8-bit level."""
    victim = load_victim(f"paligemma:{folder}")
    assert isinstance(victim, PaliGemmaVictim)
    exact = victim._inputs(list(pictures()), ["detect stop sign"] * 2)["pixel_values"]
    smooth = victim._pixels(torch.from_numpy(pictures()).permute(0, 3, 1, 2).float() / 255)
    assert (exact - smooth).abs().max() * 127.5 <= 1.1
