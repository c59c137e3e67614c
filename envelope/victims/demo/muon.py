"""Muon (Jordan et al. 2024) in float32.

torch.optim.Muon orthogonalises in bfloat16, which ordinary processors emulate slowly: it took
two thirds of a training step. Matrices of one shape are worked as a batch here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch

_QUINTIC = (3.4445, -4.7750, 2.0315)
_ITERATIONS = 5


class FloatMuon(torch.optim.Optimizer):
    """Momentum steps on matrices, made orthogonal; the step's size matches AdamW's."""

    def __init__(
        self,
        matrices: Iterable[torch.nn.Parameter],
        lr: float = 1e-3,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(
            list(matrices), {"lr": lr, "momentum": momentum, "weight_decay": weight_decay}
        )

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One step for every matrix that has a gradient."""
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[torch.nn.Parameter]] = {}
            for matrix in group["params"]:
                if matrix.grad is not None:
                    by_shape.setdefault(matrix.shape, []).append(matrix)
            for shape, matrices in by_shape.items():
                moved = torch.stack([self._momentum(m, group["momentum"]) for m in matrices])
                size = group["lr"] * 0.2 * math.sqrt(max(shape))
                for matrix, update in zip(matrices, orthogonal(moved), strict=True):
                    matrix.mul_(1 - group["lr"] * group["weight_decay"])
                    matrix.sub_(update, alpha=size)

    def _momentum(self, matrix: torch.nn.Parameter, momentum: float) -> torch.Tensor:
        gradient = matrix.grad
        assert gradient is not None
        state = self.state[matrix]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(matrix)
        state["momentum"].lerp_(gradient, 1 - momentum)
        return gradient.lerp(state["momentum"], momentum)


def orthogonal(matrices: torch.Tensor) -> torch.Tensor:
    """(n, rows, columns) -> nearly orthogonal matrices with the same singular directions."""
    tall = matrices.shape[1] > matrices.shape[2]
    work = matrices.transpose(1, 2) if tall else matrices
    work = work / work.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    first, second, third = _QUINTIC
    for _ in range(_ITERATIONS):
        gram = work @ work.transpose(1, 2)
        work = first * work + (second * gram + third * gram @ gram) @ work
    return work.transpose(1, 2) if tall else work
