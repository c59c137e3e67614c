"""Ends an answer whose words were chosen among numbers that are none."""

from __future__ import annotations

import torch
from transformers import LogitsProcessor

from envelope.victims.boxes import require_finite


class FiniteScores(LogitsProcessor):
    """Raises InputError for NaN or +inf: the words that follow would read as an object not found.

    name: the victim's. A model may rule words out with -inf.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """(B, n) tokens, (B, V) scores of the next one -> the same scores."""
        require_finite(self._name, scores.clamp(min=torch.finfo(scores.dtype).min))
        return scores
