"""What every reader of Gaussians returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scene.gaussians import DropReport, Gaussians

if TYPE_CHECKING:
    from scene.normalisation import Normalisation


@dataclass(frozen=True, eq=False)
class LoadedGaussians:
    """Gaussians from a file.

    format: "ply", "compressed ply", ...
    dropped: which file rows were unusable, and which row each Gaussian came from.
    notes: sentences about what was assumed or converted, for the user.
    up: the signed up axis where the file itself states one.
    name: what to call the scene where the file's own name says nothing (meta.json, config.yml).
    normalised: whether the file says that it is in the frame that nerfstudio trained in.
    from_file: how the frame they are in came from the file's own; None where the two are one.
    from_default: how it came from the frame that the file opens in unasked, which is the one of
    what lies beside it; None where the two are one.
    """

    gaussians: Gaussians
    format: str
    dropped: DropReport
    notes: tuple[str, ...] = ()
    up: tuple[float, float, float] | None = None
    name: str | None = None
    normalised: bool = False
    from_file: Normalisation | None = None
    from_default: Normalisation | None = None

    @property
    def frame(self) -> str | None:
        """Which of nerfstudio's frames they are in, "original" or "normalised"; None: no such."""
        if self.from_file is not None:
            return "original"
        return "normalised" if self.normalised else None
