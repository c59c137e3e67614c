"""Photos as cameras and other programs leave them: orientation tags, alpha, 16 bits, paths."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scene.capture import read_picture
from scene.captures import load_capture
from scene.errors import InputError

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


def quarters(width: int, height: int) -> Image.Image:
    """Red, green above blue, white: each a quarter of the picture."""
    picture = np.zeros((height, width, 3), np.uint8)
    h, w = height // 2, width // 2
    picture[:h, :w], picture[:h, w:], picture[h:, :w], picture[h:, w:] = RED, GREEN, BLUE, WHITE
    return Image.fromarray(picture)


def saved(path: Path, picture: Image.Image, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.save(path, exif=exif)


def write(folder: Path, name: str, **shared: object) -> Path:
    frame = {"file_path": name, "transform_matrix": np.eye(4).tolist()}
    (folder / "transforms.json").write_text(json.dumps({**shared, "frames": [frame]}))
    return folder


@pytest.mark.parametrize("suffix", [".png", ".jpg"])
@pytest.mark.parametrize(
    ("orientation", "corner"),
    [
        # what stands at the upper left of the picture as it is meant to be seen
        (6, BLUE),  # turned right: the left column becomes the upper row
        (8, GREEN),  # turned left
        (5, RED),  # mirrored in the diagonal
        (7, WHITE),
    ],
)
def test_a_camera_of_the_turned_shape_gets_the_turned_photo(tmp_path, suffix, orientation, corner):
    saved(tmp_path / f"a{suffix}", quarters(80, 60), orientation)
    # 60 wide and 80 high, as the photo is seen; shared by a program that heeds the tag
    capture = load_capture(write(tmp_path, f"a{suffix}", fl_x=100, cx=29, cy=42, w=60, h=80))
    (frame,) = capture.frames
    assert (frame.camera.width, frame.camera.height) == (60, 80)
    np.testing.assert_allclose(frame.camera.K, [[100, 0, 29], [0, 100, 42], [0, 0, 1]])
    image = frame.load_image()
    assert image.shape == (80, 60, 3)
    np.testing.assert_allclose(image[10, 10], np.array(corner) / 255, atol=0.02)
    assert capture.notes == (
        "1 of 1 photos are turned as their orientation tag says: only then they have their "
        "camera's shape",
    )
    # half the size: the intrinsics shrink with it
    capture = load_capture(write(tmp_path, f"a{suffix}", fl_x=200, cx=58, cy=84, w=120, h=160))
    np.testing.assert_allclose(capture.frames[0].camera.K, [[100, 0, 29], [0, 100, 42], [0, 0, 1]])


def test_a_camera_of_the_stored_shape_gets_the_stored_pixels(tmp_path):
    saved(tmp_path / "a.png", quarters(80, 60), 6)
    for stated in ({"w": 80, "h": 60}, {}):
        capture = load_capture(write(tmp_path, "a.png", fl_x=100, **stated))
        image = capture.frames[0].load_image()
        assert image.shape == (60, 80, 3)
        np.testing.assert_array_equal(image[10, 10], [1, 0, 0])
        assert capture.notes == ()


@pytest.mark.parametrize(("size", "orientation", "said"), [
    ((80, 60), 3, True), ((80, 60), 1, False), ((80, 60), 6, False), ((60, 60), 6, True),
])  # fmt: skip
def test_a_tag_that_does_not_show_in_the_shape_is_said(tmp_path, size, orientation, said):
    saved(tmp_path / "a.jpg", quarters(*size), orientation)
    capture = load_capture(write(tmp_path, "a.jpg", fl_x=100, w=size[0], h=size[1]))
    np.testing.assert_allclose(capture.frames[0].load_image()[10, 10], [1, 0, 0], atol=0.02)
    assert any("1 of 1 photos have an orientation tag" in n for n in capture.notes) == said


def test_half_turns_and_photos_without_a_tag_do_not_fit_another_shape(tmp_path):
    for orientation in (1, 3):
        saved(tmp_path / "a.png", quarters(80, 60), orientation)
        with pytest.raises(InputError, match="wanted a 60x80 picture"):
            load_capture(write(tmp_path, "a.png", fl_x=100, w=60, h=80))


def test_colmap_with_a_camera_of_the_turned_shape(tmp_path):
    saved(tmp_path / "images/a.jpg", quarters(80, 60), 6)
    (tmp_path / "cameras.txt").write_text("1 PINHOLE 60 80 100 110 29 42\n")
    (tmp_path / "images.txt").write_text("1 1 0 0 0 0 0 0 1 a.jpg\n\n")
    capture = load_capture(tmp_path)
    np.testing.assert_allclose(capture.frames[0].load_image()[10, 10], [0, 0, 1], atol=0.02)
    assert any("turned" in note for note in capture.notes)


def test_windows_paths(tmp_path):
    saved(tmp_path / "images/left/a.png", quarters(80, 60), 1)
    for name in ("images\\left\\a.png", ".\\images\\left\\a", "images/left\\a.png"):
        (frame,) = load_capture(write(tmp_path, name, fl_x=100)).frames
        assert frame.image_path == tmp_path / "images/left/a.png"
    with pytest.raises(InputError, match="leads out"):
        load_capture(write(tmp_path, "..\\..\\a.png", fl_x=100))
    # a name that really holds one is itself
    saved(tmp_path / "odd\\name.png", quarters(80, 60), 1)
    (frame,) = load_capture(write(tmp_path, "odd\\name.png", fl_x=100)).frames
    assert frame.image_path == tmp_path / "odd\\name.png"


def test_transparent_pixels_lie_over_the_matte(tmp_path):
    picture = np.zeros((60, 80, 4), np.uint8)
    picture[..., 0] = 200
    picture[:, 20:40, 3] = 51  # a fifth
    picture[:, 40:, 3] = 255
    Image.fromarray(picture).save(tmp_path / "a.png")
    image = load_capture(write(tmp_path, "a.png", fl_x=100)).frames[0].load_image()
    np.testing.assert_allclose(image[30, 10], [1, 1, 1])
    np.testing.assert_allclose(image[30, 30], [200 / 255 * 0.2 + 0.8, 0.8, 0.8], atol=1e-6)
    np.testing.assert_allclose(image[30, 60], [200 / 255, 0, 0], atol=1e-6)


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (np.full((4, 6), 25700, np.uint16), [100] * 3),  # 16-bit gray: 25700 / 257
        (np.full((4, 6), 90, np.uint8), [90] * 3),
        (np.ones((4, 6), bool), [255] * 3),
        (np.full((4, 6, 2), [90, 255], np.uint8), [90, 90, 90, 255]),  # gray and alpha
    ],
)
def test_gray_photos_have_three_equal_channels(tmp_path, values, wanted):
    Image.fromarray(values).save(tmp_path / "a.png")
    picture = read_picture(tmp_path / "a.png")
    assert picture.shape == (4, 6, len(wanted))
    np.testing.assert_array_equal(picture[2, 3], wanted)


@pytest.mark.parametrize("alpha", [False, True])
def test_16_bit_color_is_brought_to_8(tmp_path, alpha):
    cv2 = pytest.importorskip("cv2")
    # OpenCV writes blue first: red 51400 = 200 * 257, green 2570 = 10 * 257, blue 0
    pixel = [0, 2570, 51400, 65535][: 4 if alpha else 3]
    cv2.imwrite(str(tmp_path / "a.png"), np.full((4, 6, len(pixel)), pixel, np.uint16))
    np.testing.assert_array_equal(read_picture(tmp_path / "a.png")[2, 3, :3], [200, 10, 0])


def test_palette_and_cmyk_photos_have_the_colors_that_they_show(tmp_path):
    quarters(80, 60).quantize(8).save(tmp_path / "a.png")
    np.testing.assert_array_equal(read_picture(tmp_path / "a.png")[10, 60], GREEN)
    quarters(80, 60).convert("CMYK").save(tmp_path / "a.jpg", quality=100)
    np.testing.assert_allclose(read_picture(tmp_path / "a.jpg")[40, 10], BLUE, atol=3)


def test_a_turned_photo_with_a_damaged_tag_elsewhere_still_opens(tmp_path):
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 6, "maker"
    quarters(80, 60).save(tmp_path / "a.jpg", exif=exif)
    content = bytearray((tmp_path / "a.jpg").read_bytes())
    # every byte of the tags in turn; what is broken is refused in one sentence
    start = content.index(b"Exif")
    for i in range(start, content.index(b"maker") + 6):
        bent = content.copy()
        bent[i] ^= 0x55
        (tmp_path / "a.jpg").write_bytes(bent)
        try:
            image = (
                load_capture(write(tmp_path, "a.jpg", fl_x=50, w=60, h=80)).frames[0].load_image()
            )
            np.testing.assert_allclose(image[10, 10], [0, 0, 1], atol=0.02)
        except InputError as error:
            assert "\n" not in str(error)
