"""CO3D: both intrinsics conventions land a landmark on its hand-computed pixel and back."""

from __future__ import annotations

import numpy as np
import pytest
from co3d_files import HEIGHT, WIDTH, A, B, frame, write_category, write_jgz

from scene.captures import CaptureOptions, load_capture
from scene.errors import InputError
from scene.inspect import describe

# The same two numbers mean different cameras: half sizes are (30, 50), the smaller half is 30.
NUMBERS = {"focal_length": [2.0, 2.0], "principal_point": [0.1, -0.2]}
BOUNDS = {**NUMBERS, "intrinsics_format": "ndc_norm_image_bounds"}
ISOTROPIC = {**NUMBERS, "intrinsics_format": "ndc_isotropic"}


@pytest.mark.parametrize(
    ("intrinsics", "K", "pixel_a", "pixel_b"),
    [
        # f = (2 * 30, 2 * 50), c = (30 - 0.1 * 30, 50 + 0.2 * 50)
        # A sees (1, 2, 4) at 1 left, 2 up, 4 ahead: x = 27 - 60/4, y = 60 - 100 * 2/4
        # B sees it at 5 ahead, 2 up, and 3 to its right (left is 1 - z = -3):
        # x = 27 + 60 * 3/5, y = 60 - 100 * 2/5
        (BOUNDS, (60, 100, 27, 60), (12, 10), (63, 20)),
        # f = 2 * 30 both, c = (30 - 0.1 * 30, 50 + 0.2 * 30)
        (ISOTROPIC, (60, 60, 27, 56), (12, 26), (63, 32)),
        # what a file without the field means
        (NUMBERS, (60, 100, 27, 60), (12, 10), (63, 20)),
    ],
)
def test_a_landmark_both_ways_in_both_conventions(tmp_path, intrinsics, K, pixel_a, pixel_b):
    category = write_category(tmp_path, [frame(1, A, intrinsics), frame(2, B, intrinsics)])
    capture = load_capture(category)
    point = np.array([1.0, 2.0, 4.0])
    for item, pixel, depth in zip(capture.frames, (pixel_a, pixel_b), (4, 5), strict=True):
        camera = item.camera
        assert (camera.width, camera.height) == (WIDTH, HEIGHT)
        fx, fy, cx, cy = K
        np.testing.assert_allclose(camera.K, [[fx, 0, cx], [0, fy, cy], [0, 0, 1]])
        found, z = camera.project(point)
        np.testing.assert_allclose(found, pixel, atol=1e-12)
        assert z == pytest.approx(depth)
        np.testing.assert_allclose(camera.center + depth * camera.rays(pixel), point, atol=1e-12)
    np.testing.assert_allclose(capture.frames[1].camera.center, [-4, 0, 1], atol=1e-12)
    np.testing.assert_array_equal(capture.points, [[1, 2, 4]])
    # y is up in both cameras
    np.testing.assert_allclose(capture.up, [0, 1, 0], atol=1e-9)
    assert capture.up_source == "estimated from 2 cameras"
    assert capture.metres_per_unit is None


def test_masks_mark_the_object_and_carry_its_name(tmp_path):
    category = write_category(tmp_path, [frame(1, A, BOUNDS), frame(2, B, BOUNDS)])
    (category / "s1/masks/frame000002.png").unlink()
    capture = load_capture(category / "s1")
    first, second = capture.frames
    assert first.mask is not None
    assert (first.mask.meaning, first.mask.label) == ("object", "stop sign")
    np.testing.assert_array_equal(first.load_mask((2, 2)), [[0, 0], [0, 1]])
    assert second.mask is None
    assert any("1 of 2 frames have no mask" in note for note in capture.notes)
    assert first.load_image().shape == (HEIGHT, WIDTH, 3)


