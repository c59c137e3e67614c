"""A kept frame's pictures equal those drawn whole, to the last byte; its weights to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from scene.camera import Camera
from scene.gaussians import Gaussians
from scene.render.api import RenderSettings
from scene.render.cpu.frame import make_layer
from scene.render.cpu.quantize import quantize
from scene.render.cpu.renderer import CpuRenderer

BACKGROUND = (0.1, 0.2, 0.3)
EVERYTHING = frozenset({"rgb", "alpha", "expected_depth", "median_depth"})


def _cloud(count: int, seed: int, spread: float = 1.5, flat: bool = False) -> Gaussians:
    rng = np.random.default_rng(seed)
    means = rng.uniform(-spread, spread, (count, 3)) + np.array([0, 0, 4])
    if flat:  # many equal depths: the order among them is the scene's
        means[:, 2] = np.round(means[:, 2])
    return Gaussians(
        means, rng.normal(size=(count, 4)), rng.uniform(0.01, 0.08, (count, 3)),
        rng.uniform(0.02, 0.99, count), rng.normal(0, 0.4, (count, 4, 3)),
    )  # fmt: skip


def _edited(clean: Gaussians, rows: np.ndarray, added: Gaussians) -> Gaussians:
    opacities, sh = clean.opacities.copy(), clean.sh.copy()
    opacities[rows] *= 0.3
    opacities[rows[:5]] = 0
    sh[rows, 0] += 0.5
    same = Gaussians(clean.means, clean.quats, clean.scales, opacities, sh)
    return Gaussians.concatenate([same, added]) if len(added) else same


def _bytes(rgb: np.ndarray) -> np.ndarray:
    return np.rint(np.clip(rgb, 0, 1) * np.float32(255)).astype(np.uint8)


def _cameras() -> list[Camera]:
    K = np.array([[90.0, 0, 60], [0, 95.0, 41], [0, 0, 1]])
    moved = np.eye(4)
    moved[:3, 3] = 0.4, -0.3, 0.8
    behind = np.diag([-1.0, 1, -1, 1])
    return [Camera(world, K, 117, 83) for world in (np.eye(4), moved, behind)]


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("antialiased", [False, True])
@pytest.mark.parametrize("added_count", [0, 70])
def test_edited_frame_equals_the_edited_scene_drawn_whole(flat, antialiased, added_count):
    clean = _cloud(900, 1, flat=flat)
    near = np.linalg.norm(clean.means - [0.3, 0.2, 4], axis=1)
    rows = np.argsort(near)[:40]
    added = _cloud(100, 2, 0.3, flat).select(np.arange(added_count))
    edited = _edited(clean, rows, added)
    settings = RenderSettings(antialiased=antialiased)
    renderer = CpuRenderer(clean, settings, threads=2)
    layer = make_layer(edited, rows, len(clean), settings)
    for camera in _cameras():
        whole = CpuRenderer(edited, settings, threads=1).render(camera, BACKGROUND)
        frame = renderer.frame(camera, BACKGROUND, EVERYTHING)
        before, picture = frame.drawn.rgb.copy(), _bytes(frame.drawn.rgb)
        for _ in range(2):  # drawing twice: nothing of the first stays behind
            np.testing.assert_array_equal(frame.edited(layer, picture), _bytes(whole.rgb))
            frame.weight(np.arange(len(clean)) < 300)
        np.testing.assert_array_equal(frame.drawn.rgb, before)
        np.testing.assert_array_equal(picture, _bytes(before))


def test_weight_equals_a_render_with_marked_colors():
    clean = _cloud(900, 3)
    marked = np.linalg.norm(clean.means - [0.3, 0.2, 4], axis=1) < 0.5
    renderer = CpuRenderer(clean, threads=2)
    colors = np.repeat(marked[:, None], 3, axis=1).astype(np.float32)
    shown = 0.0
    for camera in _cameras():
        whole = renderer.recolored(colors).render(camera).rgb[..., 0]
        np.testing.assert_array_equal(renderer.frame(camera, BACKGROUND).weight(marked), whole)
        shown = max(shown, float(whole.max()))
    assert shown > 0.5


def test_frames_of_one_renderer_do_not_share_memory():
    clean = _cloud(500, 4)
    renderer = CpuRenderer(clean, threads=1)
    layer = make_layer(clean, np.zeros(0, np.int64), len(clean), renderer.settings)
    first, second = (renderer.frame(camera) for camera in _cameras()[:2])
    marked = np.arange(500) < 250
    for frame, camera in ((first, _cameras()[0]), (second, _cameras()[1])):
        picture = _bytes(renderer.render(camera).rgb)
        np.testing.assert_array_equal(frame.edited(layer, picture), picture)
        colors = np.repeat(marked[:, None], 3, axis=1).astype(np.float32)
        whole = renderer.recolored(colors).render(camera).rgb[..., 0]
        np.testing.assert_array_equal(frame.weight(marked), whole)


def test_depth_in_a_window_equals_that_of_the_whole_picture():
    renderer = CpuRenderer(_cloud(900, 5), threads=2)
    for camera in _cameras():
        whole = renderer.render(camera, BACKGROUND, EVERYTHING)
        window = slice(20, 47), slice(35, 117)
        part = renderer.frame(camera, BACKGROUND, EVERYTHING, window).drawn
        np.testing.assert_array_equal(part.rgb, whole.rgb)
        np.testing.assert_array_equal(part.alpha, whole.alpha)
        assert part.median_depth is not None
        np.testing.assert_array_equal(part.median_depth[window], whole.median_depth[window])
        assert np.isnan(
            part.median_depth[:16]
        ).all()  # rows of tiles that the window does not touch
        none = renderer.frame(camera, BACKGROUND, EVERYTHING, (slice(0, 0), slice(0, 0))).drawn
        assert np.isnan(none.median_depth).all()


@given(arrays(np.float32, 40, elements=st.floats(-2, 3, width=32)))
def test_bytes_are_those_of_numpy(values):
    found = np.empty(len(values), np.uint8)
    quantize(values, found)
    wanted = np.rint(np.clip(values, 0.0, 1.0) * 255).astype(np.uint8)
    np.testing.assert_array_equal(found, wanted)


def test_ties_go_to_the_even_byte_and_nothing_wraps():
    values = np.array([0.5, 1.5, 2.5, 254.5, 255, 300, -3, np.inf, -np.inf, np.nan], np.float32)
    found = np.empty(len(values), np.uint8)
    quantize(values / np.float32(255), found)
    np.testing.assert_array_equal(found, [0, 2, 2, 254, 255, 255, 0, 255, 0, 0])
