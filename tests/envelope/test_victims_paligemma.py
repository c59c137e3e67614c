"""The PaliGemma adapter on a tiny random model, saved to a folder and loaded as a user would."""

from __future__ import annotations

import hashlib
import socket
from pathlib import Path

import numpy as np
import pytest
import torch

from envelope.victims.demo.grounder_data import prompt_ids
from envelope.victims.demo.grounder_model import FIRST_LOCATION, GRID, build_model, save_grounder
from envelope.victims.paligemma import PaliGemmaVictim, load_paligemma
from envelope.victims.protocols import Grounder
from envelope.victims.registry import load_victim
from scene.errors import InputError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(4)
    path = tmp_path_factory.mktemp("paligemma")
    save_grounder(build_model(vision_layers=1, text_layers=1, width=32, heads=2), path)
    return path


@pytest.fixture(scope="module")
def victim(folder: Path) -> PaliGemmaVictim:
    return load_paligemma(folder, "tiny")


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args, **_kwargs):
        raise AssertionError("a victim used the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def pictures(count: int, height: int = 40, width: int = 90) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, (count, height, width, 3)).astype(np.uint8)


def test_loaded_by_its_spec(folder: Path) -> None:
    loaded = load_victim(f"paligemma:{folder}", "stop sign")
    assert isinstance(loaded, Grounder)
    assert loaded.info.input_size == (224, 224)
    assert len(loaded.info.weights_hash) == 64
    assert loaded.prompt_for("Stop-Sign") == "detect stop sign"


def test_processor_makes_the_prompt_that_training_uses(victim: PaliGemmaVictim) -> None:
    inputs = victim._inputs(list(pictures(1)), ["detect stop sign"])
    ids = inputs["input_ids"][0].tolist()
    assert ids[: GRID * GRID] == [4] * GRID * GRID
    assert ids[GRID * GRID :] == prompt_ids(0)
    assert inputs["token_type_ids"].sum() == 0


def test_random_weights_give_a_reading(victim: PaliGemmaVictim) -> None:
    answers = victim.predict(pictures(3), "detect stop sign")
    assert len(answers) == 3
    assert {answer.status for answer in answers} <= {"ok", "empty", "malformed", "refused"}


def test_nan_of_the_network_is_an_error(victim: PaliGemmaVictim) -> None:
    """The word of the first NaN was taken, whose text reads as an object not found."""
    hook = victim.model.get_output_embeddings().register_forward_hook(
        lambda module, inputs, output: output * torch.nan
    )
    try:
        with pytest.raises(InputError, match="wanted finite numbers from the network"):
            victim.predict(pictures(1), "detect stop sign\n")
    finally:
        hook.remove()


def test_prompts_of_a_batch_do_not_disturb_each_other(victim: PaliGemmaVictim) -> None:
    prompts = ["detect stop sign", "detect yield sign", "detect speed limit sign"]
    together = victim.predict(pictures(3), prompts)
    alone = [victim.predict(pictures(3)[i : i + 1], prompts[i])[0] for i in range(3)]
    assert [a.raw_text for a in together] == [a.raw_text for a in alone]
    with pytest.raises(InputError, match="3 pictures but 2 prompts"):
        victim.predict(pictures(3), prompts[:2])


def test_boxes_are_in_the_given_pictures_pixels(
    victim: PaliGemmaVictim, monkeypatch: pytest.MonkeyPatch
) -> None:
    """y0 x0 y1 x1 of 1024 on a 90 x 40 picture: rows and columns must not be swapped."""

    def written(**inputs):
        places = torch.tensor([[256, 512, 768, 1000]]) + FIRST_LOCATION
        stop_sign = torch.tensor([prompt_ids(0)[2:4]])
        row = torch.cat([places, stop_sign, torch.tensor([[2]])], dim=1)
        return torch.cat([inputs["input_ids"], row.expand(len(inputs["input_ids"]), -1)], dim=1)

    monkeypatch.setattr(victim.model, "generate", written)
    answer = victim.predict(pictures(2), "detect stop sign")[1]
    assert answer.status == "ok"
    assert answer.box == pytest.approx((45, 10, 1000 / 1024 * 90, 30))
    assert answer.raw_text.endswith("stop sign")
    assert answer.notes == ()


def test_training_window_equals_the_model_itself(folder: Path) -> None:
    """The features that training computes for the whole grid are the model's own."""
    from envelope.victims.demo.grounder_data import Window
    from envelope.victims.demo.train_grounder import GrounderTrainer

    model = load_paligemma(folder, "tiny").model
    pixels = torch.rand(2, 3, 224, 224, generator=torch.Generator().manual_seed(0)) * 2 - 1
    with torch.no_grad():
        own = model.model.vision_tower(pixels).last_hidden_state
        ours = GrounderTrainer(model).vision(pixels, Window(0, 0, GRID))
    assert torch.allclose(own, ours, atol=1e-5)


def test_packed_texts_score_like_generate(folder: Path) -> None:
    """The loss of training, at the first word, is that of what generate() sees."""
    from envelope.victims.demo.grounder_data import Window, packed
    from envelope.victims.demo.train_grounder import GrounderTrainer

    loaded = load_paligemma(folder, "tiny")
    window = Window(0, 0, GRID)
    with torch.no_grad():
        inputs = loaded._inputs(list(pictures(1)), ["detect stop sign"])
        chances = loaded.model(**inputs, logits_to_keep=1).logits[0, -1].log_softmax(dim=-1)
        trainer = GrounderTrainer(loaded.model)
        features = trainer.vision(inputs["pixel_values"], window)
        loss = trainer.text_loss(features, packed([(0, 0, None)], window), spread=1.0)
    assert float(loss) == pytest.approx(-float(chances[2]), abs=1e-4)


def weights_of(victim: PaliGemmaVictim) -> str:
    digest = hashlib.sha256()
    for value in victim.model.state_dict().values():
        digest.update(value.numpy().tobytes())
    return digest.hexdigest()


@pytest.mark.parametrize("boxes", [None, [(5, 6, 40, 30), (50, 2, 80, 39)]])
def test_suppression_loss_reaches_the_pixels(victim: PaliGemmaVictim, boxes) -> None:
    before = weights_of(victim)
    images = torch.from_numpy(pictures(2)).permute(0, 3, 1, 2).float().div(255).requires_grad_()
    loss = victim.suppression_loss(images, "stop sign", boxes)
    assert loss.shape == (2,)
    assert (loss < 0).all()
    loss.sum().backward()
    assert (images.grad.abs().amax(dim=(1, 2, 3)) > 0).all()
    assert weights_of(victim) == before
    assert not victim.model.training
    assert all(p.grad is None and not p.requires_grad for p in victim.model.parameters())


def test_broken_folders(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(InputError, match=r"holds no checkpoint: wanted config.json"):
        load_paligemma(tmp_path, "x")
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"junk")
    with pytest.raises(InputError, match=r"cannot be loaded: ") as caught:
        load_paligemma(tmp_path, "x")
    assert "\n" not in str(caught.value)


def test_a_checkpoint_that_lacks_weights_is_refused(tmp_path: Path, folder: Path) -> None:
    """Else they would be random numbers that look like answers."""
    from safetensors.torch import load_file, save_file

    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    tensors = load_file(tmp_path / "model.safetensors")
    name = next(name for name in tensors if name.endswith("q_proj.weight"))
    del tensors[name]
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match="lacks 1 of the model's weights"):
        load_paligemma(tmp_path, "x")


def test_a_first_prediction_does_not_spoil_later_gradients(folder: Path) -> None:
    """The processor caches tensors of its first call at a size: none of inference only."""
    victim = load_paligemma(folder, "x", device="cpu")
    victim.processor.image_processor.image_mean = [0.5, 0.5, 0.45]  # not cached by other tests
    victim.predict(pictures(1), victim.prompt_for("stop sign"))
    images = torch.from_numpy(pictures(1)).permute(0, 3, 1, 2).float().div(255).requires_grad_()
    victim.suppression_loss(images, "stop sign").sum().backward()
    assert images.grad is not None
    assert victim.info.settings["device"] == "cpu"
