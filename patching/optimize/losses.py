"""Losses of patch making: Carlini and Wagner's margins, and the regularizers of a print."""

from __future__ import annotations

import torch

from patching.optimize.settings import PatchWeights
from patching.printing import non_printability, total_variation


def untargeted_margin(
    scores: torch.Tensor, true_index: int, confidence: float = 0.0
) -> torch.Tensor:
    """(B,) C&W margin max(true score - best other score, -confidence).

    scores: (B, C) logits. Low is attacked; below -confidence nothing more is gained.
    """
    return _lead(scores, true_index).clamp(min=-confidence)


def targeted_margin(
    scores: torch.Tensor, target_index: int, confidence: float = 0.0
) -> torch.Tensor:
    """(B,) C&W margin max(best other score - target score, -confidence)."""
    return (-_lead(scores, target_index)).clamp(min=-confidence)


def regularizers(
    rgb: torch.Tensor, start: torch.Tensor, colors: torch.Tensor, weights: PatchWeights
) -> torch.Tensor:
    """Weighted sum of NPS, TV and L2 of a patch.

    rgb, start: (3, h, w) in [0, 1], now and at the start. colors: (n, 3) printable ones. L2 is
    the root of the mean squared change, so that it does not grow with the patch's resolution.
    """
    total = rgb.new_zeros(())
    if weights.printability > 0:
        total = total + weights.printability * non_printability(rgb, colors)
    if weights.variation > 0:
        total = total + weights.variation * total_variation(rgb)
    if weights.change > 0:
        # sqrt has no finite slope at 0, where every restart begins
        total = total + weights.change * (((rgb - start) ** 2).mean() + 1e-12).sqrt()
    return total


def _lead(scores: torch.Tensor, index: int) -> torch.Tensor:
    """(B,) one class's score less the best of the others."""
    others = scores.clone()
    others[:, index] = -torch.inf
    return scores[:, index] - others.amax(dim=1)
