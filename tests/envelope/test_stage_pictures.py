"""The pictures that victims get equal those drawn whole, each by itself, to the byte."""

from __future__ import annotations

import numpy as np
import pytest
from envelope_fakes import small_stage

from envelope.condition import Condition
from patching.overlay import paste_overlay
from scene.render.api import make_renderer


@pytest.mark.parametrize(
    "condition",
    [
        Condition(),
        Condition(40, 15, 0.7, roll_deg=20),
        Condition(-60, radius=2.5, shift_x=0.3, focal=2.0),
        Condition(azimuth_deg=180),
        Condition(yaw_deg=30, shift_x=-0.3),
    ],
)
def test_every_kind(condition: Condition) -> None:
    stage = small_stage()
    _, _, camera = stage.place(condition)
    clean = stage.clean(camera)
    before = clean.picture.copy()
    for kind in stage.kinds:
        scene = stage.adversarial.gaussians("clean" if kind == "overlay" else kind)
        whole = make_renderer(scene, "cpu", stage.settings.render, threads=1)
        rgb = whole.render(camera, stage.settings.background).rgb
        if kind == "overlay":
            assert stage.patch is not None
            rgb = paste_overlay(rgb, camera, stage.adversarial.anchor.placement, stage.patch)
        wanted = np.rint(np.clip(rgb, 0, 1) * np.float32(255)).astype(np.uint8)
        np.testing.assert_array_equal(stage.draw(kind, camera, clean)[0], wanted)
    np.testing.assert_array_equal(clean.picture, before)  # shared by all kinds, changed by none
