"""From raw answers to cASR and its failure modes, by hand (the edge-VLM framework's rules)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelope.metrics import Sample, conditional_asr
from envelope.outcome import (
    FAILURE_MODES,
    Answer,
    Criterion,
    Outcome,
    failed_answer,
    judge,
    read_answer,
)
from envelope.victims.conventions import Frame
from envelope.victims.protocols import Detections, Grounding
from envelope.victims.vlm.families import FAMILIES

FRAME = Frame(200, 100, 448, 448)
TRUTH = (20.0, 10.0, 100.0, 90.0)  # 80 x 80
PATCH = (40.0, 30.0, 80.0, 70.0)  # 40 x 40, inside
LOCALIZATION = Criterion("localization", "person")


def said(text: str, family: str = "qwen3-vl") -> Answer:
    """What a model's words amount to."""
    reading = FAMILIES[family].reads(text, FRAME)
    return read_answer(Grounding(text, reading.box, reading.status, reading.notes), "person")


def json_box(x0: float, y0: float, x1: float, y1: float) -> str:
    """Qwen3-VL's words for a box in pixels of the 200 x 100 picture."""
    return f'[{{"bbox_2d": [{x0 * 5:g}, {y0 * 10:g}, {x1 * 5:g}, {y1 * 10:g}], "label": "person"}}]'


# What a grounder says of the adversarial picture, and what that is.
WORDS = [
    # on the target: IoU 64 x 80 / (80 x 80) = 0.8
    (json_box(20, 10, 84, 90), None, None),
    # exactly half of it: IoU 0.5 is not below tau
    (json_box(20, 10, 60, 90), None, None),
    # a little less than half
    (json_box(20, 10, 59, 90), "displacement", None),
    # the patch itself, and a box with IoU (40 x 32) / (40 x 40) = 0.8 with it
    (json_box(40, 30, 80, 70), "substitution", None),
    (json_box(40, 30, 80, 62), "substitution", None),
    # half of the patch: IoU exactly 0.5 with it still counts as substitution
    (json_box(40, 30, 80, 50), "substitution", None),
    (json_box(40, 30, 80, 49), "displacement", None),
    # elsewhere
    (json_box(150, 10, 190, 90), "displacement", None),
    # no box at all, in three ways
    ("[]", "omission", "empty"),
    ("There is no person in this image.", "omission", "empty"),
    ('[{"bbox_2d": [100, 100, 500', "omission", "malformed"),
    ('[{"bbox_2d": [100, 100, 100, 900]}]', "omission", "malformed"),
    ("I'm sorry, I cannot help with that.", "omission", "refused"),
    # several boxes: the first counts, though the second is right
    (json_box(150, 10, 190, 90) + json_box(20, 10, 100, 90), "displacement", None),
]


@pytest.mark.parametrize(("text", "mode", "omission"), WORDS)
def test_a_grounders_words(text: str, mode: str | None, omission: str | None) -> None:
    outcome = judge(said(text), LOCALIZATION, TRUTH, PATCH)
    assert outcome.success is (mode is not None)
    assert outcome.right is (mode is None)
    assert (outcome.mode, outcome.omission) == (mode, omission)


@pytest.mark.parametrize(
    ("family", "text"),
    [
        ("paligemma", "<loc0102><loc0102><loc0922><loc0512> person"),
        ("internvl3", "<ref>person</ref><box>[[100, 100, 500, 900]]</box>"),
        ("qwen2.5-vl", '[{"bbox_2d": [44.8, 44.8, 224, 403.2], "label": "person"}]'),
        ("qwen3-vl", '[{"bbox_2d": [100, 100, 500, 900], "label": "person"}]'),
        ("lfm2.5-vl", '[{"label": "person", "bbox": [0.1, 0.1, 0.5, 0.9]}]'),
        ("lfm2.5-vl-3b", '[{"label": "person", "bbox": [100, 100, 500, 900]}]'),
        ("minicpm-v", "<box>100 100 500 900</box>"),
        ("json", '{"box": [100, 100, 500, 900]}'),
    ],
)
def test_every_family_holds_on_its_own_words(family: str, text: str) -> None:
    outcome = judge(said(text, family), LOCALIZATION, TRUTH, PATCH)
    assert outcome.right
    assert outcome.box_iou == pytest.approx(1, abs=0.01)


def boxes(*rows: tuple[tuple[float, float, float, float], float, str]) -> Answer:
    found = Detections(
        np.array([r[0] for r in rows]).reshape(-1, 4), np.array([r[1] for r in rows]),
        tuple(r[2] for r in rows),
    )  # fmt: skip
    return read_answer(found, "person")


