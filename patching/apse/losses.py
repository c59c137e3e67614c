"""APSE's loss terms, (3) to (7) of the method. Pictures are torch (3, h, w) crops, sRGB."""

from __future__ import annotations

import torch


def patch_loss(
    rendered: torch.Tensor, attacked: torch.Tensor, mask: torch.Tensor, mask_px: float
) -> torch.Tensor:
    """(3) mean over the mask's pixels and channels of |rendered - attacked|.

    mask: (h, w) float, 1 on the patch. mask_px: |M|.
    """
    return ((rendered - attacked).abs().mean(dim=0) * mask).sum() / mask_px


def outside_loss(
    rendered: torch.Tensor, clean: torch.Tensor, outside: torch.Tensor, divisor: float
) -> torch.Tensor:
    """(4), (5) sum over the outside pixels of |rendered - clean| (channel mean), over `divisor`.

    outside: (h, w) float, 1 where the clean scene must stay. divisor: the paper's mean divides
    by the outside pixels of the WHOLE picture; the inspector by |M|, since in a mean one outside
    pixel weighs 1/30 to 1/120 of a patch pixel and the term does nothing.
    """
    return ((rendered - clean).abs().mean(dim=0) * outside).sum() / divisor


def alpha_loss(alpha: torch.Tensor, outside: torch.Tensor, divisor: float) -> torch.Tensor:
    """(6) sum of the new Gaussians' alpha (h, w) outside the patch's projection, over `divisor`."""
    return (alpha * outside).sum() / divisor


def attachment_loss(normal_offsets: torch.Tensor, sigma: float, cap: float) -> torch.Tensor:
    """(7) mean of min((d / sigma)^2, cap) over centres.

    normal_offsets: (n,) displacement along each Gaussian's own normal, same unit as sigma.
    """
    return torch.clamp((normal_offsets / sigma) ** 2, max=cap).mean()
