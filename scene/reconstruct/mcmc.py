"""3DGS as Markov chain Monte Carlo (Kheradmand et al. 2024): dead Gaussians move to live ones.

No cloning, splitting or resets. What has faded is put where opacity is, and opacities and sizes of
all that then share a place are corrected so that the picture stays (the paper's equation 9). The
number grows round by round up to the cap. Noise on the positions of the faint explores; penalties
on opacity and size make Gaussians fade that are not needed. Two things are not the paper's, since
a run here is a tenth as long: growth is faster, and what joins another is put beside it (`SPREAD`).
"""

from __future__ import annotations

from math import comb

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from scene.reconstruct.densify import FAINTEST, Densified
from scene.reconstruct.settings import ReconstructSettings
from scene.render.cpu.records import FloatArray, morton_order
from scene.render.cpu.training_pack import LOG_SCALE, LOGIT, MEAN, QUATERNION

DoubleArray = NDArray[np.float64]

GROWTH = 1.05
"""Per round, at least; in 30,000 iterations that reaches any cap (the paper)."""
SPREAD = 1.0
"""Sigmas between a Gaussian and one that joins it; the paper has 0, where both learn alike.

Equal rows in one place have nearly equal gradients, and noise parts them only while they are faint.
30,000 iterations leave time for that, 3,000 do not (fox, 160 pixels, 1,200 iterations: 26.05 dB
held out with 0, 28.09 with 1).
"""
MOST_SHARING = 51
"""Gaussians that may come to share a place in one round (the reference's limit)."""
_HIGHEST = 1 - 1e-6
_STEEP, _SOLID = 100.0, 0.995  # noise dies out above an opacity of 1 - 0.995


def shared(opacity: DoubleArray, count: NDArray[np.int64]) -> tuple[DoubleArray, DoubleArray]:
    """What `count` equal Gaussians in one place need to draw as one of `opacity` did.

    Both (N,). Returns the new opacities 1 - (1 - o)^(1/n) and the factor on all three sigmas,
    o / sum_{i=1..n} sum_{k=0..i-1} C(i-1, k) (-1)^k o'^(k+1) / sqrt(k+1).
    """
    new = 1 - (1 - opacity) ** (1 / count)
    total = np.zeros_like(opacity)
    # summed over i, C(i-1, k) gives C(n, k+1)
    for n in np.unique(count):
        rows = count == n
        for k in range(int(n)):
            total[rows] += comb(int(n), k + 1) * (-1.0) ** k * new[rows] ** (k + 1) / (k + 1) ** 0.5
    return new, opacity / total


def growth(count: int, most: int, settings: ReconstructSettings, iteration: int) -> float:
    """Factor by which `count` Gaussians grow in this round, to be `most` halfway through."""
    last = settings.densify_until * settings.iterations
    to_halfway = 0.5 * (settings.densify_from + last) - iteration
    rounds = max(int(to_halfway / settings.densify_every) + 1, 1)  # this one included
    return max(GROWTH, (most / max(count, 1)) ** (1 / rounds))


def relocate(
    parameters: FloatArray,
    most: int,
    rng: np.random.Generator,
    factor: float = GROWTH,
    spread: float = SPREAD,
) -> Densified:
    """One round: dead rows go to live ones, then the number grows; at most `most` rows result.

    spread: how far from its host a row is put, in the host's own (corrected) sigmas.

    In what is returned, `cloned` counts those added, `split` those relocated; source is -1 where
    the optimiser must begin anew (moved rows and those they moved to).
    """
    rows = parameters.copy()
    opacity = _opacity(rows)
    dead = np.flatnonzero(opacity <= FAINTEST)
    anew = np.zeros(len(rows), bool)
    if 0 < len(dead) < len(rows):
        hosts = _hosts(opacity, len(dead), rng)
        _share(rows, hosts)
        rows[dead] = _beside(rows[hosts], spread, rng)
        anew[dead] = anew[hosts] = True
    added = max(min(most, int(factor * len(rows))) - len(rows), 0)
    if added and len(dead) < len(opacity):
        hosts = _hosts(_opacity(rows), added, rng)
        _share(rows, hosts)
        anew[hosts] = True
        rows = np.concatenate([rows, _beside(rows[hosts], spread, rng)])
    else:
        added = 0
    source = np.where(anew, -1, np.arange(len(parameters)))
    source = np.concatenate([source, np.full(added, -1)])
    order = morton_order(rows[:, MEAN : MEAN + 3])
    return Densified(np.ascontiguousarray(rows[order]), source[order], added, len(dead), 0)


