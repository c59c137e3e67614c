"""The known-box probe: fakes that answer in each wrong convention are found out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from envelope.victims.letterbox import fit_inside
from envelope.victims.names import normalised
from envelope.victims.probe import probe
from envelope.victims.probe_pictures import HEIGHT, WIDTH, picture_of, sign_pictures
from envelope.victims.protocols import Classification, Detections, Grounding, VictimInfo
from envelope.victims.registry import load_victim
from scene.errors import InputError

PICTURES = sign_pictures()
SIDE = 320
Four = tuple[float, float, float, float]


def known_box(image: np.ndarray) -> np.ndarray | None:
    """The box of the probe's picture that this is; None for one with exchanged channels."""
    for picture in PICTURES:
        if np.array_equal(picture.rgb, image):
            return np.array(picture.box)
    return None


class Fake:
    """Knows the boxes and writes them in its own way."""

    def __init__(self, way: Callable[[np.ndarray], np.ndarray], label: str = "Stop-Sign") -> None:
        self.info = VictimInfo("fake", "detector", "", "", (SIDE, SIDE), 0.5, "", ("Stop-Sign",))
        self._way, self._label = way, label

    def predict(self, images: np.ndarray) -> list[Detections]:
        answers = []
        for image in images:
            box = known_box(image)
            rows = np.zeros((0, 4)) if box is None else self._way(box)[None]
            answers.append(Detections(rows, np.full(len(rows), 0.9), (self._label,) * len(rows)))
        return answers


def letterbox(centered: bool) -> Callable[[np.ndarray], np.ndarray]:
    place = fit_inside(WIDTH, HEIGHT, SIDE, SIDE, centered)
    return lambda box: place.to_input(box[None])[0]


SIZE = np.array([WIDTH, HEIGHT, WIDTH, HEIGHT])


def centers(b: np.ndarray) -> np.ndarray:
    return np.array([(b[0] + b[2]) / 2, (b[1] + b[3]) / 2, b[2] - b[0], b[3] - b[1]])


WAYS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "yxyx pixels of the picture, x and y swapped": lambda b: b[[1, 0, 3, 2]],
    "xyxy 0-1": lambda b: b / SIZE,
    "xyxy 0-1000": lambda b: b / SIZE * 1000,
    "xyxy 0-1024": lambda b: b / SIZE * 1024,
    "yxyx 0-1024, x and y swapped": lambda b: (b / SIZE * 1024)[[1, 0, 3, 2]],
    "xyxy pixels of the resized picture": lambda b: b / SIZE * SIDE,
    "cxcywh pixels of the picture, center and size instead of two corners": centers,
    "cxcywh 0-1, center and size instead of two corners": lambda b: centers(b) / SIZE,
    "xywh pixels of the picture, corner and size instead of two corners": lambda b: np.array(
        [b[0], b[1], b[2] - b[0], b[3] - b[1]]
    ),
    "xyxy pixels of the letterboxed input, padding centered": letterbox(True),
    "xyxy pixels of the letterboxed input, padding right and below": letterbox(False),
    # 640x400 in a square: 120 rows above at the picture's own scale
    "letterbox scale undone but not its padding": lambda b: b + np.array([0, 120, 0, 120]),
    "mirrored left to right": lambda b: np.array([WIDTH - b[2], b[1], WIDTH - b[0], b[3]]),
    "mirrored upside down": lambda b: np.array([b[0], HEIGHT - b[3], b[2], HEIGHT - b[1]]),
    # input pixels of the stretched picture, less 60 rows of padding, at half the scale
    "stretched picture undone as a letterbox": lambda b: (
        (b / SIZE * SIDE - np.array([0, 60, 0, 60])) * 2
    ),
    "0-1 read as 0-1000": lambda b: b / 1000,
    "0-1024 read as 0-1000": lambda b: b * 1.024,
    "0-1000 read as 0-1024": lambda b: b / 1.024,
    "pixels of the picture read as 0-1000": lambda b: b * SIZE / 1000,
}


def test_a_right_victim_lands() -> None:
    report = probe(Fake(lambda b: b), "stop sign", PICTURES)
    assert report.lands
    assert report.verdict == "lands in 5 of 5 pictures, mean IoU 1.00"
    assert report.fit is not None
    assert report.fit.convention == "xyxy pixels of the picture"
    assert [look.overlap for look in report.looks] == pytest.approx([1] * 5)
    assert not report.swapped_colors


@pytest.mark.parametrize("name", list(WAYS))
def test_a_wrong_convention_is_named(name: str) -> None:
    report = probe(Fake(WAYS[name]), "stop sign", PICTURES)
    assert not report.lands
    assert report.fit is not None
    assert report.fit.convention == name
    assert report.fit.mean > 0.99
    assert name in report.verdict


def test_noise_does_not_change_the_verdict() -> None:
    """Boxes a tenth too large still land; a swapped one, a tenth too large, is still swapped."""

    def loose(b: np.ndarray) -> np.ndarray:
        grow = 0.05 * (b[2:] - b[:2])
        return b + np.concatenate([-grow, grow])

    assert probe(Fake(loose), "stop sign", PICTURES).lands
    swapped = probe(Fake(lambda b: loose(b)[[1, 0, 3, 2]]), "stop sign", PICTURES)
    assert swapped.fit is not None
    assert swapped.fit.convention.startswith("yxyx pixels of the picture")


