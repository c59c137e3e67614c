"""Conversions: there and back within each format's quantisation, sidecars carried, losses stated."""

from __future__ import annotations

import gzip
import json
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from splat_files import some_gaussians

from app.cli import main
from scene.camera import Camera
from scene.errors import InputError
from scene.gaussians import SH_C0, Gaussians
from scene.io import load_gaussians, save_gaussians, save_ply
from scene.io.convert import convert
from scene.io.sidecar import sidecar_path
from scene.scene import CaptureCamera, Scene, TargetBox, load_scene, save_scene


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), n=st.sampled_from([1, 2, 65, 700]), degree=st.integers(0, 3),
    size=st.sampled_from([0.01, 1, 300, 40_000]),
)  # fmt: skip
def test_spz_and_back_is_within_its_steps(tmp_path_factory, seed, n, degree, size):
    g = some_gaussians(n, degree, seed)
    means = np.asarray(g.means * np.float32(size))
    g = Gaussians(means, g.quats, g.scales, g.opacities, g.sh)
    path = tmp_path_factory.mktemp("s") / "a.spz"
    save_gaussians(g, path)
    loaded = load_gaussians(path)
    again = loaded.gaussians
    assert (loaded.format, len(again), again.sh_degree) == ("spz 3", n, degree)
    bits = gzip.decompress(path.read_bytes())[13]
    # as many fractional bits as the farthest leaves, in the order given
    assert np.abs(means).max() * 2**bits <= 2**23 - 1 and (
        bits == 20 or np.abs(means).max() * 2 ** (bits + 1) > 2**23 - 1
    )
    half_step = 0.5 / 2**bits
    np.testing.assert_allclose(again.means, means, atol=half_step * 1.001, rtol=2e-7)
    np.testing.assert_allclose(np.log(again.scales), np.log(g.scales), atol=1 / 32 + 1e-5)
    np.testing.assert_allclose(again.opacities, g.opacities, atol=0.5 / 255 + 1e-6)
    rgb = np.clip(g.sh[:, 0], -0.5 / 0.15, 0.5 / 0.15)
    np.testing.assert_allclose(again.sh[:, 0], rgb, atol=0.5 / 255 / 0.15 + 1e-5)
    # one end of a byte's range is 1, the other 127/128; the frame's turn says which
    rest = np.clip(g.sh[:, 1:], -1, 1)
    np.testing.assert_allclose(again.sh[:, 1:], rest, atol=1 / 128 + 1e-6)
    inside = np.abs(rest) < 127 / 128
    np.testing.assert_allclose(again.sh[:, 1:][inside], rest[inside], atol=0.5 / 128 + 1e-6)
    chord = np.minimum(
        np.linalg.norm(again.quats - g.quats, axis=1), np.linalg.norm(again.quats + g.quats, axis=1)
    )
    assert chord.max() < 0.004


def test_spz_bytes_by_hand(tmp_path):
    g = Gaussians(
        [[1, -2, 3]], [[0.5**0.5, 0.5**0.5, 0, 0]], np.exp([[0, 1, -1]]), [0.2], [[[0, 1, -1]]]
    )
    save_gaussians(g, tmp_path / "a.spz")
    data = gzip.decompress((tmp_path / "a.spz").read_bytes())
    assert data[:16] == b"NGSP\3\0\0\0\1\0\0\0\0\x14\0\0"
    # right-up-back: (1, 2, -3) at 20 fractional bits
    fixed = [int.from_bytes(data[16 + 3 * i : 19 + 3 * i], "little", signed=True) for i in range(3)]
    assert fixed == [1 << 20, 2 << 20, -3 << 20]
    assert list(data[25:32]) == [51, 128, 166, 89, 160, 176, 144]
    # x or w is left out, the other is sqrt 1/2 = 511
    word = int.from_bytes(data[32:36], "little")
    assert (word >> 30, word & 0x3FFFFFFF) in ((0, 511), (3, 511 << 20))
    assert len(data) == 36


def test_spz_of_equal_scenes_is_equal(tmp_path):
    for name in ("a.spz", "b.spz"):
        save_gaussians(some_gaussians(50), tmp_path / name)
    assert (tmp_path / "a.spz").read_bytes() == (tmp_path / "b.spz").read_bytes()


def test_spz_refuses_what_it_cannot_hold(tmp_path):
    g = some_gaussians(3)
    far = Gaussians(g.means * np.float32(1e8), g.quats, g.scales, g.opacities, g.sh)
    with pytest.raises(InputError, match="positions up to"):
        save_gaussians(far, tmp_path / "a.spz")
    assert not (tmp_path / "a.spz").exists()


