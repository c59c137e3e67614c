from __future__ import annotations

import numpy as np
import pytest

from envelope.outcome import (
    Answer,
    Box,
    Criterion,
    best_placed,
    failed_answer,
    iou,
    judge,
    most_confident,
    read_answer,
)
from envelope.victims.protocols import Classification, Detections, Grounding
from scene.errors import InputError

TRUTH = (10.0, 20.0, 50.0, 100.0)  # 40 x 80
PATCH = (20.0, 40.0, 40.0, 60.0)  # 20 x 20, inside


def detections(*rows: tuple[tuple[float, float, float, float], float, str]) -> Detections:
    return Detections(
        np.array([r[0] for r in rows], np.float32).reshape(-1, 4),
        np.array([r[1] for r in rows], np.float32),
        tuple(r[2] for r in rows),
    )


def answered(*rows: tuple[tuple[float, float, float, float], float]) -> Answer:
    return read_answer(detections(*((xyxy, c, "person") for xyxy, c in rows)), "person")


def test_iou_by_hand() -> None:
    # 10x10 against the same moved by (5, 2): overlap 5*8 = 40, union 160
    assert iou([0, 0, 10, 10], [5, 2, 15, 12])[0] == pytest.approx(40 / 160)
    assert iou([0, 0, 10, 10], [0, 0, 10, 10])[0] == 1.0
    # contained: 20x20 of 40x80
    assert iou(PATCH, TRUTH)[0] == pytest.approx(400 / 3200)
    # touching edges, disjoint in one axis only, no area, swapped corners
    boxes = [[10, 0, 20, 10], [2, 30, 8, 40], [3, 3, 3, 9], [10, 10, 0, 0]]
    np.testing.assert_array_equal(iou(boxes, [0, 0, 10, 10]), 0)
    assert iou([3, 3, 3, 3], [3, 3, 3, 3])[0] == 0
    assert iou(np.zeros((0, 4)), TRUTH).shape == (0,)


def test_read_detections_keeps_only_the_class_most_confident_first() -> None:
    answer = read_answer(
        detections(
            ((0, 0, 1, 1), 0.3, "Stop_Sign"),
            ((0, 0, 2, 2), 0.9, "car"),
            ((0, 0, 3, 3), 0.6, "stop sign"),
            ((0, 0, 4, 4), 0.005, "stop sign"),
        ),
        "stop sign",
    )
    assert [round(b.confidence, 3) for b in answer.boxes] == [0.6, 0.3]
    assert answer.status == "ok"
    assert read_answer(detections(), "person").status == "empty"
    phrase = detections(((0, 0, 3, 3), 0.6, "a red stop sign"))
    assert read_answer(phrase, "stop sign").boxes == ()
    assert len(read_answer(phrase, "stop sign", open_vocabulary=True).boxes) == 1


GOOD, OFF = (10.0, 20.0, 50.0, 90.0), (200.0, 20.0, 240.0, 100.0)

LOCALIZATION = [
    # box on the target: the victim holds (IoU 70/80)
    ([(GOOD, 0.8)], False, None),
    # nothing
    ([], True, "omission"),
    # on the target but below gamma
    ([(GOOD, 0.49)], True, "omission"),
    # exactly gamma counts
    ([(GOOD, 0.5)], False, None),
    # the most confident is elsewhere although a second one is right
    ([(OFF, 0.9), (GOOD, 0.8)], True, "displacement"),
    # on the patch
    ([((20, 40, 40, 62), 0.9)], True, "substitution"),
    # a low-confidence box is not the judged one
    ([((20, 40, 40, 62), 0.3), (OFF, 0.9)], True, "displacement"),
]


@pytest.mark.parametrize(("rows", "success", "mode"), LOCALIZATION)
def test_localization(rows: list, success: bool, mode: str | None) -> None:
    outcome = judge(answered(*rows), Criterion("localization", "person"), TRUTH, PATCH)
    assert (outcome.success, outcome.right, outcome.mode) == (success, not success, mode)


VANISHING = [
    # a second, right box above gamma keeps the target from vanishing
    ([(OFF, 0.9), (GOOD, 0.6)], False, None),
    # the right one is below gamma, though the best placed of all
    ([(OFF, 0.9), (GOOD, 0.4)], True, "displacement"),
    # best placed of all is below gamma, another good one is above: not vanished
    ([(OFF, 0.9), ((10, 20, 50, 80), 0.6), (TRUTH, 0.1)], False, None),
    ([], True, "omission"),
    ([((20, 40, 40, 62), 0.9), (GOOD, 0.1)], True, "substitution"),
]


