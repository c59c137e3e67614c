"""ONNX victims beyond decoding: white box by torch, classifiers, exports of ultralytics."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from envelope.victims import decode_yolov8
from envelope.victims.coco_names import COCO_NAMES
from envelope.victims.hashes import files_sha256
from envelope.victims.onnx import PRESETS, OnnxDetector, OnnxOptions, load_onnx
from envelope.victims.protocols import VictimInfo
from envelope.victims.registry import load_victim
from scene.errors import InputError

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnx2torch")

REAL = {
    "yolox": "yolox-nano/yolox_nano.onnx",
    "nanodet": "nanodet-m/nanodet_m.onnx",
    "fastestdet": "fastestdet/FastestDet.onnx",
}


@pytest.mark.real
@pytest.mark.parametrize("name", list(REAL))
def test_the_torch_twin_answers_the_same(real_data: Path, name: str) -> None:
    """Stated difference small; scores from torch equal the adapter's own on a real photo."""
    import torch

    path = real_data / "weights" / REAL[name]
    before = files_sha256([path])
    victim = load_onnx(path, OnnxOptions())
    assert victim.twin.difference < 1e-3
    weights = {k: v.clone() for k, v in victim.twin.network.state_dict().items()}
    photo = sign_photo(real_data)
    images = torch.from_numpy(photo.astype(np.float32) / 255).permute(0, 3, 1, 2)
    box = victim.preset.fit(photo.shape[2], photo.shape[1], *victim.info.input_size)
    prepared = victim.twin.prepared(images, box)
    ours = victim._tensor(photo, box)
    assert np.abs(prepared.numpy() - ours).max() < 0.02 * np.abs(ours).max()

    index = victim.info.labels.index("stop sign")
    with torch.no_grad():
        scores = victim.twin._scores(victim.twin.outputs(prepared))[0, :, index]
    surest = victim.predict(photo)[0].of_label("stop sign").confidences[0]
    assert float(scores.max()) == pytest.approx(float(surest), abs=0.02)

    images.requires_grad_()
    loss = victim.suppression_loss(images, "stop_sign")
    assert loss.shape == (1,)
    loss.sum().backward()
    assert images.grad is not None
    assert torch.isfinite(images.grad).all()
    assert images.grad.abs().sum() > 0
    assert files_sha256([path]) == before
    after = victim.twin.network.state_dict()
    assert all(torch.equal(value, after[key]) for key, value in weights.items())
    assert not victim.twin.network.training
    assert not any(p.requires_grad for p in victim.twin.network.parameters())


@pytest.mark.real
@pytest.mark.parametrize("name", list(REAL))
def test_a_few_steps_hide_a_real_sign(real_data: Path, name: str) -> None:
    """Descent on the loss through torch lowers the score that onnxruntime gives."""
    import torch

    victim = load_onnx(real_data / "weights" / REAL[name], OnnxOptions())
    photo = sign_photo(real_data)
    images = torch.from_numpy(photo.astype(np.float32) / 255).permute(0, 3, 1, 2)
    for _ in range(6):
        images.requires_grad_()
        victim.suppression_loss(images, "stop sign").sum().backward()
        assert images.grad is not None
        images = (images.detach() - 4 / 255 * images.grad.sign()).clamp(0, 1)
    shown = (images[0].permute(1, 2, 0).numpy() * 255).round().astype(np.uint8)
    first, last = (
        victim.predict(p)[0].of_label("stop sign").confidences[:1].sum()
        for p in (photo, shown[None])
    )
    assert first > 0.6
    assert last < 0.5 * first


def sign_photo(real_data: Path) -> np.ndarray:
    """(1, 300, 420, 3): a real sign off the middle of a gray frame that is not square."""
    from PIL import Image

    photo = Image.open(real_data / "photos" / "stop_signs" / "1.png").convert("RGB")
    canvas = np.full((1, 300, 420, 3), 128, np.uint8)
    canvas[0, 20:276, 140:396] = np.asarray(photo.resize((256, 256)))
    return canvas


@pytest.mark.real
def test_quantised_files_give_no_gradients(real_data: Path) -> None:
    path = real_data / "weights" / "yolov8n-int8" / "yolov8n_int8.onnx"
    victim = load_victim(f"onnx:{path}", "person")
    assert victim.info.settings["preset"] == "yolov8"
    with pytest.raises(InputError, match="cannot be turned into a network with gradients"):
        hasattr(victim, "suppression_loss")


