"""`advscene reconstruct`: a capture becomes a scene."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True)
class Reconstruct:
    """Train Gaussians from a folder of posed photos (transforms.json or a COLMAP model)."""

    capture: Annotated[Path, tyro.conf.Positional]
    """Folder or transforms.json."""
    out: Path
    """Scene to write: .ply, or .compressed.ply for sharing; cameras go beside it."""
    iterations: int = 3000
    """Optimizer steps."""
    max_gaussians: int = 60_000
    """Densification stops at this many."""
    sh_degree: int = 1
    """Spherical-harmonic degree of the color, 0 to 3."""
    seed: int = 0
    """Seed of every random choice."""
    resume: bool = False
    """Go on from the checkpoint beside --out."""
    json: bool = False
    """Print the report as JSON."""

    def run(self) -> None:
        """Train, save, report held-out PSNR."""
        from app.commands.output import progress_line, say, say_json
        from scene.reconstruct.command import reconstruct_to_file

        report = reconstruct_to_file(
            self.capture,
            self.out,
            iterations=self.iterations,
            max_gaussians=self.max_gaussians,
            sh_degree=self.sh_degree,
            seed=self.seed,
            resume=self.resume,
            progress=progress_line("reconstructing"),
        )
        if self.json:
            say_json(report)
        else:
            for name, value in report.items():
                say(f"{name}: {value}")
