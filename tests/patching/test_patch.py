from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
from PIL import Image

from patching.controls import PATCH_KINDS, patch_of_kind
from patching.patch import Patch, gray_like, load_patch, noise_like, save_patch, shuffled
from scene.errors import InputError


def test_load_keeps_order_alpha_and_hash(tmp_path) -> None:  # type: ignore[no-untyped-def]
    rgba = np.zeros((2, 3, 4), np.uint8)
    rgba[0, 2] = [255, 51, 0, 255]
    rgba[1, 0] = [0, 0, 102, 128]
    Image.fromarray(rgba).save(tmp_path / "p.png")
    patch = load_patch(tmp_path / "p.png", side_m=0.3)
    assert patch.rgba.shape == (2, 3, 4) and patch.name == "p" and patch.side_m == 0.3
    np.testing.assert_allclose(patch.rgba[0, 2], [1, 0.2, 0, 1])
    assert patch.alpha[1, 0] == pytest.approx(128 / 255)
    assert patch.aspect == pytest.approx(2 / 3)
    assert (
        patch.provenance["sha256"] == hashlib.sha256((tmp_path / "p.png").read_bytes()).hexdigest()
    )


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "none or is damaged"),
        (b"not a picture at all", "none or is damaged"),
        (b"\x89PNG\r\n\x1a\n" + b"\0" * 40, "none or is damaged"),
    ],
)
def test_what_is_no_picture_is_refused(tmp_path, data, words) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "bad.png"
    path.write_bytes(data)
    with pytest.raises(InputError, match=words):
        load_patch(path)


def test_truncated_picture_is_refused(tmp_path) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 255, (64, 64, 3), dtype=np.uint8)).save(tmp_path / "a.png")
    data = (tmp_path / "a.png").read_bytes()
    (tmp_path / "cut.png").write_bytes(data[: len(data) // 2])
    with pytest.raises(InputError, match="damaged"):
        load_patch(tmp_path / "cut.png")


def test_missing_and_transparent_are_refused(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match="no such"):
        load_patch(tmp_path / "none.png")
    Image.fromarray(np.zeros((4, 4, 4), np.uint8)).save(tmp_path / "clear.png")
    with pytest.raises(InputError, match="transparent"):
        load_patch(tmp_path / "clear.png")


def test_save_and_load_round_trip(tmp_path) -> None:  # type: ignore[no-untyped-def]
    rgb = np.arange(48, dtype=np.float32).reshape(4, 4, 3) / 255
    patch = Patch.from_rgb(rgb, "x", side_m=0.2, provenance={"victim": "v", "seed": 3})
    save_patch(patch, tmp_path / "x.png")
    again = load_patch(tmp_path / "x.png")
    np.testing.assert_allclose(again.rgb, rgb, atol=1e-6)
    assert again.side_m == 0.2 and again.provenance["victim"] == "v"
    assert json.loads((tmp_path / "x.json").read_text()) == {
        "victim": "v",
        "seed": 3,
        "side_m": 0.2,
    }
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.json", "x.png"]


def test_damaged_provenance_is_refused(tmp_path) -> None:  # type: ignore[no-untyped-def]
    save_patch(Patch.from_rgb(np.zeros((4, 4, 3)), "x", provenance={"a": 1}), tmp_path / "x.png")
    (tmp_path / "x.json").write_text("[1, 2]")
    with pytest.raises(InputError, match="JSON object"):
        load_patch(tmp_path / "x.png")


def test_controls_keep_shape_and_alpha(stripes: Patch) -> None:
    rgba = stripes.rgba.copy()
    rgba[:, :2, 3] = 0
    shaped = Patch(rgba, "shaped")
    for kind in PATCH_KINDS:
        control = patch_of_kind(kind, shaped)
        assert control.rgba.shape == shaped.rgba.shape
        np.testing.assert_array_equal(control.alpha, shaped.alpha)
    assert np.ptp(gray_like(shaped).rgb) == 0 and gray_like(shaped).rgb.mean() == 0.5


def test_shuffled_has_the_same_colors_elsewhere(stripes: Patch) -> None:
    mixed = shuffled(stripes, 5)
    old, new = (np.sort(p.rgb.reshape(-1, 3), axis=0) for p in (stripes, mixed))
    np.testing.assert_array_equal(old, new)
    assert (mixed.rgb != stripes.rgb).any()
    np.testing.assert_array_equal(shuffled(stripes, 5).rgb, mixed.rgb)
    assert (shuffled(stripes, 6).rgb != mixed.rgb).any()


def test_noise_survives_being_seen_from_afar() -> None:
    patch = Patch.from_rgb(np.zeros((160, 160, 3)), "p")
    noise = noise_like(patch, 1)
    # averaged to 32 x 32 px its contrast is still that of uniform noise, sd 0.29
    small = noise.rgb.reshape(32, 5, 32, 5, 3).mean(axis=(1, 3))
    assert small.std() == pytest.approx(0.289, abs=0.02)


def test_wrong_values_are_refused() -> None:
    with pytest.raises(ValueError, match="shape"):
        Patch(np.zeros((4, 4, 3)), "x")
    with pytest.raises(ValueError, match="in \\[0, 1\\]"):
        Patch.from_rgb(np.full((4, 4, 3), 1.5), "x")
    with pytest.raises(ValueError, match="kind"):
        patch_of_kind("clean", Patch.from_rgb(np.zeros((4, 4, 3)), "x"))
