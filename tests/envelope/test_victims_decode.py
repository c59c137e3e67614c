"""Decoders of ONNX detectors: hand-worked outputs, and real weights against a second decoding."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from envelope.victims import decode_fastestdet, decode_nanodet, decode_yolox
from envelope.victims.boxes import pairwise_iou, suppress
from envelope.victims.coco_names import COCO_NAMES
from envelope.victims.onnx import PRESETS, OnnxDetector, OnnxOptions, load_onnx
from envelope.victims.protocols import Detector, VictimInfo
from scene.errors import InputError


def test_yolox_hand_worked() -> None:
    # 64x32 input: 8x4 + 4x2 + 2x1 = 42 cells; the stride-16 cell at column 3, row 1 is row 32 + 7
    rows = np.zeros((42, 7), np.float32)
    rows[39] = [0.25, -0.5, math.log(2), math.log(0.5), 0.8, 0.1, 0.5]
    out = decode_yolox.decode([rows], 64, 32)
    # centre (3.25, 0.5) * 16 = (52, 8), size (32, 8)
    assert out.xyxy[39] == pytest.approx([36, 4, 68, 12])
    assert out.scores[39] == pytest.approx([0.08, 0.4])
    assert decode_yolox.fits([(42, 7)], 64, 32)
    assert not decode_yolox.fits([(41, 7)], 64, 32)


def test_nanodet_hand_worked() -> None:
    # 64x32: 32, 8 and 2 cells; stride 32, column 1, row 0 has its centre at (48, 16)
    scores = [np.zeros((cells, 2), np.float32) for cells in (32, 8, 2)]
    sides = [np.zeros((cells, 32), np.float32) for cells in (32, 8, 2)]
    scores[2][1] = [0.3, 0.6]
    for side, bin_number in enumerate((1, 0, 0.5, 0)):  # left, top, right, bottom in strides
        row = sides[2][1].reshape(4, 8)[side]
        if bin_number == 0.5:
            row[:2] = 60  # half of 0, half of 1
        else:
            row[bin_number] = 60
    out = decode_nanodet.decode([*scores, *sides], 64, 32)
    assert len(out.xyxy) == 42
    assert out.xyxy[41] == pytest.approx([48 - 32, 16, 48 + 16, 16], abs=1e-6)
    assert out.scores[41] == pytest.approx([0.3, 0.6])
    assert decode_nanodet.fits([(32, 2), (8, 2), (2, 2), (32, 32), (8, 32), (2, 32)], 64, 32)


def test_fastestdet_hand_worked() -> None:
    maps = np.zeros((7, 2, 4), np.float32)  # 4 columns, 2 rows; input 128 x 64
    maps[0, 1, 2] = 0.5
    maps[1, 1, 2], maps[2, 1, 2] = math.atanh(0.5), math.atanh(-0.25)
    maps[3, 1, 2], maps[4, 1, 2] = math.log(1 / 3), 0.0  # sigmoid: 0.25, 0.5
    maps[5:, 1, 2] = [0.9, 0.1]
    out = decode_fastestdet.decode([maps], 128, 64)
    # centre ((2 + 0.5) / 4 * 128, (1 - 0.25) / 2 * 64) = (80, 24), size (32, 32)
    assert out.xyxy[6] == pytest.approx([64, 8, 96, 40], abs=1e-4)
    assert out.scores[6] == pytest.approx([0.5**0.6 * 0.9**0.4, 0.5**0.6 * 0.1**0.4])


def test_suppression_is_per_class_and_greedy() -> None:
    boxes = np.array([[0, 0, 10, 10], [1, 0, 11, 10], [0, 0, 10, 10], [20, 0, 30, 10]], float)
    scores = np.array([0.7, 0.9, 0.6, 0.5])
    classes = np.array([0, 0, 1, 0])
    assert suppress(boxes, scores, classes, 0.5).tolist() == [1, 2, 3]
    assert suppress(boxes, scores, classes, 0.95).tolist() == [1, 0, 2, 3]
    assert pairwise_iou(boxes[:1], boxes[1:2])[0, 0] == pytest.approx(9 / 11)
    assert pairwise_iou(boxes[:1], np.zeros((1, 4)))[0, 0] == 0


class FakeSession:
    """Answers one YOLOX row and keeps what it was shown."""

    def __init__(self, rows: np.ndarray, batch: int | str = 1) -> None:
        self.rows, self.batch, self.seen = rows, batch, []

    def get_inputs(self):
        return [SimpleNamespace(name="images", shape=[self.batch, 3, 32, 64])]

    def run(self, _names, feeds):
        self.seen.append(feeds["images"])
        return [np.repeat(self.rows[None], len(feeds["images"]), axis=0)]


def fake_detector(preset: str, batch: int | str = 1) -> OnnxDetector:
    rows = np.zeros((42, 7), np.float32)
    rows[39] = [0.25, -0.5, math.log(2), math.log(0.5), 0.8, 0.1, 0.9]
    settings = {"preset": preset, "kept_confidence": 0.05, "nms_iou": 0.5}
    info = VictimInfo("x", "detector", "", "", (64, 32), 0.5, "", ("cat", "dog"), settings)
    return OnnxDetector(FakeSession(rows, batch), PRESETS[preset], info)


def test_channel_order_is_the_presets() -> None:
    """A pure red RGB picture reaches a BGR model with its third channel full."""
    victim = fake_detector("yolox")
    red = np.zeros((1, 32, 64, 3), np.uint8)
    red[..., 0] = 255
    victim.predict(red)
    assert victim.session.seen[0][0, :, 5, 5].tolist() == [0, 0, 255]


@pytest.mark.parametrize("batch", [1, "batch"])
def test_boxes_come_back_in_the_pictures_pixels(batch: int | str) -> None:
    """A 320x40 picture in a 64x32 input: scale 0.2, 8 rows; the box (36, 4, 68, 12) is undone."""
    victim = fake_detector("yolox", batch)
    answers = victim.predict(np.zeros((3, 40, 320, 3), np.uint8))
    assert len(answers) == 3
    assert isinstance(victim, Detector)
    for answer in answers:
        assert answer.labels == ("dog",)
        assert answer.confidences[0] == pytest.approx(0.72)
        assert answer.xyxy[0] == pytest.approx([180, 20, 320, 40])  # right and bottom are clipped
    assert len(victim.session.seen) == (3 if batch == 1 else 1)


def test_files_that_are_no_model(tmp_path: Path) -> None:
    junk = tmp_path / "photo.onnx"
    junk.write_bytes(b"\x89PNG not a model at all" * 20)
    empty = tmp_path / "empty.onnx"
    empty.write_bytes(b"")
    for path in (junk, empty):
        with pytest.raises(InputError) as caught:
            load_onnx(path, OnnxOptions())
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_labels_file_errors(tmp_path: Path, real_data: Path) -> None:
    weights = real_data / "weights" / "yolox-nano" / "yolox_nano.onnx"
    blank = tmp_path / "labels.txt"
    blank.write_text("\n\n")
    with pytest.raises(InputError, match="names no class"):
        load_onnx(weights, OnnxOptions(labels=blank))
    with pytest.raises(InputError, match=r"labels file .*missing.txt"):
        load_onnx(weights, OnnxOptions(labels=tmp_path / "missing.txt"))
    short = tmp_path / "short.txt"
    short.write_text("person\nstop sign\n")
    victim = load_onnx(weights, OnnxOptions(labels=short))
    with pytest.raises(InputError, match="80 classes, but its labels file names 2"):
        victim.predict(np.zeros((1, 20, 20, 3), np.uint8))


def test_wrong_preset_is_refused(real_data: Path) -> None:
    weights = real_data / "weights" / "yolox-nano" / "yolox_nano.onnx"
    with pytest.raises(InputError, match="not those of the preset 'fastestdet'"):
        load_onnx(weights, OnnxOptions(preset="fastestdet"))


REAL = {
    "yolox": "yolox-nano/yolox_nano.onnx",
    "nanodet": "nanodet-m/nanodet_m.onnx",
    "fastestdet": "fastestdet/FastestDet.onnx",
}


def real_victim(real_data: Path, name: str) -> OnnxDetector:
    return load_onnx(real_data / "weights" / REAL[name], OnnxOptions())


def stop_signs(real_data: Path) -> np.ndarray:
    from PIL import Image

    paths = sorted((real_data / "photos" / "stop_signs").glob("*.png"))
    return np.stack([np.asarray(Image.open(path).convert("RGB")) for path in paths])


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "found", "threshold"),
    [("yolox", 13, 0.99), ("nanodet", 12, 0.35), ("fastestdet", 13, 0.82)],
)
def test_real_stop_signs(real_data: Path, name: str, found: int, threshold: float) -> None:
    """The listed scores, which have two digits: lowest of yolox 0.9895, of FastestDet 0.8183.

    FastestDet: 0.8112 resampled bilinearly with anti-aliasing, 0.8059 without, 0.8177 by OpenCV's
    INTER_AREA, which the program beside its export calls; ours rounds some pixels by one level.
    """
    victim = real_victim(real_data, name)
    assert victim.info.settings["preset"] == name  # recognised by its outputs
    answers = [answer.of_label("stop sign") for answer in victim.predict(stop_signs(real_data))]
    scores = [float(answer.confidences[0]) if len(answer) else 0.0 for answer in answers]
    assert sum(round(score, 2) >= threshold for score in scores) == found
    if name == "fastestdet":
        assert min(scores) == pytest.approx(0.8177, abs=1e-3)


@pytest.mark.real
@pytest.mark.parametrize("name", ["fastestdet", "nanodet"])
def test_red_and_blue_are_not_swapped(real_data: Path, name: str) -> None:
    """The signs are red: swapping red and blue must lower the scores (yolox hardly cares)."""
    victim = real_victim(real_data, name)
    pictures = stop_signs(real_data)[:6]
    right, swapped = (
        [a.of_label("stop sign").confidences[:1].sum() for a in victim.predict(batch)]
        for batch in (pictures, np.ascontiguousarray(pictures[..., ::-1]))
    )
    assert all(a > b for a, b in zip(right, swapped, strict=True))


def second_decoding(name: str, outputs: list[np.ndarray]) -> list[tuple[float, int, list[float]]]:
    """Straight from the models' descriptions, cell by cell, boxes as shares of the input."""
    found = []
    if name == "yolox":
        row = 0
        for stride in (8, 16, 32):
            for y in range(416 // stride):
                for x in range(416 // stride):
                    a, b, c, d, objectness, *classes = outputs[0][0, row]
                    row += 1
                    cx, cy = (a + x) * stride, (b + y) * stride
                    w, h = math.exp(c) * stride, math.exp(d) * stride
                    box = [(cx - w / 2), (cy - h / 2), (cx + w / 2), (cy + h / 2)]
                    best = int(np.argmax(classes))
                    found.append((objectness * classes[best], best, [v / 416 for v in box]))
    elif name == "nanodet":
        for level, stride in enumerate((8, 16, 32)):
            for row in range((416 // stride) ** 2):
                y, x = divmod(row, 416 // stride)
                reach = []
                for side in range(4):
                    logits = outputs[3 + level][0, row, 8 * side : 8 * side + 8].astype(float)
                    weights = [math.exp(v) for v in logits]
                    reach.append(stride * sum(k * v for k, v in enumerate(weights)) / sum(weights))
                cx, cy = (x + 0.5) * stride, (y + 0.5) * stride
                box = [cx - reach[0], cy - reach[1], cx + reach[2], cy + reach[3]]
                classes = outputs[level][0, row]
                best = int(np.argmax(classes))
                found.append((classes[best], best, [v / 416 for v in box]))
    else:
        for y in range(22):
            for x in range(22):
                objectness, a, b, c, d, *classes = outputs[0][0, :, y, x]
                best = int(np.argmax(classes))
                cx, cy = (x + math.tanh(a)) / 22, (y + math.tanh(b)) / 22
                w, h = 1 / (1 + math.exp(-c)), 1 / (1 + math.exp(-d))
                score = objectness**0.6 * classes[best] ** 0.4
                found.append((score, best, [cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2]))
    return found


PHOTOS = {
    "bus/bus.jpg": 4,  # 810 x 1080: portrait
    "coffee.png": 1,  # 600 x 400: landscape
    "astronaut.png": 1,  # 512 x 512
}
"""Photo -> the least number of boxes at 0.4 that every model finds in it."""


@pytest.mark.real
@pytest.mark.parametrize("photo_name", list(PHOTOS))
@pytest.mark.parametrize("name", list(REAL))
def test_boxes_equal_a_second_decoding(real_data: Path, name: str, photo_name: str) -> None:
    """Every confident box equals the second decoding's within a pixel."""
    import onnxruntime
    from PIL import Image

    photo = Image.open(real_data / "photos" / photo_name).convert("RGB")
    width, height = photo.size
    side = 352 if name == "fastestdet" else 416
    inner = (round(width * 416 / max(photo.size)), round(height * 416 / max(photo.size)))
    inner = (side, side) if name == "fastestdet" else inner
    left, top = ((side - inner[0]) // 2, (side - inner[1]) // 2) if name == "nanodet" else (0, 0)
    cv2 = pytest.importorskip("cv2")
    how = cv2.INTER_AREA if name == "fastestdet" else cv2.INTER_LINEAR
    canvas = np.full((side, side, 3), 0 if name == "nanodet" else 114, np.uint8)
    canvas[top : top + inner[1], left : left + inner[0]] = cv2.resize(
        np.asarray(photo), inner, interpolation=how
    )
    bgr = np.asarray(canvas, np.float32)[:, :, ::-1]
    if name == "nanodet":
        bgr = (bgr - [103.53, 116.28, 123.675]) / [57.375, 57.12, 58.395]
    elif name == "fastestdet":
        bgr = bgr / 255
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(real_data / "weights" / REAL[name]), options)
    feed = {session.get_inputs()[0].name: bgr.transpose(2, 0, 1)[None].astype(np.float32)}
    second = second_decoding(name, session.run(None, feed))

    answer = real_victim(real_data, name).predict(np.asarray(photo)[None])[0]
    confident = answer.confidences >= 0.4
    assert confident.sum() >= PHOTOS[photo_name]
    for box, score, label in zip(
        answer.xyxy[confident], answer.confidences[confident], answer.labels, strict=False
    ):
        best = min((item for item in second if COCO_NAMES[item[1]] == label),
                   key=lambda item: abs(item[0] - score))  # fmt: skip
        assert COCO_NAMES[best[1]] == label
        shares = np.array(best[2]) * side - [left, top, left, top]
        expected = shares / np.array([*inner, *inner]) * [width, height, width, height]
        expected = np.clip(expected, 0, [width, height, width, height])
        assert np.abs(box - expected).max() < 1
        assert best[0] == pytest.approx(float(score), abs=1e-3)
