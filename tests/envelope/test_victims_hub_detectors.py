"""Detectors of transformers: tiny checkpoints in folders, loaded by the specs that users write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hub_fakes
import hub_training
import numpy as np
import pytest
import torch
from hub_training import BOXES, HEIGHT, WIDTH
from PIL import Image

from envelope.outcome import read_answer
from envelope.victims.boxes import pairwise_iou
from envelope.victims.hub_victim import suppressed
from envelope.victims.protocols import Detections, OpenDetector, ask
from envelope.victims.registry import load_victim
from scene.errors import InputError

DETECTORS = ("rtdetr", "rtdetrv2", "d-fine", "detr", "gdino", "owlv2")
pytestmark = pytest.mark.usefixtures("no_network")


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    base = tmp_path_factory.mktemp("hub")
    return {name: hub_fakes.made(name, base / name) for name in DETECTORS}


def model_inputs(victim: Any, images: np.ndarray) -> dict[str, torch.Tensor]:
    """What the whole processor makes of PIL pictures and, where one is taken, the prompt."""
    listed = [Image.fromarray(image) for image in images]
    if isinstance(victim, OpenDetector):
        words = [victim.prompt_for("stop sign")] * len(images)
        made = victim.checkpoint.processor(images=listed, text=words, return_tensors="pt")
    else:
        made = victim.checkpoint.processor(images=listed, return_tensors="pt")
    return {name: value for name, value in made.items() if name in victim._takes}


def landed(answer: Detections, box: tuple[float, float, float, float]) -> float:
    """IoU of the answer's best box with an object."""
    assert len(answer)
    return float(pairwise_iou(answer.xyxy[:1], np.array([box]))[0, 0])


@pytest.mark.parametrize("name", ["rtdetr", "rtdetrv2", "detr", "gdino"])
def test_the_box_lands_on_the_object(name: str, tmp_path: Path) -> None:
    """A hand-set head, saved and loaded again: pixels of a 110 x 60 picture, x before y."""
    spec = hub_fakes.made(name, tmp_path / "model")
    victim: Any = load_victim(spec, "stop sign")
    model, first = victim.model, hub_training.pictures()[:1]
    if name == "gdino":
        head = model.bbox_embed[-1].layers[-1]
    elif name == "detr":
        head = model.bbox_predictor.layers[-1]
    else:
        head = model.model.decoder.bbox_embed[-1].layers[-1]
    if name == "gdino":
        column = 1  # the word "stop"
    else:
        column = 2
        classes = model.class_labels_classifier if name == "detr" else (
            model.model.decoder.class_embed[-1]
        )  # fmt: skip
        with torch.no_grad():
            classes.bias[column] += 4
    hub_training.hand_set(model, model_inputs(victim, first), column, head.bias)
    model.save_pretrained(tmp_path / "model")
    answer = ask(load_victim(spec, "stop sign"), first, "stop sign")[0]
    found = answer.of_label("stop sign") if name != "gdino" else answer
    wanted = BOXES[0]
    assert found.xyxy[np.argmax(pairwise_iou(found.xyxy, np.array([wanted])))] == pytest.approx(
        wanted, abs=0.05
    )
    if name != "gdino":  # its order of queries is that of all words together
        assert landed(found, wanted) > 0.99


@pytest.mark.slow
def test_dfine_learns_one_picture(tmp_path: Path) -> None:
    """Its boxes are made of distributions, so the head is trained, by transformers' own loss."""
    spec = hub_fakes.made("d-fine", tmp_path / "model")
    victim: Any = load_victim(spec, "stop sign")
    first = hub_training.pictures()[:1]
    loss = hub_training.detr_loss(victim.model, model_inputs(victim, first), 2, [0])
    hub_training.train(victim.model, loss, steps=70, rate=5e-3)
    victim.model.save_pretrained(tmp_path / "model")
    answer = ask(load_victim(spec, "stop sign"), first, "stop sign")[0]
    assert answer.labels[0] == "stop sign"
    assert landed(answer, BOXES[0]) > 0.8


