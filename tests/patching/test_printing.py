from __future__ import annotations

import numpy as np
import pytest
import torch

from patching.printing import non_printability, printable_colors, total_variation


def test_palette_has_30_distinct_colors_inside_the_gamut() -> None:
    colors = printable_colors()
    assert colors.shape == (30, 3)
    assert colors.min() > 0 and colors.max() < 1
    assert len(np.unique(colors.round(4), axis=0)) == 30


def test_non_printability_by_hand() -> None:
    colors = torch.tensor([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    rgb = torch.zeros(3, 1, 2)
    rgb[:, 0, 0] = torch.tensor([0.3, 0.0, 0.4])  # 0.5 from black, more from white
    rgb[:, 0, 1] = torch.tensor([1.0, 0.9, 1.0])  # 0.1 from white
    assert float(non_printability(rgb, colors)) == pytest.approx((0.5 + 0.1) / 2, abs=1e-5)


def test_non_printability_of_printable_colors_is_zero_with_a_finite_slope() -> None:
    colors = torch.from_numpy(printable_colors())
    rgb = colors.T.reshape(3, 5, 6).clone().requires_grad_()
    value = non_printability(rgb, colors)
    value.backward()
    assert float(value.detach()) < 1e-5 and torch.isfinite(rgb.grad).all()


def test_total_variation_by_hand() -> None:
    rgb = torch.zeros(3, 2, 3)
    rgb[0] = torch.tensor([[0.0, 1.0, 1.0], [0.0, 0.5, 1.0]])
    # across, red: |1| |0| |.5| |.5| = 2 over 3 channels * 4 pairs; along: 0 .5 0 over 3 * 3
    assert float(total_variation(rgb)) == pytest.approx(2 / 12 + 0.5 / 9)
