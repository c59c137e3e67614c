"""Losses of patch making besides the victim's own: printability, smoothness, size of the change."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from patching.printing import non_printability, total_variation


@dataclass(frozen=True)
class PatchWeights:
    """Weights of the regularizers. change: of the L2 distance from the start image, 0 = off."""

    printability: float = 0.05
    variation: float = 0.1
    change: float = 0.0


def carlini_wagner_margin(
    scores: torch.Tensor, true_index: int, confidence: float = 0.0
) -> torch.Tensor:
    """(B,) untargeted C&W margin: max(true score - best other score, -confidence).

    scores: (B, C) logits. Low is attacked; below -confidence nothing more is gained.
    """
    true = scores[:, true_index]
    others = scores.clone()
    others[:, true_index] = -torch.inf
    return (true - others.max(dim=1).values).clamp(min=-confidence)


def targeted_margin(
    scores: torch.Tensor, target_index: int, confidence: float = 0.0
) -> torch.Tensor:
    """(B,) targeted C&W margin: max(best other score - target score, -confidence)."""
    return -_unclamped_margin(scores, target_index).clamp(max=confidence)


def regularizers(
    rgb: torch.Tensor, start: torch.Tensor, colors: torch.Tensor, weights: PatchWeights
) -> torch.Tensor:
    """Weighted sum of NPS, TV and L2 of a patch (3, h, w) in [0, 1]."""
    total = weights.printability * non_printability(rgb, colors)
    total = total + weights.variation * total_variation(rgb)
    if weights.change > 0:
        total = total + weights.change * ((rgb - start) ** 2).mean().sqrt()
    return total


def _unclamped_margin(scores: torch.Tensor, index: int) -> torch.Tensor:
    others = scores.clone()
    others[:, index] = -torch.inf
    return scores[:, index] - others.max(dim=1).values
