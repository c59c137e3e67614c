"""`advscene reconstruct`: a capture becomes a scene."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

if TYPE_CHECKING:
    from scene.capture import Capture
    from scene.reconstruct.train import Progress, ReconstructResult


@dataclass(frozen=True)
class Reconstruct:
    """Train Gaussians from a folder of posed photos (transforms.json or a COLMAP model)."""

    capture: Annotated[Path, tyro.conf.Positional]
    """Folder or transforms.json."""
    out: Path
    """Scene to write: .ply, or .compressed.ply for sharing; its cameras go beside it."""
    iterations: int = 3000
    """Optimizer steps, one photo each."""
    long_side: int = 480
    """Photos are shrunk to this many pixels on their longer side."""
    most_gaussians: int = 60_000
    """Densification stops at this many."""
    sh_degree: int = 1
    """Spherical-harmonic degree of the colors, 0 to 3."""
    hold_out: int = 0
    """Keep every N-th photo back to judge by, where the capture itself marks none; 0: none."""
    seed: int = 0
    """Seed of every random choice."""
    threads: int | None = None
    """CPU threads; default: all cores."""
    json: bool = False
    """Print the report as JSON."""

    def run(self) -> None:
        """Train (going on from OUT.checkpoint if one is there), save, report held-out PSNR."""
        from app.commands.output import progress_line, say, say_json
        from scene.captures import load_capture
        from scene.errors import InputError
        from scene.reconstruct.settings import ReconstructSettings
        from scene.reconstruct.train import reconstruct

        if not self.out.name.endswith(".ply"):
            raise InputError(f"--out: wanted .ply or .compressed.ply, found {self.out.name}")
        capture = _with_held_out(load_capture(self.capture), self.hold_out)
        settings = ReconstructSettings(
            iterations=self.iterations, long_side=self.long_side,
            most_gaussians=self.most_gaussians, sh_degree=self.sh_degree, seed=self.seed,
        )  # fmt: skip
        line = progress_line("reconstructing")

        def progress(now: Progress) -> bool:
            line(f"{now.iteration}/{now.iterations}, {now.gaussians} Gaussians, loss "
                 f"{now.loss:.4f}", now.iteration / now.iterations)  # fmt: skip
            return True

        checkpoint = self.out.with_name(self.out.name + ".checkpoint")
        self.out.parent.mkdir(parents=True, exist_ok=True)
        result = reconstruct(
            capture, settings, progress, checkpoint if checkpoint.exists() else None, checkpoint,
            threads=self.threads,
        )  # fmt: skip
        report = self._save(capture, result)
        checkpoint.unlink(missing_ok=True)
        if self.json:
            say_json(report)
        else:
            for name, value in report.items():
                say(f"{name}: {value}")

    def _save(self, capture: Capture, result: ReconstructResult) -> dict[str, Any]:
        from dataclasses import asdict, replace

        from scene.reconstruct.photos import load_photos
        from scene.reconstruct.train import measure
        from scene.scene import Scene, load_scene, save_scene

        scene = Scene(
            result.gaussians, self.out.stem, capture.scene_cameras(),
            metres_per_unit=capture.metres_per_unit,
            provenance={"made_by": "advscene reconstruct", "settings": _plain(asdict(self))},
        )  # fmt: skip
        if capture.up is not None:
            scene = replace(scene, up=capture.up, up_source=capture.up_source)
        save_scene(scene, self.out)
        held_out = load_photos(capture, self.long_side).held_out
        saved = measure(load_scene(self.out).gaussians, held_out) if held_out else None
        return {
            "scene": str(self.out),
            "photos": len(capture.training),
            "held out": len(capture.held_out),
            "Gaussians": len(result.gaussians),
            "iterations": result.iterations,
            "start": result.start,
            "held-out PSNR, trainer (dB)": round(result.held_out_psnr, 2) if saved else None,
            "held-out PSNR, saved file (dB)": round(saved.psnr, 2) if saved else None,
            "held-out SSIM": round(result.held_out_ssim, 4) if saved else None,
            "seconds": round(result.seconds, 1),
            "notes": list(capture.notes),
        }


def _with_held_out(capture: Capture, every: int) -> Capture:
    """The capture with every N-th frame held out, unless it marks some itself."""
    return capture if every < 2 or capture.held_out else capture.hold_out(every, every // 2)


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: str(v) if isinstance(v, Path) else v for name, v in fields.items()}
