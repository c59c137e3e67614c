"""What every reader of Gaussians returns."""

from __future__ import annotations

from dataclasses import dataclass

from scene.gaussians import DropReport, Gaussians


@dataclass(frozen=True, eq=False)
class LoadedGaussians:
    """Gaussians from a file.

    format: "ply", "compressed ply", ...
    dropped: which file rows were unusable, and which row each Gaussian came from.
    notes: sentences about what was assumed or converted, for the user.
    up: the signed up axis where the file itself states one.
    name: what to call the scene where the file's own name says nothing (meta.json, config.yml).
    """

    gaussians: Gaussians
    format: str
    dropped: DropReport
    notes: tuple[str, ...] = ()
    up: tuple[float, float, float] | None = None
    name: str | None = None
