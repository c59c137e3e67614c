"""`advscene convert`: a scene file in another format."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro


@dataclass(frozen=True)
class Convert:
    """Write a scene file in another format, and say what rounding that cost."""

    source: Annotated[Path, tyro.conf.Positional]
    """Any splat file, checkpoint, SOG folder or nerfstudio run."""
    out: Annotated[Path, tyro.conf.Positional]
    """File to write: .ply, .compressed.ply, .spz or .safetensors."""
    frame: Literal["original", "normalised"] = "original"
    """Of a nerfstudio run or export: undo its normalisation, or keep it."""
    normalisation: Path | None = None
    """Undo this one: a run's dataparser_transforms.json, its config.yml or its folder."""
    overwrite: bool = False
    """Replace OUT, and another scene's cameras and target beside it, if they exist."""
    json: bool = False
    """Print the report as JSON."""

    def run(self) -> None:
        """Convert, read the result back and print the errors."""
        from dataclasses import asdict

        from app.commands.output import say, say_json
        from scene.io.convert import convert

        done = convert(self.source, self.out, self.frame, self.overwrite, self.normalisation)
        if self.json:
            say_json(asdict(done))
            return
        say(f"{done.target}: {done.gaussians:,} Gaussians, SH degree {done.sh_degree}, "
            f"{done.target_format}, {done.target_bytes / 1e6:.2f} MB "
            f"(from {done.source_format}, {done.source_bytes / 1e6:.2f} MB)")  # fmt: skip
        say(f"largest errors, read back: position {done.max_position_error:.2g} units "
            f"({done.max_position_error_of_extent:.1g} of the extent), scale x"
            f"{done.max_scale_ratio:.4g}, rotation {done.max_rotation_error_deg:.2g} deg, opacity "
            f"{done.max_opacity_error:.2g}, color {done.max_color_error:.2g}, harmonics "
            f"{done.max_sh_error:.2g}")  # fmt: skip
        if done.lost:
            say(f"{done.lost} Gaussians are lost in this format")
        for note in done.notes:
            say(f"note: {note}")
