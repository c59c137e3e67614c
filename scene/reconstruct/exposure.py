"""Exposure of the training photos: one affine color change per photo, learnt with the scene.

A camera that meters anew for every photo makes the same wall brighter in one and bluer in another.
What is drawn is compared with the photo after color' = A color + b, A 3x3. Scene and changes share
a freedom (a darker scene, brighter photos), so the mean of all changes is kept at identity: the
scene has the training photos' mean exposure. Held-out photos have no change; their decibels are
those of the scene as it is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]
DoubleArray = NDArray[np.float64]

_RATE = 2e-3
_RATE_END = 0.1
_PENALTY = 0.02
"""Weight of the squared distance from identity, beside a loss of about 0.03 per photo."""
_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-12


def identities(photos: int) -> DoubleArray:
    """(photos, 3, 4) changes [A | b] that change nothing."""
    return np.tile(np.eye(3, 4), (photos, 1, 1))


class Exposures:
    """The changes of all training photos and their optimiser.

    values: (photos, 3, 4) float64 [A | b], sRGB in, sRGB out. first, second: Adam's moments.
    steps: (photos,) how often each was learnt.
    """

    def __init__(self, photos: int) -> None:
        self.values = identities(photos)
        self.first = np.zeros_like(self.values)
        self.second = np.zeros_like(self.values)
        self.steps = np.zeros(photos, np.int64)

    def apply(self, index: int, picture: FloatArray) -> FloatArray:
        """(3 or more, H, W) drawn planes to (3, H, W) with the exposure of photo `index`."""
        return changed(picture, self.values[index])

    def step(
        self, index: int, picture: FloatArray, gradient: FloatArray, progress: float
    ) -> FloatArray:
        """Learn photo `index` from dL/d(changed picture); returns dL/d(drawn picture).

        picture: (3 or more, H, W) as drawn. gradient: (3, H, W). progress: 0 to 1 of all
        iterations; the learning rate falls to a tenth.
        """
        change = self.values[index]
        flat = gradient.reshape(3, -1)
        drawn = picture[:3].reshape(3, -1)
        slope = np.empty((3, 4))
        slope[:, :3] = flat @ drawn.T
        slope[:, 3] = flat.sum(axis=1, dtype=np.float64)
        passed = (change[:, :3].T.astype(np.float32) @ flat).reshape(gradient.shape)
        slope += 2 * _PENALTY * (change - np.eye(3, 4))
        self._adam(index, slope, _RATE * _RATE_END**progress)
        return np.ascontiguousarray(passed)

    def _adam(self, index: int, slope: DoubleArray, rate: float) -> None:
        self.steps[index] += 1
        count = int(self.steps[index])
        first, second = self.first[index], self.second[index]
        first += (1 - _BETA_1) * (slope - first)
        second += (1 - _BETA_2) * (slope**2 - second)
        mean = first / (1 - _BETA_1**count)
        spread = np.sqrt(second / (1 - _BETA_2**count))
        self.values[index] -= rate * mean / (spread + _EPSILON)
        self.values -= self.values.mean(axis=0) - np.eye(3, 4)


def changed(picture: FloatArray, change: DoubleArray) -> FloatArray:
    """(3 or more, H, W) planes to (3, H, W): A color + b."""
    drawn = picture[:3].reshape(3, -1)
    matrix = change.astype(np.float32)
    out = matrix[:, :3] @ drawn + matrix[:, 3:]
    return np.ascontiguousarray(out.reshape(3, *picture.shape[1:]))


def fitted(picture: FloatArray, photo: FloatArray, weight: FloatArray | None) -> DoubleArray:
    """The (3, 4) change that brings `picture` nearest to `photo` in least squares.

    Only for figures that say so: it looks at the photo that is to be judged.
    weight: (H, W) or None.
    """
    drawn = picture[:3].reshape(3, -1).astype(np.float64)
    rows = np.vstack([drawn, np.ones(drawn.shape[1])]).T
    wanted = photo.reshape(3, -1).astype(np.float64).T
    if weight is not None:
        root = np.sqrt(weight.reshape(-1, 1).astype(np.float64))
        rows, wanted = rows * root, wanted * root
    return np.asarray(np.linalg.lstsq(rows, wanted, rcond=None)[0].T)
