"""Gaussians that no training photo shows: what they are, and how they are found.

A photo pulls only at what it sees. What has drifted behind a surface or beside all cameras keeps
whatever size and opacity it has, costs nothing in training, and jumps out of the wall in a view
from elsewhere. What a Gaussian adds to a photo is the sum of its blending weights over the pixels:
the gradient of the drawn picture with respect to its color, so the trainer's own backward pass
counts it, culled and ordered as everywhere else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scene.gaussians import SH_C0
from scene.reconstruct.photos import Photo
from scene.render.cpu.records import FloatArray
from scene.render.cpu.training import TrainingRenderer
from scene.render.cpu.training_pack import (
    HARMONICS,
    LOG_SCALE,
    LOGIT,
    MEAN,
    parameter_floats,
)

SEEN_PIXELS = 0.02
"""A Gaussian that no photo gives this much, in whole pixels, is hidden."""
BLOB_PIXELS = 25.0
"""A hidden one that would cover this much of a photo if nothing stood before it is a blob."""


@dataclass(frozen=True, eq=False)
class Hidden:
    """unseen: (N,) no training photo shows it. blobs: (N,) those that are large and opaque."""

    unseen: NDArray[np.bool_]
    blobs: NDArray[np.bool_]

    def __str__(self) -> str:
        """For people."""
        return (
            f"{int(self.unseen.sum())} of {len(self.unseen)} Gaussians in no training photo, "
            f"{int(self.blobs.sum())} of them large and opaque"
        )


def find_hidden(parameters: FloatArray, photos: tuple[Photo, ...], threads: int) -> Hidden:
    """Judge rows of parameters by the training photos."""
    shown = largest_weights(parameters, photos, threads)
    unseen = shown < SEEN_PIXELS
    alone = np.zeros(len(parameters))
    ordered = np.sort(np.exp(parameters[:, LOG_SCALE : LOG_SCALE + 3].astype(np.float64)), axis=1)
    opacity = 1 / (1 + np.exp(-parameters[:, LOGIT].astype(np.float64)))
    centers = np.array([photo.camera.center for photo in photos])
    focal = float(np.mean([photo.camera.K[0, 0] for photo in photos]))
    for center in centers:
        away = np.linalg.norm(parameters[:, MEAN : MEAN + 3] - center, axis=1)
        scale = focal / np.maximum(away, 1e-9)
        footprint = 2 * np.pi * ordered[:, 1] * ordered[:, 2] * scale**2
        alone = np.maximum(alone, opacity * footprint)
    return Hidden(unseen, unseen & (alone > BLOB_PIXELS))


def largest_weights(
    parameters: FloatArray, photos: tuple[Photo, ...], threads: int
) -> NDArray[np.float32]:
    """(N,) the most that any photo shows of each row: sum of blending weights, in pixels."""
    white = np.zeros((len(parameters), parameter_floats(1)), np.float32)
    white[:, :HARMONICS] = parameters[:, :HARMONICS]
    white[:, HARMONICS : HARMONICS + 3] = 0.5 / SH_C0
    renderer = TrainingRenderer(threads=threads)
    largest = np.zeros(len(parameters), np.float32)
    spare = np.zeros(len(parameters), np.float32)
    for photo in photos:
        camera = photo.camera
        renderer.forward(white, 1, camera, (0.0, 0.0, 0.0))
        seeds = np.zeros((3, camera.height, camera.width), np.float32)
        seeds[0] = 1
        gradients = renderer.backward(seeds, spare, spare)
        np.maximum(largest, gradients[:, HARMONICS] / np.float32(SH_C0), out=largest)
        gradients[:] = 0
    return largest
