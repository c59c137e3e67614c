"""Safetensors: our own columns bit for bit, and trainers' names."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from splat_files import raw_parameters, some_gaussians

from scene.errors import InputError
from scene.io import load_gaussians
from scene.io.safetensors_file import save_safetensors


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_our_own_columns_keep_every_bit(tmp_path, degree):
    g = some_gaussians(70, degree)
    save_safetensors(g, tmp_path / "a.safetensors")
    table = load_file(tmp_path / "a.safetensors")
    assert sorted(table) == ["means", "opacities", "quats", "scales", "sh"]
    np.testing.assert_array_equal(table["scales"], g.scales)
    loaded = load_gaussians(tmp_path / "a.safetensors")
    assert (loaded.format, loaded.notes) == ("safetensors", ())
    for name in ("means", "scales", "opacities", "sh"):
        np.testing.assert_array_equal(getattr(loaded.gaussians, name), getattr(g, name))
    np.testing.assert_allclose(loaded.gaussians.quats, g.quats, atol=1e-7)


@pytest.mark.parametrize(
    "names",
    [
        {"dc": "sh0", "rest": "shN"},
        {"dc": "features_dc", "rest": "features_rest"},
        {"means": "_xyz", "quats": "_rotation", "scales": "_scaling", "opacities": "_opacity", "dc": "_features_dc", "rest": "_features_rest"},
    ],
)  # fmt: skip
def test_trainers_names_are_logs_and_logits(tmp_path, names):
    g = some_gaussians(70, 2)
    raw = {names.get(k, k): np.ascontiguousarray(v) for k, v in raw_parameters(g).items()}
    save_file(raw, tmp_path / "a.safetensors")
    loaded = load_gaussians(tmp_path / "a.safetensors")
    assert "log scales" in loaded.notes[0]
    np.testing.assert_allclose(loaded.gaussians.scales, g.scales, rtol=1e-5)
    np.testing.assert_allclose(loaded.gaussians.opacities, g.opacities, atol=1e-6)
    np.testing.assert_array_equal(loaded.gaussians.sh, g.sh)


def _table(g) -> dict:
    """The tensors of a file with linear scales and opacities."""
    return {name: getattr(g, name) for name in ("means", "quats", "scales", "opacities", "sh")}


def test_activated_values_are_taken_as_they_are_and_said(tmp_path):
    g = some_gaussians(70, 1)
    save_file({k: np.array(v) for k, v in _table(g).items()}, tmp_path / "a.safetensors")
    loaded = load_gaussians(tmp_path / "a.safetensors")
    assert "linear scales" in loaded.notes[0]
    np.testing.assert_array_equal(loaded.gaussians.scales, g.scales)


@pytest.mark.parametrize(
    ("change", "metadata", "sentence"),
    [
        ({"means": None}, None, "means not found"),
        ({"sh": None}, None, "colors not found"),
        ({"sh": np.zeros((3, 5, 3), np.float32)}, None, "wanted N x 1, 4, 9 or 16"),
        ({"quats": np.zeros((3, 3), np.float32)}, None, "quats: wanted 3 x 4"),
        ({"means": np.zeros((), np.float32)}, None, "single numbers"),
        ({}, {"format": "advscene.gaussians", "version": "9"}, "version 9"),
        ({"means": np.zeros((0, 3), np.float32), "quats": np.zeros((0, 4), np.float32), "scales": np.zeros((0, 3), np.float32), "opacities": np.zeros(0, np.float32), "sh": np.zeros((0, 1, 3), np.float32)}, None, "no usable Gaussian"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_one_sentence(tmp_path, change, metadata, sentence):
    g = some_gaussians(3, 1)
    table = {k: np.array(v) for k, v in (_table(g) | change).items() if v is not None}
    save_file(table, tmp_path / "a.safetensors", metadata)
    with pytest.raises(InputError, match=sentence):
        load_gaussians(tmp_path / "a.safetensors")


def test_other_tensors_are_named(tmp_path):
    save_file({"layer.weight": np.zeros(3, np.float32)}, tmp_path / "a.safetensors")
    with pytest.raises(InputError, match=r"layer\.weight"):
        load_gaussians(tmp_path / "a.safetensors")
