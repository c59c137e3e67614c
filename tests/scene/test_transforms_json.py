"""transforms.json: known points land on hand-computed pixels; what is missing is said."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from scipy.spatial.transform import Rotation

from scene.captures import load_capture
from scene.errors import InputError

# A camera at (1, 2, 3) that looks along world +x with its picture's top towards +z, as OpenGL
# columns: right = -y, up = +z, backward = -x.
LOOKS_ALONG_X = [[0, 0, -1, 1], [-1, 0, 0, 2], [0, 1, 0, 3], [0, 0, 0, 1]]


def write(
    folder: Path, frames: list[dict], size: tuple[int, int] = (80, 60), **shared: object
) -> Path:
    for frame in frames:
        if not frame["file_path"].startswith("absent"):
            path = folder / frame["file_path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", size, (10, 20, 30)).save(path)
    (folder / "transforms.json").write_text(json.dumps({**shared, "frames": frames}))
    return folder


def test_a_point_lands_on_the_hand_computed_pixel_and_back(tmp_path):
    frame = {"file_path": "images/a.png", "transform_matrix": LOOKS_ALONG_X}
    folder = write(tmp_path, [frame], fl_x=100, fl_y=120, cx=41, cy=28, w=80, h=60)
    camera = load_capture(folder).frames[0].camera
    np.testing.assert_allclose(camera.center, [1, 2, 3], atol=1e-12)
    # 10 ahead, 2 to the left (+y), 1 up: x = 41 - 100 * 2/10, y = 28 - 120 * 1/10
    pixel, depth = camera.project([11, 4, 4])
    np.testing.assert_allclose(pixel, [21, 16], atol=1e-9)
    assert depth == pytest.approx(10)
    np.testing.assert_allclose(camera.center + 10 * camera.rays([21, 16]), [11, 4, 4], atol=1e-9)


@given(
    turn=st.tuples(*[st.floats(-3, 3)] * 3),
    eye=st.tuples(*[st.floats(-50, 50)] * 3),
    point=st.tuples(st.floats(-3, 3), st.floats(-3, 3), st.floats(1, 30)),
)
def test_opengl_poses_in_any_direction(tmp_path_factory, turn, eye, point):
    world_from_opengl = np.eye(4)
    world_from_opengl[:3, :3] = Rotation.from_rotvec(turn).as_matrix()
    world_from_opengl[:3, 3] = eye
    folder = tmp_path_factory.mktemp("t")
    frame = {"file_path": "a.png", "transform_matrix": world_from_opengl.tolist()}
    camera = load_capture(write(folder, [frame], fl_x=50, cx=13, cy=31)).frames[0].camera
    x, y, z = point
    world = world_from_opengl @ [x, -y, -z, 1]
    pixel, depth = camera.project(world[:3])
    np.testing.assert_allclose(pixel, [13 + 50 * x / z, 31 + 50 * y / z], atol=1e-6)
    assert depth == pytest.approx(z)


def test_blender_field_of_view_and_names_without_suffix(tmp_path):
    write(
        tmp_path,
        [{"file_path": "train/r_0.png", "transform_matrix": np.eye(4).tolist()}],
        camera_angle_x=0.9,
    )
    frames = [{"file_path": "./train/r_0", "transform_matrix": np.eye(4).tolist()}]
    (tmp_path / "transforms_train.json").write_text(
        json.dumps({"camera_angle_x": 0.9, "frames": frames})
    )
    (tmp_path / "transforms_test.json").write_text(
        json.dumps({"camera_angle_x": 0.9, "frames": frames})
    )
    (tmp_path / "transforms.json").unlink()
    capture = load_capture(tmp_path)
    assert [f.held_out for f in capture.frames] == [False, True]
    focal = 40 / np.tan(0.45)
    np.testing.assert_allclose(
        capture.frames[0].camera.K, [[focal, 0, 40], [0, focal, 30], [0, 0, 1]]
    )


def test_per_frame_intrinsics_override_shared_ones(tmp_path):
    pose = np.eye(4).tolist()
    frames = [
        {"file_path": "a.png", "transform_matrix": pose},
        {"file_path": "b.png", "transform_matrix": pose, "fl_x": 70, "cy": 11},
    ]
    a, b = load_capture(write(tmp_path, frames, fl_x=50, fl_y=55, cx=40, cy=30)).frames
    np.testing.assert_allclose(a.camera.K, [[50, 0, 40], [0, 55, 30], [0, 0, 1]])
    np.testing.assert_allclose(b.camera.K, [[70, 0, 40], [0, 55, 11], [0, 0, 1]])


def test_pictures_shrunk_since_scale_the_intrinsics(tmp_path):
    frame = {"file_path": "a.png", "transform_matrix": np.eye(4).tolist()}
    folder = write(tmp_path, [frame], size=(40, 30), fl_x=100, fl_y=120, cx=41, cy=28, w=80, h=60)
    camera = load_capture(folder).frames[0].camera
    assert (camera.width, camera.height) == (40, 30)
    np.testing.assert_allclose(camera.K, [[50, 0, 20.5], [0, 60, 14], [0, 0, 1]])
    write(tmp_path, [frame], size=(60, 80), fl_x=100, w=80, h=60)
    with pytest.raises(
        InputError, match="wanted a 80x60 picture or one of that shape, found 60x80"
    ):
        load_capture(folder)


def test_missing_pictures_are_skipped_and_counted(tmp_path):
    frames = [
        {"file_path": name, "transform_matrix": np.eye(4).tolist()}
        for name in ("absent1.png", "here.png", "absent2.png")
    ]
    capture = load_capture(write(tmp_path, frames, fl_x=50))
    assert [f.name for f in capture.frames] == ["here.png"]
    assert capture.notes[0].startswith("1 of 3 frames used: 2 pictures are missing (absent1.png")
    (tmp_path / "here.png").unlink()
    with pytest.raises(InputError, match="none of the 3 listed pictures exists"):
        load_capture(tmp_path)


def test_nerfstudio_splits_points_and_transform_are_read_and_said(tmp_path):
    frames = [{"file_path": n, "transform_matrix": np.eye(4).tolist()} for n in ("a.png", "b.png")]
    (tmp_path / "sparse.ply").write_text(
        "ply\nformat ascii 1.0\nelement vertex 2\nproperty float x\nproperty float y\nproperty float z\n"
        "property uchar red\nproperty uchar green\nproperty uchar blue\nend_header\n"
        "1 2 3 255 0 51\nnan 0 0 0 0 0\n"
    )
    folder = write(
        tmp_path, frames, fl_x=50, test_filenames=["b.png"], ply_file_path="sparse.ply",
        applied_transform=[[1, 0, 0, 0]] * 3,
    )  # fmt: skip
    capture = load_capture(folder)
    assert [f.held_out for f in capture.frames] == [False, True]
    assert capture.points is not None
    np.testing.assert_array_equal(capture.points, [[1, 2, 3]])
    np.testing.assert_allclose(capture.point_colors, [[1, 0, 0.2]])
    assert any("applied_transform" in note for note in capture.notes)


@pytest.mark.real
def test_fox(real_data):
    capture = load_capture(real_data / "captures/fox")
    assert len(capture.frames) == 25
    assert capture.notes[0].startswith("25 of 67 frames used: 42 pictures are missing")
    # the reconstruction made elsewhere from these photos used the same undistorted cameras
    known = json.loads((real_data / "splats/fox25/fox25_cameras.json").read_text())
    poses = {frame["file"]: np.array(frame["w2c"]) for frame in known["frames"]}
    for frame in capture.frames:
        camera = frame.camera.resized(270, 480)
        assert frame.image_path is not None
        np.testing.assert_allclose(
            camera.camera_from_world, poses[frame.image_path.name], atol=1e-5
        )
        wanted = [[known["fl_x"], 0, known["cx"]], [0, known["fl_y"], known["cy"]], [0, 0, 1]]
        np.testing.assert_allclose(camera.K, wanted, atol=1e-6)
    image = capture.frames[0].load_image((270, 480))
    assert image.shape == (480, 270, 3)
    assert 0.2 < image.mean() < 0.8


@pytest.mark.real
def test_blender_lego(real_data):
    capture = load_capture(real_data / "captures/blender_lego")
    (frame,) = capture.frames
    assert capture.up == (0, 0, 1)
    # the model stands at the origin, which is in the middle of the picture
    np.testing.assert_allclose(frame.camera.project([0, 0, 0])[0], [25, 25], atol=1.0)
    image = frame.load_image()
    # transparent corners become white
    np.testing.assert_array_equal(image[0, 0], [1, 1, 1])
    assert image[25, 25].max() < 1