def test_nothing_found_and_nonsense() -> None:
    nothing = probe(Fake(lambda b: b, label="cat"), "stop sign", PICTURES)
    assert (nothing.lands, nothing.fit) == (False, None)
    assert "finds no box of the class in any of 5 pictures" in nothing.verdict
    fixed = probe(Fake(lambda b: np.array([300.0, 180, 340, 220])), "stop sign", PICTURES)
    assert not fixed.lands
    assert "no other convention fits" in fixed.verdict


def test_exchanged_colors_are_noticed() -> None:
    class Backwards(Fake):
        def predict(self, images: np.ndarray) -> list[Detections]:
            return super().predict(np.ascontiguousarray(images[..., ::-1]))

    report = probe(Backwards(lambda b: b), "stop sign", PICTURES)
    assert report.swapped_colors
    assert "may want BGR" in report.verdict


class Writer:
    """A grounder that writes shares where pixels are wanted: its text is malformed."""

    info = VictimInfo("writer", "grounder", "", "", (SIDE, SIDE), 0.0, "")

    def prompt_for(self, label: str) -> str:
        return f"where is the {normalised(label)}?"

    def predict(self, images: np.ndarray, prompt: str) -> list[Grounding]:
        assert prompt == "where is the stop sign?"
        boxes = [known_box(image) for image in images]
        return [
            Grounding("none", None, "empty")
            if box is None
            else Grounding(str((box / SIZE).round(4).tolist()), None, "malformed")
            for box in boxes
        ]


def test_the_raw_numbers_of_unreadable_text_are_used() -> None:
    report = probe(Writer(), "stop sign", PICTURES)
    assert not report.lands
    assert "not read as a box that lands, but fits xyxy 0-1 (mean IoU 1.00)" in report.verdict


class Namer:
    info = VictimInfo("namer", "classifier", "", "", (SIDE, SIDE), 0.0, "", ("stop_sign", "dog"))

    def predict(self, images: np.ndarray) -> list[Classification]:
        return [Classification(self.info.labels, np.array([0.7, 0.3])) for _ in images]


def test_classifiers_name() -> None:
    report = probe(Namer(), "stop sign", PICTURES)
    assert report.lands
    assert "first in 5 of 5" in report.verdict


def test_the_pictures_hold_what_they_say() -> None:
    for picture in PICTURES:
        assert picture.rgb.shape == (HEIGHT, WIDTH, 3)
        r, g, b = (picture.rgb[..., c].astype(int) for c in range(3))
        rows, columns = np.nonzero((r > 110) & (g < 70) & (b < 70))
        x0, y0, x1, y1 = picture.box
        # the red face, inside its white rim
        assert 0 <= columns.min() - x0 < 14
        assert 0 <= rows.min() - y0 < 14
        assert 0 <= x1 - columns.max() - 1 < 14
        assert 0 <= y1 - rows.max() - 1 < 14
        middle = ((x0 + x1) / 2, (y0 + y1) / 2)
        assert abs(middle[0] - WIDTH / 2) > 40 or abs(middle[1] - HEIGHT / 2) > 40


def test_a_persons_own_picture(tmp_path: Path) -> None:
    from PIL import Image

    path = tmp_path / "own.png"
    own = np.full((200, 100, 3), 30, np.uint8)
    own[40:120, 20:90] = (250, 200, 0)
    Image.fromarray(own).save(path)
    pictures = picture_of(path, (20, 40, 90, 120))
    assert len(pictures) == 5
    for picture in pictures:
        rows, columns = np.nonzero(picture.rgb[..., 0] > 235)
        x0, y0, x1, y1 = picture.box
        found = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
        assert np.abs(np.array([x0, y0, x1, y1]) - found).max() <= 1
    for box in [(20, 40, 120, 90), (30, 0, 20, 10)]:
        with pytest.raises(InputError, match="wanted x0 y0 x1 y1 inside the 100 x 200"):
            picture_of(path, box)
    with pytest.raises(InputError, match="wanted a picture"):
        picture_of(tmp_path / "none.png", (0, 0, 1, 1))


@pytest.mark.parametrize("name", ["demo-detector", "demo-grounder", "demo-classifier"])
def test_the_demo_victims_land(name: str) -> None:
    report = probe(load_victim(name, "stop sign"), "stop sign", PICTURES)
    assert report.lands, report.verdict


@pytest.mark.real
@pytest.mark.parametrize(
    "spec",
    ["onnx:{}/yolox-nano/yolox_nano.onnx", "onnx:{}/nanodet-m/nanodet_m.onnx",
     "onnx:{}/fastestdet/FastestDet.onnx", "ultralytics:{}/yolov8n-int8/yolov8n_int8.onnx"],
)  # fmt: skip
def test_real_detectors_land(real_data: Path, spec: str) -> None:
    report = probe(load_victim(spec.format(real_data / "weights")), "stop sign", PICTURES)
    assert report.lands, report.verdict
    assert report.fit is not None
    assert report.fit.mean > 0.9
