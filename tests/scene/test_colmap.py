"""COLMAP models: text and binary agree, every camera model is right or refused by name."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scene.captures import load_capture
from scene.captures.colmap_read import read_binary_model, read_text_model
from scene.errors import InputError

# Turned 90 degrees about z: world x goes to camera y, world y to camera -x.
QUAT = (0.5**0.5, 0.0, 0.0, 0.5**0.5)
TRANSLATION = (1.0, 2.0, 3.0)


def write_text(folder: Path, camera: str = "PINHOLE 80 60 100 120 41 28") -> Path:
    (folder / "images").mkdir(exist_ok=True)
    Image.new("RGB", (80, 60)).save(folder / "images" / "a b.png")
    sparse = folder / "sparse" / "0"
    sparse.mkdir(parents=True, exist_ok=True)
    pose = " ".join(map(repr, (*QUAT, *TRANSLATION)))
    (sparse / "cameras.txt").write_text(f"# comment\n7 {camera}\n")
    # the second image has no observations: its second line is empty
    (sparse / "images.txt").write_text(
        f"# comment\n1 {pose} 7 a b.png\n10.5 20.5 5 30 40 -1\n2 {pose} 7 absent.png\n\n"
    )
    (sparse / "points3D.txt").write_text("5 1 2 7 255 0 51 0.5 1 0\n6 nan 0 0 0 0 0 0\n")
    return folder


def write_binary(folder: Path) -> Path:
    write_text(folder)
    sparse = folder / "sparse" / "0"
    for file in sparse.glob("*.txt"):
        file.unlink()
    (sparse / "cameras.bin").write_bytes(struct.pack("<QiiQQ4d", 1, 7, 1, 80, 60, 100, 120, 41, 28))
    image = struct.pack("<i7di", 1, *QUAT, *TRANSLATION, 7) + b"a b.png\0"
    image += struct.pack("<QddqddQ", 2, 10.5, 20.5, 5, 30, 40, 2**64 - 1)
    other = struct.pack("<i7di", 2, *QUAT, *TRANSLATION, 7) + b"absent.png\0" + struct.pack("<Q", 0)
    (sparse / "images.bin").write_bytes(struct.pack("<Q", 2) + image + other)
    point = struct.pack("<q3d3BdQii", 5, 1, 2, 7, 255, 0, 51, 0.5, 1, 1, 0)
    (sparse / "points3D.bin").write_bytes(struct.pack("<Q", 1) + point)
    return folder


@pytest.mark.parametrize("write", [write_text, write_binary])
def test_a_point_lands_on_the_hand_computed_pixel_and_back(tmp_path, write):
    capture = load_capture(write(tmp_path))
    (frame,) = capture.frames
    assert frame.name == "a b.png"
    assert capture.notes[0] == "1 of 2 frames used: 1 pictures are missing (absent.png)"
    lost = ("1 of 2 points hold NaN or infinity and are left out",)
    assert capture.notes[1:] == (lost if write is write_text else ())
    # (1, 2, 7) turns to (-2, 1, 7), moves to (-1, 3, 10): x = 41 - 100/10, y = 28 + 120 * 3/10
    pixel, depth = frame.camera.project([1, 2, 7])
    np.testing.assert_allclose(pixel, [31, 64])
    assert depth == pytest.approx(10)
    np.testing.assert_allclose(frame.camera.center + 10 * frame.camera.rays([31, 64]), [1, 2, 7])
    assert capture.points is not None
    np.testing.assert_array_equal(capture.points, [[1, 2, 7]])
    np.testing.assert_allclose(capture.point_colors, [[1, 0, 0.2]])


def test_text_and_binary_are_the_same_model(tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "b").mkdir()
    text = read_text_model(write_text(tmp_path / "t") / "sparse/0")
    binary = read_binary_model(write_binary(tmp_path / "b") / "sparse/0")
    assert text.cameras == binary.cameras
    for a, b in zip(text.images, binary.images, strict=True):
        assert (a.name, a.quat, a.translation, a.camera_id) == (
            b.name,
            b.quat,
            b.translation,
            b.camera_id,
        )
        np.testing.assert_array_equal(a.observations, b.observations)
        np.testing.assert_array_equal(a.point_ids, b.point_ids)
    np.testing.assert_array_equal(text.points, binary.points)


@pytest.mark.parametrize(
    ("camera", "coefficients"),
    [
        ("SIMPLE_RADIAL 80 60 100 41 28 -0.1", (-0.1, 0, 0, 0)),
        ("RADIAL 80 60 100 41 28 -0.1 0.02", (-0.1, 0.02, 0, 0)),
        ("OPENCV 80 60 100 120 41 28 -0.1 0.02 0.001 0.002", (-0.1, 0.02, 0.001, 0.002)),
        ("FULL_OPENCV 80 60 100 120 41 28 -0.1 0.02 0.001 0.002 0.1 0.2 0.3 0.4", (-0.1, 0.02, 0.001, 0.002, 0.1, 0.2, 0.3, 0.4)),
        ("OPENCV_FISHEYE 80 60 100 120 41 28 -0.1 0.02 0.001 0.002", (-0.1, 0.02, 0.001, 0.002)),
        ("SIMPLE_RADIAL_FISHEYE 80 60 100 41 28 -0.1", (-0.1, 0, 0, 0)),
        ("RADIAL_FISHEYE 80 60 100 41 28 -0.1 0.02", (-0.1, 0.02, 0, 0)),
    ],
)  # fmt: skip
def test_distorted_models_are_undistorted(tmp_path, camera, coefficients):
    pytest.importorskip("cv2")
    capture = load_capture(write_text(tmp_path, camera))
    lens = capture.frames[0].lens
    assert lens is not None
    assert lens.coefficients == coefficients
    assert lens.model == ("fisheye" if "FISHEYE" in camera else "opencv")
    assert (lens.fx, lens.cx, lens.cy) == (100, 41, 28)
    assert capture.frames[0].load_image().shape == (60, 80, 3)
    assert any("distortion" in note for note in capture.notes)


@pytest.mark.parametrize(
    ("camera", "model", "coefficients"),
    [
        ("FOV 80 60 100 120 41 28 0.9", "fov", (0.9,)),
        ("THIN_PRISM_FISHEYE 80 60 100 120 41 28 -0.1 0.02 0.001 0.002 0.01 0 0.003 0.004", "thin_prism_fisheye", (-0.1, 0.02, 0.001, 0.002, 0.01, 0, 0.003, 0.004)),
        ("RAD_TAN_THIN_PRISM_FISHEYE 80 60 100 120 41 28 -0.1 0.02 0 0 0 0 0.001 0.002 0.003 0 0.004 0", "rad_tan_thin_prism_fisheye", (-0.1, 0.02, 0, 0, 0, 0, 0.001, 0.002, 0.003, 0, 0.004, 0)),
        ("SIMPLE_DIVISION 80 60 100 41 28 -0.2", "division", (-0.2,)),
        ("DIVISION 80 60 100 120 41 28 -0.2", "division", (-0.2,)),
        ("SIMPLE_FISHEYE 80 60 100 41 28", "fisheye", (0, 0, 0, 0)),
        ("FISHEYE 80 60 100 120 41 28", "fisheye", (0, 0, 0, 0)),
        ("EUCM 80 60 100 120 41 28 0.6 1.1", "eucm", (0.6, 1.1)),
    ],
)  # fmt: skip
def test_lenses_that_opencv_lacks_are_undistorted_too(tmp_path, camera, model, coefficients):
    pytest.importorskip("cv2")
    (frame,) = load_capture(write_text(tmp_path, camera)).frames
    assert frame.lens is not None
    assert (frame.lens.model, frame.lens.coefficients) == (model, coefficients)
    assert (frame.lens.fx, frame.lens.cx, frame.lens.cy) == (100, 41, 28)
    assert frame.load_image().shape == (60, 80, 3)


@pytest.mark.parametrize("name", ["a b.png.png", "a b.png"])
def test_masks_are_found_by_either_name(tmp_path, name):
    folder = write_text(tmp_path)
    (folder / "masks").mkdir()
    mask = np.zeros((60, 80), np.uint8)
    mask[:, 40:] = 1
    Image.fromarray(mask).save(folder / "masks" / name)
    (frame,) = load_capture(folder).frames
    assert frame.mask is not None
    assert frame.mask.meaning == "use"
    # zeros and ones mean black and white
    np.testing.assert_allclose(frame.load_mask((4, 1)), [[0, 0, 1, 1]])


def test_masks_that_go_with_no_picture_are_said(tmp_path):
    folder = write_text(tmp_path)
    (folder / "masks").mkdir()
    Image.new("L", (80, 60)).save(folder / "masks" / "other.png")
    notes = load_capture(folder).notes
    assert "1 of 1 frames have no mask: the folder masks has none for them" in notes


def test_masks_beside_the_capture_are_not_its_own(tmp_path):
    (tmp_path / "plaza").mkdir()
    (tmp_path / "masks").mkdir()
    folder = write_text(tmp_path / "plaza")
    Image.new("L", (80, 60)).save(tmp_path / "masks/a b.png.png")
    assert load_capture(folder).frames[0].mask is None


@pytest.mark.parametrize(
    "camera", ["SIMPLE_PINHOLE 80 60 100 41 28", "SIMPLE_RADIAL 80 60 100 41 28 0"]
)
def test_pinholes_are_direct(tmp_path, camera):
    frame = load_capture(write_text(tmp_path, camera)).frames[0]
    assert frame.lens is None
    np.testing.assert_array_equal(frame.camera.K, [[100, 0, 41], [0, 100, 28], [0, 0, 1]])


@pytest.mark.parametrize(
    ("camera", "sentence"),
    [
        (
            "EQUIRECTANGULAR 80 60 80 60",
            "camera 7: its model EQUIRECTANGULAR cannot be undistorted",
        ),
        (
            "THIN_PRISM_FISHEYE 80 60 1 1 40 30 0 0 0 0 0 0 0 0",
            "wider than a flat picture can hold",
        ),
        ("NEW_MODEL 80 60 1", "NEW_MODEL"),
        ("PINHOLE 80 60 100", "PINHOLE has 4 parameters, found 1"),
        ("PINHOLE 80 sixty 100", "line 2: wanted CAMERA_ID MODEL WIDTH HEIGHT PARAMS"),
        ("PINHOLE 0 60 1 1 1 1", "wanted a picture size"),
    ],
)
def test_other_models_are_refused_by_name(tmp_path, camera, sentence):
    with pytest.raises(InputError, match=sentence):
        load_capture(write_text(tmp_path, camera))


def test_every_truncation_of_the_binary_files_is_one_sentence(tmp_path):
    write_binary(tmp_path)
    for file in sorted((tmp_path / "sparse/0").glob("*.bin")):
        data = file.read_bytes()
        for end in range(0, len(data), 3):
            file.write_bytes(data[:end])
            with pytest.raises(InputError, match="cut off"):
                load_capture(tmp_path)
        file.write_bytes(struct.pack("<Q", 2**60) + data[8:])
        with pytest.raises(InputError):
            load_capture(tmp_path)
        file.write_bytes(data)
    assert len(load_capture(tmp_path).frames) == 1


@pytest.mark.real
def test_maupertuis_reprojects_as_colmap_says(real_data):
    folder = real_data / "captures/maupertuis_colmap_text"
    capture = load_capture(folder)
    assert [f.name for f in capture.frames] == ["00.jpg", "01.jpg", "02.jpg", "03.jpg"]
    assert capture.points is not None
    assert len(capture.points) == 1039
    model = read_text_model(folder / "reconstruction")
    row = {id: i for i, id in enumerate(model.point_ids)}
    total, seen = np.zeros(1039), np.zeros(1039)
    for image in model.images:
        camera = next(f.camera for f in capture.frames if f.name == image.name)
        known = image.point_ids >= 0
        rows = np.array([row[id] for id in image.point_ids[known]])
        errors = np.linalg.norm(
            camera.project(model.points[rows])[0] - image.observations[known], axis=1
        )
        np.add.at(total, rows, errors)
        np.add.at(seen, rows, 1)
    # each point's own ERROR column (the file's pixels are rounded to 0.01), and their mean
    stated = {
        int(line.split()[0]): float(line.split()[7])
        for line in (folder / "reconstruction/points3D.txt").read_text().splitlines()
        if not line.startswith("#")
    }
    np.testing.assert_allclose(total / seen, [stated[id] for id in model.point_ids], atol=7e-3)
    assert (total / seen).mean() == pytest.approx(0.34, abs=0.005)


def test_a_rig_with_cameras_of_two_sizes_and_gaps(tmp_path):
    """As a Windows program writes it: a byte order mark, CRLF; one photo is lost, one was shrunk."""
    for name, size in (
        ("left/0.jpg", (80, 60)),
        ("right/0.jpg", (50, 90)),
        ("right/1.jpg", (25, 45)),
    ):
        (tmp_path / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", size).save(tmp_path / "images" / name)
    for model in ("0", "1"):
        sparse = tmp_path / "sparse" / model
        sparse.mkdir(parents=True)
        (sparse / "cameras.txt").write_text(
            "\ufeff# cameras\r\n1 PINHOLE 80 60 100 120 41 28\r\n2 SIMPLE_PINHOLE 50 90 70 24 46\r\n"
        )
        # a quarter turn about y takes (x, y, z) to (z, y, -x); the second quaternion is 2 long
        (sparse / "images.txt").write_text(
            "1 0.5 0 0.5 0 1 2 3 1 left/0.jpg\r\n\r\n2 2 0 0 0 0 0 4 2 right/0.jpg\r\n10 20 -1\r\n"
            "3 1 0 0 0 0 0 5 2 right/1.jpg\r\n\r\n4 1 0 0 0 0 0 5 1 left/1.jpg\r\n\r\n"
        )
    capture = load_capture(tmp_path)
    wanted = {
        # (1, 2, 3) turns to (3, 2, -1), moves to (4, 4, 2)
        "left/0.jpg": ((80, 60), (41 + 100 * 4 / 2, 28 + 120 * 4 / 2), 2),
        "right/0.jpg": ((50, 90), (24 + 70 * 1 / 7, 46 + 70 * 2 / 7), 7),
        "right/1.jpg": ((25, 45), (12 + 35 * 1 / 8, 23 + 35 * 2 / 8), 8),
    }
    assert [frame.name for frame in capture.frames] == list(wanted)
    for frame, (size, pixel, depth) in zip(capture.frames, wanted.values(), strict=True):
        assert (frame.camera.width, frame.camera.height) == size
        found, z = frame.camera.project([1, 2, 3])
        np.testing.assert_allclose(found, pixel, atol=1e-9)
        assert z == pytest.approx(depth)
    assert capture.notes[0].startswith("3 of 4 frames used")
    assert "2 models that do not hang together, of which 0 is used" in capture.notes[1]
    assert len(load_capture(tmp_path / "sparse" / "1").frames) == 3
    assert len(load_capture(tmp_path / "sparse" / "1").notes) == 1


def test_pictures_are_looked_for_in_what_was_opened(tmp_path):
    """Another capture's pictures of the same names lie beside it; its own are in input."""
    (tmp_path / "plaza").mkdir()
    folder = write_text(tmp_path / "plaza")
    (folder / "images").rename(folder / "input")
    (tmp_path / "images").mkdir()
    Image.new("RGB", (80, 60), (255, 0, 0)).save(tmp_path / "images" / "a b.png")
    for opened in (folder, folder / "sparse" / "0"):
        (frame,) = load_capture(opened).frames
        assert frame.image_path is not None
        assert frame.image_path.resolve() == folder / "input" / "a b.png"


def test_shrunk_pictures_are_used_where_only_they_are(tmp_path):
    folder = write_text(tmp_path)
    (folder / "images").rename(folder / "images_4")
    Image.new("RGB", (20, 15)).save(folder / "images_4" / "a b.png")
    capture = load_capture(folder)
    (frame,) = capture.frames
    assert "pictures are from images_4" in capture.notes
    np.testing.assert_allclose(frame.camera.K, [[25, 0, 10.25], [0, 30, 7], [0, 0, 1]])
