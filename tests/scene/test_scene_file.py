"""Opening and saving scenes with their sidecar; which way is up."""

from __future__ import annotations

import json

import numpy as np
import pytest

from scene.camera import Camera
from scene.errors import InputError
from scene.gaussians import Gaussians
from scene.io import save_ply
from scene.scene import CaptureCamera, Scene, TargetBox, load_scene, save_scene
from scene.up import DEFAULT_UP, estimate_up


def some_gaussians(n: int = 5) -> Gaussians:
    rng = np.random.default_rng(0)
    return Gaussians(
        rng.normal(size=(n, 3)), np.tile([1, 0, 0, 0], (n, 1)), np.full((n, 3), 0.1),
        np.full(n, 0.5), rng.normal(size=(n, 1, 3)),
    )  # fmt: skip


def full_scene() -> Scene:
    camera = Camera.look_at([3, 1, 2], [0, 0, 0], [0, 0, 1], 40, 30, 50)
    turn = np.array([[0.0, 1, 0], [-1, 0, 0], [0, 0, 1]])
    return Scene(
        some_gaussians(),
        "street",
        cameras=(CaptureCamera("a.jpg", camera), CaptureCamera("b.jpg", camera, held_out=True)),
        up=(0.0, 0.6, 0.8),
        up_source="a spirit level",
        metres_per_unit=0.25,
        target=TargetBox(np.array([1.0, 2, 3]), turn, np.array([0.5, 1, 2]), "stop sign"),
        background=(1.0, 0.5, 0.0),
        provenance={"made by": "a test"},
    )


@pytest.mark.parametrize("name", ["a.ply", "a.compressed.ply"])
def test_everything_comes_back(tmp_path, name):
    scene = full_scene()
    saved = save_scene(scene, tmp_path / name)
    assert (tmp_path / "a.scene.json").is_file()
    loaded = load_scene(tmp_path / name)
    assert len(loaded.gaussians) == 5
    assert (loaded.name, loaded.up_source, loaded.metres_per_unit) == (
        "street",
        "a spirit level",
        0.25,
    )
    assert loaded.up == pytest.approx((0, 0.6, 0.8))
    assert loaded.background == (1, 0.5, 0)
    assert [(c.name, c.held_out) for c in loaded.cameras] == [("a.jpg", False), ("b.jpg", True)]
    np.testing.assert_array_equal(
        loaded.cameras[0].camera.camera_from_world, scene.cameras[0].camera.camera_from_world
    )
    assert loaded.target is not None
    assert scene.target is not None
    np.testing.assert_array_equal(loaded.target.axes, scene.target.axes)
    np.testing.assert_array_equal(loaded.target.half_sizes, [0.5, 1, 2])
    assert loaded.target.label == "stop sign"
    assert loaded.provenance["made by"] == "a test"
    assert loaded.provenance["sha256"] == saved.provenance["sha256"]
    assert loaded.provenance["notes"] == []


def test_the_sidecar_of_another_splat_is_not_used_unless_its_hash_is_taken_out(tmp_path, caplog):
    save_scene(full_scene(), tmp_path / "a.ply")
    save_ply(some_gaussians(7), tmp_path / "a.ply")
    scene = load_scene(tmp_path / "a.ply")
    assert (scene.cameras, scene.target, scene.metres_per_unit) == ((), None, None)
    assert (scene.up, scene.background, scene.name) == (DEFAULT_UP, (0, 0, 0), "a")
    assert "made by" not in scene.provenance
    (note,) = scene.provenance["notes"]
    assert note.startswith("a.scene.json is not used") and "another version" in note
    assert note in caplog.text
    fields = json.loads((tmp_path / "a.scene.json").read_text())
    del fields["splat_sha256"]
    (tmp_path / "a.scene.json").write_text(json.dumps(fields))
    scene = load_scene(tmp_path / "a.ply")
    assert (len(scene.cameras), scene.metres_per_unit) == (2, 0.25)
    assert scene.provenance["notes"] == []


