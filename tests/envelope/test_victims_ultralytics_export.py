"""ONNX files that ultralytics exported: real exports, and every older form of an answer."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ultralytics_fakes import SIZE, exported, make, picture

from envelope.victims.registry import load_victim
from envelope.victims.ultralytics_model import import_ultralytics
from scene.errors import InputError

if importlib.util.find_spec("ultralytics") is None:
    pytest.skip("the extra yolo is not installed", allow_module_level=True)
pytest.importorskip("onnx")

NAMES = ("cat", "dog", "stop sign")
BOX = (40.0, 32.0, 80.0, 48.0)
"""xyxy in the 160 x 160 input."""


@pytest.mark.filterwarnings("ignore")  # of torch's tracing, one for each comparison in the network
@pytest.mark.parametrize("kind", ["v8", "rtdetr"])
def test_real_exports_are_read_as_the_package_reads_them(tmp_path: Path, kind: str) -> None:
    """RT-DETR's under a name that does not say so: it was read as dense rows, without a sentence."""
    ultralytics = import_ultralytics()
    loader = ultralytics.RTDETR if kind == "rtdetr" else ultralytics.YOLO
    made = Path(loader(str(make(tmp_path, kind))).export(
        format="onnx", imgsz=SIZE, simplify=False, opset=17
    ))  # fmt: skip
    path = made.rename(tmp_path / "best.onnx")
    bgr = np.ascontiguousarray(picture()[0, :, :, ::-1])
    theirs = loader(str(path)) if kind == "rtdetr" else loader(str(path), task="detect")
    (wanted,) = theirs.predict(bgr, imgsz=SIZE, conf=0.05, device="cpu")
    (found,) = load_victim(f"ultralytics:{path}", "stop sign").predict(picture())
    assert len(found) == len(wanted.boxes) > 0
    assert found.xyxy == pytest.approx(wanted.boxes.xyxy.numpy(), abs=0.01)
    assert found.confidences == pytest.approx(wanted.boxes.conf.numpy(), abs=1e-5)
    if kind == "rtdetr":
        assert found.xyxy[0] == pytest.approx([140, 30, 150, 36], abs=0.02)
        assert found.labels == ("stop sign",)


def dense(names: tuple[str, ...]) -> np.ndarray:
    rows = np.full((1, 4 + len(names), 525), 0.01)
    rows[0, :4, 7] = [60, 40, 40, 16]
    rows[0, 4 + names.index("stop sign"), 7] = 0.75
    return rows


def listed(names: tuple[str, ...], normalised: bool = False) -> np.ndarray:
    """Boxes with their best score and its class: xyxy pixels, or cxcywh shares."""
    rows = np.zeros((1, 9, 6))
    rows[0, 2] = [*BOX, 0.75, names.index("stop sign")]
    if normalised:
        rows[0, :, :4] = 0.1
        rows[0, 2, :4] = [60 / 160, 40 / 160, 40 / 160, 16 / 160]
    return rows


def queries(names: tuple[str, ...]) -> np.ndarray:
    """Boxes as shares with a score for each class, as before 8.4."""
    rows = np.full((1, 9, 4 + len(names)), 0.01)
    rows[0, 2, :4] = [60 / 160, 40 / 160, 40 / 160, 16 / 160]
    rows[0, 2, 4 + names.index("stop sign")] = 0.75
    return rows


TWO = ("dog", "stop sign")
CASES: dict[str, tuple[np.ndarray, tuple[str, ...], dict[str, Any], str]] = {
    "dense": (dense(NAMES), NAMES, {"head": "Detect"}, "dense"),
    "dense, old": (dense(NAMES), NAMES, {}, "dense"),
    "dense, named like the other": (dense(NAMES), NAMES, {"description": "rtdetr"}, "dense"),
    "of two classes, dense": (dense(TWO), TWO, {}, "dense"),
    "YOLO26": (listed(NAMES), NAMES, {"head": "Detect", "end2end": True}, "end2end"),
    "YOLOv10, old: nothing is said": (listed(NAMES), NAMES, {}, "end2end"),
    "suppressed inside": (listed(NAMES), NAMES, {"args": {"nms": True}}, "end2end"),
    "of two classes": (listed(TWO), TWO, {}, "end2end"),
    "RT-DETR": (listed(NAMES, True), NAMES, {"head": "RTDETRDecoder"}, "rtdetr"),
    "RT-DETR, described": (listed(NAMES, True), NAMES,
                           {"description": "Ultralytics RT-DETR-l model"}, "rtdetr"),
    "RT-DETR, nothing is said": (listed(NAMES, True), NAMES, {}, "rtdetr"),
    "RT-DETR, old": (queries(NAMES), NAMES, {"description": "Ultralytics rtdetr-l"}, "rtdetr"),
    "RT-DETR, old, nothing is said": (queries(NAMES), NAMES, {}, "rtdetr"),
    "RT-DETR of two classes": (listed(TWO, True), TWO, {"head": "RTDETRDecoder"}, "rtdetr"),
    "RT-DETR of two classes, old": (queries(TWO), TWO, {}, "rtdetr"),
}  # fmt: skip


@pytest.mark.parametrize("case", list(CASES))
def test_every_form_of_answer(tmp_path: Path, case: str) -> None:
    """A 200 x 120 picture: letterboxed by 0.8 with 32 rows above, or stretched by RT-DETR."""
    rows, names, metadata, head = CASES[case]
    path = exported(tmp_path / "best.onnx", rows, names, **metadata)
    victim = load_victim(f"ultralytics:{path}", "stop sign")
    assert victim.info.settings["head"] == head
    (found,) = victim.predict(picture())
    found = found.of_label("stop sign")
    wanted = [50, 24, 100, 36] if head == "rtdetr" else [50, 0, 100, 20]
    assert found.xyxy[0] == pytest.approx(wanted, abs=1e-3)
    assert found.confidences.tolist() == pytest.approx([0.75])


def test_an_answer_of_no_known_form_is_one_sentence(tmp_path: Path) -> None:
    """Such as a file whose metadata names other classes than it has."""
    for number, rows in enumerate((dense((*NAMES, "cow")), np.zeros((1, 9, 5)), np.zeros((9, 6)))):
        path = exported(tmp_path / f"odd{number}.onnx", rows, NAMES)
        with pytest.raises(
            InputError, match="is not that of a detector of the 3 classes"
        ) as caught:
            load_victim(f"ultralytics:{path}")
        assert "\n" not in str(caught.value)
