"""`advscene make-patch`: optimize a patch against one victim in views of a scene."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from scene.errors import InputError


@dataclass(frozen=True)
class Reach:
    """How far the views go from the anchor, in which the patch is made and judged."""

    azimuth_deg: float = 30.0
    """Largest azimuth either way, degrees."""
    elevation_deg: float = 8.0
    """Largest elevation either way, degrees."""
    radius_low: float = 0.8
    """Smallest distance, as a multiple of the anchor's."""
    radius_high: float = 1.4
    """Largest distance, as a multiple of the anchor's."""
    roll_deg: float = 5.0
    """Largest roll either way, degrees."""


@dataclass(frozen=True)
class MakePatch:
    """Make an adversarial patch against a victim that gives gradients (white box, EOT)."""

    scene: Annotated[Path, tyro.conf.Positional]
    """Splat file."""
    placement: Path
    """Placement file (JSON): where the patch lies, and the anchor camera."""
    out: Path
    """PNG to write; what the patch was made from goes into a JSON file beside it."""
    victim: str = "demo-detector"
    """Victim to fool; it must give gradients (the demo victims, paligemma:FOLDER)."""
    label: str | None = None
    """Class name to hide, such as "stop sign"; default: the scene's."""
    level: Literal["none", "weak", "strong", "very strong"] = "strong"
    """How strongly views are varied: 1, 4, 8 or 16 transformed views per step."""
    steps: int = 120
    """Optimizer steps per restart, at most."""
    restarts: int = 3
    """Independent starts; the best by loss on views kept aside for that wins."""
    size: int = 160
    """Side of the square patch picture, pixels."""
    views: int = 48
    """Views of the scene that the patch is made in; as many again choose and judge it."""
    reach: Reach = field(default_factory=Reach)
    seed: int = 0
    """Seed of views, starts and transformations; the same numbers make the same patch."""
    json: bool = False
    """Print the figures as JSON."""

    def run(self) -> None:
        """Make the patch, write it, print how often the victim finds the target."""
        if self.out.suffix.lower() != ".png":
            raise InputError(f"--out: wanted a .png file, found {self.out.name}")
