"""What a reconstruction may do beyond the plain recipe, which all defaults leave as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from scene.errors import InputError

Densification = Literal["adc", "mcmc"]


@dataclass(frozen=True)
class ReconstructOptions:
    """Choices beside `ReconstructSettings`.

    masks: pixels that a capture's "use" masks leave dark count for nothing, in training and in
        what is measured. Masks of an object say where it is and are not used here.
    exposure: an affine color per training photo (`exposure.Exposures`).
    sky_points: so many Gaussians to start from on a far sphere around the scene; 0: none.
    densification: "adc" (3DGS: clone, split, reset) or "mcmc" (3DGS-MCMC: relocate, noise).
    opacity_penalty, scale_penalty, noise: of MCMC, with its paper's values.
    prune_hidden: at the end, remove what no training photo shows; None: with MCMC only, whose
        noise leaves such blobs behind surfaces and beside the cameras.
    """

    masks: bool = True
    exposure: bool = False
    sky_points: int = 0
    densification: Densification = "adc"
    opacity_penalty: float = 0.01
    scale_penalty: float = 0.01
    noise: float = 5e5
    prune_hidden: bool | None = None

    def __post_init__(self) -> None:
        if self.densification not in ("adc", "mcmc"):
            raise InputError(
                f"reconstruct: wanted adc or mcmc as densification, found {self.densification}"
            )
        if self.sky_points < 0:
            raise InputError(f"reconstruct: wanted 0 or more sky points, found {self.sky_points}")

    @property
    def mcmc(self) -> bool:
        """Whether Gaussians are relocated rather than cloned and split."""
        return self.densification == "mcmc"

    @property
    def prunes_hidden(self) -> bool:
        """Whether what no photo shows is removed at the end."""
        return self.mcmc if self.prune_hidden is None else self.prune_hidden
