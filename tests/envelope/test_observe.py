from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from envelope_fakes import small_adversarial, small_stage

from envelope.condition import Condition, condition_camera
from envelope.observe import Observation, patch_center, patch_in_view

BOX = (10.0, 20.0, 50.0, 32.0)  # 12 px high


@pytest.mark.parametrize(
    ("visible", "whole", "box", "reason"),
    [
        (25, 100, BOX, ""),  # exactly a quarter, exactly 12 px: observable
        (24, 100, BOX, "only 24 % of the target visible"),
        (90, 100, (10.0, 20.0, 50.0, 31.0), "target only 11 px high"),
        (0, 100, None, "target not in view"),
        (0, 0, None, "target not in view"),
    ],
)
def test_observable(visible: int, whole: int, box: tuple | None, reason: str) -> None:
    seen = Observation(visible, whole, box)
    assert seen.unobservable_because == reason
    assert seen.observable == (reason == "")


def test_a_cell_beyond_the_pole_is_another_cells_camera_and_not_counted() -> None:
    # the anchor of the stage looks down 0 degrees: elevation up to 85 is as asked
    stage = small_stage()
    for asked, held in ((80.0, None), (88.0, 85.0)):
        key, actual, camera = stage.place(Condition(elevation_deg=asked))
        seen = stage.observe(
            key, Condition(elevation_deg=asked), actual, camera, stage.clean(camera)
        )
        if held is None:
            assert seen.observation.held_elevation_deg is None
        else:
            assert seen.observation.held_elevation_deg == pytest.approx(held, abs=1e-6)
            assert not seen.observation.observable
            assert seen.observation.unobservable_because.endswith("elevation 85.0")


def test_tags() -> None:
    assert Observation(90, 100, BOX, patch_px=9).patch_hidden
    assert not Observation(90, 100, BOX, patch_px=10).patch_hidden
    near = Observation(90, 100, BOX, 50, capture_distance=2.0, capture_angle_deg=30.0)
    assert not near.extrapolated
    assert replace(near, capture_distance=2.01).extrapolated
    assert replace(near, capture_angle_deg=30.5).extrapolated
    # a scene without capture cameras cannot say
    assert not Observation(90, 100, BOX, 50).extrapolated
    assert replace(near, patch_px=0, visible_px=1).tags == ("unobservable", "patch hidden")
    # more visible than the silhouette (anti-aliasing) is still all of it
    assert Observation(103, 100, BOX).visible_share == 1.0


@pytest.mark.parametrize(
    "condition", [Condition(), Condition(40, 15, 0.8), Condition(-30, roll_deg=20)]
)
def test_an_outside_pairs_mask_is_carried_over_by_its_surface(condition: Condition) -> None:
    """The same square, once as a placement, once as only a mask and a plane."""
    adversarial, _, _ = small_adversarial()
    anchor = adversarial.anchor
    blank = np.zeros((anchor.camera.height, anchor.camera.width), np.float32)
    mask, _ = patch_in_view(anchor, anchor.camera, blank)
    pair = replace(anchor, placement=None, mask=mask)
    np.testing.assert_allclose(patch_center(pair), patch_center(anchor), atol=0.01)
    camera = condition_camera(condition, anchor.camera, [0, 0, 0.5], [0, 1, 0])
    placed, incidence = patch_in_view(anchor, camera, blank)
    carried, angle = patch_in_view(pair, camera, blank)
    assert angle == pytest.approx(incidence, abs=0.3)
    union = (placed | carried).sum()
    assert (placed & carried).sum() / union > 0.93


def test_an_outside_pairs_patch_is_hidden_from_behind_and_by_what_stands_before_it() -> None:
    adversarial, _, _ = small_adversarial()
    anchor = adversarial.anchor
    blank = np.zeros((anchor.camera.height, anchor.camera.width), np.float32)
    mask, _ = patch_in_view(anchor, anchor.camera, blank)
    pair = replace(anchor, placement=None, mask=mask)
    behind = condition_camera(Condition(azimuth_deg=150), anchor.camera, [0, 0, 0.5], [0, 1, 0])
    assert not patch_in_view(pair, behind, blank)[0].any()
    near = blank.copy()
    near[:75] = 3.0  # something at depth 3 covers the upper half; the patch lies at 5.48
    covered, _ = patch_in_view(pair, anchor.camera, near)
    assert not covered[:75].any()
    assert covered[75:].sum() == mask[75:].sum()
