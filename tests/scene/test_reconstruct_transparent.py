"""Photos that are transparent around an object: the scene stays empty there."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from scene.camera import Camera
from scene.capture import Capture, Frame
from scene.gaussians import SH_C0, Gaussians
from scene.reconstruct.capture_folder import write_capture_folder
from scene.reconstruct.options import ReconstructOptions
from scene.reconstruct.outline import are_outlined, in_hull, outline_points
from scene.reconstruct.photos import Photo, load_photos
from scene.reconstruct.settings import ReconstructSettings
from scene.reconstruct.train import measure, reconstruct
from scene.render.api import make_renderer

SMALL = ReconstructSettings(
    iterations=240, long_side=80, most_gaussians=900, sh_degree=0, half_size_until=40,
    densify_from=40, densify_every=20, reset_every=60, reset_until=0.3,
)  # fmt: skip
CAMERA = Camera(np.eye(4), np.diag([50.0, 50, 1]), 4, 2)


def half_seen() -> np.ndarray:
    """(2, 4, 4): columns transparent, a fifth opaque, opaque, opaque; all of one red."""
    pixels = np.full((2, 4, 4), [200, 100, 0, 0], np.uint8)
    pixels[:, 1, 3], pixels[:, 2:, 3] = 51, 255
    return pixels


def test_layers_by_hand():
    frame = Frame("a", CAMERA, pixels=half_seen(), matte=(1, 0.5, 0))
    image, alpha = frame.load_layers()
    assert alpha is not None
    red = np.array([200, 100, 0]) / 255
    np.testing.assert_allclose(alpha[0], [0, 0.2, 1, 1], atol=1e-6)
    np.testing.assert_allclose(image[0], [0 * red, 0.2 * red, red, red], atol=1e-6)
    whole = frame.load_image()
    np.testing.assert_allclose(whole[0, 0], [1, 0.5, 0], atol=1e-6)
    np.testing.assert_allclose(whole[0, 1], 0.2 * red + 0.8 * np.array([1, 0.5, 0]), atol=1e-6)
    # half the size: two columns' means
    image, alpha = frame.load_layers((2, 1))
    np.testing.assert_allclose(alpha, [[0.1, 1]], atol=1e-6)
    np.testing.assert_allclose(image[0], [0.1 * red, red], atol=1e-6)
    opaque = half_seen()
    opaque[..., 3] = 255
    assert Frame("a", CAMERA, pixels=opaque).load_layers()[1] is None


def test_a_photo_over_any_background_by_hand():
    pixels = np.zeros((3, 1, 2), np.uint8)
    pixels[0] = 51
    photo = Photo("a", CAMERA, pixels, alpha=np.array([[0.2, 1.0]], np.float32), matte=(1, 1, 0))
    np.testing.assert_allclose(photo.planes()[:, 0], [[1, 0.2], [0.8, 0], [0, 0]], atol=1e-6)
    np.testing.assert_allclose(
        photo.planes((0.5, 0, 0))[:, 0], [[0.6, 0.2], [0, 0], [0, 0]], atol=1e-6
    )
    np.testing.assert_allclose(replace(photo, alpha=None).planes((1, 1, 1))[:, 0, 0], [0.2, 0, 0])


def ball() -> Gaussians:
    rng = np.random.default_rng(3)
    means = rng.normal(size=(400, 3))
    means *= 0.6 / np.linalg.norm(means, axis=1, keepdims=True)
    colors = 0.5 + 0.3 * np.sin(means * [4.0, 3.0, 5.0])
    return Gaussians(
        means, np.tile([1.0, 0, 0, 0], (400, 1)), np.full((400, 3), 0.07), np.full(400, 0.95),
        ((colors - 0.5) / SH_C0)[:, None],
    )  # fmt: skip


def capture() -> Capture:
    """Around the ball, as a renderer of synthetic data makes them; two are held out."""
    renderer = make_renderer(ball(), "cpu")
    frames = []
    for i, angle in enumerate(np.linspace(0, 2 * np.pi, 16, endpoint=False)):
        eye = [2.5 * np.sin(angle), 0.6 * np.cos(3 * angle), -2.5 * np.cos(angle)]
        camera = Camera.look_at(eye, [0, 0, 0], [0, -1, 0], 80, 60, 50.0)
        drawn = renderer.render(camera, outputs=frozenset({"rgb", "alpha"}))
        alpha = drawn.alpha[..., None]
        rgba = np.concatenate([drawn.rgb / np.maximum(alpha, 1e-6), alpha], axis=2)
        pixels = np.round(np.clip(rgba, 0, 1) * 255).astype(np.uint8)
        frames.append(Frame(f"{i:02d}", camera, pixels=pixels, held_out=i in (3, 9)))
    points = ball().means[::2] + np.random.default_rng(5).normal(0, 0.02, (200, 3))
    return Capture(tuple(frames), points=points)


def fog(gaussians: Gaussians, camera: Camera) -> float:
    """Mean opacity of the picture's border, where there is nothing."""
    alpha = make_renderer(gaussians, "cpu").render(camera, outputs=frozenset({"alpha"})).alpha
    assert alpha is not None
    return float(
        np.concatenate([alpha[:4].ravel(), alpha[-4:].ravel(), alpha[:, :6].ravel()]).mean()
    )


