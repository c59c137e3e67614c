"""The copy of a scene that browsers draw: for looking only, never scored.

viser sends 32 bytes a splat to every client, keeps covariances as float16 (a sigma under 2.4e-4
vanishes, one over 256 becomes infinite) and has no spherical harmonics. So the copy is cut to a
budget, largest opacity x area first (the area that the anchor sees, or a far house would take the
place of the sign before it), and stored in units in which its sigmas fit float16.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scene.gaussians import Gaussians
from scene.scene import TargetBox

LARGEST_SIGMA = 200.0
"""Upper end of the stored sigmas; 256^2 is the last square that float16 holds."""
SMALLEST_SIGMA = 2e-3
"""Lower end: 4e-6 is 67 steps of float16's smallest number, so that a flat splat stays flat."""


@dataclass(frozen=True, eq=False)
class DisplaySplats:
    """Arrays for `viser.scene.add_gaussian_splats`, in units of `scale` world units.

    centers: (N, 3). covariances: (N, 3, 3), exact in float16's range. rgbs: (N, 3) in [0, 1].
    opacities: (N, 1) in [0, 1]. scale: world units per stored unit.
    total: how many Gaussians there were before the budget.
    """

    centers: NDArray[np.float32]
    covariances: NDArray[np.float32]
    rgbs: NDArray[np.float32]
    opacities: NDArray[np.float32]
    scale: float
    total: int

    def __len__(self) -> int:
        return len(self.centers)


def importance(gaussians: Gaussians, eye: ArrayLike | None = None) -> NDArray[np.float32]:
    """(N,) opacity x area of the two longest axes: how much of a picture each one can cover.

    eye: (3,) where it is looked at from, which divides areas by distance squared; None: world area.
    """
    ordered = np.sort(gaussians.scales, axis=1)
    value = gaussians.opacities * ordered[:, 1] * ordered[:, 2]
    if eye is None:
        return value
    offset = gaussians.means - np.asarray(eye, dtype=np.float32)
    # one that surrounds the eye covers the whole picture and no more
    squared = np.maximum((offset * offset).sum(axis=1), ordered[:, 2] ** 2)
    return value / np.maximum(squared, np.float32(1e-20))


def most_important(
    gaussians: Gaussians,
    budget: int,
    eye: ArrayLike | None = None,
    target: TargetBox | None = None,
) -> NDArray[np.int64]:
    """Indices, ascending, of the at most `budget` Gaussians of most `importance`.

    target: what lies in this box comes before all else, since it is what people look at.
    """
    if len(gaussians) <= budget:
        return np.arange(len(gaussians))
    value = importance(gaussians, eye)
    if target is not None:
        local = (gaussians.means - target.center) @ np.asarray(target.axes).T
        inside = (np.abs(local) <= target.half_sizes).all(axis=1)
        value = np.where(inside, value + value.max(), value)
    order = np.argsort(-value, kind="stable")
    return np.sort(order[: max(budget, 0)])


def storage_scale(gaussians: Gaussians) -> float:
    """World units per stored unit such that the longest sigma is `LARGEST_SIGMA` or less."""
    if len(gaussians) == 0:
        return 1.0
    longest = float(gaussians.scales.max())
    typical = float(np.median(gaussians.scales))
    # One splat as large as the sky must not push the rest under float16's floor: beyond 1e4 times
    # the median the longest are shortened instead (see `display_copy`).
    return max(min(longest, typical * 1e4) / LARGEST_SIGMA, 1e-9)


def display_copy(gaussians: Gaussians, scale: float | None = None) -> DisplaySplats:
    """All of `gaussians` as the browser draws them (cut to a budget first with `most_important`).

    scale: world units per stored unit, default `storage_scale(gaussians)`.
    """
    scale = storage_scale(gaussians) if scale is None else scale
    sigmas = np.clip(gaussians.scales / np.float32(scale), SMALLEST_SIGMA, LARGEST_SIGMA)
    axes = gaussians.rotations() * sigmas[:, None, :]
    return DisplaySplats(
        centers=gaussians.means / np.float32(scale),
        covariances=axes @ axes.transpose(0, 2, 1),
        rgbs=np.clip(gaussians.base_colors, 0.0, 1.0),
        opacities=gaussians.opacities[:, None],
        scale=scale,
        total=len(gaussians),
    )
