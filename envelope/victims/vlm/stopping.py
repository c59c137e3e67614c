"""Ends greedy decoding when every answer of a batch holds its one box."""

from __future__ import annotations

from typing import Any

import torch
from transformers import StoppingCriteria

from envelope.victims.grammars import is_complete

_CLOSING = ("]", "}", ">")


class BoxComplete(StoppingCriteria):
    """Per row: whether what was written after the prompt is a whole answer.

    start: number of tokens of the prompt.
    """

    def __init__(self, tokenizer: Any, start: int) -> None:
        self._tokenizer = tokenizer
        self._start = start

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        """(B, n) tokens -> (B,) bool; only rows whose last token can close a box are read."""
        last = self._tokenizer.batch_decode(input_ids[:, -1:])
        done = [
            any(mark in word for mark in _CLOSING)
            and is_complete(self._tokenizer.decode(row[self._start :]))
            for word, row in zip(last, input_ids, strict=True)
        ]
        return torch.tensor(done, device=input_ids.device)
