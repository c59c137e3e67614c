"""3DGS's adaptive density control: clone small Gaussians, split large ones, drop faint ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scene.render.cpu.records import FloatArray, morton_order
from scene.render.cpu.training_pack import LOG_SCALE, LOGIT, MEAN, QUATERNION

IntArray = NDArray[np.int64]

SMALL_SHARE = 0.01
"""Gaussians of at most this share of the extent are cloned, larger ones split (3DGS)."""
FAINTEST = 0.005
"""Opacity below which a Gaussian is removed (3DGS)."""
RESET_OPACITY = 0.05
LARGEST_ANGLE = 0.2
"""Largest sigma, as a share of the distance to the nearest camera.

A few giants are enough to lay a veil over a photo that was held out (street: 35 of 60,000 cost
10 dB in one view), and no photo pulls at them. 3DGS removes what is larger than a tenth of the
cameras' extent, which would delete a far sky.
"""
_SPLIT_FACTOR = 1.6


@dataclass(frozen=True, eq=False)
class Densified:
    """New rows of parameters in Morton order. source: (N,) old row, or -1 where the row is new."""

    parameters: FloatArray
    source: IntArray
    cloned: int
    split: int
    removed: int


@dataclass(frozen=True, eq=False)
class Surroundings:
    """What sizes are judged by: the extent of the cameras, and where they stand, (C, 3)."""

    extent: float
    centers: NDArray[np.float64]

    def largest_sigma(self, means: FloatArray) -> FloatArray:
        """(N, 3) means to (N,) the largest sigma that a Gaussian there may have."""
        from scipy.spatial import cKDTree

        distance, _ = cKDTree(self.centers).query(means)
        # right before a lens, distance says nothing
        return (LARGEST_ANGLE * np.maximum(distance, 0.05 * self.extent)).astype(np.float32)


def densify(
    parameters: FloatArray,
    screen_gradients: FloatArray,
    threshold: float,
    most: int,
    around: Surroundings,
    rng: np.random.Generator,
) -> Densified:
    """One round. screen_gradients: (N,) mean gradient per sighting; at most `most` rows result."""
    largest = np.exp(parameters[:, LOG_SCALE : LOG_SCALE + 3]).max(axis=1)
    kept = _worth_keeping(parameters, largest, around)
    wanting = np.flatnonzero((screen_gradients > threshold) & kept)
    room = max(most - int(kept.sum()), 0)
    if len(wanting) > room:
        strongest = np.argsort(-screen_gradients[wanting], kind="stable")[:room]
        wanting = np.sort(wanting[strongest])
    small = largest[wanting] <= SMALL_SHARE * around.extent
    cloned, split = wanting[small], wanting[~small]
    kept_rows = np.setdiff1d(np.flatnonzero(kept), split)
    halves = [_sampled_within(parameters[split], rng) for _ in range(2)]
    rows = np.concatenate([parameters[kept_rows], parameters[cloned], *halves])
    source = np.concatenate([kept_rows, np.full(len(rows) - len(kept_rows), -1)])
    order = morton_order(rows[:, MEAN : MEAN + 3])
    return Densified(
        np.ascontiguousarray(rows[order]),
        source[order],
        len(cloned),
        len(split),
        int((~kept).sum()),
    )


def limit_sizes(parameters: FloatArray, around: Surroundings) -> None:
    """Shrink what has grown too large, in place; for when nothing is removed any more."""
    most = np.log(around.largest_sigma(parameters[:, MEAN : MEAN + 3]))[:, None]
    log_scales = parameters[:, LOG_SCALE : LOG_SCALE + 3]
    np.minimum(log_scales, most, out=log_scales)


def pull_down_opacities(parameters: FloatArray) -> None:
    """Opacities to at most RESET_OPACITY, in place."""
    logit = np.float32(np.log(RESET_OPACITY / (1 - RESET_OPACITY)))
    parameters[:, LOGIT] = np.minimum(parameters[:, LOGIT], logit)


def faint(parameters: FloatArray) -> NDArray[np.bool_]:
    """(N,) whether a row's opacity is below FAINTEST."""
    return parameters[:, LOGIT] < np.log(FAINTEST / (1 - FAINTEST))


def _worth_keeping(
    parameters: FloatArray, largest: FloatArray, around: Surroundings
) -> NDArray[np.bool_]:
    """Neither faint nor a fog bank."""
    return ~faint(parameters) & (largest < around.largest_sigma(parameters[:, MEAN : MEAN + 3]))


def _sampled_within(parameters: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Smaller copies, placed at random inside the Gaussians."""
    copies = parameters.copy()
    scales = np.exp(parameters[:, LOG_SCALE : LOG_SCALE + 3])
    local = rng.standard_normal((len(parameters), 3)) * scales
    copies[:, MEAN : MEAN + 3] += _rotated(parameters[:, QUATERNION : QUATERNION + 4], local)
    copies[:, LOG_SCALE : LOG_SCALE + 3] -= np.float32(np.log(_SPLIT_FACTOR))
    return copies


def _rotated(quats: FloatArray, vectors: NDArray[np.float64]) -> FloatArray:
    """(N, 3) vectors turned by (N, 4) quaternions wxyz of any length."""
    unit = quats / np.linalg.norm(quats, axis=1, keepdims=True)
    w, axis = unit[:, :1], unit[:, 1:]
    twice = 2 * np.cross(axis, vectors)
    return (vectors + w * twice + np.cross(axis, twice)).astype(np.float32)
