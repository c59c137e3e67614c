"""LLFF: down-right-back axes, pictures paired by order."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from scene.captures import load_capture
from scene.errors import InputError
from scene.inspect import describe


def row(down, right, back, center, height=60, width=80, focal=100) -> np.ndarray:
    matrix = np.column_stack([down, right, back, center, [height, width, focal]])
    return np.append(matrix.astype(np.float64).ravel(), [1.0, 50.0])


# The camera at (1, 2, 3) that looks along world +x with its top towards +z, right = -y.
LOOKS_ALONG_X = row([0, 0, -1], [0, -1, 0], [-1, 0, 0], [1, 2, 3])
LOOKS_ALONG_Y = row([0, 0, -1], [1, 0, 0], [0, -1, 0], [0, -5, 0])


def write(folder, rows, names=("b.png", "a.png"), size=(80, 60), images="images"):
    (folder / images).mkdir(exist_ok=True)
    for name in names:
        Image.new("RGB", size).save(folder / images / name)
    np.save(folder / "poses_bounds.npy", np.stack(rows))
    return folder


def test_a_landmark_both_ways(tmp_path):
    capture = load_capture(write(tmp_path, [LOOKS_ALONG_X, LOOKS_ALONG_Y]))
    # rows go with the pictures' names in order
    assert [f.name for f in capture.frames] == ["a.png", "b.png"]
    camera = capture.frames[0].camera
    np.testing.assert_allclose(camera.center, [1, 2, 3])
    # 10 ahead, 2 to the left (+y), 1 up: x = 40 - 100 * 2/10, y = 30 - 100 * 1/10
    pixel, depth = camera.project([11, 4, 4])
    np.testing.assert_allclose(pixel, [20, 20])
    assert depth == pytest.approx(10)
    np.testing.assert_allclose(camera.center + 10 * camera.rays([20, 20]), [11, 4, 4])
    np.testing.assert_allclose(capture.up, [0, 0, 1], atol=1e-9)
    assert capture.up_source == "estimated from 2 cameras"
    assert describe(tmp_path / "poses_bounds.npy")["frames"] == 2


def test_shrunk_pictures_scale_the_camera(tmp_path):
    folder = write(tmp_path, [LOOKS_ALONG_X, LOOKS_ALONG_Y], size=(20, 15), images="images_4")
    camera = load_capture(folder).frames[0].camera
    np.testing.assert_allclose(camera.project([11, 4, 4])[0], [5, 5])


def test_poses_and_pictures_must_be_as_many(tmp_path):
    with pytest.raises(InputError, match="has 1 poses for the 2 pictures"):
        load_capture(write(tmp_path, [LOOKS_ALONG_X]))
    with pytest.raises(InputError, match="no pictures in images"):
        load_capture(write(tmp_path / "..", [LOOKS_ALONG_X], names=(), images="none"))


def test_a_colmap_model_beside_it_is_preferred(tmp_path):
    write(tmp_path, [LOOKS_ALONG_X, LOOKS_ALONG_Y])
    sparse = tmp_path / "sparse" / "0"
    sparse.mkdir(parents=True)
    (sparse / "cameras.txt").write_text("1 PINHOLE 80 60 100 100 40 30\n")
    (sparse / "images.txt").write_text("1 1 0 0 0 0 0 0 1 a.png\n\n")
    capture = load_capture(tmp_path)
    assert len(capture.frames) == 1
    assert any("poses_bounds.npy is not used" in note for note in capture.notes)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"right": [0, 1, 0]}, "row 0: wanted a rotation"),  # a mirror
        ({"back": [-2, 0, 0]}, "row 0: wanted a rotation"),
        ({"focal": 0}, "row 0: wanted height, width and focal length > 0"),
        ({"center": [np.nan, 0, 0]}, "row 0 holds NaN"),
        ({"height": 80, "width": 60}, "row 0: .*wanted a 60x80 picture"),
    ],
)
def test_wrong_rows_are_named(tmp_path, change, sentence):
    good = {"down": [0, 0, -1], "right": [0, -1, 0], "back": [-1, 0, 0], "center": [1, 2, 3]}
    bad = row(**{**good, **change})
    with pytest.raises(InputError, match=sentence):
        load_capture(write(tmp_path, [bad, LOOKS_ALONG_Y]))