@pytest.mark.real
def test_two_adapters_of_one_export_agree(real_data: Path) -> None:
    """The plain preset and ultralytics' own runtime, which lays pictures in by OpenCV: alike."""
    from PIL import Image

    path = real_data / "weights" / "yolov8n-int8" / "yolov8n_int8.onnx"
    photo = np.asarray(Image.open(real_data / "photos" / "bus" / "bus.jpg").convert("RGB"))[None]
    (plain,) = load_victim(f"onnx:{path}").predict(photo)
    if importlib.util.find_spec("ultralytics") is None:
        pytest.skip("the extra yolo is not installed")
    (other,) = load_victim(f"ultralytics:{path}").predict(photo)
    assert plain.labels[:4] == ("person", "person", "person", "bus")
    sure = other.confidences > 0.5
    for box, confidence in zip(other.xyxy[sure], other.confidences[sure], strict=True):
        apart = np.abs(plain.xyxy - box).max(axis=1)
        assert apart.min() < 0.01
        assert plain.confidences[apart.argmin()] == pytest.approx(confidence, abs=1e-5)


def test_yolov8_hand_worked() -> None:
    # 64x32: 42 cells; the fifth row of the map is class 0
    rows = np.zeros((6, 42), np.float32)
    rows[:, 40] = [30, 12, 20, 8, 0.2, 0.7]
    out = decode_yolov8.decode([rows], 64, 32)
    assert out.xyxy[40] == pytest.approx([20, 8, 40, 16])
    assert out.scores[40] == pytest.approx([0.2, 0.7])
    assert decode_yolov8.fits([(6, 42)], 64, 32)
    assert not decode_yolov8.fits([(42, 6)], 64, 32)
    assert not PRESETS["yolox"].fits([(6, 42)], 64, 32)


@pytest.mark.parametrize("preset", list(PRESETS))
def test_nan_of_the_network_is_an_error(preset: str) -> None:
    """In the last output's last value, whichever that is: a share of objectness is clipped away."""
    shapes = {
        "yolox": [(21, 85)], "yolox-decoded": [(21, 85)], "yolov8": [(84, 21)], "fastestdet": [(85, 2, 2)],
        "nanodet": [(16, 80), (4, 80), (1, 80), (16, 32), (4, 32), (1, 32)],
    }[preset]  # fmt: skip
    outputs = [np.zeros((1, *shape), np.float32) for shape in shapes]

    class Session:
        def get_inputs(self) -> list:
            return [SimpleNamespace(name="x", shape=[1, 3, 32, 32])]

        def run(self, _names: None, _inputs: dict) -> list[np.ndarray]:
            return outputs

    info = VictimInfo(
        "broken", "detector", "", "", (32, 32), 0.5, "", COCO_NAMES,
        {"kept_confidence": 0.05, "nms_iou": 0.5},
    )  # fmt: skip
    victim = OnnxDetector(Session(), PRESETS[preset], info)
    images = np.zeros((1, 20, 30, 3), np.uint8)
    victim.predict(images)
    for bad in (np.nan, np.inf):
        outputs[-1][0, -1, -1] = bad
        with pytest.raises(InputError, match="broken: wanted finite numbers from the network"):
            victim.predict(images)


def classifier_file(
    path: Path, shares: bool = False, batch: int | str = "n", last: str = "Softmax"
) -> Path:
    """Classes red, green, blue: the picture's mean channels, times ten; `last` on request."""
    from onnx import TensorProto, helper, numpy_helper

    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "w"], ["y" if not shares else "l"]),
    ]
    if shares:
        more = {"axis": 1} if last == "Softmax" else {}
        nodes.append(helper.make_node(last, ["l"], ["y"], **more))
    weights = numpy_helper.from_array(10 * np.eye(3, dtype=np.float32), "w")
    graph = helper.make_graph(
        nodes, "colors",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, 16, 24])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 3])],
        [weights],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, str(path))
    return path