@pytest.mark.parametrize(("rows", "success", "mode"), VANISHING)
def test_vanishing(rows: list, success: bool, mode: str | None) -> None:
    outcome = judge(answered(*rows), Criterion("vanishing", "person"), TRUTH, PATCH)
    assert (outcome.success, outcome.right, outcome.mode) == (success, not success, mode)


def test_tau_is_inclusive_and_re_readable() -> None:
    half = answered(((10, 20, 50, 60), 0.9))  # IoU exactly 40/80
    assert judge(half, Criterion("localization", "person", tau=0.5), TRUTH, None).success is False
    assert judge(half, Criterion("localization", "person", tau=0.51), TRUTH, None).success is True
    weak = answered((GOOD, 0.35))
    assert judge(weak, Criterion("localization", "person", gamma=0.3), TRUTH, None).success is False


def test_hidden_patch_cannot_be_substituted_for() -> None:
    outcome = judge(answered((PATCH, 0.9)), Criterion("localization", "person"), TRUTH, None)
    assert outcome.mode == "displacement"


@pytest.mark.parametrize("status", ["empty", "malformed", "refused"])
def test_grounder_omissions_are_kept_apart(status: str) -> None:
    answer = read_answer(Grounding("text", None, status), "person")  # type: ignore[arg-type]
    outcome = judge(answer, Criterion("localization", "person"), TRUTH, PATCH)
    assert (outcome.success, outcome.mode, outcome.omission) == (True, "omission", status)
    assert answer.raw_text == "text"


def test_grounder_box_has_no_threshold() -> None:
    answer = read_answer(Grounding("<loc>", GOOD, "ok"), "person")
    outcome = judge(answer, Criterion("localization", "person", gamma=1.0), TRUTH, PATCH)
    assert outcome.success is False
    assert outcome.box_iou == pytest.approx(70 / 80)


def test_errors_and_missing_truth_are_not_counted() -> None:
    criterion = Criterion("localization", "person")
    assert judge(failed_answer("detector", "crash"), criterion, TRUTH, PATCH).success is None
    assert judge(answered((GOOD, 0.9)), criterion, None, None).success is None
    targeted = Criterion("targeted", "person", target_label="dog")
    assert judge(failed_answer("classifier", "x"), targeted, TRUTH, PATCH).right is None


@pytest.mark.parametrize(
    ("top", "task", "success", "right"),
    [
        ("stop sign", "untargeted", False, True),
        ("Stop-Sign", "untargeted", False, True),
        ("parking meter", "untargeted", True, False),
        # neither the true nor the target label: wrong, but the targeted attack has not succeeded
        ("parking meter", "targeted", False, False),
        ("speed limit", "targeted", True, False),
    ],
)
def test_classification(top: str, task: str, success: bool, right: bool) -> None:
    names = ("background", top, "other")
    answer = read_answer(Classification(names, np.array([0.2, 0.7, 0.1], np.float32)), "stop sign")
    assert answer.top[0] == (top, pytest.approx(0.7))
    criterion = Criterion(task, "stop sign", target_label="speed limit")  # type: ignore[arg-type]
    outcome = judge(answer, criterion, None, None)
    assert (outcome.success, outcome.right) == (success, right)


def test_both_boxes_facts() -> None:
    answer = answered((OFF, 0.9), (GOOD, 0.6), (TRUTH, 0.2))
    assert most_confident(answer) == Box(OFF, pytest.approx(0.9))
    assert most_confident(answer, 0.95) is None
    assert best_placed(answer, TRUTH).xyxy == TRUTH  # type: ignore[union-attr]
    assert best_placed(answer, TRUTH, 0.5).xyxy == GOOD  # type: ignore[union-attr]
    assert best_placed(answer, None) is None


def test_criterion_refuses_nonsense() -> None:
    for bad in (
        {"gamma": 0.0},
        {"gamma": 0.04},
        {"gamma": 1.5},
        {"tau": 0.0},
        {"task": "targeted"},
    ):
        with pytest.raises(InputError):
            Criterion(**bad)