def a_scene(folder) -> Scene:
    camera = Camera.look_at([4, 3, 1], [0, 0, 0], [0, 0, 1], 640, 360, 50)
    target = TargetBox(np.array([1.0, 2, 3]), np.eye(3), np.array([1.0, 2, 3]), "stop sign")
    scene = Scene(some_gaussians(300, 2), "plaza", (CaptureCamera("a.png", camera, True),), (0, 0, 1),
                  "by hand", 2.5, target, (0.1, 0.2, 0.3), {"notes": []})  # fmt: skip
    return save_scene(scene, folder / "plaza.ply")


@pytest.mark.parametrize("end", [".ply", ".compressed.ply", ".spz", ".safetensors"])
def test_everything_around_the_gaussians_comes_along(tmp_path, end):
    a_scene(tmp_path)
    done = convert(tmp_path / "plaza.ply", tmp_path / "out" / f"other{end}")
    scene = load_scene(tmp_path / "out" / f"other{end}")
    assert (scene.name, scene.up, scene.metres_per_unit) == ("plaza", (0, 0, 1), 2.5)
    assert scene.target is not None and scene.target.label == "stop sign"
    assert scene.cameras[0].held_out and scene.background == (0.1, 0.2, 0.3)
    assert scene.provenance["converted_from"]["file"] == "plaza.ply"
    assert not [n for n in scene.provenance["notes"] if "another version" in n]
    assert (done.gaussians, done.sh_degree, done.lost) == (300, 2, 0)
    exact = end in (".ply", ".safetensors")
    extent = np.ptp(scene.gaussians.means, axis=0).max()
    assert done.max_position_error < (1e-9 if exact else 2e-3 * extent)
    assert done.max_scale_ratio < (1.000001 if exact else 1.04)
    assert done.max_rotation_error_deg < (1e-4 if exact else 0.4)
    assert done.max_opacity_error < (1e-7 if exact else 0.003)
    assert done.max_sh_error < (1e-9 if exact else 0.2)
    if not exact:
        assert done.max_position_error > 0


def test_the_stated_error_is_the_true_one(tmp_path):
    g = some_gaussians(400, 1)
    save_ply(g, tmp_path / "a.ply")
    done = convert(tmp_path / "a.ply", tmp_path / "b.spz")
    again = load_gaussians(tmp_path / "b.spz").gaussians
    worst = np.linalg.norm(again.means.astype(float) - g.means, axis=1).max()
    assert done.max_position_error == pytest.approx(worst, rel=1e-4)
    assert done.max_opacity_error == pytest.approx(
        np.abs(again.opacities - g.opacities).max(), rel=1e-4
    )


def test_colors_that_spz_cannot_hold_are_counted(tmp_path):
    # brighter than 1: drawn as such where a Gaussian is translucent, and held up to 0.5 + 0.94
    g = Gaussians(
        np.zeros((2, 3)),
        [[1, 0, 0, 0]] * 2,
        np.ones((2, 3)),
        [0.3, 0.3],
        [[[0, 6, 0]], [[0, 0, 0]]],
    )
    save_ply(g, tmp_path / "a.ply")
    done = convert(tmp_path / "a.ply", tmp_path / "b.spz")
    assert done.max_color_error == pytest.approx(SH_C0 * (6 - 0.5 / 0.15), abs=1e-4)


@pytest.mark.parametrize("frame", ["original", "normalised"])
def test_a_run_shares_a_sidecar_only_in_the_frame_that_it_opens_in(tmp_path, frame):
    torch = pytest.importorskip("torch")
    g = some_gaussians(20, 1)
    names = {"means": g.means, "quats": g.quats, "scales": np.log(g.scales), "opacities": g.opacities,
             "features_dc": g.sh[:, 0], "features_rest": g.sh[:, 1:]}  # fmt: skip
    state = {f"_model.gauss_params.{name}": torch.tensor(np.array(v)) for name, v in names.items()}
    torch.save({"pipeline": state}, tmp_path / "step-1.ckpt")
    turn = {"transform": [[1, 0, 0, 0], [0, 0, -1, 0], [0, 1, 0, 0]], "scale": 1}
    (tmp_path / "dataparser_transforms.json").write_text(json.dumps(turn))
    convert(tmp_path / "step-1.ckpt", tmp_path / "step-1.ply", frame)
    # the run opens in its original frame, for which a sidecar in the other one is wrong
    notes = load_scene(tmp_path / "step-1.ckpt").provenance["notes"]
    assert any("another version" in note for note in notes) == (frame == "normalised")
    assert not any(
        "another" in note for note in load_scene(tmp_path / "step-1.ply").provenance["notes"]
    )