def test_a_sequence_is_named_by_its_folder_or_by_option(tmp_path):
    frames = [frame(1, A, BOUNDS), frame(1, B, BOUNDS, "s2"), frame(2, A, BOUNDS)]
    category = write_category(tmp_path, frames)
    with pytest.raises(InputError, match=r"holds 2 sequences.*s1, s2"):
        load_capture(category)
    assert len(load_capture(category, CaptureOptions(sequence="s1")).frames) == 2
    assert len(load_capture(category / "s2").frames) == 1
    annotations = category / "frame_annotations.jgz"
    assert len(load_capture(annotations, CaptureOptions(sequence="s2")).frames) == 1
    with pytest.raises(InputError, match="has no sequence 's3'; it has s1, s2"):
        load_capture(category, CaptureOptions(sequence="s3"))


def test_missing_pictures_are_counted_and_shrunk_ones_scale_the_camera(tmp_path):
    from PIL import Image

    category = write_category(tmp_path, [frame(1, A, BOUNDS), frame(2, B, BOUNDS)])
    (category / "s1/images/frame000002.jpg").unlink()
    Image.new("RGB", (30, 50)).save(category / "s1/images/frame000001.jpg")
    capture = load_capture(category)
    assert any("1 of 2 frames used: 1 pictures are missing" in n for n in capture.notes)
    np.testing.assert_allclose(capture.frames[0].camera.project([1, 2, 4])[0], [6, 5])
    facts = describe(category)
    assert (facts["format"], facts["frames"], facts["points"], facts["masks"]) == ("CO3D", 1, 1, 1)
    assert describe(category / "frame_annotations.jgz")["frames"] == 1


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"R": [[1, 0], [0, 1]]}, "viewpoint.R: wanted 3x3"),
        ({"R": (2 * np.eye(3)).tolist()}, "wanted a rotation"),
        ({"R": np.diag([1, 1, -1]).tolist()}, "wanted a rotation"),
        ({"T": [0, float("nan"), 0]}, "viewpoint.T: wanted 3 finite"),
        ({"T": "here"}, "viewpoint.T"),
        ({"focal_length": [0, 1]}, "focal"),
        ({"focal_length": [2]}, "focal_length"),
        ({"intrinsics_format": "pixels"}, "wanted ndc_norm_image_bounds or ndc_isotropic"),
    ],
)
def test_wrong_annotations_name_frame_and_field(tmp_path, wrong, sentence):
    entry = frame(1, A, BOUNDS)
    entry["viewpoint"].update(wrong)
    with pytest.raises(InputError, match=sentence) as caught:
        load_capture(write_category(tmp_path, [entry]))
    assert "frame 1" in str(caught.value)


def test_frames_without_a_viewpoint_are_left_out_and_said(tmp_path):
    hidden = {**frame(2, B, BOUNDS), "viewpoint": None}
    capture = load_capture(write_category(tmp_path, [frame(1, A, BOUNDS), hidden]))
    assert len(capture.frames) == 1
    assert any("1 frames without a viewpoint" in note for note in capture.notes)
    with pytest.raises(InputError, match="none of the 1 frames of sequence s1 has a viewpoint"):
        load_capture(write_category(tmp_path, [hidden]))


def test_a_long_list_is_read_piece_by_piece(tmp_path):
    rng = np.random.default_rng(0)
    notes = ["ä" * 300 + rng.bytes(300).hex() for _ in range(3000)]
    frames = [{**frame(i, A, BOUNDS, f"s{i % 7}"), "note": n} for i, n in enumerate(notes)]
    category = write_category(tmp_path, frames[:7])
    write_jgz(category / "frame_annotations.jgz", frames)
    capture = load_capture(category / "s3")
    assert capture.notes[1].startswith("1 of 429 frames used")


@pytest.mark.parametrize(
    ("category", "label"),
    [
        ("hydrant", "fire hydrant"),
        ("plant", "potted plant"),
        ("ball", "sports ball"),
        ("car", "car"),
    ],
)
def test_labels_are_names_that_detectors_know(tmp_path, category, label):
    folder = write_category(tmp_path, [frame(1, A, BOUNDS)])
    renamed = folder.rename(tmp_path / category)
    (item,) = load_capture(renamed).frames
    assert item.mask is not None
    assert item.mask.label == label
