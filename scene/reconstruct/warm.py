"""Warm-up stage of the reconstruction's own kernels (see `scene.render.warmup`)."""

from __future__ import annotations

import numpy as np

from scene.reconstruct.adam import Adam
from scene.reconstruct.losses import PhotometricLoss


def warm_losses() -> None:
    """Compile the photometric loss and the optimiser."""
    picture, photo = np.zeros((4, 16, 16), np.float32), np.zeros((3, 16, 16), np.float32)
    PhotometricLoss(16, 16)(picture, photo)
    row = np.zeros((1, 16), np.float32)
    Adam(row.shape).step(row, row.copy(), np.zeros(16, np.float32))
