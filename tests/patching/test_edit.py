from __future__ import annotations

import numpy as np
import pytest

from patching.edit import GaussianEdit, load_edit, no_gaussians, save_edit
from scene.errors import InputError
from scene.gaussians import Gaussians


def _scene(count: int, degree_terms: int = 4, seed: int = 0) -> Gaussians:
    rng = np.random.default_rng(seed)
    quats = rng.normal(size=(count, 4))
    parts = (
        rng.normal(size=(count, 3)), quats / np.linalg.norm(quats, axis=1, keepdims=True),
        rng.uniform(0.1, 1, (count, 3)), rng.uniform(0, 1, count),
        rng.normal(size=(count, degree_terms, 3)),
    )  # fmt: skip
    return Gaussians(*(part.astype(np.float32) for part in parts))


def _edit() -> GaussianEdit:
    dc = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    return GaussianEdit(np.array([7, 2]), np.array([0.0, 0.25]), dc, _scene(3, 1, 1), 10)


def test_apply_changes_only_what_it_names() -> None:
    clean = _scene(10)
    out = _edit().apply(clean)
    assert len(out) == 13
    kept = [i for i in range(10) if i not in (2, 7)]
    for name in ("means", "quats", "scales", "opacities", "sh"):
        np.testing.assert_array_equal(getattr(out, name)[kept], getattr(clean, name)[kept])
    assert out.opacities[7] == 0 and out.opacities[2] == 0.25
    np.testing.assert_array_equal(out.sh[7, 0], [1, 2, 3])
    np.testing.assert_array_equal(out.sh[2, 1:], clean.sh[2, 1:])  # higher degrees stay
    np.testing.assert_array_equal(out.means[10:], _scene(3, 1, 1).means)
    np.testing.assert_array_equal(out.sh[10:, 1:], 0)


def test_another_scene_is_refused() -> None:
    with pytest.raises(InputError, match="10 Gaussians, this one has 11"):
        _edit().apply(_scene(11))
    loose = GaussianEdit(np.array([9]), np.zeros(1), np.zeros((1, 3)), no_gaussians())
    with pytest.raises(InputError, match="Gaussian 9"):
        loose.apply(_scene(5))


def test_file_round_trip_is_exact(tmp_path) -> None:  # type: ignore[no-untyped-def]
    edit = _edit()
    save_edit(edit, tmp_path / "e.safetensors")
    again = load_edit(tmp_path / "e.safetensors")
    assert again.base_count == 10
    for name in ("indices", "opacities", "sh_dc"):
        np.testing.assert_array_equal(getattr(again, name), getattr(edit, name))
    for name in ("means", "quats", "scales", "opacities", "sh"):
        np.testing.assert_array_equal(getattr(again.added, name), getattr(edit.added, name))
    assert [p.name for p in tmp_path.iterdir()] == ["e.safetensors"]


def test_empty_edit_is_the_clean_scene(tmp_path) -> None:  # type: ignore[no-untyped-def]
    empty = GaussianEdit(np.zeros(0, int), np.zeros(0), np.zeros((0, 3)), no_gaussians())
    save_edit(empty, tmp_path / "e.safetensors")
    clean = _scene(4)
    out = load_edit(tmp_path / "e.safetensors").apply(clean)
    np.testing.assert_array_equal(out.sh, clean.sh)


@pytest.mark.parametrize("data", [b"", b"junk" * 30])
def test_foreign_files_are_refused(tmp_path, data) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "e.safetensors").write_bytes(data)
    with pytest.raises(InputError, match="damaged or foreign"):
        load_edit(tmp_path / "e.safetensors")


def test_missing_and_other_tensors_are_refused(tmp_path) -> None:  # type: ignore[no-untyped-def]
    from safetensors.numpy import save_file

    with pytest.raises(InputError, match="no such"):
        load_edit(tmp_path / "none.safetensors")
    save_file({"w": np.zeros(3)}, tmp_path / "w.safetensors")
    with pytest.raises(InputError, match="other tensors"):
        load_edit(tmp_path / "w.safetensors")


def test_repeated_indices_are_refused() -> None:
    with pytest.raises(ValueError, match="unique"):
        GaussianEdit(np.array([1, 1]), np.zeros(2), np.zeros((2, 3)), no_gaussians())
