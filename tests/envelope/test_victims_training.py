"""Training of the demo victims: known losses, exact resuming, a smoke run of all three."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from envelope.victims.demo import training
from envelope.victims.demo.dataset import make_set
from envelope.victims.demo.detector_loss import assign, detection_loss, pairwise_iou
from envelope.victims.demo.detector_net import Raw, SignDetector
from envelope.victims.demo.grounder_data import STEP, Sign, Window, answer_ids, location, questions
from envelope.victims.demo.grounder_model import FIRST_LOCATION, GRID
from envelope.victims.demo.measures import average_precision, iou
from envelope.victims.demo.muon import orthogonal
from envelope.victims.demo.pictures import make_picture
from envelope.victims.demo.train import SMOKE, failed_gates, train_demo
from envelope.victims.demo.train_classifier import region_label
from envelope.victims.demo.train_detector import DetectorRecipe, as_victim, train_detector
from envelope.victims.demo.train_grounder import GrounderRecipe, answer_loss
from envelope.victims.protocols import Detections


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def raw_of(boxes: list[list[float]], logits: list[list[float]]) -> Raw:
    xyxy = torch.tensor([boxes])
    centers = (xyxy[0, :, :2] + xyxy[0, :, 2:]) / 2
    return Raw(torch.tensor([logits]), xyxy, centers, torch.full((len(boxes),), 8.0))


def test_assignment_prefers_agreeing_cells() -> None:
    """Two cells in a sign: the better placed one gets its overlap as the target."""
    sign = torch.tensor([[[1.0, 0, 0, 20, 20], [-1.0, 0, 0, 0, 0]]])
    raw = raw_of([[0, 0, 20, 20], [0, 0, 20, 10], [100, 100, 120, 120]], [[0.0, 0.0]] * 3)
    scores, boxes = assign(raw, sign)
    assert scores[0, 0].tolist() == pytest.approx([0, 1])  # IoU 1
    # IoU 0.5 with equal scores: 0.5^6 of the best one's metric
    assert scores[0, 1].tolist() == pytest.approx([0, 0.5**6])
    assert scores[0, 2].tolist() == [0, 0]  # far away
    assert boxes[0, 0].tolist() == [0, 0, 20, 20]


def test_a_cell_wanted_twice_goes_to_the_larger_overlap() -> None:
    signs = torch.tensor([[[0.0, 0, 0, 20, 20], [1.0, 5, 5, 25, 25]]])
    raw = raw_of([[4, 4, 24, 24], [200, 200, 220, 220]], [[0.0, 0.0]] * 2)
    scores, boxes = assign(raw, signs)
    assert scores[0, 0, 0] == 0
    assert scores[0, 0, 1] > 0.7
    assert boxes[0, 0].tolist() == [5, 5, 25, 25]


def test_loss_without_signs_only_lowers_scores() -> None:
    nothing = torch.full((1, 4, 5), -1.0)
    low, high = (
        detection_loss(raw_of([[0, 0, 9, 9]], [[logit, logit]]), nothing) for logit in (-6.0, 2.0)
    )
    assert float(low) < 0.01 < float(high)


def test_pairwise_iou_by_hand() -> None:
    first = torch.tensor([[[0.0, 0, 10, 10]]])
    second = torch.tensor([[[5.0, 0, 15, 10], [20, 20, 30, 30]]])
    assert pairwise_iou(first, second)[0, 0].tolist() == pytest.approx([1 / 3, 0])
    assert iou((0, 0, 10, 10), (5, 0, 15, 10)) == pytest.approx(1 / 3)


def test_average_precision_by_hand() -> None:
    """Two signs; hits at 0.9 and 0.5, a false box at 0.8: 51 levels at 1, 50 at 2/3."""
    truth = [np.array([[0, 0, 0, 10, 10]], np.float32), np.array([[0, 5, 5, 20, 20]], np.float32)]
    label = "stop sign"
    answers = [
        Detections(np.array([[0, 0, 10, 9], [50, 50, 60, 60]]), np.array([0.9, 0.8]), (label,) * 2),
        Detections(np.array([[5, 5, 20, 20]]), np.array([0.5]), (label,)),
    ]
    assert average_precision(answers, truth, 0) == pytest.approx((51 + 50 * 2 / 3) / 101)
    assert average_precision(answers, truth, 1) == 0


def test_locations_are_the_used_ones() -> None:
    assert location(0.0) == 0
    assert location(224.0) == 1023
    assert location(112.0) == 512
    assert location(113.0) == 512  # 113 / 224 * 64 = 32.3
    ids = answer_ids(0, Sign(0, (112.0, 56.0, 224.0, 168.0), 1.0))
    assert [i - FIRST_LOCATION for i in ids[:4]] == [256, 512, 768, 1023]  # y0 x0 y1 x1
    assert answer_ids(0, None) == [2]


def test_answer_loss_rewards_the_right_location() -> None:
    words = 1200
    label = torch.tensor([FIRST_LOCATION + 5 * STEP, 2])
    right, near, far = (torch.zeros(2, words) for _ in range(3))
    for logits, bin_number in ((right, 5), (near, 6), (far, 40)):
        logits[0, FIRST_LOCATION + bin_number * STEP] = 8
        logits[1, 2] = 8
    losses = [float(answer_loss(logits, label, spread=0.6)) for logits in (right, near, far)]
    assert losses[0] < losses[1] < losses[2]
    last = torch.zeros(2, words)
    last[0, FIRST_LOCATION + 1023] = 50
    last[1, 2] = 50
    wanted = torch.tensor([FIRST_LOCATION + 1023, 2])
    assert float(answer_loss(last, wanted, spread=0.1)) < 1e-3


def test_cut_or_small_signs_are_not_asked_for() -> None:
    rng = np.random.default_rng(0)
    cut = Sign(0, (0.0, 0.0, 60.0, 60.0), 0.4)
    for _ in range(30):
        asked = questions(rng, [cut], Window(0, 0, GRID))
        assert all(class_index != 0 for class_index, _ in asked)
    clear = Sign(2, (10.0, 10.0, 60.0, 60.0), 1.0)
    seen = [q for _ in range(60) for q in questions(rng, [clear], Window(0, 0, 8))]
    assert (2, clear) in seen
    assert all(sign is None for class_index, sign in seen if class_index != 2)


def test_labels_of_crops() -> None:
    boxes = np.array([[3, 10, 10, 30, 30], [0, 40, 40, 50, 50]], np.float32)
    assert region_label((0, 0, 60, 60), boxes) == 3  # the larger one
    assert region_label((35, 35, 60, 60), boxes) == 0
    assert region_label((60, 60, 90, 90), boxes) == 6  # no sign
    assert region_label((20, 0, 60, 60), boxes) is None  # the larger one is cut in half


def test_muon_makes_matrices_orthogonal() -> None:
    matrices = torch.randn(2, 6, 10, generator=torch.Generator().manual_seed(0))
    out = orthogonal(matrices)
    values = torch.linalg.svdvals(out)
    assert values.min() > 0.5
    assert values.max() < 1.3


def test_a_resumed_run_equals_an_unbroken_one(tmp_path: Path, monkeypatch) -> None:
    pictures = make_set(make_picture, 3, 4)
    recipe = DetectorRecipe(phases=((4, (64,)),), batch=2, width=8, channels=16)
    unbroken = train_detector(pictures, recipe, tmp_path / "a")

    monkeypatch.setattr(training, "_save", _stop_after(2, training._save))
    quick = replace_checkpoints(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        train_detector(pictures, recipe, tmp_path / "b")
    monkeypatch.undo()
    assert quick
    resumed = train_detector(pictures, recipe, tmp_path / "b")
    for name, value in unbroken.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name


def _stop_after(step: int, save):
    def stopping(path, at, *rest):
        save(path, at, *rest)
        if at == step:
            raise KeyboardInterrupt

    return stopping


def replace_checkpoints(monkeypatch: pytest.MonkeyPatch) -> bool:
    """Checkpoint after every step."""
    original = training.LoopSettings

    def every_step(*args, **kwargs):
        return replace(original(*args, **kwargs), checkpoint_seconds=-1.0)

    monkeypatch.setattr("envelope.victims.demo.train_detector.LoopSettings", every_step)
    return True


def test_training_lowers_the_loss(tmp_path: Path) -> None:
    pictures = make_set(make_picture, 3, 2)
    seen: list[float] = []
    recipe = DetectorRecipe(phases=((25, (64,)),), batch=2, width=8, channels=16)
    model = train_detector(
        pictures, recipe, tmp_path, lambda name, step, total, loss: seen.append(loss)
    )
    assert len(seen) == 25
    assert np.mean(seen[-5:]) < 0.7 * np.mean(seen[:5])
    victim = as_victim(model)
    assert not victim.model.training
    assert len(victim.predict(pictures.images[0])) == 2


def test_schedule() -> None:
    settings = training.LoopSettings("x", steps=100, warmup=10, hold=0.5)
    assert training.rate_factor(0, settings) == pytest.approx(0.1)
    assert training.rate_factor(49, settings) == 1
    assert training.rate_factor(99, settings) < 0.03
    recipe = GrounderRecipe()
    assert recipe.spread_at(0) > recipe.spread_at(recipe.steps - 1)
    assert recipe.window_at(recipe.steps - 1, np.random.default_rng(0)).whole
    assert not recipe.window_at(0, np.random.default_rng(0)).whole


def test_gates() -> None:
    good = {
        "detector": {
            "drawn": {"ap50": {"stop sign": 0.95}},
            "stop_signs": {"clean": 0.97, "gray": 0.9},
        },
        "classifier": {"drawn": {"accuracy": 0.97}},
        "grounder": {"drawn": {"stop_30px": 0.9}, "street": {"stop_30px": 0.9}},
    }
    assert failed_gates(good) == []
    assert len(failed_gates({})) == 6
    good["classifier"]["drawn"]["accuracy"] = 0.2
    assert failed_gates(good) == ["classifier.drawn.accuracy is 0.2, wanted 0.8"]


def test_smoke_run_writes_three_victims_that_load(tmp_path: Path, monkeypatch) -> None:
    from envelope.victims import registry, roster_demo

    monkeypatch.setattr("envelope.victims.demo.dataset.CHUNK", 8)
    figures = train_demo(tmp_path / "victims", SMOKE)
    assert set(figures["weights"]) == {"demo-detector", "demo-classifier", "demo-grounder"}
    stored = json.loads((tmp_path / "victims" / "metrics.json").read_text())
    assert stored["weights"] == figures["weights"]
    monkeypatch.setattr(roster_demo, "ASSETS", tmp_path / "victims")
    for name in stored["weights"]:
        victim = registry.load_victim(name)
        assert victim.info.weights_hash == stored["weights"][name]["sha256"]
    assert sum(row["bytes"] for row in stored["weights"].values()) < 20e6


def test_detector_network_covers_the_picture() -> None:
    model = SignDetector(6, width=8, channels=16).eval()
    with torch.no_grad():
        raw = model(torch.zeros(1, 3, 64, 96))
    assert raw.logits.shape == (1, 8 * 12 + 4 * 6 + 2 * 3, 6)
    assert raw.centers[0].tolist() == [4, 4]
    assert raw.centers[-1].tolist() == [80, 48]
    assert (raw.boxes[..., 2:] > raw.boxes[..., :2]).all()
