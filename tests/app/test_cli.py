"""The command line: quick to answer, one sentence and exit code 2 for bad input, nothing half-written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from app.cli import main
from app.commands.sweep import parse_plan
from scene.camera import Camera, save_camera
from scene.errors import InputError
from scene.gaussians import Gaussians
from scene.io import save_ply


@pytest.fixture()
def wall(tmp_path: Path) -> Path:
    """A textured wall of 40 x 30 Gaussians at z = 4, seen from the origin."""
    x, y = np.meshgrid(np.linspace(-1.6, 1.6, 40), np.linspace(-1.2, 1.2, 30))
    n = x.size
    means = np.stack([x.ravel(), y.ravel(), np.full(n, 4.0)], axis=1)
    colors = np.random.default_rng(0).uniform(-1, 1, (n, 1, 3))
    gaussians = Gaussians(
        means, np.tile([1.0, 0, 0, 0], (n, 1)), np.tile([0.07, 0.07, 0.01], (n, 1)),
        np.full(n, 0.95), colors,
    )  # fmt: skip
    save_ply(gaussians, tmp_path / "wall.ply")
    camera = Camera(np.eye(4), np.array([[90.0, 0, 48], [0, 90.0, 36], [0, 0, 1]]), 96, 72)
    save_camera(camera, tmp_path / "camera.json")
    Image.fromarray(np.full((16, 16, 3), 200, np.uint8)).save(tmp_path / "patch.png")
    return tmp_path


def fails(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command that must end in exit code 2 and one message without a traceback."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "Traceback" not in said
    return said


EMBED = ["--where.camera", "camera.json", "--where.pixel", "48", "36", "--where.width", "0.8",
         "--target.whole-scene", "--target.label", "stop sign"]  # fmt: skip


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom app.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as e:\n    assert e.code == 0\n"
        "heavy = {'torch', 'numba', 'transformers', 'viser', 'onnxruntime', 'matplotlib', 'scipy'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for command in ("view", "embed", "sweep", "envelope", "render", "inspect", "reconstruct",
                    "warmup", "make-demo", "train-demo", "make-patch"):  # fmt: skip
        assert command in done.stdout


def test_render_writes_the_picture(wall: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(wall)
    main(["render", "wall.ply", "--camera", "camera.json", "--background", "0", "0", "1",
          "--out", "out.png"])  # fmt: skip
    picture = np.asarray(Image.open("out.png"))
    assert picture.shape == (72, 96, 3)
    # 1.6 / 4 * 90 = 36 px on either side of the centre: column 0 is background
    assert picture[36, 0].tolist() == [0, 0, 255]
    assert picture[36, 48, 2] != 255


@pytest.mark.parametrize("content, word", [
    (b"", "empty"),
    (b"ply\nformat binary_little_endian 1.0\nelement vertex 5\nproperty float x\nend_header\n", ""),
    (b"ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\n"
     b"element face 1\nproperty list uchar int vertex_indices\nend_header\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n",
     "mesh"),
])  # fmt: skip
def test_bad_scene_files(
    wall: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    content: bytes, word: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(wall)
    Path("bad.ply").write_bytes(content)
    for arguments in (
        ["inspect", "bad.ply"],
        ["render", "bad.ply", "--camera", "camera.json", "--out", "out.png"],
        ["embed", "bad.ply", "--out", "run", "--patch", "patch.png", *EMBED],
    ):
        assert word in fails(arguments, capsys)
    assert not Path("out.png").exists() and not Path("run").exists()


def test_truncated_scene(
    wall: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(wall)
    whole = Path("wall.ply").read_bytes()
    Path("cut.ply").write_bytes(whole[: len(whole) * 2 // 3])
    assert "cut.ply" in fails(["inspect", "cut.ply"], capsys)


def test_wrong_patch_picture(
    wall: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(wall)
    Path("text.png").write_text("not a picture")
    said = fails(["embed", "wall.ply", "--out", "run", "--patch", "text.png", *EMBED], capsys)
    assert "text.png" in said
    assert not Path("run").exists()


def test_mask_of_the_wrong_size(
    wall: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(wall)
    Image.new("RGB", (96, 72)).save("attacked.png")
    Image.new("L", (95, 72), 255).save("mask.png")
    said = fails(["embed", "wall.ply", "--out", "run", "--image", "attacked.png", "--mask",
                  "mask.png", *EMBED[:2], *EMBED[7:]], capsys)  # fmt: skip
    assert "96x72" in said and "95x72" in said
    assert not Path("run").exists()


def test_embed_sweep_envelope_and_a_file_that_is_not_onnx(
    wall: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(wall)
    main(["embed", "wall.ply", "--out", "run", "--patch", "patch.png", *EMBED, "--iterations", "2",
          "--render-size", "96", "--json"])  # fmt: skip
    made = json.loads(capsys.readouterr().out)
    assert set(made["reports"]) == {"adversarial", "gray"}
    assert made["target_gaussians"] == 1200
    Path("model.onnx").write_text("not a model")
    before = Path("run/run.toml").read_bytes()
    said = fails(["sweep", "run", "--victims", "demo-detecter"], capsys)
    assert "there is no victim 'demo-detecter'" in said
    assert Path("run/run.toml").read_bytes() == before
    said = fails(["sweep", "run", "--victims", "onnx:model.onnx?preset=yolox", "--axes",
                  "azimuth_deg=-10,0", "--variants", "1", "--kinds", "clean"], capsys)  # fmt: skip
    assert "model.onnx" in said
    again = fails(["embed", "wall.ply", "--out", "run", "--patch", "patch.png", *EMBED], capsys)
    assert "exists" in again
    assert (Path("run") / "run.toml").is_file()


def test_an_ablation_leaves_out_what_it_names(
    wall: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(wall)
    main(["embed", "wall.ply", "--out", "run", "--patch", "patch.png", *EMBED, "--iterations", "1",
          "--kinds", "adversarial", "--without", "new", "keep", "--json"])  # fmt: skip
    report = json.loads(capsys.readouterr().out)["reports"]["adversarial"]
    left = {k: report["settings"][f"use_{k}"] for k in ("new", "old", "keep", "aux", "attachment")}
    assert left == {"new": False, "old": True, "keep": False, "aux": True, "attachment": True}
    assert "keep" not in report["losses"][0] and "patch" in report["losses"][0]


def test_axes_are_read() -> None:
    plan = parse_plan(("radius=1,2", "azimuth=-30:30:3"), ("clean",), 1, each=False)
    assert dict(plan.axes) == {"radius": (1.0, 2.0), "azimuth_deg": (-30.0, 0.0, 30.0)}
    for wrong in ("altitude", "radius=1:2", "radius=a,b", "radius=2:1:3"):
        with pytest.raises(InputError):
            parse_plan((wrong,), ("clean",), 1, each=False)
