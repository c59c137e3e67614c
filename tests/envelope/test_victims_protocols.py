"""Values, class names and the registry."""

from __future__ import annotations

import numpy as np
import pytest

from envelope.victims.names import find_class, normalised, phrase_has_class, same_class
from envelope.victims.protocols import (
    Classification,
    Detections,
    Grounding,
    VictimInfo,
    ask,
    check_images,
)
from envelope.victims.registry import list_victims, load_victim
from scene.errors import InputError


def test_detections_are_sorted_and_read_only() -> None:
    found = Detections(np.array([[0, 0, 1, 2], [3, 4, 9, 8]]), np.array([0.2, 0.7]), ("a", "b"))
    assert found.labels == ("b", "a")
    assert found.xyxy.tolist() == [[3, 4, 9, 8], [0, 0, 1, 2]]
    assert found.confidences.tolist() == pytest.approx([0.7, 0.2])
    with pytest.raises(ValueError, match="read-only"):
        found.xyxy[0, 0] = 1


def test_detections_of_a_label_join_spellings() -> None:
    boxes = np.arange(12).reshape(3, 4)
    found = Detections(boxes, np.array([0.9, 0.8, 0.7]), ("Stop-Sign", "person", "stop sign"))
    own = found.of_label("stop_sign")
    assert own.labels == ("Stop-Sign", "stop sign")
    assert own.xyxy.tolist() == boxes[[0, 2]].tolist()
    assert len(found.of_label("stop")) == 0


def test_no_detection_at_all() -> None:
    empty = Detections(np.zeros((0, 4)), np.zeros(0), ())
    assert len(empty) == 0
    assert len(empty.of_label("person")) == 0


def test_mismatched_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="2, 1 and 1"):
        Detections(np.zeros((2, 4)), np.zeros(1), ("a",))
    with pytest.raises(ValueError, match="2 labels but 3"):
        Classification(("a", "b"), np.zeros(3))
    with pytest.raises(ValueError, match="status"):
        Grounding("x", None, "ok")


def test_top_of_a_classification() -> None:
    assert Classification(("cat", "dog"), np.array([0.1, 0.9])).top == "dog"


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("stop sign", "stop-sign", True),
        ("stop sign", "Stop Sign", True),
        ("stop sign", "stop_sign", True),
        ("stopsign", "stop sign", True),
        ("tv", "tvmonitor", True),
        ("tv/monitor", "TV", True),
        ("stop sign", "sign", False),
        ("motorbike", "motorcycle", True),
        ("StopSign", "stop sign", True),
        ("TVMonitor", "tv", True),
        ("TV", "tv", True),
        ("tvMonitor", "television_set", True),
        ("trafficlight", "Traffic-Light", True),
        ("diningtable", "dining table", True),
        ("cellular_telephone", "cellphone", True),
        ("hair drier", "hair dryer", True),
        ("Tennis racquet", "tennisracket", True),
        ("traffic light", "traffic sign", False),
        ("street sign", "stop sign", False),
        ("person", "parson", False),
    ],
)
def test_class_names(first: str, second: str, same: bool) -> None:
    assert same_class(first, second) is same


def test_phrases_hold_whole_words() -> None:
    assert phrase_has_class("a red stop sign", "Stop-Sign")
    assert not phrase_has_class("nonstop signs", "stop sign")
    assert normalised("  Stop -- Sign ") == "stop sign"


def test_unknown_class_lists_near_names() -> None:
    with pytest.raises(InputError, match=r"no class 'stop sing'; near names: stop sign"):
        find_class("stop sing", ("person", "stop sign", "parking meter"), "yolox")
    with pytest.raises(InputError, match=r"it knows: cat, dog"):
        find_class("xyzzy", ("cat", "dog"), "v")
    assert find_class("TVMonitor", ("cat", "tv"), "v") == 1


@pytest.mark.parametrize(
    "images",
    [
        np.zeros((4, 4, 3), np.uint8),  # no batch
        np.zeros((1, 3, 4, 4), np.uint8),  # channels first
        np.zeros((1, 4, 4, 3), np.float32),  # floats
        np.zeros((1, 4, 4, 4), np.uint8),  # alpha
    ],
)
def test_wrong_pictures_are_named(images: np.ndarray) -> None:
    with pytest.raises(InputError, match="uint8 RGB"):
        check_images(images)


def test_the_roster() -> None:
    rows = {entry.name: entry for entry in list_victims()}
    assert {"demo-detector", "demo-classifier", "demo-grounder", "onnx", "paligemma"} <= set(rows)
    assert rows["demo-classifier"].kind == "classifier"
    assert rows["onnx"].state.startswith("give a path: onnx:FILE")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("yolo99", "there is no victim 'yolo99'; the victims are: demo-detector"),
        ("onnx", "wanted a path after the colon, as in onnx:FILE"),
        ("onnx:/nowhere/x.onnx", "there is no file /nowhere/x.onnx"),
        ("onnx:/x.onnx?preset=ssd", "no preset 'ssd'; the presets are: yolox"),
        ("onnx:/x.onnx?colour=bgr", "unknown option 'colour'"),
        ("onnx:/x.onnx?iou=7", "iou wants a number in 0..1"),
        ("paligemma:/nowhere", "wanted a folder with a checkpoint"),
        ("demo-detector:file", "demo-detector takes no path"),
    ],
)
def test_bad_specs_say_what_to_do(spec: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load_victim(spec)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_demo_weights_name_the_command(tmp_path, monkeypatch) -> None:
    from envelope.victims import roster_demo

    monkeypatch.setattr(roster_demo, "ASSETS", tmp_path)
    with pytest.raises(InputError, match="advscene train-demo"):
        load_victim("demo-detector")
    assert not any(e.ready for e in list_victims() if e.name.startswith("demo"))


def test_names_in_other_alphabets_stay_apart() -> None:
    """They all became "", so that any two were one class."""
    assert not same_class("знак стоп", "человек")
    assert same_class("Знак_Стоп", "знак стоп")
    assert find_class("人", ("停车标志", "人"), "victim") == 1
    assert phrase_has_class("красный знак стоп", "знак стоп")
    assert normalised("café_table") == "café table"


def test_numbers_that_are_none_are_errors_and_not_omissions() -> None:
    """Comparisons with NaN are false, so that such a box was dropped: an omission, a success."""
    boxes = np.array([[1, 2, 3, 4]])
    with pytest.raises(InputError, match="not finite"):
        Detections(boxes, np.array([np.nan]), ("a",))
    with pytest.raises(InputError, match="not finite"):
        Detections(boxes * np.inf, np.array([0.5]), ("a",))
    with pytest.raises(InputError, match="not finite"):
        Classification(("a", "b"), np.array([np.nan, np.nan]))


def test_an_open_detectors_prompt_names_the_class() -> None:
    """Its boxes are counted by the prompt's words: another one lost them all, as if hidden."""

    class Open:
        info = VictimInfo("open", "detector", "", "", (8, 8), 0.3, "", ())

        def prompt_for(self, label: str) -> str:
            return f"a {label}"

        def predict(self, images: np.ndarray, prompt: str) -> list[str]:
            return [prompt]

    images = np.zeros((1, 8, 8, 3), np.uint8)
    assert ask(Open(), images, "stop sign") == ["a stop sign"]
    assert ask(Open(), images, "Stop-Sign", "red stop sign. person.") == ["red stop sign. person."]
    with pytest.raises(
        InputError, match="open: wanted a prompt that names 'stop sign', found 'sign"
    ):
        ask(Open(), images, "stop sign", "sign.")
