"""Driving a nerfstudio environment: a made-up one of small scripts that does what its docs say."""

import json
import stat
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scene.camera import Camera
from scene.capture import Capture, Frame, FrameMask
from scene.captures import load_capture
from scene.errors import InputError
from scene.gaussians import Gaussians
from scene.io import save_ply
from scene.normalisation import Normalisation
from scene.reconstruct.capture_folder import write_capture_folder
from scene.reconstruct.nerfstudio import Nerfstudio, train_with_nerfstudio
from scene.reconstruct.options import ReconstructOptions
from scene.reconstruct.settings import ReconstructSettings

CHANGE = Normalisation(
    np.array([[0.0, -1, 0, 0.5], [1, 0, 0, -2], [0, 0, 1, 3]]), 0.25
)  # a quarter turn about z, a shift, a quarter of the size

TRAIN = """#!{python}
import json, pathlib, shutil, sys
arguments = sys.argv[1:]
given = dict(zip(arguments, arguments[1:]))
data = pathlib.Path(given["--data"])
assert arguments[0] == "splatfacto" and "nerfstudio-data" in arguments, arguments
content = json.loads(data.read_text())
assert (data.parent / content["frames"][0]["file_path"]).is_file()
run = pathlib.Path(given["--output-dir"], given["--experiment-name"], "splatfacto",
                   given["--timestamp"])
run.mkdir(parents=True)
(run / "config.yml").write_text("method_name: splatfacto")
shutil.copy(pathlib.Path(__file__).parent / "change.json", run / "dataparser_transforms.json")
print("Step (% Done)", given["--max-num-iterations"])
print("warning on the other stream", file=sys.stderr)
"""
EXPORT = """#!{python}
import pathlib, shutil, sys
given = dict(zip(sys.argv[1:], sys.argv[2:]))
assert sys.argv[1] == "gaussian-splat"
assert pathlib.Path(given["--load-config"]).name == "config.yml"
out = pathlib.Path(given["--output-dir"])
out.mkdir(parents=True)
shutil.copy(pathlib.Path(__file__).parent / "trained.ply", out / "splat.ply")
print("exported")
"""
FAILING = """#!{python}
print("loading")
print("CUDA out of memory; $(touch pwned)")
raise SystemExit(3)
"""


def _program(path: Path, text: str) -> None:
    path.write_text(text.replace("{python}", sys.executable))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def _scene() -> Gaussians:
    rng = np.random.default_rng(0)
    quats = rng.normal(size=(30, 4))
    return Gaussians(
        rng.normal(size=(30, 3)), quats / np.linalg.norm(quats, axis=1, keepdims=True),
        np.exp(rng.normal(-3, 0.5, (30, 3))), rng.uniform(0.1, 0.9, 30),
        rng.normal(0, 0.3, (30, 4, 3)),
    )  # fmt: skip


@pytest.fixture
def environment(tmp_path) -> Path:
    """An environment whose training always ends in `_scene()`, in the normalised frame."""
    folder = tmp_path / "an env; touch pwned"
    (folder / "bin").mkdir(parents=True)
    _program(folder / "bin/ns-train", TRAIN)
    _program(folder / "bin/ns-export", EXPORT)
    change = {"transform": CHANGE.transform.tolist(), "scale": CHANGE.scale}
    (folder / "bin/change.json").write_text(json.dumps(change))
    save_ply(CHANGE.apply_to_gaussians(_scene()), folder / "bin/trained.ply")
    return folder


def _capture() -> Capture:
    rng = np.random.default_rng(1)
    frames = []
    for i in range(5):
        eye = [3 * np.sin(0.2 * i), 0.1 * i, -3 * np.cos(0.2 * i)]
        camera = Camera.look_at(eye, [0, 0, 0], [0, -1, 0], 90, 60, 50.0)
        K = camera.K.copy()
        K[:2, 2] += [4.0, -3.0]
        pixels = rng.integers(0, 256, (60, 90, 3)).astype(np.uint8)
        frames.append(Frame(f"{i}", replace(camera, K=K), pixels=pixels, held_out=i == 2))
    mask = np.full((60, 90), 255, np.uint8)
    mask[:20, :30] = 0
    frames[1] = replace(frames[1], mask=FrameMask("use", pixels=mask))
    colors = rng.random((150, 3)).astype(np.float32)
    return Capture(tuple(frames), points=rng.normal(0, 0.3, (150, 3)), point_colors=colors)


