"""Photos as they are loaded: undistorted to the camera they come with, matte, shrunk, checked."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from scene.camera import Camera
from scene.capture import Capture, Frame, FrameMask
from scene.captures.lens import Lens, _undistortion
from scene.errors import InputError

WIDTH, HEIGHT = 160, 120
LENSES = [
    Lens("opencv", 150, 140, 83.2, 57.1, WIDTH, HEIGHT, (-0.25, 0.05, 0.002, -0.003, 0.0)),
    Lens("opencv", 150, 140, 76.0, 63.0, WIDTH, HEIGHT, (0.1, -0.05, 0.0, 0.0)),
    Lens("fisheye", 110, 115, 83.2, 57.1, WIDTH, HEIGHT, (-0.05, 0.01, 0.0, 0.0)),
]


def distorted_pixel(lens: Lens, direction: np.ndarray) -> np.ndarray:
    """Where a direction lands in the photo, by the textbook formulas; first pixel's centre 0.5."""
    a, b = direction[:2] / direction[2]
    k = lens.coefficients
    r2 = a * a + b * b
    if lens.model == "fisheye":
        r = np.sqrt(r2)
        angle = np.arctan(r)
        factor = angle * (1 + k[0] * angle**2 + k[1] * angle**4) / r if r > 0 else 1
        x, y = a * factor, b * factor
    else:
        radial = 1 + k[0] * r2 + k[1] * r2**2
        x = a * radial + 2 * k[2] * a * b + k[3] * (r2 + 2 * a * a)
        y = b * radial + k[2] * (r2 + 2 * b * b) + 2 * k[3] * a * b
    return np.array([lens.fx * x + lens.cx, lens.fy * y + lens.cy])


def blob(center: np.ndarray) -> np.ndarray:
    """(H, W) a smooth spot whose centre of mass is at `center`, pixel centres at +0.5."""
    y, x = np.mgrid[:HEIGHT, :WIDTH] + 0.5
    return np.exp(-((x - center[0]) ** 2 + (y - center[1]) ** 2) / (2 * 2.5**2))


@pytest.mark.parametrize("lens", LENSES)
@pytest.mark.parametrize(
    "direction", [(0.0, 0.0, 1.0), (0.3, 0.1, 1.0), (-0.25, 0.2, 1.0), (0.2, -0.25, 1.0)]
)
def test_a_spot_lands_where_the_undistorted_camera_says(lens, direction):
    pytest.importorskip("cv2")
    spot = np.rint(blob(distorted_pixel(lens, np.array(direction))) * 255).astype(np.uint8)
    camera = Camera(np.eye(4), lens.pinhole_K(), WIDTH, HEIGHT)
    frame = Frame("a", camera, pixels=np.repeat(spot[..., None], 3, axis=2), lens=lens)
    image = frame.load_image()[..., 0].astype(np.float64)
    weight = np.where(image > 0.02, image, 0)
    y, x = np.mgrid[:HEIGHT, :WIDTH] + 0.5
    found = np.array([(weight * x).sum(), (weight * y).sum()]) / weight.sum()
    expected, _ = camera.project(direction)
    # the bend shifts a spot's centre of mass by a little
    np.testing.assert_allclose(found, expected, atol=0.1)


@pytest.mark.parametrize("lens", LENSES)
def test_the_map_is_exact_to_a_thousandth_of_a_pixel_and_leaves_no_empty_edges(lens):
    pytest.importorskip("cv2")
    _, map_x, map_y = _undistortion(lens)
    camera = Camera(np.eye(4), lens.pinhole_K(), WIDTH, HEIGHT)
    # half a pixel of confusion about pixel centres would show as 0.5 times the bend, 0.05 px
    for column, row in ((0, 0), (159, 119), (20, 100), (80, 57), (140, 10)):
        expected = distorted_pixel(lens, camera.rays([column + 0.5, row + 0.5]))
        found = np.array([map_x[row, column], map_y[row, column]]) + 0.5
        np.testing.assert_allclose(found, expected, atol=1e-3)
    assert map_x.min() > -1.5
    assert map_y.min() > -1.5
    assert map_x.max() < WIDTH + 0.5
    assert map_y.max() < HEIGHT + 0.5


@pytest.mark.parametrize("k1", [-3.0, 1e200, np.nan])
def test_lenses_that_fold_the_picture_are_refused(k1):
    pytest.importorskip("cv2")
    with pytest.raises(InputError, match="fold the picture over itself"):
        Lens("opencv", 150, 140, 83, 57, WIDTH, HEIGHT, (k1, 0.0, 0.0, 0.0)).pinhole_K()


