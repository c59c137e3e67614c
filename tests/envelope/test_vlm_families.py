"""Every family of grounding models: tiny weights in a folder, loaded, asked and read as a user's.

A model is taught one box of a picture that is not square; it must come back in that picture's
pixels, so that swapped axes, a wrong scale or an unread resize fail.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from vlm_fakes import BOXES, HEIGHT, LABEL, MAKERS, WIDTH, pictures, saved, teach

from envelope.victims.protocols import Grounder
from envelope.victims.registry import find_entry, list_victims, load_victim
from envelope.victims.roster import Request
from envelope.victims.roster_vlm import _family
from envelope.victims.vlm.families import FAMILIES
from envelope.victims.vlm.qwen25_vl import resized
from scene.errors import InputError

pytestmark = pytest.mark.usefixtures("no_network")

STEP = {"qwen2.5-vl": (100 / 112, 60 / 56)}
"""One unit of the answer in pixels of the picture (x, y); else a thousandth of the picture."""


def spec(name: str, folder: Path, *options: str) -> str:
    scale = ("coordinates=1",) if name == "lfm2.5-vl" else ()
    return f"{name}:{folder}?" + "&".join((*scale, *options))


@pytest.fixture(scope="module", params=sorted(MAKERS))
def taught(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    name = request.param
    folder = saved(name, tmp_path_factory.mktemp(name.replace(".", "-")))
    victim = load_victim(spec(name, folder, "size=native"))
    assert teach(victim, enough=0.02) < 0.02
    victim.model.save_pretrained(folder)
    return name, folder


@pytest.fixture(scope="module")
def victim(taught):
    name, folder = taught
    return load_victim(spec(name, folder, "size=native"), LABEL)


def test_a_taught_box_comes_back_in_the_pictures_pixels(taught, victim) -> None:
    name, _ = taught
    assert isinstance(victim, Grounder)
    assert victim.info.seconds_per_picture is None
    (answer,) = victim.predict(pictures()[:1], victim.prompt_for(LABEL))
    assert answer.status == "ok", answer
    step_x, step_y = STEP.get(name, (WIDTH / 1000, HEIGHT / 1000))
    off = np.abs(np.subtract(answer.box, BOXES[0])) / [step_x, step_y, step_x, step_y]
    assert off.max() <= 1, (answer.box, answer.raw_text)
    assert set(answer.notes) <= {"a code fence"}
    assert victim.info.seconds_per_picture > 0
    assert "cut off" not in str(answer.notes)


def test_nan_of_the_network_is_an_error(victim) -> None:
    """The word of the first NaN was taken, whose text reads as an object not found."""
    hook = victim.model.get_output_embeddings().register_forward_hook(
        lambda module, inputs, output: output * torch.nan
    )
    try:
        with pytest.raises(InputError, match="wanted finite numbers from the network"):
            victim.predict(pictures()[:1], victim.prompt_for(LABEL))
    finally:
        hook.remove()


def test_what_a_victim_says_of_itself(taught, victim) -> None:
    name, folder = taught
    info = victim.info
    assert info.kind == "grounder"
    assert info.threshold == 0
    assert len(info.weights_hash) == 64
    assert info.source == str(folder)
    assert FAMILIES[name].convention in info.coordinates
    assert info.settings["decoding"].startswith("greedy")
    assert info.settings["family"] == name
    assert not victim.model.training
    assert next(victim.model.parameters()).dtype == torch.float32


def test_prompts_are_the_familys_and_change_what_is_asked(taught, victim) -> None:
    name, folder = taught
    prompts = [
        load_victim(spec(name, folder, f"prompt={variant}")).prompt_for("Stop-Sign")
        for variant in ("native", "p1", "p2", "p3")
    ]
    assert len(set(prompts)) == 4
    assert all("stop sign" in prompt and "{label}" not in prompt for prompt in prompts)
    assert prompts[0] == victim.prompt_for(LABEL)
    chats = [victim._chat(prompt) for prompt in prompts]
    assert all(prompt in chat for prompt, chat in zip(prompts, chats, strict=True))
    with pytest.raises(InputError, match="prompt wants native, p1, p2, p3, found 'p9'"):
        load_victim(spec(name, folder, "prompt=p9"))


def test_a_batch_answers_as_one_by_one(victim) -> None:
    images = np.random.default_rng(3).integers(0, 256, (2, HEIGHT, WIDTH, 3)).astype(np.uint8)
    images[1] = pictures()[0]
    prompts = [victim.family.prompts.of("p1", "yield sign"), victim.prompt_for(LABEL)]
    together = victim.predict(images, prompts)
    alone = [victim.predict(images[i : i + 1], prompts[i])[0] for i in range(2)]
    assert [a.raw_text for a in together] == [a.raw_text for a in alone]
    with pytest.raises(InputError, match="2 pictures but 1 prompts"):
        victim.predict(images, prompts[:1])
    assert victim.predict(images[:0], LABEL) == []


def test_pictures_with_gradients_are_seen_like_those_that_are_scored(victim) -> None:
    shown = torch.from_numpy(pictures()).permute(0, 3, 1, 2)
    prompts = [victim.prompt_for(LABEL)] * 2
    exact = victim.encoded(shown, prompts)["pixel_values"]
    smooth = victim.encoded(shown.float() / 255, prompts)["pixel_values"]
    deviation = max(1 / value for value in victim.checkpoint.image_processor.image_std)
    assert exact.shape == smooth.shape
    assert (exact - smooth).abs().max() <= 1.01 / 255 * deviation


def hash_of(victim) -> str:
    digest = hashlib.sha256()
    for value in victim.model.state_dict().values():
        digest.update(value.numpy().tobytes())
    return digest.hexdigest()


def test_white_box(victim) -> None:
    before = hash_of(victim)
    images = torch.from_numpy(pictures()).permute(0, 3, 1, 2).float().div(255).requires_grad_()
    loss = victim.suppression_loss(images, LABEL, [BOXES[0], BOXES[1]])
    assert loss.shape == (2,)
    assert (loss < 0).all()
    # what the model was taught is far likelier than another box; gradients reach both pictures
    assert loss[0] > -0.05 > loss[1]
    loss.sum().backward()
    assert (images.grad.abs().amax(dim=(1, 2, 3)) > 0).all()
    own = victim.suppression_loss(images.detach(), LABEL)
    assert own[0] == pytest.approx(float(loss[0].detach()), abs=1e-4)
    assert hash_of(victim) == before
    assert not victim.model.training
    assert all(p.grad is None and not p.requires_grad for p in victim.model.parameters())


def test_answers_of_different_lengths_do_not_disturb_each_other(victim) -> None:
    images = torch.from_numpy(pictures()).permute(0, 3, 1, 2).float() / 255
    boxes = [BOXES[0], (0.0, 1.0, 100.0, 7.0)]
    together = victim.suppression_loss(images, LABEL, boxes)
    alone = [victim.suppression_loss(images[i : i + 1], LABEL, boxes[i : i + 1]) for i in (0, 1)]
    assert together.tolist() == pytest.approx([float(one) for one in alone], abs=1e-4)


def test_white_box_of_a_model_that_writes_no_box(victim, monkeypatch) -> None:
    from envelope.victims.protocols import Grounding

    monkeypatch.setattr(
        victim, "predict", lambda images, _: [Grounding("", None, "empty")] * len(images)
    )
    images = torch.from_numpy(pictures()[:1]).permute(0, 3, 1, 2).float().div(255).requires_grad_()
    loss = victim.suppression_loss(images, LABEL)
    assert loss.shape == (1,)
    assert -0.1 < loss[0] < 0  # it was taught to begin one
    loss.sum().backward()
    assert images.grad.abs().max() > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(MAKERS))
def test_two_pictures_two_boxes(name: str, tmp_path: Path) -> None:
    """The answer depends on the picture, also on one that is stretched to a square first."""
    victim = load_victim(spec(name, saved(name, tmp_path), "size=112"))
    teach(victim, count=2, steps=900, enough=0.002)
    answers = victim.predict(pictures(), victim.prompt_for(LABEL))
    for answer, box in zip(answers, BOXES, strict=True):
        assert answer.box == pytest.approx(box, abs=0.6), answer


def test_a_folder_of_another_family_names_the_right_one(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen2_5_vl"}))
    with pytest.raises(InputError, match=r"wanted a Qwen3-VL checkpoint .* write qwen2.5-vl:"):
        load_victim(f"qwen3-vl:{tmp_path}")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "minicpmv"}))
    with pytest.raises(InputError, match=r"before 4.6 runs code of its own.*api:"):
        load_victim(f"minicpm-v:{tmp_path}")


def test_lfm_wants_to_know_the_scale(tmp_path: Path) -> None:
    folder = saved("lfm2.5-vl", tmp_path / "mine")
    with pytest.raises(InputError, match=r"\?coordinates=1 or \?coordinates=1000"):
        load_victim(f"lfm2.5-vl:{folder}")
    assert load_victim(f"lfm2.5-vl:{folder}?coordinates=1000").family.name == "lfm2.5-vl-3b"
    big = folder.rename(tmp_path / "LFM2.5-VL-3B")
    assert load_victim(f"lfm2.5-vl:{big}").family.name == "lfm2.5-vl-3b"
    small = big.rename(tmp_path / "LFM2.5-VL-1.6B")
    assert load_victim(f"lfm2.5-vl:{small}").family.name == "lfm2.5-vl"
    # what lies above the folder says nothing of it
    for parent in ("runs-3b", "LFM2.5-VL-1.6B-runs"):
        (tmp_path / parent).mkdir()
        small = small.rename(tmp_path / parent / "mine")
        with pytest.raises(InputError, match=r"\?coordinates=1 or \?coordinates=1000"):
            load_victim(f"lfm2.5-vl:{small}")
    small = small.rename(tmp_path / "runs-3b" / "LFM2.5-VL-450M")
    assert load_victim(f"lfm2.5-vl:{small}").family.name == "lfm2.5-vl"


@pytest.mark.parametrize(
    ("name", "layers", "scale"),
    [
        ("mine", 30, "lfm2.5-vl-3b"),
        ("mine", 16, "lfm2.5-vl"),
        ("LFM2.5-VL-3B", 30, "lfm2.5-vl-3b"),
        ("LFM2.5-VL-3B", 16, None),  # two witnesses that disagree
        ("mine-13b", 4, None),
    ],
)
def test_lfm_depth_tells_the_scale(
    name: str, layers: int, scale: str | None, tmp_path: Path
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    config = {"model_type": "lfm2_vl", "text_config": {"num_hidden_layers": layers}}
    (folder / "config.json").write_text(json.dumps(config))
    request = Request(f"lfm2.5-vl:{folder}", "lfm2.5-vl", str(folder), {}, None, 1)
    if scale is None:
        with pytest.raises(InputError, match=r"\?coordinates=1 or \?coordinates=1000"):
            _family(request, None, folder)
    else:
        assert _family(request, None, folder).name == scale


def test_no_chat_template(tmp_path: Path) -> None:
    folder = saved("qwen3-vl", tmp_path)
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(InputError, match="has no chat template"):
        load_victim(f"qwen3-vl:{folder}")


@pytest.mark.parametrize(
    "name",
    [
        "paligemma2-3b", "internvl3-2b", "qwen3-vl-2b", "qwen2.5-vl", "lfm2.5-vl-450m",
        "lfm2.5-vl-1.6b", "lfm2.5-vl-3b", "minicpm-v-4.6",
    ],
)  # fmt: skip
def test_missing_weights_name_the_command(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envelope.victims.roster_vlm.cached_folder", lambda row: None)
    with pytest.raises(InputError, match=r"hf download [A-Za-z]+/\S+") as caught:
        load_victim(name)
    assert "\n" not in str(caught.value)
    entry = find_entry(name)
    assert entry is not None
    assert entry.convention and entry.evidence and entry.licence and entry.white_box
    assert name in {listed.name for listed in list_victims()}


def test_the_checkpoints_own_penalties_are_left_out(tmp_path: Path) -> None:
    folder = saved("qwen3-vl", tmp_path)
    file = folder / "generation_config.json"
    own = json.loads(file.read_text())
    file.write_text(json.dumps({**own, "repetition_penalty": 1.5, "do_sample": True, "top_k": 1}))
    settings = load_victim(f"qwen3-vl:{folder}").model.generation_config
    assert settings.repetition_penalty in (None, 1.0)
    assert not settings.do_sample
    assert settings.eos_token_id == own["eos_token_id"]


@pytest.mark.parametrize(
    "size", [(448, 448), (100, 60), (640, 360), (6000, 4000), (30, 20), (37, 1000), (1024, 1025)]
)
def test_qwen25_resize_is_the_processors(size: tuple[int, int]) -> None:
    from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize

    width, height = size
    down, across = smart_resize(height, width, 28, 3136, 12845056)
    assert resized(size) == (across, down)


def test_at_448_every_family_sees_one_whole_picture() -> None:
    """The size of the paper: no tiles, no slices, no further resize by a released processor."""
    from transformers import (
        GotOcr2ImageProcessor,
        Lfm2VlImageProcessor,
        MiniCPMV4_6ImageProcessor,
        Qwen2VLImageProcessor,
    )

    picture = torch.zeros(3, 448, 448, dtype=torch.uint8)
    made = Lfm2VlImageProcessor()(picture, return_tensors="pt", return_row_col_info=True)
    assert (made["spatial_shapes"].tolist(), made["image_rows"].tolist()) == ([[28, 28]], [1])
    made = MiniCPMV4_6ImageProcessor()(picture, return_tensors="pt")
    assert (made["target_sizes"].tolist(), made["grids"]) == ([[32, 32]], [[0, 0]])
    tiles = GotOcr2ImageProcessor(size={"height": 448, "width": 448})
    made = tiles(picture, return_tensors="pt", crop_to_patches=True)
    assert tuple(made["pixel_values"].shape) == (1, 3, 448, 448)
    for patch, least in ((16, 65536), (14, 3136)):  # Qwen3-VL, Qwen2.5-VL
        limits = {"shortest_edge": least, "longest_edge": 12845056}
        made = Qwen2VLImageProcessor(patch_size=patch, size=limits)(picture, return_tensors="pt")
        assert made["image_grid_thw"].tolist() == [[1, 448 // patch, 448 // patch]]
