"""A reconstruction made elsewhere, our reader, lens, cameras and renderer: its decibels come out."""

from __future__ import annotations

import numpy as np
import pytest

from scene.captures import load_capture
from scene.render.api import make_renderer
from scene.scene import load_scene


def psnr(real_data, every: int) -> float:
    scene = load_scene(real_data / "splats/fox25/fox25.ply")
    capture = load_capture(real_data / "captures/fox")
    renderer = make_renderer(scene.gaussians, "cpu")
    decibels = []
    for frame in capture.frames[::every]:
        drawn = np.clip(renderer.render(frame.camera.resized(270, 480)).rgb, 0, 1)
        decibels.append(-10 * np.log10(np.mean((drawn - frame.load_image((270, 480))) ** 2)))
    return float(np.mean(decibels))


@pytest.mark.real
def test_three_photos(real_data):
    pytest.importorskip("cv2")
    assert psnr(real_data, every=12) == pytest.approx(35.0, abs=0.1)


@pytest.mark.real
@pytest.mark.slow
def test_all_25_photos_reach_the_stated_34_94_db(real_data):
    pytest.importorskip("cv2")
    assert psnr(real_data, every=1) == pytest.approx(34.94, abs=0.05)
