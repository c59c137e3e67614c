"""Making a patch from the command line: views, judging, files, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from viewer_fakes import SIGN, RedFinder, small_scene

from app.cli import main
from app.patch_making import Cone, ViewDrawer, background_of, judged, victim_loss
from envelope.condition import Condition
from envelope.victims.protocols import Detections
from patching.optimize.paste import paste
from patching.patch import Patch, gray_like, load_patch
from patching.placement import Placement, place_by_numbers, save_placement
from patching.raycast import composite
from scene.camera import Camera
from scene.errors import InputError
from scene.render.api import make_renderer
from scene.target import TargetViewer, select_in_box

GREEN = Patch.from_rgb(np.tile(np.float32([0.1, 0.9, 0.1]), (8, 8, 1)), "green")


class ShyOfGreen(RedFinder):
    """Finds what is red, unless there is much green in it; a white box."""

    def __init__(self) -> None:
        super().__init__("demo-detector")
        self.info = type(self.info)(
            "demo-detector", "detector", "none", "test", (96, 96), 0.5, "ab" * 32, ("stop sign",)
        )

    def predict(self, images):  # type: ignore[no-untyped-def]
        found = []
        for image, plain in zip(images.astype(int), super().predict(images), strict=True):
            green = (image[..., 1] > image[..., 0] + 60) & (image[..., 1] > image[..., 2] + 60)
            if len(plain) == 0:
                found.append(plain)
                continue
            x0, y0, x1, y1 = plain.xyxy[0]
            share = green.sum() / ((x1 - x0) * (y1 - y0))
            found.append(Detections(plain.xyxy, [0.2 if share > 0.05 else 0.9], ("stop sign",)))
        return found

    def suppression_loss(self, images: torch.Tensor, label: str) -> torch.Tensor:
        assert label == "stop sign"
        red, green, blue = images.unbind(dim=1)
        return 3 - 40 * (2 * green - red - blue).mean(dim=(1, 2))


@pytest.fixture(scope="module")
def placed() -> Placement:
    """0.25 m square in the middle of the red disc; the anchor is 2 m before it."""
    camera = Camera.look_at(np.add(SIGN, [0, -2, 0.2]), SIGN, (0, 0, 1), 320, 240, 40)
    return place_by_numbers(np.add(SIGN, [0, -0.02, 0]), (0, -1, 0), 0.25, 1.0, camera, (0, 0, 1))


@pytest.fixture(scope="module")
def drawer(placed: Placement) -> ViewDrawer:
    scene = small_scene()
    renderer = make_renderer(scene.gaussians, threads=1)
    rows = select_in_box(scene.gaussians, scene.target).indices
    target = TargetViewer(scene.gaussians, rows, renderer=renderer)
    return ViewDrawer(scene, renderer, placed, target, long_side=160)


def test_views_are_seeded_and_within_reach(drawer: ViewDrawer) -> None:
    cone = Cone(azimuth_deg=20, elevation_deg=5, radius_low=0.8, radius_high=1.6, roll_deg=3)
    views = drawer.draw(cone, 4, np.random.default_rng(1))
    again = drawer.draw(cone, 4, np.random.default_rng(1))
    assert [view.name for view in views] == [view.name for view in again]
    assert len({view.name for view in views}) == 4
    for view in views:
        condition = view.condition
        assert abs(condition.azimuth_deg) <= 20 and abs(condition.elevation_deg) <= 5
        assert 0.8 <= condition.radius <= 1.6 and abs(condition.roll_deg) <= 3
        assert view.clean.shape == (120, 160, 3)
        assert view.box is not None and view.patch_box is not None
        # the patch is a third of the disc, in its middle
        assert view.box[0] < view.patch_box[0] and view.patch_box[2] < view.box[2]


def test_views_that_show_nothing_are_left_out(drawer: ViewDrawer) -> None:
    assert drawer.view(Condition(azimuth_deg=180)) is None  # from behind
    assert drawer.view(Condition(yaw_deg=90)) is None  # looks elsewhere
    assert drawer.view(Condition(radius=30)) is None  # a few pixels
    with pytest.raises(InputError, match="0 of 2 views"):
        drawer.draw(Cone(0, 0, 30, 30, 0), 2, np.random.default_rng(0))


def test_a_background_pastes_like_the_judged_picture(drawer: ViewDrawer, placed: Placement) -> None:
    view = drawer.view(Condition(azimuth_deg=30, elevation_deg=5))
    assert view is not None
    background = background_of(view, placed)
    wanted = composite(placed, GREEN, view.camera, view.clean, view.median_depth)[0]
    rgb = torch.from_numpy(GREEN.rgb.transpose(2, 0, 1).copy())
    found = paste(background.picture, rgb, background.pixel_from_uv, background.shown)
    # the background is rounded to 8 bits as victims get it
    np.testing.assert_allclose(found.permute(1, 2, 0).numpy(), wanted, atol=0.5 / 255 + 1e-4)
    small = background_of(view, placed, 80)
    assert small.picture.shape == (3, 60, 80)
    assert small.box_xyxy == tuple(0.5 * value for value in view.box or ())


def test_what_stands_before_the_patch_hides_it(drawer: ViewDrawer, placed: Placement) -> None:
    view = drawer.view(Condition())
    assert view is not None and background_of(view, placed).shown is None
    depth = view.median_depth.copy()
    depth[:, :80] = 0.5
    hidden = background_of(type(view)(**{**vars(view), "median_depth": depth}), placed).shown
    assert hidden is not None
    # the patch spans columns 60 to 100 or so
    assert float(hidden[60, 79]) == 0 and float(hidden[60, 80]) == 1


def test_judging_counts_views(drawer: ViewDrawer, placed: Placement) -> None:
    views = drawer.draw(Cone(10, 3, 0.9, 1.1, 0), 3, np.random.default_rng(0))
    patches = {"clean": None, "gray": gray_like(GREEN), "adversarial": GREEN}
    result = judged(ShyOfGreen(), "stop sign", placed, views, patches)
    assert {kind: count.found for kind, count in result.found.items()} == {
        "clean": 3, "gray": 3, "adversarial": 0,
    }  # fmt: skip
    assert result.to_dict()["adversarial"] == {
        "found": 0, "views": 3, "lost_of_found_on_gray": [3, 3],
    }  # fmt: skip
    assert str(result.found["clean"]) == "3/3 (1.00)" and result.fooled.get("clean") is None


def test_a_victim_without_gradients_is_refused() -> None:
    with pytest.raises(InputError, match="gives gradients"):
        victim_loss(RedFinder(), "onnx:x.onnx", "stop sign")


def test_the_command(
    scene_file: Path, placed: Placement, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr("envelope.victims.registry.load_victim", lambda *a, **k: ShyOfGreen())
    save_placement(placed, tmp_path / "placement.json")
    out = tmp_path / "made" / "patch.png"
    main(["make-patch", str(scene_file), "--placement", str(tmp_path / "placement.json"),
          "--out", str(out), "--views", "3", "--steps", "24", "--restarts", "1", "--size", "16",
          "--level", "weak", "--reach.azimuth-deg", "15", "--controls", "--json"])  # fmt: skip
    said = json.loads(capsys.readouterr().out)
    assert said["clean"]["found"] == said["gray"]["found"] == said["gray"]["views"] == 2
    assert said["adversarial"]["lost_of_found_on_gray"] == [2, 2]
    patch = load_patch(out)
    assert patch.rgb.shape == (16, 16, 3) and patch.side_m == pytest.approx(0.25)
    assert patch.rgb[..., 1].mean() > patch.rgb[..., 0].mean() + 0.3
    about = patch.provenance
    assert about["victim"] == "demo-detector" and about["weights_hash"] == "ab" * 32
    assert about["settings"]["eot"]["views"] == 4 and len(about["views"]) == 3
    assert about["view_size"] == [96, 72] and about["scene_sha256"]
    assert not set(about["views"]) & set(about["judged_views"])
    written = sorted(path.name for path in out.parent.glob("*.png"))
    assert written == ["gray.png", "noise.png", "patch.png", "shuffled.png"]
    mixed = load_patch(out.parent / "shuffled.png")
    assert mixed.provenance["control"] == "shuffled"
    assert mixed.provenance["of_sha256"] == patch.provenance["sha256"]
    np.testing.assert_array_equal(
        np.sort(mixed.rgb.reshape(-1, 3), axis=0), np.sort(patch.rgb.reshape(-1, 3), axis=0)
    )


@pytest.mark.parametrize("wrong, words", [
    (["--out", "p.jpg"], "wanted a .png"),
    (["--placement", "none.json"], "none.json"),
    (["--victim", "nobody"], "there is no victim"),
    (["--views", "0"], "--views"),
    (["--steps", "0"], "steps"),
    (["--size", "4"], "patch size"),
    (["--reach.radius-low", "2"], "radius-low"),
])  # fmt: skip
def test_refusals(
    scene_file: Path, placed: Placement, tmp_path: Path, wrong: list[str], words: str,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    if wrong[0] != "--victim":
        monkeypatch.setattr("envelope.victims.registry.load_victim", lambda *a, **k: ShyOfGreen())
    monkeypatch.chdir(tmp_path)
    save_placement(placed, "placement.json")
    given = {"--placement": "placement.json", "--out": "p.png", wrong[0]: wrong[1]}
    with pytest.raises(SystemExit) as ended:
        main(["make-patch", str(scene_file), *(word for pair in given.items() for word in pair)])
    assert ended.value.code == 2
    assert words in " ".join(capsys.readouterr().err.split())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["placement.json"]
