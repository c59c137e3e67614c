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
_SPLIT_FACTOR = 1.6
_LARGEST_SHARE = 0.3


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
    """What sizes are judged by: the extent of the cameras, and where they stand."""

    extent: float
    centers: NDArray[np.float64]


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
    """Neither faint nor a fog bank. A far sky is large too: size is judged by distance."""
    means = parameters[:, MEAN : MEAN + 3]
    distance = np.linalg.norm(means - around.centers.mean(axis=0), axis=1)
    return ~faint(parameters) & (largest < _LARGEST_SHARE * np.maximum(around.extent, distance))


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
