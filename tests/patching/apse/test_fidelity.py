"""What an embedding is judged by, on renders whose differences are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from patching.anchor import anchor_from_placement
from patching.apse.fidelity import measure
from scene.render.api import make_renderer

ONE_VIEW = {"azimuths_deg": (15.0,), "radii": (1.0,)}


def test_a_scene_without_the_patch_is_off_by_the_patch_alone(wall, placed, stripes):
    renderer = make_renderer(wall, "cpu")
    anchor = anchor_from_placement(renderer, placed, stripes)
    found = measure(renderer, renderer, anchor, stripes, **ONE_VIEW)
    wanted = np.abs(anchor.clean - anchor.image).mean(axis=2)[anchor.mask].mean()
    assert wanted > 0.2
    assert found.anchor_patch == pytest.approx(wanted, rel=1e-5)
    # the patch's soft edge is all that the attacked picture changes outside the mask
    assert 0 < found.anchor_rest < 0.01
    assert found.leak == found.leak_px == 0
    assert found.off_patch == found.clean_patch == found.near == found.far > 0.2


def test_an_outside_pair_is_held_to_the_clean_render_beside_its_patch(wall, placed, stripes):
    renderer = make_renderer(wall, "cpu")
    anchor = anchor_from_placement(renderer, placed, stripes)
    other = anchor.image.copy()  # another program's picture of the same view, brighter by 0.1
    other[~anchor.mask] = np.clip(anchor.clean[~anchor.mask] + 0.1, 0, 1)
    pair = replace(anchor, image=other, placement=None)
    found = measure(renderer, renderer, pair, **ONE_VIEW)
    assert found.anchor_rest == 0
    error = np.abs(anchor.clean - anchor.image).mean(axis=2)
    assert found.anchor_patch == pytest.approx(error[anchor.mask].mean(), rel=1e-5)
    assert found.ring < 0.6 * error[anchor.mask].mean()  # half of it lies outside: no difference
