"""ultralytics' families: real int8 weights, and small networks whose one box is known."""

from __future__ import annotations

import importlib.util
import io
from pathlib import Path

import numpy as np
import pytest
import torch
from ultralytics_fakes import CLASS, SIZE, expected_box, make, picture

from envelope.victims.protocols import Detector, ask
from envelope.victims.registry import list_victims, load_victim
from envelope.victims.ultralytics_model import import_ultralytics, place_for
from scene.errors import InputError

if importlib.util.find_spec("ultralytics") is None:
    pytest.skip("the extra yolo is not installed", allow_module_level=True)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("ultralytics")
    return {kind: make(folder, kind) for kind in ("v8", "11", "26", "world", "rtdetr")}


@pytest.mark.parametrize("kind", ["v8", "11", "26", "world"])
def test_the_known_box_lands(files: dict[str, Path], kind: str) -> None:
    """200x120 into 160x96: the one sure cell and its reach, undone; a swapped axis cannot pass."""
    family = "yolo-world" if kind == "world" else "ultralytics"
    victim = load_victim(f"{family}:{files[kind]}?size={SIZE}", "Stop-Sign")
    assert isinstance(victim, Detector)
    (found,) = ask(victim, picture(), "stop sign")
    assert found.labels == ("stop sign",)
    assert found.xyxy[0] == pytest.approx(expected_box("dense"), abs=0.01)
    assert found.xyxy[0] == pytest.approx([135, 15, 175, 45], abs=0.01)
    assert found.confidences[0] > 0.7
    assert victim.info.threshold == (0.3 if kind == "world" else 0.5)


