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

from scene.captures import CaptureOptions, load_capture
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


def test_null_states_nothing_and_the_shared_value_holds(tmp_path):
    nothing = dict.fromkeys(
        ("fl_x", "fl_y", "cx", "cy", "w", "h", "k1", "camera_model", "is_fisheye", "mask_path")
    )
    frame = {"file_path": "a.png", "transform_matrix": np.eye(4).tolist(), **nothing}
    shared = {
        "fl_x": 50,
        "fl_y": 55,
        "cx": 41,
        "cy": 28,
        "w": 80,
        "h": 60,
        "k1": None,
        "camera_model": None,
    }
    void = {"applied_transform": None, "applied_scale": None, "ply_file_path": None}
    capture = load_capture(write(tmp_path, [frame], **shared, **void))
    assert capture.frames[0].lens is None and capture.frames[0].mask is None
    np.testing.assert_allclose(capture.frames[0].camera.K, [[50, 0, 41], [0, 55, 28], [0, 0, 1]])
    assert capture.notes == () and capture.from_data is None
    lens = load_capture(write(tmp_path, [frame], **{**shared, "k1": -0.1})).frames[0].lens
    assert lens is not None and lens.coefficients[0] == -0.1


def test_a_frames_own_field_of_view_comes_before_a_shared_focal_length(tmp_path):
    pose = np.eye(4).tolist()
    frames = [
        {"file_path": "a.png", "transform_matrix": pose},
        {"file_path": "b.png", "transform_matrix": pose, "camera_angle_x": 2 * np.arctan(0.5)},
    ]
    a, b = load_capture(write(tmp_path, frames, fl_x=50, fl_y=50, camera_angle_x=1.0)).frames
    # half the width over the tangent of half the angle: 40 / 0.5
    assert (a.camera.K[0, 0], b.camera.K[0, 0]) == pytest.approx((50, 80))


def test_a_pinhole_with_coefficients_is_undistorted(tmp_path):
    frame = {"file_path": "a.png", "transform_matrix": np.eye(4).tolist()}
    for model in ("PINHOLE", "SIMPLE_PINHOLE", "OPENCV", "SIMPLE_RADIAL"):
        (f,) = load_capture(write(tmp_path, [frame], fl_x=50, k1=-0.1, camera_model=model)).frames
        assert f.lens is not None and f.lens.coefficients == (-0.1, 0, 0, 0, 0)
    (f,) = load_capture(write(tmp_path, [frame], fl_x=50, k1=0, camera_model="PINHOLE")).frames
    assert f.lens is None


def test_splits_may_spell_the_same_path_otherwise(tmp_path):
    frames = [{"file_path": n, "transform_matrix": np.eye(4).tolist()} for n in ("a.png", "b.png")]
    folder = write(tmp_path, frames, fl_x=50, val_filenames=["./b.png"])
    assert [f.held_out for f in load_capture(folder).frames] == [False, True]


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


def test_frames_without_a_pose_and_a_third_split_are_left_out_and_said(tmp_path):
    frames = [
        {"file_path": "a.png", "transform_matrix": np.eye(4).tolist()},
        {"file_path": "b.png", "transform_matrix": None}, {"file_path": "c.png"},
    ]  # fmt: skip
    capture = load_capture(write(tmp_path, frames, fl_x=50))
    assert [f.name for f in capture.frames] == ["a.png"]
    assert capture.notes == ("2 frames without a transform_matrix are left out",)
    with pytest.raises(InputError, match="none of the 2 listed pictures has a transform_matrix"):
        load_capture(write(tmp_path, frames[1:], fl_x=50))
    (tmp_path / "transforms.json").unlink()
    for split in ("train", "val", "test"):
        content = {"camera_angle_x": 1.0, "frames": frames[:1]}
        (tmp_path / f"transforms_{split}.json").write_text(json.dumps(content))
    capture = load_capture(tmp_path)
    assert [f.held_out for f in capture.frames] == [False, True]
    assert capture.notes == ("transforms_val.json is not used",)


def cloud(folder: Path) -> None:
    (folder / "sparse.ply").write_text(
        "ply\nformat ascii 1.0\nelement vertex 2\nproperty float x\nproperty float y\nproperty float z\n"
        "property uchar red\nproperty uchar green\nproperty uchar blue\nend_header\n"
        "1 2 3 255 0 51\nnan 0 0 0 0 0\n"
    )


def test_nerfstudio_splits_and_points(tmp_path):
    frames = [{"file_path": n, "transform_matrix": np.eye(4).tolist()} for n in ("a.png", "b.png")]
    cloud(tmp_path)
    folder = write(
        tmp_path, frames, fl_x=50, test_filenames=["b.png"], ply_file_path="sparse.ply"
    )  # fmt: skip
    capture = load_capture(folder)
    assert [f.held_out for f in capture.frames] == [False, True]
    assert capture.points is not None
    np.testing.assert_array_equal(capture.points, [[1, 2, 3]])
    np.testing.assert_allclose(capture.point_colors, [[1, 0, 0.2]])


# ns-process-data's own: file = (y, x, -z) of the data, then shrunk to a quarter
APPLIED = {"applied_transform": [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, -1, 0]], "applied_scale": 0.25}