def test_owlv2_learns_two_pictures(tmp_path: Path) -> None:
    """The padding below a wide picture and right of a tall one is undone exactly."""
    spec = hub_fakes.made("owlv2", tmp_path / "model")
    victim: Any = load_victim(spec, "stop sign")
    images = hub_training.pictures()
    loss = hub_training.owlv2_loss(victim.model, model_inputs(victim, images), hub_fakes.SIDE // 16)
    hub_training.train(victim.model, loss, steps=100, rate=3e-3)
    victim.model.save_pretrained(tmp_path / "model")
    loaded = load_victim(spec, "stop sign")
    for answer, box in zip(ask(loaded, images, "stop sign"), BOXES, strict=True):
        assert answer.labels[0] == "a photo of a stop sign"
        assert answer.xyxy[0] == pytest.approx(box, abs=1.0)
    read = read_answer(ask(loaded, images, "stop sign")[0], "stop sign", open_vocabulary=True)
    assert read.boxes[0].xyxy == pytest.approx(BOXES[0], abs=1.0)


@pytest.mark.parametrize("size", [(HEIGHT, WIDTH), (WIDTH, HEIGHT), (90, 31)])
@pytest.mark.parametrize("name", DETECTORS)
def test_boxes_equal_an_independent_decoding(
    name: str, size: tuple[int, int], specs: dict[str, str]
) -> None:
    victim: Any = load_victim(specs[name], "stop sign")
    height, width = size
    images = np.random.default_rng(3).integers(0, 256, (2, height, width, 3)).astype(np.uint8)
    answers = ask(victim, images, "stop sign")
    with torch.no_grad():
        outputs = victim.model(**model_inputs(victim, images))
    x, y = (max(size), max(size)) if name == "owlv2" else (width, height)
    for number, answer in enumerate(answers):
        if name == "detr":
            scores = outputs.logits[number].softmax(-1)[:, :-1]
        else:
            scores = outputs.logits[number].sigmoid()
        centers = outputs.pred_boxes[number].numpy() * [x, y, x, y]
        half = centers[:, 2:] / 2
        boxes = np.concatenate([centers[:, :2] - half, centers[:, :2] + half], axis=1)
        boxes = np.clip(boxes, 0, [width, height, width, height])
        best = int(scores.max(dim=1).values.argmax())
        assert answer.confidences[0] == pytest.approx(float(scores.max()), abs=1e-5)
        if scores.max(dim=1).values.topk(2).values.diff().abs() > 1e-5:
            assert answer.xyxy[0] == pytest.approx(boxes[best], abs=1e-3)
        assert (answer.confidences >= 0.05).all()
        assert (answer.xyxy[:, 2:] > answer.xyxy[:, :2]).all()


@pytest.mark.parametrize("name", DETECTORS)
def test_what_a_victim_says_about_itself(name: str, specs: dict[str, str]) -> None:
    victim: Any = load_victim(specs[name], "stop sign")
    info = victim.info
    assert info.kind == "detector"
    assert info.seconds_per_picture is None
    assert isinstance(victim, OpenDetector) == (name in ("gdino", "owlv2")) == (not info.labels)
    assert info.threshold == (0.3 if not info.labels else 0.5)
    assert len(info.weights_hash) == 64
    assert info.settings["kept_confidence"] == 0.05
    assert "post_process" in info.coordinates
    wanted = {"detr": (192, 96), "gdino": (160, 96)}.get(name, (96, 96))
    assert info.input_size == wanted
    assert ask(victim, np.zeros((0, 8, 9, 3), np.uint8), "stop sign") == []
    ask(victim, hub_training.pictures(), "stop sign")
    assert 0 < victim.info.seconds_per_picture < 60
    assert victim.info.weights_hash == info.weights_hash


@pytest.mark.parametrize("name", DETECTORS)
@pytest.mark.parametrize("output", ["logits", "pred_boxes"])
def test_nan_of_the_network_is_an_error(
    name: str, output: str, specs: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No threshold lets NaN pass: what held it was dropped, and read as an object not found."""
    victim: Any = load_victim(specs[name], "stop sign")
    forward = victim.model.forward

    def broken(*arguments: Any, **named: Any) -> Any:
        outputs = forward(*arguments, **named)
        outputs[output][0, 0, 0] = torch.nan
        return outputs

    monkeypatch.setattr(victim.model, "forward", broken)
    with pytest.raises(InputError, match="wanted finite numbers from the network"):
        ask(victim, np.zeros((1, 60, 110, 3), np.uint8), "stop sign")


def test_red_is_not_blue(specs: dict[str, str]) -> None:
    """Channels reach the model in the order red, green, blue."""
    image = np.zeros((1, 20, 30, 3), np.uint8)
    image[..., 0] = 255
    for name in DETECTORS:
        victim: Any = load_victim(specs[name], "stop sign")
        pixels = victim.inputs(torch.from_numpy(image).permute(0, 3, 1, 2))["pixel_values"]
        inner = pixels[0, :, 5, 5]
        assert inner[0] > inner[2], name


@pytest.mark.parametrize("name", DETECTORS)
def test_white_box(name: str, specs: dict[str, str]) -> None:
    """Gradients reach the pixels, after a prediction too; the model stays as it was."""
    victim: Any = load_victim(specs[name], "stop sign")
    images = hub_training.pictures()
    before_answers = ask(victim, images, "stop sign")
    before = {key: value.clone() for key, value in victim.model.state_dict().items()}
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2).float().div(255).requires_grad_()
    loss = victim.suppression_loss(pixels, "Stop-Sign")
    assert loss.shape == (2,)
    loss.sum().backward()
    assert pixels.grad is not None
    assert (pixels.grad.abs().amax(dim=(1, 2, 3)) > 0).all()
    with torch.no_grad():
        moved = (pixels - 0.02 * pixels.grad.sign()).clamp(0, 1)
        assert victim.suppression_loss(moved, "stop sign").sum() < loss.sum()
    after = victim.model.state_dict()
    assert all(torch.equal(value, after[key]) for key, value in before.items())
    assert not victim.model.training
    assert all(p.grad is None and not p.requires_grad for p in victim.model.parameters())
    again = ask(victim, images, "stop sign")
    assert [a.xyxy.tolist() for a in again] == [a.xyxy.tolist() for a in before_answers]


@pytest.mark.parametrize("name", DETECTORS)
def test_preprocessing_with_gradients_is_the_processors_own(
    name: str, specs: dict[str, str]
) -> None:
    """Floats and 8-bit pictures agree within one level: only the rounding after resizing differs."""
    victim: Any = load_victim(specs[name], "stop sign")
    images = np.random.default_rng(7).integers(0, 256, (2, 75, 133, 3)).astype(np.uint8)
    floats = victim.inputs(torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255)
    wanted = model_inputs(victim, images)
    deviation = victim.checkpoint.image_processor.image_std
    normalises = victim.checkpoint.image_processor.do_normalize
    level = 1 / 255 / (min(deviation) if normalises else 1)
    difference = (floats["pixel_values"] - wanted["pixel_values"]).abs().max()
    assert difference <= 1.01 * level
    if "pixel_mask" in wanted:
        assert torch.equal(floats["pixel_mask"], wanted["pixel_mask"])


def test_softmax_detectors_suppress_their_confidence(specs: dict[str, str]) -> None:
    """-log(1 - p) with p the softmax's own, "no object" among the rest."""
    victim: Any = load_victim(specs["detr"], "stop sign")
    images = torch.from_numpy(hub_training.pictures()).permute(0, 3, 1, 2)
    with torch.no_grad():
        chances = victim.model(**victim.inputs(images)).logits.softmax(-1)[..., 2]
        wanted = -torch.log1p(-chances).mean(dim=1)
        found = victim.suppression_loss(images.float() / 255, "stop sign")
    assert found == pytest.approx(wanted, rel=1e-3)


def test_suppressed_is_the_mean_over_the_most_confident() -> None:
    chances = torch.tensor([[0.1, 0.9, 0.5]])
    wanted = -(np.log(0.1) + np.log(0.5)) / 2
    assert float(suppressed(chances.logit(), 2)) == pytest.approx(wanted, rel=1e-5)


def test_gdino_phrases_are_those_of_transformers(specs: dict[str, str]) -> None:
    victim: Any = load_victim(specs["gdino"], "stop sign")
    images = hub_training.pictures()
    prompt = "Stop  Sign. traffic lights. a person"
    answers = victim.predict(images, prompt)
    text = "stop sign. traffic lights. a person."
    made = victim.checkpoint.processor(
        images=[Image.fromarray(image) for image in images], text=[text] * 2, return_tensors="pt"
    )
    with torch.no_grad():
        outputs = victim.model(**made)
    wanted = victim.checkpoint.processor.post_process_grounded_object_detection(
        outputs, threshold=0.3, text_threshold=0.25, target_sizes=[(HEIGHT, WIDTH)] * 2
    )
    for answer, reference in zip(answers, wanted, strict=True):
        order = reference["scores"].argsort(descending=True, stable=True)
        ours = answer.confidences >= 0.3
        assert ours.sum() == len(order) > 0
        assert answer.confidences[ours] == pytest.approx(reference["scores"][order].numpy())
        found = [label for label, there in zip(answer.labels, ours, strict=True) if there]
        # theirs end with the token that ends the text when that is above the threshold too
        phrases = [
            reference["text_labels"][i].replace("[SEP]", "").strip(" .") for i in order.tolist()
        ]
        assert sorted(found) == sorted(phrases)


def test_gdino_boxes_of_little_confidence_keep_their_words(specs: dict[str, str]) -> None:
    victim: Any = load_victim(specs["gdino"], "stop sign")
    text = victim._text("stop sign.")
    chances = torch.zeros(2, 32)
    chances[0, 1:3] = torch.tensor([0.12, 0.11])  # both above 0.25 * 0.12 / 0.3
    chances[1, 1:3] = torch.tensor([0.40, 0.20])  # "sign" is not above 0.25
    boxes = torch.tensor([[0.0, 0, 5, 5], [1, 1, 9, 9]])
    answer = victim._picture(chances, boxes, text, (20, 20))
    assert answer.labels == ("stop", "stop sign")
    assert answer.confidences.tolist() == pytest.approx([0.4, 0.12])


def test_gdino_texts(specs: dict[str, str]) -> None:
    victim: Any = load_victim(specs["gdino"], "stop sign")
    assert victim.prompt_for("Stop-Sign") == "stop sign."
    text = victim._text("traffic lights. stop sign.")
    words = victim.checkpoint.processor.tokenizer.convert_ids_to_tokens(
        text.tensors["input_ids"][0].tolist()
    )
    assert [words[low:high] for low, high in text.spans] == [
        ["traffic", "light", "##s"],
        ["stop", "sign"],
    ]
    images = torch.rand(1, 3, 20, 30)
    with pytest.raises(InputError, match=r"does not hold the class 'person': stop sign"):
        victim.suppression_loss(images, "person", "stop sign.")
    with pytest.raises(InputError, match="the model reads 32"):
        victim.predict(hub_training.pictures(), "stop sign. " * 20)
    with pytest.raises(InputError, match="wanted a prompt"):
        victim.predict(hub_training.pictures(), " . ")


def test_gdino_takes_another_short_side(specs: dict[str, str]) -> None:
    victim: Any = load_victim(f"{specs['gdino']}?size=64&text=0.2", "stop sign")
    assert victim.info.input_size == (107, 64)
    assert victim.info.settings["text_threshold"] == 0.2
    pixels = victim.inputs(torch.rand(1, 3, 50, 60))["pixel_values"]
    assert pixels.shape == (1, 3, 64, 76)  # 76.8, cut off as transformers does it
    with pytest.raises(InputError, match="size wants a number"):
        load_victim(f"{specs['gdino']}?size=big")


def test_owlv2_queries(specs: dict[str, str]) -> None:
    victim: Any = load_victim(specs["owlv2"], "stop sign")
    answers = victim.predict(hub_training.pictures(), "a person; a photo of a Stop Sign")
    assert {*answers[0].labels} <= {"a person", "a photo of a stop sign"}
    with pytest.raises(InputError, match="tokens, the model reads 40"):
        victim.predict(
            hub_training.pictures(), "a very long way indeed to say what is looked for here"
        )
    with pytest.raises(InputError, match="wanted a prompt"):
        victim.predict(hub_training.pictures(), ";")


def test_another_familys_folder_is_refused(specs: dict[str, str]) -> None:
    folder = specs["owlv2"].partition(":")[2]
    with pytest.raises(InputError, match="wanted a GroundingDINO checkpoint, found 'owlv2'"):
        load_victim(f"gdino:{folder}")
    with pytest.raises(InputError, match="cannot be loaded") as caught:
        load_victim(f"rtdetr:{folder}")
    assert "\n" not in str(caught.value)
