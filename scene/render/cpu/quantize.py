"""Kernel: sRGB values as the bytes of a picture."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scene.render.cpu.cache import exact_kernel


@exact_kernel
def quantize(values: NDArray[np.float32], found: NDArray[np.uint8]) -> None:
    """Round 255 times each value, limited to [0, 1], to the nearest byte (ties to even).

    values: (N,). found: (N,), written. NaN becomes 0.
    """
    for i in range(len(values)):
        value = values[i] if values[i] > np.float32(0.0) else np.float32(0.0)
        value = value if value < np.float32(1.0) else np.float32(1.0)
        found[i] = np.uint8(np.int32(np.rint(value * np.float32(255.0))))