def yolox_rows(decoded: bool = False, certainty: float = 0.8) -> np.ndarray:
    """(1, 21, 85) of a 32 x 32 input: a stop sign of 12 x 6 px about (14, 9), in cell (1, 1)."""
    rows = np.zeros((1, 21, 85), np.float32)
    rows[0, 5, :4] = [14 / 8 - 1, 9 / 8 - 1, np.log(12 / 8), np.log(6 / 8)]
    rows[0, 5, 4], rows[0, 5, 5 + COCO_NAMES.index("stop sign")] = 0.9, certainty
    if decoded:
        places = [(s * (x + 0.5), s * (y + 0.5)) for s in (8, 16, 32)
                  for y in range(32 // s) for x in range(32 // s)]  # fmt: skip
        rows[0, :, :2] = places
        rows[0, 5, :4] = [14, 9, 12, 6]
    return rows


def detector_file(path: Path, rows: np.ndarray | None = None) -> Path:
    """YOLOX's outputs of a 32 x 32 input, always the same."""
    from onnx import TensorProto, helper, numpy_helper

    rows = yolox_rows() if rows is None else rows
    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["p"]),
        helper.make_node("ReduceMax", ["p"], ["m"], keepdims=0),
        helper.make_node("Mul", ["m", "nothing"], ["n"]),
        helper.make_node("Add", ["n", "rows"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "rows",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 32, 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 21, 85])],
        [numpy_helper.from_array(rows, "rows"), numpy_helper.from_array(np.float32(0), "nothing")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, str(path))
    return path


def labels_file(folder: Path, *names: str) -> Path:
    path = folder / "labels.txt"
    path.write_text("\n".join(names))
    return path


@pytest.mark.parametrize("shares", [False, True])
@pytest.mark.parametrize("batch", [1, "n"])
def test_classifier_files(tmp_path: Path, shares: bool, batch: int | str) -> None:
    labels = labels_file(tmp_path, "red", "green", "blue")
    path = classifier_file(tmp_path / "colors.onnx", shares, batch)
    victim = load_victim(f"onnx-classifier:{path}?labels={labels}&mean=0&std=1", "Green")
    images = np.zeros((2, 30, 50, 3), np.uint8)
    images[0, ..., 1] = 255
    images[1, ..., 2] = 51  # a fifth: logits 0, 0, 2
    green, blue = victim.predict(images)
    assert (green.top, blue.top) == ("green", "blue")
    assert blue.probabilities[2] == pytest.approx(np.exp(2) / (np.exp(2) + 2), abs=1e-5)
    assert victim.info.input_size == (24, 16)
    assert victim.info.settings["answers"] == ("probabilities" if shares else "logits")


@pytest.mark.parametrize("decoded", [False, True])
@pytest.mark.parametrize("preset", ["", "?preset=yolox", "?preset=yolox-decoded"])
def test_yolox_exports_with_and_without_their_decoding(
    tmp_path: Path, decoded: bool, preset: str
) -> None:
    """Both have the same shapes; decoding twice gave boxes as large as the picture."""
    path = detector_file(tmp_path / "x.onnx", yolox_rows(decoded))
    victim = load_victim(f"onnx:{path}{preset}", "stop sign")
    assert victim.info.settings["preset"] == ("yolox-decoded" if decoded else "yolox")
    (found,) = victim.predict(np.zeros((1, 48, 64, 3), np.uint8))  # halved into the input
    assert found.labels == ("stop sign",)
    assert found.xyxy[0] == pytest.approx([16, 12, 40, 24], abs=1e-4)
    assert found.confidences[0] == pytest.approx(0.72)


