from __future__ import annotations

import pytest
import torch

from patching.apse.losses import alpha_loss, attachment_loss, outside_loss, patch_loss


def _planes(*reds: float) -> torch.Tensor:
    """(3, 1, n) with these red values, green and blue 0."""
    out = torch.zeros(3, 1, len(reds))
    out[0, 0] = torch.tensor(reds)
    return out


def test_patch_loss_is_the_mean_inside_the_mask() -> None:
    # |0.3| and |0.6| red over 3 channels, two mask pixels; the third pixel does not count
    loss = patch_loss(_planes(0.3, 0.6, 9.0), _planes(0, 0, 0), torch.tensor([[1.0, 1.0, 0.0]]), 2)
    assert float(loss) == pytest.approx((0.1 + 0.2) / 2)


def test_outside_loss_divides_the_sum() -> None:
    outside = torch.tensor([[0.0, 1.0, 1.0]])
    loss = outside_loss(_planes(9.0, 0.3, 0.6), _planes(0, 0, 0), outside, 6)
    assert float(loss) == pytest.approx((0.1 + 0.2) / 6)


def test_alpha_loss() -> None:
    alpha, outside = torch.tensor([[0.5, 0.25]]), torch.tensor([[0.0, 1.0]])
    assert float(alpha_loss(alpha, outside, 5)) == pytest.approx(0.05)


def test_attachment_caps_at_two_sigma() -> None:
    # d / sigma = 1, -2, 3, 0: squares 1, 4, capped 4, 0
    offsets = torch.tensor([0.1, -0.2, 0.3, 0.0])
    assert float(attachment_loss(offsets, 0.1, 4.0)) == pytest.approx(9 / 4)


def test_attachment_pulls_only_below_the_cap() -> None:
    offsets = torch.tensor([0.1, 0.3], requires_grad=True)
    attachment_loss(offsets, 0.1, 4.0).backward()
    assert offsets.grad is not None
    assert float(offsets.grad[0]) > 0 and float(offsets.grad[1]) == 0
