"""Lenses that OpenCV lacks: hand-worked values, their inverse, and pictures flattened."""

from __future__ import annotations

import numpy as np
import pytest

from scene.camera import Camera
from scene.capture import Frame, FrameMask
from scene.captures.lens import Lens, _undistortion
from scene.captures.lens_models import distort, flatten
from scene.errors import InputError

WIDTH, HEIGHT = 160, 120
MODELS = {
    "fov": (0.9,),
    "thin_prism_fisheye": (-0.05, 0.01, 0.002, -0.003, 0.001, 0.0, 0.004, -0.002),
    "rad_tan_thin_prism_fisheye": (-0.05, 0.01, 0.001, 0, 0, 0, 0.002, -0.003, 0.004, 0.001, -0.002, 0.001),
    "division": (-0.2,),
    "eucm": (0.6, 1.1),
}  # fmt: skip


@pytest.mark.parametrize(
    ("model", "coefficients", "flat", "drawn"),
    [
        # r = 1, tan(0.45) = 0.483055: atan(2 * 0.483055) / 0.9 = 0.768163 / 0.9
        ("fov", (0.9,), (1, 0), (0.853514, 0)),
        ("fov", (0.0,), (0.3, -0.4), (0.3, -0.4)),
        # by the angle: r = 1 is pi/4 = 0.785398; r2 = 0.616850; radial 1 + 0.1 r2; p2 along x
        # weighs 3 r2, p1 along y 1 r2, sx and sy r2
        ("thin_prism_fisheye", (0.1, 0, 0.01, 0.02, 0, 0, 0.03, 0.04), (1, 0),
         (0.785398 * 1.061685 + 0.06 * 0.616850 + 0.03 * 0.616850, 0.01 * 0.616850 + 0.04 * 0.616850)),
        # x = 0.785398 * (1 + 0.1 * 0.616850) = 0.833845, r2 = 0.695298: p0 3 r2 along x, p1 r2 along
        # y, s0 r2 + s1 r2^2 along x, s2 r2 + s3 r2^2 along y
        ("rad_tan_thin_prism_fisheye", (0.1, 0, 0, 0, 0, 0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06), (1, 0),
         (0.833845 + 0.695298 * (0.03 + 0.03 + 0.04 * 0.695298), 0.695298 * (0.02 + 0.05 + 0.06 * 0.695298))),
        # drawn r = 0.5 with k = -0.2 means flat 0.5 / (1 - 0.2 * 0.25) = 0.526316
        ("division", (-0.2,), (0, 0.5 / 0.95), (0, 0.5)),
        # 0.6 * sqrt(1.1 + 1) + 0.4 = 1.269483
        ("eucm", (0.6, 1.1), (1, 0), (1 / 1.269483, 0)),
    ],
)  # fmt: skip
def test_formulas_by_hand(model, coefficients, flat, drawn):
    np.testing.assert_allclose(distort(model, coefficients, flat), drawn, atol=2e-6)


@pytest.mark.parametrize("model", MODELS)
def test_there_and_back(model):
    flat = np.random.default_rng(0).uniform(-0.9, 0.9, (200, 2))
    drawn = distort(model, MODELS[model], flat)
    np.testing.assert_allclose(flatten(model, MODELS[model], drawn), flat, atol=1e-7)
    np.testing.assert_array_equal(distort(model, MODELS[model], [0, 0]), [0, 0])


@pytest.mark.parametrize("model", MODELS)
def test_a_spot_lands_where_the_flat_camera_says(model):
    pytest.importorskip("cv2")
    lens = Lens(model, 110, 115, 83.2, 57.1, WIDTH, HEIGHT, MODELS[model])
    camera = Camera(np.eye(4), lens.pinhole_K(), WIDTH, HEIGHT)
    direction = np.array([0.25, -0.2, 1.0])
    spot = distort(model, MODELS[model], direction[:2]) * [110, 115] + [83.2, 57.1]
    y, x = np.mgrid[:HEIGHT, :WIDTH] + 0.5
    blob = np.exp(-((x - spot[0]) ** 2 + (y - spot[1]) ** 2) / (2 * 2.5**2))
    pixels = np.repeat(np.rint(blob * 255).astype(np.uint8)[..., None], 3, axis=2)
    frame = Frame(
        "a", camera, pixels=pixels, lens=lens, mask=FrameMask("use", pixels=pixels[..., 0])
    )
    image = frame.load_image()[..., 0].astype(np.float64)
    weight = np.where(image > 0.02, image, 0)
    found = np.array([(weight * x).sum(), (weight * y).sum()]) / weight.sum()
    np.testing.assert_allclose(found, camera.project(direction)[0], atol=0.12)
    # the mask is flattened with its picture
    np.testing.assert_allclose(frame.load_mask(), image, atol=1.5 / 255)
    # no pixel from outside the photo
    _, map_x, map_y = _undistortion(lens)
    assert -0.6 < map_x.min() < map_x.max() < WIDTH - 0.4
    assert -0.6 < map_y.min() < map_y.max() < HEIGHT - 0.4


@pytest.mark.parametrize(
    ("model", "coefficients", "focal"),
    [
        ("fov", (3.1,), 60), ("fov", (float("nan"),), 110), ("division", (-3.0,), 40),
        ("eucm", (0.9, -5.0), 40), ("thin_prism_fisheye", (0.0,) * 8, 30),
        ("thin_prism_fisheye", (1e200,) * 8, 110),
    ],
)  # fmt: skip
def test_what_no_flat_picture_holds_is_refused(model, coefficients, focal):
    lens = Lens(model, focal, focal, 80, 60, WIDTH, HEIGHT, coefficients)
    with pytest.raises(InputError, match="fold the picture over itself, or see wider"):
        lens.pinhole_K()