def add_penalties(
    gradients: FloatArray, parameters: FloatArray, opacity_penalty: float, scale_penalty: float
) -> None:
    """Gradients of opacity_penalty * mean opacity + scale_penalty * mean sigma, added in place.

    scale_penalty: per world unit.
    """
    count = len(parameters)
    opacity = _opacity(parameters)
    gradients[:, LOGIT] += opacity_penalty / count * opacity * (1 - opacity)
    sigmas = np.exp(parameters[:, LOG_SCALE : LOG_SCALE + 3])
    gradients[:, LOG_SCALE : LOG_SCALE + 3] += scale_penalty / (3 * count) * sigmas


def jitter(parameters: FloatArray, strength: float, rng: np.random.Generator) -> None:
    """Move faint Gaussians at random within themselves, in place: covariance times noise.

    strength: the paper's noise weight times the positions' learning rate.
    """
    opacity = _opacity(parameters).astype(np.float32)
    faintness = expit(np.float32(_STEEP) * ((1 - opacity) - np.float32(_SOLID)))
    moved = np.flatnonzero(faintness > 1e-6)
    axes = _rotations(parameters[moved, QUATERNION : QUATERNION + 4])
    variances = np.exp(2 * parameters[moved, LOG_SCALE : LOG_SCALE + 3])
    noise = rng.standard_normal((len(moved), 3), dtype=np.float32)
    noise *= np.float32(strength) * faintness[moved, None].astype(np.float32)
    local = np.einsum("nij,ni->nj", axes, noise) * variances
    parameters[moved, MEAN : MEAN + 3] += np.einsum("nij,nj->ni", axes, local)


def _hosts(opacity: DoubleArray, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """(count,) live rows drawn in proportion to opacity."""
    chances = np.where(opacity > FAINTEST, opacity, 0.0)
    return rng.choice(len(opacity), count, p=chances / chances.sum())


def _share(rows: FloatArray, hosts: NDArray[np.int64]) -> None:
    """Correct the hosts for those that are about to join them, in place."""
    unique, joining = np.unique(hosts, return_counts=True)
    opacity = np.minimum(_opacity(rows[unique]), _HIGHEST)
    new, factor = shared(opacity, np.minimum(joining + 1, MOST_SHARING))
    new = np.clip(new, FAINTEST, _HIGHEST)
    rows[unique, LOGIT] = np.log(new / (1 - new))
    rows[unique, LOG_SCALE : LOG_SCALE + 3] += np.log(factor)[:, None]


def _beside(rows: FloatArray, spread: float, rng: np.random.Generator) -> FloatArray:
    """Copies, moved by normal noise of `spread` of their own sigmas."""
    copies = rows.copy()
    noise = rng.standard_normal((len(rows), 3), dtype=np.float32) * np.float32(spread)
    local = noise * np.exp(rows[:, LOG_SCALE : LOG_SCALE + 3])
    axes = _rotations(rows[:, QUATERNION : QUATERNION + 4])
    copies[:, MEAN : MEAN + 3] += np.einsum("nij,nj->ni", axes, local)
    return copies


def _opacity(parameters: FloatArray) -> DoubleArray:
    return np.asarray(expit(parameters[:, LOGIT].astype(np.float64)))


def _rotations(quats: FloatArray) -> FloatArray:
    """(N, 4) quaternions wxyz of any length to (N, 3, 3), columns are the axes."""
    w, x, y, z = (quats / np.linalg.norm(quats, axis=1, keepdims=True)).T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.array(rows, dtype=np.float32).transpose(2, 0, 1)