def test_cameras_json_is_used_where_the_sidecar_is_another_splats(tmp_path):
    save_scene(full_scene(), tmp_path / "a.ply")
    save_ply(some_gaussians(7), tmp_path / "a.ply")
    entry = {"id": 0, "img_name": "own", "width": 40, "height": 30, "position": [1, 2, 3],
             "rotation": np.eye(3).tolist(), "fx": 50.0, "fy": 60.0}  # fmt: skip
    (tmp_path / "cameras.json").write_text(json.dumps([entry]))
    scene = load_scene(tmp_path / "a.ply")
    assert [c.name for c in scene.cameras] == ["own"]
    assert len(scene.provenance["notes"]) == 2


def test_without_a_sidecar_the_default_up_is_said(tmp_path):
    save_ply(some_gaussians(), tmp_path / "a.ply")
    scene = load_scene(tmp_path / "a.ply")
    assert scene.name == "a"
    assert scene.up == DEFAULT_UP
    assert "default" in scene.up_source
    assert scene.provenance["gaussians"] == 5


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"version": 2}, "version: wanted 1, found 2"),
        ({"up": [0, 0, 0]}, "up: wanted a direction"),
        ({"up": [0, "x", 0]}, "up: wanted 3 finite numbers"),
        ({"up": [0, 1]}, "up: wanted 3 finite numbers"),
        ({"metres_per_unit": -1}, "metres_per_unit: wanted > 0"),
        ({"metres_per_unit": "1"}, "metres_per_unit: wanted a finite number"),
        ({"background": [0, 0, 255]}, "background"),
        ({"cameras": {}}, "cameras: wanted a list"),
        ({"cameras": [{"width": 3}]}, r"cameras\[0\].*missing height"),
        ({"target": {"center": [0, 0, 0]}}, "target.axes"),
        ({"target": {"center": [0, 0, 0], "axes": np.ones((3, 3)).tolist(), "half_sizes": [1, 1, 1]}}, "perpendicular"),
        ({"target": {"center": [0, 0, 0], "axes": np.eye(3).tolist(), "half_sizes": [1, 0, 1]}}, "half_sizes"),
        ({"upp": [0, 0, 1]}, "unknown field 'upp'"),
    ],
)  # fmt: skip
def test_a_wrong_sidecar_names_file_and_field(tmp_path, change, sentence):
    save_ply(some_gaussians(), tmp_path / "a.ply")
    (tmp_path / "a.scene.json").write_text(json.dumps({"version": 1, **change}))
    with pytest.raises(InputError, match=sentence) as caught:
        load_scene(tmp_path / "a.ply")
    assert "a.scene.json" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_saving_under_another_suffix_is_refused_and_writes_nothing(tmp_path):
    with pytest.raises(InputError, match=r"ends in \.compressed\.ply, \.ply, \.spz"):
        save_scene(full_scene(), tmp_path / "a.splat")
    assert list(tmp_path.iterdir()) == []


def ring(up: np.ndarray, roll_deg: float = 0.0, heights: float = 1.0) -> list[Camera]:
    """Twelve cameras around the origin, looking at it from above, each rolled a little."""
    side = np.cross(up, [0.3, 0.5, 0.8])
    side /= np.linalg.norm(side)
    cameras = []
    for i in range(12):
        angle = 2 * np.pi * i / 12
        eye = 4 * (np.cos(angle) * side + np.sin(angle) * np.cross(up, side)) + heights * up
        roll = np.radians(roll_deg) * (-1) ** i
        camera = Camera.look_at(eye, [0, 0, 0], up, 40, 30, 50)
        turn = np.eye(4)
        turn[:2, :2] = [[np.cos(roll), -np.sin(roll)], [np.sin(roll), np.cos(roll)]]
        cameras.append(Camera(turn @ camera.camera_from_world, camera.K, 40, 30))
    return cameras


@pytest.mark.parametrize("up", [(0, 0, 1), (0, -1, 0), (0.36, -0.48, 0.8)])
def test_up_is_found_from_cameras_that_look_down_and_roll(up):
    up = np.array(up, dtype=float)
    found = estimate_up(ring(up, roll_deg=6, heights=3.0))
    assert np.degrees(np.arccos(np.clip(found @ up, -1, 1))) < 1.0
    # half a ring only: the mean of the picture ups would be tilted by tens of degrees
    found = estimate_up(ring(up, heights=4.0)[:4])
    assert np.degrees(np.arccos(np.clip(found @ up, -1, 1))) < 1e-3