@pytest.mark.real
def test_a_real_yolox_with_its_decoding(real_data: Path, tmp_path: Path) -> None:
    """The real file with the decoding put behind it, as its exporter can: the same boxes."""
    from onnx import helper, numpy_helper

    raw = real_data / "weights" / REAL["yolox"]
    model = onnx.load(str(raw))
    last = model.graph.output[0].name
    sides = [416 // stride for stride in (8, 16, 32)]
    cells = np.concatenate([np.indices((n, n))[::-1].reshape(2, -1).T for n in sides])
    stride = np.concatenate([np.full((n * n, 1), 416 // n) for n in sides])
    for name, value in (("cells", cells), ("stride", stride), ("cuts", np.array([2, 2, 81]))):
        kind = np.int64 if name == "cuts" else np.float32
        model.graph.initializer.append(numpy_helper.from_array(value.astype(kind), name))
    model.graph.node.extend([
        helper.make_node("Split", [last, "cuts"], ["xy", "wh", "rest"], axis=2),
        helper.make_node("Add", ["xy", "cells"], ["at"]),
        helper.make_node("Mul", ["at", "stride"], ["centers"]),
        helper.make_node("Exp", ["wh"], ["grown"]),
        helper.make_node("Mul", ["grown", "stride"], ["sizes"]),
        helper.make_node("Concat", ["centers", "sizes", "rest"], ["decoded"], axis=2),
    ])  # fmt: skip
    model.graph.output[0].name = "decoded"
    if model.opset_import[0].version < 13:  # Split takes its sizes as an input since then
        model = onnx.version_converter.convert_version(model, 13)
    onnx.save(model, str(tmp_path / "decoded.onnx"))
    photo = sign_photo(real_data)
    (wanted,) = load_victim(f"onnx:{raw}").predict(photo)
    (found,) = load_victim(f"onnx:{tmp_path / 'decoded.onnx'}").predict(photo)
    assert found.labels == wanted.labels
    assert found.xyxy == pytest.approx(wanted.xyxy, abs=0.05)


def test_scores_that_are_no_shares_are_refused(tmp_path: Path) -> None:
    """An export without its last sigmoid: every logit above a half counted as a sure object."""
    path = detector_file(tmp_path / "x.onnx", yolox_rows(certainty=3.0))
    victim = load_victim(f"onnx:{path}")
    with pytest.raises(InputError, match=r"class scores want 0\.\.1, found 0\.\.2\.7"):
        victim.predict(np.zeros((1, 32, 32, 3), np.uint8))


def test_only_fastestdets_own_map_is_taken_for_one() -> None:
    fits = PRESETS["fastestdet"].fits
    assert fits([(85, 22, 22)], 352, 352)
    assert not fits([(85, 44, 44)], 352, 352)
    assert not fits([(85, 352, 352)], 352, 352)


def test_answers_of_quantised_files_do_not_hang_on_the_batch(tmp_path: Path) -> None:
    """Activations are scaled by what a call holds: a bright picture changed a dark one's answer."""
    from onnxruntime.quantization import quantize_dynamic

    labels = labels_file(tmp_path, "red", "green", "blue")
    plain = classifier_file(tmp_path / "plain.onnx", batch="n")
    quantize_dynamic(str(plain), str(tmp_path / "small.onnx"))
    victim = load_victim(f"onnx-classifier:{tmp_path / 'small.onnx'}?labels={labels}&mean=0&std=1")
    images = np.zeros((2, 16, 24, 3), np.uint8)
    images[0, :8], images[0, 8:] = [3, 5, 4], [4, 6, 5]  # means between the steps of 1
    images[1] = [255, 200, 250]
    together = victim.predict(images)
    alone = [victim.predict(images[n : n + 1])[0] for n in range(2)]
    for first, second in zip(together, alone, strict=True):
        assert first.probabilities == pytest.approx(second.probabilities, abs=1e-7)
    feed = {"x": victim._tensor(images)}
    both = victim.session.run(None, feed)[0]
    assert np.abs(both[0] - victim.session.run(None, {"x": feed["x"][:1]})[0][0]).max() > 1e-3


def test_independent_chances_are_not_a_classifiers(tmp_path: Path) -> None:
    """A softmax over them flattened 0.99 against 0.5 to 0.45 against 0.28: a wrong confidence."""
    labels = labels_file(tmp_path, "red", "green", "blue")
    path = classifier_file(tmp_path / "colors.onnx", True, last="Sigmoid")
    spec = f"onnx-classifier:{path}?labels={labels}&mean=0&std=1"
    with pytest.raises(InputError, match=r"lie in 0-1 but sum to .*sigmoids.*say \?output=logits"):
        load_victim(spec)
    images = np.zeros((1, 16, 24, 3), np.uint8)
    images[..., 1] = 255
    with pytest.raises(InputError, match=r"output=probabilities, but its answers are in 0\..* sum"):
        load_victim(f"{spec}&output=probabilities")
    (found,) = load_victim(f"{spec}&output=logits").predict(images)
    wanted = np.exp([0.5, 1 / (1 + np.exp(-10)), 0.5])
    assert found.probabilities == pytest.approx(wanted / wanted.sum(), abs=1e-5)


def test_logits_that_look_like_probabilities_once(tmp_path: Path) -> None:
    """Shares of one picture by chance: the others tell. And what the user says stands."""
    noise = np.random.default_rng(0).normal(0, 1, (1, 3, 16, 24)).astype(np.float32)
    means = 10 * noise.mean(axis=(0, 2, 3))
    path = classifier_file(tmp_path / "colors.onnx")
    model = onnx.load(str(path))
    model.graph.node[2].output[0] = "m"
    offset = (np.array([0.2, 0.3, 0.5]) - means).astype(np.float32)[None]
    model.graph.initializer.append(onnx.numpy_helper.from_array(offset, "b"))
    model.graph.node.append(onnx.helper.make_node("Add", ["m", "b"], ["y"]))
    onnx.save(model, str(path))
    labels = labels_file(tmp_path, "red", "green", "blue")
    spec = f"onnx-classifier:{path}?labels={labels}&mean=0&std=1"
    assert load_victim(spec).info.settings["answers"] == "logits"
    victim = load_victim(f"{spec}&output=logits")
    assert victim.info.settings["answers"] == "logits"
    # had they been taken for probabilities, a later picture would say so
    victim.info = replace(
        victim.info, settings={**victim.info.settings, "answers": "probabilities"}
    )
    with pytest.raises(
        InputError, match=r"taken for probabilities, but these sum to .*output=logits"
    ):
        victim.predict(np.full((1, 16, 24, 3), 255, np.uint8))
    with pytest.raises(InputError, match="output wants logits or probabilities, found 'sigmoid'"):
        load_victim(f"{spec}&output=sigmoid")


def test_classifier_crop_keeps_the_middle(tmp_path: Path) -> None:
    """A 100x40 picture, blue at its outer fifths: only a stretch sees them."""
    labels = labels_file(tmp_path, "red", "green", "blue")
    path = classifier_file(tmp_path / "colors.onnx")
    images = np.zeros((1, 40, 100, 3), np.uint8)
    images[..., 0] = 128
    images[0, :, :20] = images[0, :, 80:] = (0, 0, 255)
    spec = f"onnx-classifier:{path}?labels={labels}&mean=0&std=1"
    (stretched,) = load_victim(spec).predict(images)
    (cropped,) = load_victim(spec + "&fit=crop").predict(images)
    (swapped,) = load_victim(spec + "&fit=crop&bgr=yes").predict(images)
    assert stretched.probabilities[2] > 0.6
    assert cropped.probabilities[2] < 0.01
    assert swapped.top == "blue"


def test_classifier_mistakes(tmp_path: Path) -> None:
    path = classifier_file(tmp_path / "colors.onnx")
    two = labels_file(tmp_path, "red", "green")
    cases = {
        f"onnx-classifier:{path}": "wanted a file with the class names",
        f"onnx-classifier:{path}?labels={two}": "answers 3 numbers (shape [1, 3]), but",
        f"onnx-classifier:{path}?labels={two}&fit=zoom": "fit wants stretch or crop",
        f"onnx-classifier:{tmp_path}/no.onnx?labels={two}": "there is no file",
        "onnx-classifier": "wanted a path after the colon",
    }
    for spec, message in cases.items():
        with pytest.raises(InputError) as caught:
            load_victim(spec)
        assert message in str(caught.value)
    three = labels_file(tmp_path, "red", "green", "blue")
    for option in ("std=0", "mean=1,2", "mean=a,b,c", "std=nan"):
        with pytest.raises(InputError, match=r"wants three numbers such as 0\.\d"):
            load_victim(f"onnx-classifier:{path}?labels={three}&{option}")


def test_weights_beside_the_file_are_part_of_its_hash(tmp_path: Path) -> None:
    """A large export keeps its tensors in another file: retrained weights are another model."""
    labels = labels_file(tmp_path, "red", "green", "blue")
    plain = classifier_file(tmp_path / "plain.onnx")
    model = onnx.load(str(plain))
    spec = f"onnx-classifier:{tmp_path / 'split.onnx'}?labels={labels}&mean=0&std=1"
    hashes, tops = [], []
    for order in ((0, 1, 2), (2, 1, 0)):
        weights = 10 * np.eye(3, dtype=np.float32)[list(order)]
        model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weights, "w"))
        (tmp_path / "split.weights").unlink(missing_ok=True)  # it would be added to
        onnx.save(
            model, str(tmp_path / "split.onnx"), save_as_external_data=True, size_threshold=0,
            location="split.weights", convert_attribute=True,
        )  # fmt: skip
        assert (tmp_path / "split.weights").stat().st_size == 36
        victim = load_victim(spec)
        red = np.zeros((1, 16, 24, 3), np.uint8)
        red[..., 0] = 255
        hashes.append(victim.info.weights_hash)
        tops.append(victim.predict(red)[0].top)
        model = onnx.load(str(tmp_path / "split.onnx"))
    assert tops == ["red", "blue"]
    assert hashes[0] != hashes[1]


def test_another_list_of_names_is_another_victim(tmp_path: Path) -> None:
    """Answers under wrong names stayed in the store after the file was put right."""
    path = classifier_file(tmp_path / "colors.onnx")
    spec = f"onnx-classifier:{path}?labels={labels_file(tmp_path, 'red', 'green', 'blue')}"
    first = load_victim(spec).info
    labels_file(tmp_path, "blue", "green", "red")
    second = load_victim(spec).info
    assert first.weights_hash == second.weights_hash
    assert first.settings != second.settings
