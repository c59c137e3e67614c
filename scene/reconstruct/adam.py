"""Adam on rows of parameters, one fused pass; columns have learning rates of their own."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from scene.render.cpu.cache import kernel
from scene.render.cpu.records import aligned
from scene.render.cpu.threads import run_shares

FloatArray = NDArray[np.float32]

_BETA_1 = np.float32(0.9)
_BETA_2 = np.float32(0.999)
_EPSILON = np.float32(1e-15)
_ONE = np.float32(1)


class Adam:
    """Moments of the gradients of (N, P) float32 parameters; `step` counts from 1."""

    def __init__(self, shape: tuple[int, ...], threads: int = 1) -> None:
        self.first = aligned(shape)
        self.second = aligned(shape)
        self.steps = 0
        self._threads = threads

    def step(self, parameters: FloatArray, gradients: FloatArray, rates: FloatArray) -> None:
        """Move `parameters` in place and set `gradients` to zero. rates: (P,) float32."""
        self.steps += 1
        corrections = (
            np.float32(1 / (1 - 0.9**self.steps)),
            np.float32(1 / (1 - 0.999**self.steps)),
        )
        threads = self._threads
        run_shares(
            threads,
            lambda thread: _update(
                parameters,
                gradients,
                self.first,
                self.second,
                rates,
                *corrections,
                thread,
                threads,
            ),
        )

    def rearrange(self, kept: NDArray[np.int64]) -> None:
        """Follow parameters that were rearranged: row i was row kept[i], or is new where -1."""
        for name in ("first", "second"):
            old = getattr(self, name)
            new = aligned((len(kept), *old.shape[1:]))
            known = kept >= 0
            new[known] = old[kept[known]]
            setattr(self, name, new)

    def forget(self, column: int) -> None:
        """Reset the moments of one column."""
        self.first[:, column] = 0
        self.second[:, column] = 0


@kernel
def _update(  # type: ignore[no-untyped-def]
    parameters, gradients, first, second, rates, correction_1, correction_2, thread, threads
):
    rows = parameters.shape[0]
    columns = np.uint64(parameters.shape[1])
    for row in range(rows * thread // threads, rows * (thread + 1) // threads):
        i = np.uint64(row)
        for k in range(columns):
            gradient = gradients[i, k]
            gradients[i, k] = np.float32(0)
            mean = _BETA_1 * first[i, k] + (_ONE - _BETA_1) * gradient
            square = _BETA_2 * second[i, k] + (_ONE - _BETA_2) * gradient * gradient
            first[i, k] = mean
            second[i, k] = square
            change = rates[k] * (mean * correction_1)
            parameters[i, k] -= change / (math.sqrt(square * correction_2) + _EPSILON)