def test_the_normalisation_is_undone_for_cameras_and_points_alike_or_kept_on_request(tmp_path):
    cloud(tmp_path)
    frame = {"file_path": "a.png", "transform_matrix": LOOKS_ALONG_X}
    write(
        tmp_path, [frame], fl_x=100, fl_y=120, cx=41, cy=28, ply_file_path="sparse.ply", **APPLIED
    )
    kept = load_capture(tmp_path, CaptureOptions(frame="file"))
    np.testing.assert_allclose(kept.frames[0].camera.center, [1, 2, 3], atol=1e-12)
    np.testing.assert_array_equal(kept.points, [[1, 2, 3]])
    assert any("was not undone" in note for note in kept.notes)
    # (1, 2, 3) / 0.25 = (4, 8, 12), then x and y change places and z its sign
    original = load_capture(tmp_path)
    np.testing.assert_allclose(original.frames[0].camera.center, [8, 4, -12], atol=1e-12)
    np.testing.assert_allclose(original.points, [[8, 4, -12]])
    assert any("is undone" in note for note in original.notes)
    assert original.from_data is None
    assert kept.up == (0, 0, 1)
    assert original.up == (0, 0, -1)
    # a known point is on the same pixel in both frames, at four times the depth
    for capture, point, depth in ((kept, [11, 4, 4], 10), (original, [16, 44, -16], 40)):
        pixel, z = capture.frames[0].camera.project(point)
        np.testing.assert_allclose(pixel, [21, 16], atol=1e-9)
        assert z == pytest.approx(depth)
    back = kept.in_data_frame()
    np.testing.assert_allclose(back.frames[0].camera.center, [8, 4, -12], atol=1e-12)


@pytest.mark.parametrize("wrong", [{"applied_scale": 0}, {"applied_scale": "big"},
                                   {"applied_transform": [[1, 0], [0, 1]]},
                                   {"applied_transform": [[2, 0, 0, 0], [0, 2, 0, 0], [0, 0, 2, 0]]}])  # fmt: skip
def test_a_normalisation_that_is_none_is_refused(tmp_path, wrong):
    frame = {"file_path": "a.png", "transform_matrix": LOOKS_ALONG_X}
    with pytest.raises(InputError, match="applied_transform"):
        load_capture(write(tmp_path, [frame], fl_x=100, **wrong))


def test_masks_come_with_their_frames(tmp_path):
    frame = {"file_path": "a.png", "mask_path": "masks/a.png", "transform_matrix": LOOKS_ALONG_X}
    other = {"file_path": "b.png", "mask_path": "masks/none.png", "transform_matrix": LOOKS_ALONG_X}
    write(tmp_path, [frame, other], fl_x=100)
    mask = np.zeros((60, 80), np.uint8)
    mask[:30, :20] = 255
    (tmp_path / "masks").mkdir()
    Image.fromarray(mask).save(tmp_path / "masks/a.png")
    capture = load_capture(tmp_path)
    a, b = capture.frames
    assert a.mask is not None
    assert a.mask.meaning == "use"
    np.testing.assert_allclose(a.load_mask((8, 6)), np.pad(np.ones((3, 2)), ((0, 3), (0, 6))))
    assert b.load_mask() is None
    assert any("1 listed masks are missing" in note for note in capture.notes)


def test_a_blender_landmark_on_a_picture_wider_than_high(tmp_path):
    # the scene's own camera_angle_x; a world point 4 ahead, 1 right and 0.5 down of the camera
    pose = [[1, 0, 0, 0], [0, 0, -1, -4], [0, 1, 0, 1], [0, 0, 0, 1]]
    frames = [{"file_path": "./train/r_0", "transform_matrix": pose}]
    (tmp_path / "train").mkdir()
    Image.new("RGBA", (80, 60)).save(tmp_path / "train/r_0.png")
    text = json.dumps({"camera_angle_x": 2 * np.arctan(0.4), "frames": frames})
    (tmp_path / "transforms_train.json").write_text(text)
    camera = load_capture(tmp_path).frames[0].camera
    # focal = 40 / 0.4 = 100: x = 40 + 100 / 4, y = 30 + 100 * 0.5 / 4
    pixel, depth = camera.project([1, 0, 0.5])
    np.testing.assert_allclose(pixel, [65, 42.5])
    assert depth == pytest.approx(4)
    np.testing.assert_allclose(camera.center + 4 * camera.rays([65, 42.5]), [1, 0, 0.5], atol=1e-9)


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


@pytest.mark.parametrize(("away", "said"), [(0.0, False), (1e4, False), (6e6, True)])
def test_a_world_too_far_from_its_origin_is_said(tmp_path, away, said):
    frames = [
        {
            "file_path": f"images/{i}.png",
            "transform_matrix": [[0, 0, -1, away + i * 10], *LOOKS_ALONG_X[1:]],
        }
        for i in range(2)
    ]
    notes = load_capture(write(tmp_path, frames, fl_x=100)).notes
    # single precision: half a unit at six million
    assert any("in steps of 0.5 units, and they span 10;" in note for note in notes) == said