def test_the_result_is_in_the_captures_frame_and_lines_are_passed_on(environment, tmp_path):
    lines: list[str] = []
    settings = ReconstructSettings(iterations=77, long_side=90)
    gaussians, start = train_with_nerfstudio(
        Nerfstudio.of(environment), _capture(), settings, ReconstructOptions(),
        tmp_path / "work", lines.append,
    )  # fmt: skip
    wanted = _scene()
    np.testing.assert_allclose(gaussians.means, wanted.means, atol=1e-5)
    np.testing.assert_allclose(gaussians.scales, wanted.scales, rtol=1e-4)
    np.testing.assert_allclose(gaussians.sh, wanted.sh, atol=1e-5)
    same = np.abs((gaussians.quats * wanted.quats).sum(axis=1))
    np.testing.assert_allclose(same, 1, atol=1e-5)
    assert start == "150 points (given points)"
    assert sorted(lines) == ["Step (% Done) 77", "exported", "warning on the other stream"]
    assert not list(tmp_path.rglob("pwned")) and not Path("pwned").exists()


def test_without_harmonics_colors_are_exported_as_colors(environment, tmp_path):
    # splatfacto of degree 0 keeps logits, and many versions of ns-export write those as f_dc
    _program(environment / "bin/ns-export", EXPORT + "print(given.get('--ply-color-mode'))\n")
    for degree, mode in ((0, "rgb"), (1, "None")):
        lines: list[str] = []
        train_with_nerfstudio(
            Nerfstudio.of(environment), _capture(),
            ReconstructSettings(iterations=7, long_side=90, sh_degree=degree),
            ReconstructOptions(), tmp_path / str(degree), lines.append,
        )  # fmt: skip
        assert lines[-1] == mode


def test_an_environment_without_nerfstudio_is_one_sentence(tmp_path):
    with pytest.raises(InputError, match=r"wanted a Python environment with ns-train.*in its bin"):
        Nerfstudio.of(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        Nerfstudio.of(tmp_path / "none")


def test_the_folder_of_programs_will_do_too(environment):
    assert Nerfstudio.of(environment / "bin") == Nerfstudio.of(environment)


@pytest.mark.parametrize(
    ("program", "text", "said"),
    [
        ("ns-train", FAILING, r"ns-train ended with code 3: CUDA out of memory"),
        ("ns-export", "#!{python}\nraise SystemExit(1)", "ns-export ended with code 1 and said"),
        ("ns-export", "#!{python}\n", "ns-export ended well but left no splat.ply"),
        ("ns-train", "#!/no/such/python\n", "ns-train: cannot be run"),
    ],
)
def test_programs_that_fail_are_one_sentence(environment, tmp_path, program, text, said):
    _program(environment / "bin" / program, text)
    with pytest.raises(InputError, match=said):
        train_with_nerfstudio(
            Nerfstudio.of(environment), _capture(), ReconstructSettings(long_side=90),
            ReconstructOptions(), tmp_path / "work", lambda line: None,
        )  # fmt: skip


def test_the_written_folder_is_the_same_capture(tmp_path):
    capture = _capture()
    path = write_capture_folder(
        capture, tmp_path / "data", 90, capture.points, capture.point_colors
    )
    again = load_capture(path)
    assert [frame.held_out for frame in again.frames] == [False, False, True, False, False]
    for one, other in zip(capture.frames, again.frames, strict=True):
        np.testing.assert_allclose(one.camera.K, other.camera.K)
        np.testing.assert_allclose(
            one.camera.camera_from_world, other.camera.camera_from_world, atol=1e-9
        )
        np.testing.assert_array_equal(one.load_image(), other.load_image())
    assert again.frames[0].mask is None
    np.testing.assert_array_equal(capture.frames[1].load_mask(), again.frames[1].load_mask())
    np.testing.assert_allclose(again.points, capture.points, atol=1e-6)
    np.testing.assert_allclose(again.point_colors, capture.point_colors, atol=0.003)
    small = write_capture_folder(
        capture, tmp_path / "small", 45, capture.points, capture.point_colors
    )
    camera = load_capture(small).frames[0].camera
    assert (camera.width, camera.height) == (45, 30)
