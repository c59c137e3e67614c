"""The numbers of a reconstruction, with the values that were found to work."""

from __future__ import annotations

from dataclasses import dataclass

from scene.errors import InputError


@dataclass(frozen=True)
class ReconstructSettings:
    """What decides a reconstruction besides the photos; the same settings give the same scene.

    iterations: optimiser steps, one photo each. long_side: photos are shrunk to this many pixels.
    most_gaussians: densification stops adding at this number.
    sh_degree: of the final colors, 0-3; sh_from: iteration at which view dependence begins
        (degree 0 before, the full degree after).
    half_size_until: iterations on photos of half the size.
    start_points: most points to start from. sift_features: per photo, where the capture has no
        points of its own.
    densify_from, densify_every, densify_until: iterations; the last is a share of all.
    densify_gradient: mean screen gradient (half pictures) above which a Gaussian is cloned or
        split (3DGS: 2e-4).
    reset_every, reset_until: opacities are pulled down to 0.05 at these iterations, up to this
        share of all, so that what is not needed fades and is removed.
    dssim_weight: share of 1 - SSIM in the loss.
    rate_mean: learning rate of the means in scene extents, falling to `rate_mean_end` times that.
    rate_scale ... rate_sh_rest: learning rates of the other parameters (3DGS's).
    random_background: draw on a new random color in every iteration, so that nothing transparent
        is left where photos are opaque.
    """

    iterations: int = 3000
    long_side: int = 480
    most_gaussians: int = 60_000
    sh_degree: int = 1
    sh_from: int = 800
    half_size_until: int = 500
    start_points: int = 20_000
    sift_features: int = 4000
    densify_from: int = 300
    densify_every: int = 100
    densify_until: float = 0.8
    densify_gradient: float = 2e-4
    reset_every: int = 1000
    reset_until: float = 0.5
    dssim_weight: float = 0.2
    rate_mean: float = 1.6e-4
    rate_mean_end: float = 0.01
    rate_scale: float = 5e-3
    rate_quaternion: float = 1e-3
    rate_opacity: float = 5e-2
    rate_sh_dc: float = 2.5e-3
    rate_sh_rest: float = 1.25e-4
    random_background: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if self.iterations < 1 or self.most_gaussians < 1 or self.long_side < 32:
            raise InputError(
                "reconstruct: wanted at least 1 iteration, 1 Gaussian and 32 pixels, found "
                f"{self.iterations}, {self.most_gaussians} and {self.long_side}"
            )
        if self.sh_degree not in (0, 1, 2, 3):
            raise InputError(f"reconstruct: wanted an SH degree of 0 to 3, found {self.sh_degree}")

    @property
    def recovery(self) -> int:
        """Iterations that opacities need after a reset; a request to stop waits for that long."""
        return 3 * self.reset_every // 10

    @property
    def coefficients(self) -> int:
        """Harmonics per channel of the final colors."""
        return (self.sh_degree + 1) ** 2

    def coefficients_at(self, iteration: int) -> int:
        """Harmonics per channel that iteration (from 1) draws with."""
        return self.coefficients if iteration > self.sh_from else 1

    def is_reset(self, iteration: int) -> bool:
        """Whether opacities are pulled down after this iteration."""
        return iteration % self.reset_every == 0 and iteration < self.reset_until * self.iterations

    def is_densified(self, iteration: int) -> bool:
        """Whether Gaussians are added and removed after this iteration."""
        last = self.densify_until * self.iterations
        return iteration % self.densify_every == 0 and self.densify_from <= iteration <= last
