"""The letterbox and its inverse: exact at extreme aspect ratios, half pixels included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelope.victims.letterbox import Letterbox, fit_inside, letterboxed, stretch_to

SIZES = [
    (640, 480),  # a usual render
    (480, 640),  # portrait
    (1920, 1080),
    (1080, 1920),
    (256, 256),  # enlarged
    (1000, 100),  # a strip: the short side becomes 42 of 41.6
    (100, 1000),
    (333, 77),
    (37, 411),  # narrower than one cell of the detector
    (3, 5),
]
WAYS = [
    lambda w, h: fit_inside(w, h, 416, 416),
    lambda w, h: fit_inside(w, h, 416, 416, centered=True),
    lambda w, h: fit_inside(w, h, 640, 352, centered=True),
    lambda w, h: stretch_to(w, h, 352, 320),
]


def corner_boxes(width: int, height: int) -> np.ndarray:
    """A box at each corner and one in the middle, with half-pixel coordinates."""
    w, h = width / 4 + 0.5, height / 3 + 0.5
    return np.array(
        [
            (0, 0, w, h),
            (width - w, 0, width, h),
            (0, height - h, w, height),
            (width - w, height - h, width, height),
            (width * 0.3, height * 0.45, width * 0.5, height * 0.9),
        ]
    )


@pytest.mark.parametrize("way", range(len(WAYS)))
@pytest.mark.parametrize("size", SIZES)
def test_inverse_is_exact(size: tuple[int, int], way: int) -> None:
    box = WAYS[way](*size)
    boxes = corner_boxes(*size)
    assert np.abs(box.to_source(box.to_input(boxes)) - boxes).max() < 1e-9
    inside = box.to_input(boxes)
    assert inside.min() >= 0
    assert (inside <= np.array([box.width, box.height] * 2) + 1e-9).all()


lengths = st.integers(1, 5000)


@given(lengths, lengths, st.integers(32, 1280), st.integers(32, 1280), st.booleans(), st.data())
def test_inverse_is_exact_for_any_sizes(
    width: int,
    height: int,
    input_width: int,
    input_height: int,
    centered: bool,
    data: st.DataObject,
) -> None:
    """Any box of any picture in any input comes back, and never leaves the input."""
    shares = sorted(data.draw(st.lists(st.floats(0, 1), min_size=4, max_size=4)))
    box = np.array([[shares[0] * width, shares[1] * height, shares[2] * width, shares[3] * height]])
    for place in (
        fit_inside(width, height, input_width, input_height, centered),
        stretch_to(width, height, input_width, input_height),
    ):
        inside = place.to_input(box)
        assert np.abs(place.to_source(inside) - box).max() < 1e-9 * max(width, height)
        assert inside.min() >= 0
        assert (inside <= np.array([input_width, input_height] * 2) + 1e-9 * 1280).all()


def test_known_numbers() -> None:
    # 640x480 into 416: scale 0.65 both ways; 480 * 0.65 = 312 rows, (416 - 312) / 2 = 52 above
    box = fit_inside(640, 480, 416, 416, centered=True)
    assert (box.inner_width, box.inner_height, box.left, box.top) == (416, 312, 0, 52)
    assert box.to_input(np.array([[100, 40, 200, 240]])).tolist() == [[65, 78, 130, 208]]
    # 1000x100: 41.6 rows are rounded to 42, so y has its own scale, 0.42 and not 0.416
    strip = fit_inside(1000, 100, 416, 416)
    assert strip.to_input(np.array([[0, 0, 500, 50]])).tolist() == [[0, 0, 208, 21]]
    assert strip.to_source(np.array([[0, 0, 208, 21]])).tolist() == [[0, 0, 500, 50]]


def test_boxes_are_clipped_to_the_picture() -> None:
    box = fit_inside(640, 480, 416, 416)
    assert box.to_source(np.array([[-30, 10, 500, 416]])).tolist() == [[0, 10 / 0.65, 640, 480]]


def edges(plane: np.ndarray) -> tuple[float, float]:
    """Subpixel start and end of a bright stretch, from its mass and its centre."""
    profile = plane / plane.max()
    mass = profile.sum()
    middle = (profile * (np.arange(len(profile)) + 0.5)).sum() / mass
    return middle - mass / 2, middle + mass / 2


@pytest.mark.parametrize("size", SIZES[:6])
@pytest.mark.parametrize("way", range(len(WAYS)))
def test_pixels_go_where_the_boxes_go(size: tuple[int, int], way: int) -> None:
    """A white rectangle, resized for real, lies where to_input says, to a tenth of a pixel."""
    width, height = size
    box: Letterbox = WAYS[way](width, height)
    x0, y0, x1, y1 = width // 5, height // 4, width // 2, int(height * 0.8)
    picture = np.zeros((1, height, width, 3), np.uint8)
    picture[0, y0:y1, x0:x1] = 255
    placed = letterboxed(picture, box, fill=0)[0, :, :, 0].astype(float)
    left, right = edges(placed.max(axis=0))
    top, bottom = edges(placed.max(axis=1))
    expected = box.to_input(np.array([[x0, y0, x1, y1]]))[0]
    assert np.abs(np.array([left, top, right, bottom]) - expected).max() < 0.1


def test_padding_has_the_fill() -> None:
    box = fit_inside(40, 20, 32, 32)
    placed = letterboxed(np.full((2, 20, 40, 3), 9, np.uint8), box, fill=114)
    assert placed.shape == (2, 32, 32, 3)
    assert (placed[:, :16] == 9).all()
    assert (placed[:, 16:] == 114).all()


def test_torch_and_numpy_letterboxes_agree() -> None:
    from envelope.victims.torch_tools import as_tensor, letterboxed_tensor

    rng = np.random.default_rng(3)
    coarse = rng.integers(0, 256, (1, 12, 16, 3)).repeat(40, 1).repeat(40, 2).astype(np.uint8)
    box = fit_inside(640, 480, 320, 320, centered=True)
    with_numpy = letterboxed(coarse, box, fill=114)[0].astype(float)
    with_torch = letterboxed_tensor(as_tensor(coarse), box, 114 / 255)[0].permute(1, 2, 0)
    assert np.abs(with_torch.numpy() * 255 - with_numpy).max() < 1.5


@pytest.mark.parametrize(
    "source", [(400, 640), (411, 37), (200, 100), (3, 5), (223, 320), (320, 320)]
)
@pytest.mark.parametrize("centered", [False, True])
def test_the_kernel_resizes_as_torch_does(source: tuple[int, int], centered: bool) -> None:
    """Shrinking, enlarging, one axis or none: the torch path is the reference."""
    from envelope.victims.torch_tools import as_tensor, letterboxed_batch, letterboxed_tensor

    images = np.random.default_rng(1).integers(0, 256, (2, *source, 3)).astype(np.uint8)
    images = images[:, :, ::-1]  # not contiguous, as callers may give them
    box = fit_inside(source[1], source[0], 320, 224, centered)
    wanted = letterboxed_tensor(as_tensor(images.copy()), box, 114 / 255)
    found = letterboxed_batch(images, box, 114 / 255)
    assert found.shape == wanted.shape == (2, 3, 224, 320)
    assert np.abs(found.numpy() - wanted.numpy()).max() < 4e-7


def test_area_resampling_by_hand() -> None:
    """5 pixels to 2: each covers two and a half. 2 to 3: the middle one covers a half of both."""
    from envelope.victims.resampling import shares

    assert shares(5, 2, "area") * 2.5 == pytest.approx(
        np.array([[1, 1, 0.5, 0, 0], [0, 0, 0.5, 1, 1]]), abs=1e-6
    )
    assert shares(2, 3, "area") == pytest.approx(np.array([[1, 0], [0.5, 0.5], [0, 1]]), abs=1e-6)


def test_linear_resampling_by_hand() -> None:
    """5 pixels to 2: their centres lie at 0.75 and 3.25; pixels between are not looked at."""
    from envelope.victims.resampling import shares

    assert shares(5, 2, "linear") == pytest.approx(
        np.array([[0.25, 0.75, 0, 0, 0], [0, 0, 0, 0.75, 0.25]]), abs=1e-6
    )
    assert shares(2, 3, "linear") == pytest.approx(np.array([[1, 0], [0.5, 0.5], [0, 1]]), abs=1e-6)
    assert (shares(7, 7, "linear") == np.eye(7)).all()


@pytest.mark.parametrize("how", ["area", "linear"])
@pytest.mark.parametrize("source", [(411, 640), (256, 256), (353, 352), (704, 1056), (37, 50)])
def test_resampling_is_opencvs(source: tuple[int, int], how: str) -> None:
    """Both axes shrinking or both growing, whole ratios or not; the torch twin beside it."""
    cv2 = pytest.importorskip("cv2")
    from envelope.victims.resampling import resampled, resampled_tensor
    from envelope.victims.torch_tools import as_tensor

    images = np.random.default_rng(1).integers(0, 256, (2, *source, 3)).astype(np.uint8)
    box = stretch_to(source[1], source[0], 352, 352)
    found = resampled(images[:, :, ::-1], box, 0, how)  # not contiguous, as callers may give it
    flag = cv2.INTER_AREA if how == "area" else cv2.INTER_LINEAR
    for ours, image in zip(found, images, strict=True):
        wanted = cv2.resize(image[:, ::-1], (352, 352), interpolation=flag)
        assert np.abs(ours.astype(int) - wanted).max() <= 1
        shrinks = source[0] > 352
        # it enlarges with 11-bit weights; ties of a half
        assert (ours != wanted).mean() < {"area": 0.1, "linear": 1e-9 if shrinks else 0.004}[how]
    twin = resampled_tensor(as_tensor(images[:, :, ::-1].copy()), box, 0, how) * 255
    twin = twin.permute(0, 2, 3, 1)
    assert np.abs(twin.numpy() - found).max() < (0.501 if how == "area" else 1.1)


@pytest.mark.parametrize("how", ["area", "linear"])
def test_resampling_pads(how: str) -> None:
    from envelope.victims.resampling import resampled, resampled_tensor
    from envelope.victims.torch_tools import as_tensor

    picture = np.full((1, 20, 40, 3), 9, np.uint8)
    box = fit_inside(40, 20, 32, 32, centered=True)
    placed = resampled(picture, box, 114, how)
    assert (placed[:, 8:24] == 9).all()
    assert (placed[:, :8] == 114).all()
    assert (placed[:, 24:] == 114).all()
    twin = resampled_tensor(as_tensor(picture), box, 114 / 255, how) * 255
    twin = twin.permute(0, 2, 3, 1).numpy()
    assert twin == pytest.approx(placed.astype(float), abs=1e-4)
