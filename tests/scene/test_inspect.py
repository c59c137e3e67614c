"""`advscene inspect`: facts that are right, in one screen."""

from __future__ import annotations

import json

import numpy as np
import pytest

from scene.errors import InputError
from scene.gaussians import Gaussians
from scene.inspect import describe, describe_text
from scene.io import save_ply


def test_a_scene_in_one_screen(tmp_path):
    scene = Gaussians(
        [[0, 0, 0], [1, 2, 3], [np.nan, 0, 0]], np.tile([1, 0, 0, 0], (3, 1)), np.full((3, 3), 0.25),
        np.full(3, 0.5), np.zeros((3, 9, 3)),
    )  # fmt: skip
    save_ply(scene, tmp_path / "a.ply")
    facts = describe(tmp_path / "a.ply")
    assert (facts["kind"], facts["format"], facts["gaussians"], facts["sh_degree"]) == (
        "scene",
        "ply",
        2,
        2,
    )
    assert facts["bounds"] == {"min": [0, 0, 0], "max": [1, 2, 3]}
    assert facts["dropped"] == {"not_finite": 1}
    assert facts["median_scale"] == pytest.approx(0.25)
    assert "default" in facts["up_source"]
    json.dumps(facts)
    text = describe_text(facts)
    assert len(text.splitlines()) < 25
    assert "gaussians          2" in text
    assert "not finite 1" in text


def test_what_cannot_be_read_is_one_sentence(tmp_path):
    with pytest.raises(InputError):
        describe(tmp_path / "absent.ply")
    with pytest.raises(InputError, match="no capture found"):
        describe(tmp_path)


@pytest.mark.real
def test_real_captures(real_data):
    facts = describe(real_data / "captures/fox")
    assert (facts["kind"], facts["frames"], facts["picture_sizes"]) == (
        "capture",
        25,
        ["1080x1920"],
    )
    assert any("25 of 67" in note for note in facts["notes"])
    assert describe(real_data / "captures/maupertuis_colmap_text")["points"] == 1039