def test_transparent_pixels_show_the_matte():
    pixels = np.zeros((2, 3, 4), dtype=np.uint8)
    pixels[0, 0] = 255, 0, 0, 255
    pixels[0, 1] = 255, 0, 0, 51
    camera = Camera(np.eye(4), np.eye(3), 3, 2)
    white = Frame("a", camera, pixels=pixels).load_image()
    np.testing.assert_allclose(white[0, :2], [[1, 0, 0], [1, 0.8, 0.8]], atol=1e-6)
    black = Frame("a", camera, pixels=pixels, matte=(0, 0, 0)).load_image()
    np.testing.assert_allclose(black[0], [[1, 0, 0], [0.2, 0, 0], [0, 0, 0]], atol=1e-6)


def test_shrinking_averages_areas_and_fits_the_resized_camera():
    pixels = np.zeros((4, 6, 3), dtype=np.uint8)
    pixels[:2, :3] = 240, 120, 0
    frame = Frame("a", Camera(np.eye(4), np.diag([5.0, 5, 1]), 6, 4), pixels=pixels)
    image = frame.load_image((2, 2))
    np.testing.assert_allclose(image[0, 0], np.array([240, 120, 0]) / 255, atol=1e-6)
    np.testing.assert_allclose(image[1], 0, atol=1e-6)
    # an edge in the middle of a shrunk pixel counts half
    image = frame.load_image((1, 4))
    np.testing.assert_allclose(image[0, 0], np.array([120, 60, 0]) / 255, atol=1e-6)


def test_pictures_on_disk_are_rgb_and_checked(tmp_path):
    camera = Camera(np.eye(4), np.eye(3), 3, 2)
    Image.new("RGB", (3, 2), (255, 0, 0)).save(tmp_path / "red.png")
    np.testing.assert_array_equal(
        Frame("a", camera, tmp_path / "red.png").load_image()[0, 0], [1, 0, 0]
    )
    Image.new("L", (3, 2), 51).save(tmp_path / "gray.png")
    np.testing.assert_allclose(Frame("a", camera, tmp_path / "gray.png").load_image()[0, 0], 0.2)
    Image.new("RGB", (2, 3)).save(tmp_path / "turned.png")
    with pytest.raises(InputError, match="wanted a 3x2 picture as its camera says, found 2x3"):
        Frame("a", camera, tmp_path / "turned.png").load_image()
    (tmp_path / "text.png").write_text("hello")
    with pytest.raises(InputError, match="wanted a picture"):
        Frame("a", camera, tmp_path / "text.png").load_image()
    with pytest.raises(InputError, match="no such picture"):
        Frame("a", camera, tmp_path / "absent.png").load_image()


def test_holding_out_every_third():
    camera = Camera(np.eye(4), np.eye(3), 3, 2)
    capture = Capture(tuple(Frame(str(i), camera) for i in range(7))).hold_out(3, first=1)
    assert [f.name for f in capture.held_out] == ["1", "4"]
    assert [f.name for f in capture.training] == ["0", "2", "3", "5", "6"]
    assert [c.held_out for c in capture.scene_cameras()] == [
        False,
        True,
        False,
        False,
        True,
        False,
        False,
    ]


def test_16_bit_gray_is_scaled_and_not_cut_at_255(tmp_path):
    camera = Camera(np.eye(4), np.eye(3), 3, 1)
    deep = np.array([[0, 200, 65535 // 2]], np.uint16)
    Image.fromarray(deep).save(tmp_path / "deep.png")
    item = Frame("a", camera, tmp_path / "deep.png", mask=FrameMask("use", tmp_path / "deep.png"))
    np.testing.assert_allclose(item.load_image()[0, :, 1], [0, 0, 0.5], atol=0.004)
    np.testing.assert_allclose(item.load_mask()[0], [0, 0, 0.5], atol=0.004)
    # zeros and ones mean black and white here too
    Image.fromarray((deep > 0).astype(np.uint16)).save(tmp_path / "ones.png")
    ones = Frame("a", camera, tmp_path / "deep.png", mask=FrameMask("use", tmp_path / "ones.png"))
    np.testing.assert_array_equal(ones.load_mask(), [[0, 1, 1]])
    Image.fromarray(deep.astype(np.float32)).save(tmp_path / "float.tiff")
    with pytest.raises(InputError, match="8 or 16 bits a channel, found floating-point numbers"):
        Frame("a", camera, tmp_path / "float.tiff").load_image()
