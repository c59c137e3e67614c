"""`advscene make-demo`: the demo scene again, from nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class MakeDemo:
    """Ray-trace the street's 60 photos and reconstruct the demo scene from them."""

    out: Path = Path("demo")
    """Folder to write; photos are kept in OUT/capture, an interrupted run goes on from there."""
    iterations: int | None = None
    """Trainer steps; default: the recipe's."""
    json: bool = False
    """Print the report as JSON."""

    def run(self) -> None:
        """Make it and report minutes and held-out dB."""
        from dataclasses import asdict, replace

        from app.commands.output import progress_line, say, say_json
        from scene.demo import DemoSettings, make_demo

        settings = DemoSettings()
        if self.iterations is not None:
            settings = replace(settings, iterations=self.iterations)
        report = asdict(make_demo(self.out, progress_line("demo"), settings))
        if self.json:
            say_json(report)
        else:
            for name, value in report.items():
                say(f"{name}: {value}")
