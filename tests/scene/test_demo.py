"""The demo scene's maker, and what is shipped of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scene.camera import Camera
from scene.demo import DEMO_SCENE, DemoSettings, make_demo, plane_depth_error
from scene.gaussians import Gaussians
from scene.manifest import manifest_problems
from scene.reconstruct.settings import ReconstructSettings
from scene.scene import load_scene


def wall_of_gaussians(y: float) -> Gaussians:
    """Opaque small Gaussians over the square |x|, |z - 2| <= 1 of the plane `y`."""
    x, z = np.meshgrid(np.linspace(-1, 1, 81), np.linspace(1, 3, 81))
    means = np.stack([x.ravel(), np.full(x.size, y), z.ravel()], axis=1)
    n = len(means)
    return Gaussians(
        means,
        np.tile([1.0, 0, 0, 0], (n, 1)),
        np.full((n, 3), [0.025, 0.0005, 0.025]),
        np.full(n, 0.999),
        np.zeros((n, 1, 3)),
    )


def square_sign(y: float) -> dict[str, list]:
    corners = [[-0.5, y, 1.5], [0.5, y, 1.5], [0.5, y, 2.5], [-0.5, y, 2.5]]
    return {"center": [0, y, 2.0], "normal": [0, -1.0, 0], "outline": corners}


@pytest.mark.parametrize(
    ("moved", "wanted"),
    [
        (0.0, 0.0),
        (0.1, 0.1 / 4),  # 10 cm behind the sign, seen from 4 m
        (-0.2, 0.2 / 4),  # in front of it
    ],
)
def test_depth_error_of_a_wall_that_stands_off_the_sign(moved: float, wanted: float) -> None:
    camera = Camera.look_at((0, -4, 2), (0, 0, 2), (0, 0, 1), 80, 60, 40)
    behind = Camera.look_at(
        (0, 4, 2), (0, 0, 2), (0, 0, 1), 80, 60, 40
    )  # sees its back: not counted
    error = plane_depth_error(wall_of_gaussians(moved), [camera, behind], square_sign(0.0))
    assert error == pytest.approx(wanted, abs=1e-3)


def test_a_sign_that_is_never_seen_has_no_depth_error() -> None:
    behind = Camera.look_at((0, 4, 2), (0, 0, 2), (0, 0, 1), 80, 60, 40)
    assert np.isnan(plane_depth_error(wall_of_gaussians(0.0), [behind], square_sign(0.0)))


def test_the_recipe_hash_covers_street_photos_and_training() -> None:
    pytest.importorskip("embreex")
    base = DemoSettings()
    hashes = {
        base.recipe_hash(),
        replace(base, street=replace(base.street, trees=1)).recipe_hash(),
        replace(base, photos=replace(base.photos, samples_per_axis=1)).recipe_hash(),
        replace(base, reconstruct=ReconstructSettings(iterations=7)).recipe_hash(),
    }
    assert len(hashes) == 4
    assert DemoSettings().recipe_hash() == base.recipe_hash()


def test_the_shipped_scene_is_what_its_report_says() -> None:
    scene = load_scene(DEMO_SCENE)
    report = json.loads(DEMO_SCENE.with_name("street.report.json").read_text())
    assert DEMO_SCENE.stat().st_size == report["bytes"] <= 4_000_000
    assert scene.provenance["sha256"] == report["sha256"]
    assert len(scene.gaussians) == report["gaussians"]
    assert len(scene.cameras) == report["photos"] == 60
    assert sum(camera.held_out for camera in scene.cameras) == report["held_out"]
    assert report["held_out_psnr"] >= 30 and report["shipped_psnr"] >= 30
    assert report["sign_depth_error"] <= 0.01
    assert scene.metres_per_unit == 1.0 and scene.up == (0.0, 0.0, 1.0)
    assert scene.target is not None and scene.target.label == "stop sign"
    assert scene.target.center[2] == pytest.approx(2.1, abs=0.01)


@pytest.mark.slow
def test_make_demo_from_scratch_and_again(tmp_path: Path) -> None:
    pytest.importorskip("embreex")
    base = DemoSettings()
    settings = replace(
        base,
        street=replace(base.street, bake_rays=4, bake_bounces=1),
        photos=replace(base.photos, size=(96, 72), samples_per_axis=1, points=3000),
        reconstruct=ReconstructSettings(
            iterations=60, long_side=96, most_gaussians=4000, start_points=3000, half_size_until=0
        ),
    )
    stages: list[str] = []
    out = tmp_path / "assets" / "demo"
    out.mkdir(parents=True)
    (out.parent / "MANIFEST.json").write_text('{"files": []}')

    def tell(stage: str, done: int, total: int, line: str) -> None:
        assert 0 <= done <= total and line
        stages.append(stage)

    report = make_demo(out, tell, settings, tmp_path / "work")
    assert list(dict.fromkeys(stages)) == ["photos", "reconstruction", "checks"]
    assert report.photos == 60 and report.iterations == 60
    assert 10 < report.shipped_psnr < report.held_out_psnr + 0.5
    assert manifest_problems(out.parent) == []
    stages.clear()
    again = make_demo(out, tell, settings, tmp_path / "work")
    assert "photos" not in stages
    assert again.sha256 == report.sha256