def test_two_formats_of_one_name_share_a_sidecar(tmp_path):
    a_scene(tmp_path)
    convert(tmp_path / "plaza.ply", tmp_path / "plaza.spz")
    assert sidecar_path(tmp_path / "plaza.spz") == sidecar_path(tmp_path / "plaza.ply")
    for name in ("plaza.ply", "plaza.spz"):
        assert not load_scene(tmp_path / name).provenance["notes"][:-1]
        assert not any(
            "another version" in n for n in load_scene(tmp_path / name).provenance["notes"]
        )
    save_ply(some_gaussians(5), tmp_path / "plaza.ply")
    assert any(
        "another version" in n for n in load_scene(tmp_path / "plaza.ply").provenance["notes"]
    )


def test_a_third_format_does_not_orphan_the_second(tmp_path):
    a_scene(tmp_path)
    convert(tmp_path / "plaza.ply", tmp_path / "plaza.spz")
    convert(tmp_path / "plaza.ply", tmp_path / "plaza.compressed.ply")
    for name in ("plaza.ply", "plaza.spz", "plaza.compressed.ply"):
        assert len(load_scene(tmp_path / name).cameras) == 1, name


def test_a_sidecar_that_the_source_may_not_use_is_not_replaced_unasked(tmp_path):
    a_scene(tmp_path)
    beside = tmp_path / "plaza.scene.json"
    before = beside.read_bytes()
    save_ply(some_gaussians(5), tmp_path / "plaza.ply")
    with pytest.raises(InputError, match="belongs to another version"):
        convert(tmp_path / "plaza.ply", tmp_path / "plaza.spz")
    assert beside.read_bytes() == before and not (tmp_path / "plaza.spz").exists()
    convert(tmp_path / "plaza.ply", tmp_path / "plaza.spz", overwrite=True)
    assert load_scene(tmp_path / "plaza.spz").cameras == ()


def test_refusals(tmp_path):
    save_ply(some_gaussians(5), tmp_path / "a.ply")
    with pytest.raises(InputError, match="ends in"):
        convert(tmp_path / "a.ply", tmp_path / "a.splat")
    with pytest.raises(InputError, match="wanted another name"):
        convert(tmp_path / "a.ply", tmp_path / "a.ply")
    with pytest.raises(InputError, match="no such file"):
        convert(tmp_path / "absent.ply", tmp_path / "b.ply")
    shutil.copy(tmp_path / "a.ply", tmp_path / "c.ply")
    assert [p.name for p in sorted(tmp_path.iterdir())] == ["a.ply", "c.ply"]


def test_nothing_is_replaced_unasked(tmp_path):
    save_scene(a_scene(tmp_path), tmp_path / "a.ply")
    save_scene(a_scene(tmp_path), tmp_path / "b.ply")
    beside = tmp_path / "b.scene.json"
    before = beside.read_bytes()
    with pytest.raises(InputError, match="exists; choose another name"):
        convert(tmp_path / "a.ply", tmp_path / "b.ply")
    with pytest.raises(InputError, match=r"scene\.json exists"):
        convert(tmp_path / "a.ply", tmp_path / "b.spz")
    assert beside.read_bytes() == before and not (tmp_path / "b.spz").exists()
    convert(tmp_path / "a.ply", tmp_path / "b.spz", overwrite=True)
    assert (tmp_path / "b.spz").exists()


def test_the_command(tmp_path, capsys):
    save_ply(some_gaussians(50, 1), tmp_path / "a.ply")
    main(["convert", str(tmp_path / "a.ply"), str(tmp_path / "b.spz")])
    text = capsys.readouterr().out
    assert "50 Gaussians, SH degree 1, spz 3" in text and "position" in text
    main(["convert", str(tmp_path / "a.ply"), str(tmp_path / "c.compressed.ply"), "--json"])
    assert json.loads(capsys.readouterr().out)["target_format"] == "compressed ply"
    with pytest.raises(SystemExit) as caught:
        main(["convert", str(tmp_path / "a.ply"), str(tmp_path / "b.obj")])
    assert caught.value.code == 2