@pytest.mark.parametrize("kind", ["v8", "26", "rtdetr", "world"])
@pytest.mark.parametrize("column", [0, 4])
def test_nan_of_the_network_is_an_error(
    files: dict[str, Path], kind: str, column: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coordinate or a score: such a row was dropped, and read as an object not found."""
    family = "yolo-world" if kind == "world" else "ultralytics"
    victim = load_victim(f"{family}:{files[kind]}?size={SIZE}")
    run = victim._run

    def broken(batch: torch.Tensor) -> torch.Tensor:
        rows = run(batch)[0].clone()
        place = (0, column) if kind in ("v8", "world") else (0, slice(None), column)
        rows[place] = torch.nan
        return rows

    monkeypatch.setattr(victim, "_run", broken)
    with pytest.raises(InputError, match="wanted finite numbers from the network"):
        ask(victim, picture(), "stop sign")


def test_rtdetr_lands_in_a_stretched_input(files: dict[str, Path]) -> None:
    """Its anchor: centre (14.5, 5.5) cells of 20, a twentieth of the input either way."""
    victim = load_victim(f"ultralytics:{files['rtdetr']}?size={SIZE}", "stop sign")
    (found,) = victim.predict(picture())
    assert found.labels == ("stop sign",)
    assert found.xyxy[0] == pytest.approx([140, 30, 150, 36], abs=0.02)
    assert found.confidences[0] == pytest.approx(1 / (1 + np.exp(-2)), abs=1e-4)
    assert victim.info.settings["nms_iou"] is None


@pytest.mark.parametrize("kind", ["v8", "rtdetr"])
def test_the_packages_own_prediction_is_the_same(files: dict[str, Path], kind: str) -> None:
    """ultralytics' whole pipeline on the same picture: same box, class and confidence."""
    import ultralytics

    loader = ultralytics.RTDETR if kind == "rtdetr" else ultralytics.YOLO
    bgr = np.ascontiguousarray(picture()[0, :, :, ::-1])
    (theirs,) = loader(str(files[kind])).predict(bgr, imgsz=SIZE, conf=0.05, device="cpu")
    (ours,) = load_victim(f"ultralytics:{files[kind]}?size={SIZE}").predict(picture())
    assert ours.xyxy == pytest.approx(theirs.boxes.xyxy.numpy(), abs=0.05)
    assert ours.confidences == pytest.approx(theirs.boxes.conf.numpy(), abs=1e-3)
    assert [int(c) for c in theirs.boxes.cls] == [CLASS]


@pytest.mark.parametrize("kind", ["v8", "11", "26", "world", "rtdetr"])
def test_white_box(files: dict[str, Path], kind: str) -> None:
    """Gradients reach the pixels and lead down; weights and mode stay as they were."""
    family = "yolo-world" if kind == "world" else "ultralytics"
    victim = load_victim(f"{family}:{files[kind]}?size={SIZE}", "stop sign")
    before = {name: value.clone() for name, value in victim.model.state_dict().items()}
    victim.predict(picture())  # what a prediction keeps must not hinder gradients
    images = torch.from_numpy(picture().astype(np.float32) / 255).permute(0, 3, 1, 2)
    images = images.repeat(2, 1, 1, 1).requires_grad_()
    loss = victim.suppression_loss(images, "stop-sign")
    assert loss.shape == (2,)
    loss.sum().backward()
    assert images.grad is not None
    assert torch.isfinite(images.grad).all()
    if kind != "rtdetr":  # whose scores are constants here
        assert images.grad[0].abs().sum() > 0
        step = 2e-5 * images.grad / images.grad.abs().max()
        assert victim.suppression_loss(images.detach() - step, "stop sign")[0] < loss[0]
    after = victim.model.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    assert not victim.model.training
    assert not any(parameter.requires_grad for parameter in victim.model.parameters())


def test_batches_and_single_pictures_agree(files: dict[str, Path]) -> None:
    victim = load_victim(f"ultralytics:{files['v8']}?size={SIZE}")
    both = victim.predict(np.concatenate([picture(), picture()[:, ::-1]]))
    assert both[0].xyxy == pytest.approx(victim.predict(picture())[0].xyxy, abs=1e-3)
    assert len(both) == 2
    assert victim.predict(picture()[:0]) == []


def test_rectangles_and_squares() -> None:
    # 200x120 at 160: scale 0.8, 96 rows are three strides; a square has 32 rows above and below
    tight, square = (
        place_for("dense", 160)(200, 120),
        place_for("dense", 160, square=True)(200, 120),
    )
    assert (tight.width, tight.height, tight.inner_height, tight.top) == (160, 96, 96, 0)
    assert (square.width, square.height, square.inner_height, square.top) == (160, 160, 96, 32)
    strip = place_for("dense", 640)(1000, 100)
    assert (strip.height, strip.inner_height, strip.top) == (64, 64, 0)
    thin = place_for("dense", 640)(1000, 90)  # 57.6 -> 58 rows, three free above
    assert (thin.height, thin.inner_height, thin.top) == (64, 58, 3)


def test_world_words_by_clip(files: dict[str, Path], tmp_path: Path) -> None:
    """A small CLIP text tower with 512 features, from a folder: any words, asked one by one."""
    folder = tiny_clip(tmp_path / "clip", 512)
    victim = load_victim(f"yolo-world:{files['world']}?size={SIZE}&clip={folder}", "red kite")
    assert victim.info.labels == ()
    assert victim.info.settings["text"] == "clip"
    answers = ask(victim, picture(), "Red_Kite")
    assert victim.prompt_for("Red_Kite") == "red kite"
    assert {label for answer in answers for label in answer.labels} <= {"red kite"}
    assert victim.model.txt_feats.shape == (1, 1, 512)
    assert victim.model.txt_feats.norm() == pytest.approx(1.0, abs=1e-5)
    first = victim.model.txt_feats.clone()
    ask(victim, picture(), "dog")
    assert not torch.equal(first, victim.model.txt_feats)
    narrow = tiny_clip(tmp_path / "narrow", 32)
    with pytest.raises(InputError, match=r"512 text features.*found 32"):
        load_victim(f"yolo-world:{files['world']}?clip={narrow}")


def test_a_text_tower_is_known_by_its_tokenizer_and_complete(
    files: dict[str, Path], tmp_path: Path
) -> None:
    """Other token numbers are other words; weights that are lacking would be random ones."""
    from safetensors.torch import load_file, save_file

    folder = tiny_clip(tmp_path / "clip", 512)
    spec = f"yolo-world:{files['world']}?size={SIZE}&clip={folder}"
    first = load_victim(spec).info.settings
    words = folder / "tokenizer.json"
    words.write_text(words.read_text().replace('"red"', '"tmp"').replace('"dog"', '"red"'))
    second = load_victim(spec).info.settings
    assert first["clip"] == second["clip"]
    assert first != second
    weights = load_file(folder / "model.safetensors")
    del weights["text_projection.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match=r"lacks 1 of the model's weights, such as text_proj"):
        load_victim(spec)


def tiny_clip(folder: Path, width: int) -> Path:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import CLIPTextConfig, CLIPTextModelWithProjection, PreTrainedTokenizerFast

    words = ["[PAD]", "[END]", "red", "kite", "dog"]
    tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, "[END]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", eos_token="[END]")
    fast.model_max_length = 16
    fast.save_pretrained(folder)
    torch.manual_seed(1)
    config = CLIPTextConfig(
        vocab_size=5, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, projection_dim=width, eos_token_id=1,
    )  # fmt: skip
    CLIPTextModelWithProjection(config).save_pretrained(folder)
    return folder


def test_world_without_clip_refuses_other_words(files: dict[str, Path]) -> None:
    with pytest.raises(InputError) as caught:
        load_victim(f"yolo-world:{files['world']}", "stop sing")
    message = str(caught.value)
    assert "near names: stop sign" in message
    assert "?clip=FOLDER of openai/clip-vit-base-patch32" in message
    with pytest.raises(InputError, match="holds no CLIP checkpoint; get one with: hf download"):
        load_victim(f"yolo-world:{files['world']}?clip=/nowhere", "dog")


def test_files_that_are_refused(files: dict[str, Path], tmp_path: Path) -> None:
    trap = tmp_path / "trap.pt"
    torch.save({"model": _Trap()}, trap)
    junk = tmp_path / "junk.pt"
    junk.write_bytes(b"not a model")
    onnx = tmp_path / "junk.onnx"
    onnx.write_bytes(b"not a model")
    cases = {
        f"ultralytics:{trap}": "without running code",
        f"ultralytics:{junk}": "cannot be read as an ultralytics checkpoint",
        f"ultralytics:{onnx}": "cannot be read as a model that ultralytics exported",
        f"ultralytics:{tmp_path}/none.pt": "there is no file",
        f"ultralytics:{__file__}": "wanted a .pt or .onnx file",
        f"ultralytics:{files['world']}": "write yolo-world:",
        f"yolo-world:{files['v8']}": "wanted a YOLO-World checkpoint",
        f"ultralytics:{files['v8']}?size=7": "size wants a number in 32..4096",
        f"ultralytics:{files['v8']}?size=205": "a multiple of 32, found 205; 192 is near",
        "ultralytics": "wanted a path after the colon",
    }
    for spec, message in cases.items():
        with pytest.raises(InputError) as caught:
            load_victim(spec)
        assert message in str(caught.value), spec
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "ran").exists()


