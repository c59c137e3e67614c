"""The shipped demo patch belongs to the shipped scene, placement and detector, and fools it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from app.patch_making import Cone, ViewDrawer, judged
from patching.patch import load_patch
from patching.placement import load_placement
from scene.scene import load_scene

ASSETS = Path(__file__).resolve().parents[2] / "assets"
PATCHES = ASSETS / "patches"


@pytest.fixture(scope="module")
def provenance() -> dict:
    return load_patch(PATCHES / "demo-adversarial.png").provenance


def test_it_was_made_for_what_is_shipped(provenance: dict) -> None:
    from envelope.victims.hashes import files_sha256

    weights = ASSETS / "victims" / "demo-detector" / "model.safetensors"
    again = "make the demo patch again: advscene make-patch (its origin in assets/MANIFEST.json)"
    assert provenance["weights_hash"] == files_sha256([weights]), again
    scene = load_scene(ASSETS / "demo" / "street.compressed.ply")
    assert provenance["scene_sha256"] == scene.provenance["sha256"], again
    placement = load_placement(ASSETS / "demo" / "placement.json")
    assert provenance["placement"] == placement.to_dict(), again
    assert provenance["settings"]["seed"] == 0 and provenance["level"] == "strong"


def test_controls_are_of_this_patch(provenance: dict) -> None:
    patch = load_patch(PATCHES / "demo-adversarial.png")
    assert patch.rgb.shape == (160, 160, 3) and patch.side_m == pytest.approx(0.29)
    for kind in ("gray", "noise", "shuffled"):
        control = load_patch(PATCHES / f"{kind}.png")
        assert control.provenance["control"] == kind
        assert control.provenance["of_sha256"] == provenance["sha256"]
        assert control.rgb.shape == patch.rgb.shape and control.side_m == patch.side_m
    gray = load_patch(PATCHES / "gray.png").rgb
    assert np.unique(gray).tolist() == [np.float32(128 / 255)]


def test_it_fools_the_detector_and_its_controls_do_not() -> None:
    from envelope.victims.registry import load_victim
    from scene.render.api import make_renderer
    from scene.target import TargetViewer, select_in_box

    scene = load_scene(ASSETS / "demo" / "street.compressed.ply")
    placement = load_placement(ASSETS / "demo" / "placement.json")
    renderer = make_renderer(scene.gaussians, threads=1)
    rows = select_in_box(scene.gaussians, scene.target).indices
    target = TargetViewer(scene.gaussians, rows, renderer=renderer)
    drawer = ViewDrawer(scene, renderer, placement, target)
    views = drawer.draw(Cone(15, 5, 0.9, 1.2, 3), 4, np.random.default_rng(99))
    patches = {
        kind: load_patch(PATCHES / f"{name}.png")
        for kind, name in [("gray", "gray"), ("shuffled", "shuffled"), ("it", "demo-adversarial")]
    }
    result = judged(
        load_victim("demo-detector", "stop sign"), "stop sign", placement, views,
        {"clean": None, **patches},
    )  # fmt: skip
    assert {kind: count.found for kind, count in result.found.items() if kind != "it"} == {
        "clean": 4, "gray": 4, "shuffled": 4,
    }  # fmt: skip
    assert result.found["it"].found <= 1