OFF = (150.0, 10.0, 190.0, 90.0)
DETECTIONS = [
    # one box: the most confident of the class that clears gamma
    ([(TRUTH, 0.6, "person"), (OFF, 0.9, "car")], 0.5, None),
    ([(TRUTH, 0.6, "person"), (OFF, 0.9, "person")], 0.5, "displacement"),
    ([(TRUTH, 0.9, "person"), (OFF, 0.6, "person")], 0.5, None),
    ([(PATCH, 0.7, "person"), (TRUTH, 0.6, "person")], 0.5, "substitution"),
    # under gamma there is none, whatever else lies in the picture
    ([(TRUTH, 0.49, "person"), (PATCH, 0.9, "tie")], 0.5, "omission"),
    # an open-vocabulary detector is read at 0.3
    ([(TRUTH, 0.31, "person")], 0.3, None),
    ([(TRUTH, 0.29, "person")], 0.3, "omission"),
    ([], 0.5, "omission"),
]


@pytest.mark.parametrize(("rows", "gamma", "mode"), DETECTIONS)
def test_a_detector_is_read_at_its_best_box_of_the_class(rows, gamma, mode) -> None:
    outcome = judge(boxes(*rows), Criterion("localization", "person", gamma), TRUTH, PATCH)
    assert outcome.mode == mode
    assert outcome.success is (mode is not None)


def samples(outcomes: list[Outcome]) -> list[Sample]:
    """One condition per outcome; what is not counted is left out."""
    made = [Sample.of(f"c{number:02}", 0, outcome) for number, outcome in enumerate(outcomes)]
    return [sample for sample in made if sample is not None]


def test_casr_and_its_modes_by_hand() -> None:
    """Ten pictures; the gray patch alone costs two, an error on gray one, one on adversarial."""
    right, off = said(json_box(20, 10, 84, 90)), said(json_box(150, 10, 190, 90))
    on_patch, nothing = said(json_box(40, 30, 80, 70)), said("[]")
    garbled, refused = said("[[1, 2, 3"), said("I'm sorry, I cannot help with that.")
    error = failed_answer("grounder", "no answer within 60 s")
    gray = [right] * 7 + [off, nothing, error]
    adversarial = [nothing, garbled, refused, on_patch, off, right, error, off, nothing, off]
    truth = [judge(answer, LOCALIZATION, TRUTH, PATCH) for answer in gray]
    seen = [judge(answer, LOCALIZATION, TRUTH, PATCH) for answer in adversarial]
    found = conditional_asr(samples(truth), samples(seen))
    # survivors of gray: 7, of which one has an error on the adversarial picture: 6 count
    assert (found.rate.numerator, found.rate.denominator) == (5, 6)
    assert {mode: found.modes[mode].numerator for mode in FAILURE_MODES} == {
        "omission": 3, "substitution": 1, "displacement": 1,
    }  # fmt: skip
    assert sum(r.value for r in found.modes.values()) == pytest.approx(found.rate.value)
    # the omissions are told apart
    kept = [o for g, o in zip(truth, seen, strict=True) if g.right]
    kinds = [outcome.omission for outcome in kept if outcome.mode == "omission"]
    assert kinds == ["empty", "malformed", "refused"]


ANY_BOX = st.tuples(
    st.integers(0, 198), st.integers(0, 98), st.integers(1, 200), st.integers(1, 100)
).map(lambda b: (b[0], b[1], min(200, b[0] + b[2]), min(100, b[1] + b[3])))
ANY_WORDS = st.one_of(
    ANY_BOX.map(lambda b: json_box(*b)), st.sampled_from(["[]", "[[1, 2", "I'm sorry, no.", "x"]),
    st.just(None),
)  # fmt: skip


@given(st.lists(st.tuples(ANY_WORDS, ANY_WORDS), max_size=12), st.sampled_from([0.3, 0.5, 0.9]))
def test_modes_are_exclusive_and_sum_to_casr(pairs: list, tau: float) -> None:
    criterion = Criterion("localization", "person", tau=tau)

    def outcome(text: str | None) -> Outcome:
        answer = failed_answer("grounder", "x") if text is None else said(text)
        return judge(answer, criterion, TRUTH, PATCH)

    gray = [outcome(first) for first, _ in pairs]
    seen = [outcome(second) for _, second in pairs]
    for one in seen:
        assert (one.mode is not None) == (one.success is True)
        assert (one.omission is not None) == (one.mode == "omission")
    found = conditional_asr(samples(gray), samples(seen))
    counted = [o for g, o in zip(gray, seen, strict=True) if g.right and o.success is not None]
    assert found.rate.denominator == len(counted)
    assert found.rate.numerator == sum(bool(o.success) for o in counted)
    assert sum(r.numerator for r in found.modes.values()) == found.rate.numerator
    assert {r.denominator for r in found.modes.values()} == {len(counted)}