class _Trap:
    """Would leave a file behind if it were unpickled."""

    def __reduce__(self) -> tuple:
        return (Path.touch, (Path("ran"),))


def test_named_models_are_local_files(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADVSCENE_WEIGHTS", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    listed = {row.name: row for row in list_victims()}
    assert listed["yolov8x"].state.startswith("needs file: curl -L --create-dirs -o")
    assert listed["yolov8x"].command.endswith("/v8.4.0/yolov8x.pt")
    assert "AGPL-3.0" in listed["yolo26s"].licence
    with pytest.raises(InputError, match=r"no weights here; get them with: curl .*/yolo26s\.pt"):
        load_victim("yolo26s")
    (tmp_path / "yolo26s.pt").write_bytes(files["26"].read_bytes())
    assert {row.name: row for row in list_victims()}["yolo26s"].ready
    assert load_victim("yolo26s").info.settings["head"] == "end2end"


def test_an_absent_package_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'advscene-inspector\[yolo\]'"):
        load_victim("yolov8n")


@pytest.mark.real
def test_real_int8_weights(real_data: Path) -> None:
    """yolov8n-int8 on the bus: the known scores, and boxes equal to a decoding in plain numpy."""
    import cv2
    import onnxruntime
    from PIL import Image

    weights = real_data / "weights" / "yolov8n-int8" / "yolov8n_int8.onnx"
    photo = Image.open(real_data / "photos" / "bus" / "bus.jpg").convert("RGB")  # 810 x 1080
    victim = load_victim(f"ultralytics:{weights}", "person")
    (found,) = victim.predict(np.asarray(photo)[None])
    people = found.of_label("person").confidences[:3]
    assert people == pytest.approx([0.90, 0.90, 0.89], abs=0.005)
    assert found.of_label("bus").confidences[0] == pytest.approx(0.83, abs=0.005)
    assert not hasattr(victim, "suppression_loss")

    canvas = np.full((640, 640, 3), 114, np.float32)  # 480 x 640 in the middle of the square
    canvas[:, 80:560] = cv2.resize(np.asarray(photo), (480, 640))
    session = onnxruntime.InferenceSession(str(weights))
    feed = {session.get_inputs()[0].name: canvas.transpose(2, 0, 1)[None] / np.float32(255)}
    rows = session.run(None, feed)[0][0].T
    checked = 0
    for box, confidence, label in zip(found.xyxy, found.confidences, found.labels, strict=True):
        if confidence < 0.5:
            continue
        names = victim.info.labels
        column = rows[:, 4 + names.index(label)]
        x, y, w, h = rows[np.abs(column - confidence) < 1e-4, :4].T
        second = np.stack([x - w / 2 - 80, y - h / 2, x + w / 2 - 80, y + h / 2], axis=1) * 1.6875
        apart = np.abs(box - np.clip(second, 0, [810, 1080, 810, 1080])).max(axis=1)
        assert apart.min() < 0.1
        checked += 1
    assert checked == 4


def test_its_import_changes_no_other_library() -> None:
    """Its own Image.open looks for pi_heif whenever a picture is damaged, in the whole process."""
    import cv2
    from PIL import Image

    printed = np.get_printoptions()
    import_ultralytics()
    assert Image.open.__module__ == "PIL.Image"
    assert torch.save.__module__ == "torch.serialization"
    assert "ultralytics" not in (cv2.imread.__module__ or "")
    assert np.get_printoptions() == printed
    with pytest.raises(Image.UnidentifiedImageError):
        Image.open(io.BytesIO(b"no picture"))
