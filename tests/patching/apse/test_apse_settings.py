from __future__ import annotations

import pytest

from patching.apse.settings import ApseSettings
from scene.errors import InputError


def test_variants_differ_in_the_named_corrections() -> None:
    paper, ours = ApseSettings.of("paper"), ApseSettings.of("inspector")
    assert ApseSettings() == ours
    assert (paper.offset_px, paper.layer_strides, paper.fade_front) == (0.375, 0.0, False)
    assert not paper.per_mask and ours.per_mask
    assert (paper.fade_depth, paper.weight_aux_patch) == (0.0, 0.0)
    weights = (paper.weight_patch, paper.weight_keep, paper.weight_aux_color,
               paper.weight_aux_alpha, paper.weight_attach)  # fmt: skip
    assert weights == (1, 1, 1, 0.1, 0.01)
    assert ours.attach_sigma == pytest.approx(0.25 / 4)


def test_preview_and_ablations() -> None:
    preview = ApseSettings.of("inspector").preview()
    assert preview.iterations == 120 and preview.aux_views == 2
    assert ApseSettings.of("paper", iterations=50).preview().iterations == 50
    assert not ApseSettings().without("attachment").use_attachment
    assert ApseSettings().without("old").use_new


@pytest.mark.parametrize(
    "wrong",
    [
        {"iterations": 0},
        {"aux_views": -1},
        {"stride_px": 0.1},
        {"use_new": False, "use_old": False},
    ],
)
def test_wrong_settings_are_refused(wrong) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError):
        ApseSettings.of("inspector", **wrong)
    with pytest.raises(InputError):
        ApseSettings("other")  # type: ignore[arg-type]
