"""`advscene inspect`: facts that are right, in one screen."""

from __future__ import annotations

import json

import numpy as np
import pytest
from splat_files import some_gaussians, write_ksplat, write_sog

from scene.errors import InputError
from scene.gaussians import Gaussians
from scene.inspect import describe, describe_text
from scene.io import save_gaussians, save_ply
from scene.scene import Scene, load_scene, save_scene


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


def test_what_was_nearly_meant_is_named(tmp_path):
    with pytest.raises(InputError, match="no capture found"):
        describe(tmp_path)
    save_scene(Scene(some_gaussians(5), "a"), tmp_path / "a.compressed.ply")
    with pytest.raises(InputError, match=r"open one of them \(a\.compressed\.ply\)"):
        describe(tmp_path)
    with pytest.raises(InputError, match=r"open one of its files \(a\.compressed\.ply\)"):
        load_scene(tmp_path)
    with pytest.raises(InputError, match="goes with a splat file of the same name"):
        describe(tmp_path / "a.scene.json")


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


@pytest.mark.parametrize(
    ("end", "format_name"),
    [(".spz", "spz 3"), (".safetensors", "safetensors"), (".compressed.ply", "compressed ply"),
     (".ksplat", "ksplat level 2"), ("/meta.json", "sog 2"), ("", "sog 2")],
)  # fmt: skip
def test_every_format_in_one_screen(tmp_path, end, format_name):
    path = tmp_path / f"a{end}"
    if end in ("/meta.json", ""):
        write_sog(tmp_path / "a")
    elif end == ".ksplat":
        write_ksplat(path, level=2)
    else:
        save_gaussians(some_gaussians(300, 1), path)
    facts = describe(path)
    assert (facts["kind"], facts["format"], facts["sh_degree"]) == ("scene", format_name, 1)
    files = [path] if path.is_file() and path.suffix != ".json" else (tmp_path / "a").iterdir()
    assert facts["size_bytes"] == sum(f.stat().st_size for f in files)
    assert len(describe_text(facts).splitlines()) < 25
    json.dumps(facts)


@pytest.mark.real
def test_every_real_splat_opens_or_is_refused_as_known(real_data):
    wanted = {
        "hamburger/hamburger.ply": ("ply", 52_709, 0), "fox25/fox25.ply": ("ply", 39_995, 1),
        "playcanvas/biker.compressed.ply": ("compressed ply", 152_746, 0),
        "playcanvas/biker.spz": ("spz 4", 152_746, 0),
        "playcanvas/test.compressed-sh.ply": ("compressed ply", 64, 3),
        "playbot_sog": ("sog 2", 31_000, 2), "tiny/minimal.splat": ("splat", 4, 0),
        "tiny/minimal.ksplat": ("ksplat level 0", 4, 0), "tiny/minimal-v2.spz": ("spz 2", 4, 0),
        "tiny/minimal-v3.spz": ("spz 3", 4, 0), "tiny/minimal-v4.spz": ("spz 4", 4, 0),
    }  # fmt: skip
    for name, facts in wanted.items():
        found = describe(real_data / "splats" / name)
        assert (found["format"], found["gaussians"], found["sh_degree"]) == facts, name
    with pytest.raises(InputError, match="must be gzip data"):
        describe(real_data / "splats/tiny/minimal-raw.spz")