def test_up_of_one_level_camera_is_the_axis_and_of_a_tilted_one_its_picture_up():
    assert estimate_up([Camera.look_at([0, 4, 3], [0, 0, 0], [0, 0, 1], 40, 30, 50)]) == (0, 0, 1)
    up = np.array([0.36, -0.48, 0.8])
    camera = ring(up)[0]
    np.testing.assert_allclose(estimate_up([camera]), -camera.down, atol=1e-9)


def test_cameras_json_of_inria_training(tmp_path):
    # 90 degrees about z: the camera's x axis is the world's y
    rotation = [[0.0, -1, 0], [1, 0, 0], [0, 0, 1]]
    entry = {"id": 0, "img_name": "a", "width": 40, "height": 30, "position": [1, 2, 3],
             "rotation": rotation, "fx": 50.0, "fy": 60.0}  # fmt: skip
    folder = tmp_path / "point_cloud" / "iteration_7"
    folder.mkdir(parents=True)
    save_ply(some_gaussians(), folder / "point_cloud.ply")
    (tmp_path / "cameras.json").write_text(json.dumps([entry]))
    scene = load_scene(folder / "point_cloud.ply")
    camera = scene.cameras[0].camera
    np.testing.assert_allclose(camera.center, [1, 2, 3])
    # one unit along world y at depth 5 is one to the right: 40/2 + 50 * 1/5
    pixel, depth = camera.project([1, 3, 8])
    np.testing.assert_allclose(pixel, [30, 15])
    assert depth == pytest.approx(5)
    assert "1 cameras are from cameras.json" in scene.provenance["notes"]
    (tmp_path / "cameras.json").write_text('[{"id": 0}]')
    scene = load_scene(folder / "point_cloud.ply")
    assert scene.cameras == ()
    assert "cameras were not read" in scene.provenance["notes"][0]


@pytest.mark.real
def test_fox25_opens_with_its_cameras(real_data):
    scene = load_scene(real_data / "splats/fox25/fox25.ply")
    assert len(scene.cameras) == 30
    assert sum(c.held_out for c in scene.cameras) == 5
    assert any("20 that it marks as unused are left out" in n for n in scene.provenance["notes"])
    # instant-ngp's poses are turned so that z is about up
    assert scene.up[2] > 0.98


def test_the_output_folder_of_a_trainer_opens_its_last_result(tmp_path):
    for step, n in ((7000, 3), (30000, 6)):
        folder = tmp_path / "iteration_9" / "plaza" / "point_cloud" / f"iteration_{step}"
        folder.mkdir(parents=True)
        save_ply(some_gaussians(n), folder / "point_cloud.ply")
    plaza = tmp_path / "iteration_9" / "plaza"
    entry = {"id": 0, "img_name": "a", "width": 40, "height": 30, "position": [1, 2, 3],
             "rotation": np.eye(3).tolist(), "fx": 50.0, "fy": 60.0}  # fmt: skip
    (plaza / "cameras.json").write_text(json.dumps([entry]))
    scene = load_scene(plaza)
    assert (len(scene.gaussians), scene.name, len(scene.cameras)) == (6, "plaza", 1)
    assert scene.provenance["notes"][0].startswith("point_cloud/iteration_30000/point_cloud.ply is")
    alone = load_scene(folder / "point_cloud.ply")
    assert (alone.name, alone.provenance["notes"]) == (
        "point_cloud",
        ["1 cameras are from cameras.json"],
    )


def test_the_output_folder_of_gsplat_opens_its_last_checkpoint(tmp_path):
    torch = pytest.importorskip("torch")
    for step, n in ((6999, 3), (29999, 6)):
        g = some_gaussians(n)
        table = {
            "means": g.means,
            "quats": g.quats,
            "scales": np.log(g.scales),
            "opacities": g.opacities,
            "sh0": g.sh,
        }
        (tmp_path / "ckpts").mkdir(exist_ok=True)
        splats = {name: torch.tensor(np.array(values)) for name, values in table.items()}
        torch.save({"step": step, "splats": splats}, tmp_path / "ckpts" / f"ckpt_{step}_rank0.pt")
    scene = load_scene(tmp_path)
    assert len(scene.gaussians) == 6
    assert scene.name == tmp_path.name