@pytest.mark.parametrize("exposure", [False, True])
def test_nothing_stands_around_an_object_of_transparent_photos(exposure):
    photos = capture()
    result = reconstruct(photos, SMALL, threads=1, options=ReconstructOptions(exposure=exposure))
    assert result.held_out_psnr > 26
    assert fog(result.gaussians, photos.held_out[0].camera) < 0.01
    assert load_photos(photos, 80).background == (1, 1, 1)
    # judged over the photos' own matte: the true scene is right up to rounding
    assert measure(ball(), load_photos(photos, 80).held_out).psnr > 45


def test_nerfstudio_is_given_the_transparency(tmp_path):
    photos = capture()
    points = np.zeros((4, 3))
    write_capture_folder(photos, tmp_path, 80, points, np.zeros((4, 3), np.float32))
    with Image.open(tmp_path / "images/00000.png") as picture:
        assert picture.mode == "RGBA"
        written = np.asarray(picture).astype(int)
    given = photos.frames[0].pixels
    assert given is not None
    seen = given[..., 3] > 100
    assert np.abs(written[seen] - given[seen]).max() <= 2
    np.testing.assert_array_equal(written[..., 3], given[..., 3])


def test_the_outlines_hull_is_the_ball():
    photos = load_photos(capture(), 80)
    points = outline_points(photos, np.random.default_rng(0))
    assert len(points) > 500
    away = np.linalg.norm(points, axis=1)
    # the ball's blobs reach to 0.6 + 0.1; the samples are 0.03 apart
    assert np.quantile(away, 0.99) < 0.8
    assert np.quantile(away, 0.2) > 0.55
    inside = in_hull(np.array([[0.0, 0, 0], [0.5, 0, 0], [1.2, 0, 0], [0, 0, 40]]), photos.training)
    assert inside.tolist() == [True, True, False, False]


def test_transparent_photos_need_no_points_and_no_opencv(monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    photos = replace(capture(), points=None)
    result = reconstruct(photos, SMALL, threads=1)
    assert "from the photos' outlines" in result.start
    assert result.held_out_psnr > 24
    assert fog(result.gaussians, photos.held_out[0].camera) < 0.01


def test_photos_with_a_trace_of_transparency_are_not_outlined():
    photos = load_photos(capture(), 80)
    assert are_outlined(photos)
    alpha = np.full((60, 80), 254 / 255, np.float32)
    alpha[0, :3] = 0
    noisy = tuple(replace(photo, alpha=alpha) for photo in photos.training)
    assert not are_outlined(replace(photos, training=noisy))
    assert not are_outlined(
        replace(photos, training=(*photos.training[1:], replace(photos.training[0], alpha=None)))
    )
