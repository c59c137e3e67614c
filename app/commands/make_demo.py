"""`advscene make-demo`: the demo scene again, from nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class MakeDemo:
    """Ray-trace the street's 60 photos and reconstruct the demo scene from them."""

    out: Path = Path("demo")
    """Folder to write the scene to."""
    work: Path | None = None
    """Folder for photos and checkpoints, to go on from if interrupted; default: OUT/work."""
    seed: int = 0
    """Seed of the street, its photos and the reconstruction."""
    json: bool = False
    """Print the report as JSON."""

    def run(self) -> None:
        """Make it and report minutes and held-out dB."""
        from dataclasses import asdict, replace

        from app.commands.output import progress_line, say, say_json
        from scene.demo import DemoSettings, make_demo

        settings = DemoSettings()
        if self.seed:
            settings = replace(
                settings,
                street=replace(settings.street, seed=self.seed),
                reconstruct=replace(settings.reconstruct, seed=self.seed),
            )
        line = progress_line("demo")

        def progress(stage: str, done: int, total: int, text: str) -> None:
            line(f"{stage}: {text}", done / max(1, total))

        report = asdict(make_demo(self.out, progress, settings, self.work or self.out / "work"))
        if self.json:
            say_json(report)
        else:
            for name, value in report.items():
                say(f"{name}: {value}")
