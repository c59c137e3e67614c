"""`advscene train-demo`: the demo victims again, from nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class TrainDemo:
    """Train the demo detector, classifier and grounder on pictures that this program makes."""

    out: Path = Path("demo-victims")
    """Folder for the weights, metrics and model card."""
    work: Path | None = None
    """Folder for pictures and checkpoints, to go on from if interrupted; default: OUT/work."""
    photos: Path | None = None
    """Folder of close-up stop-sign photos (*.png) to report a hit rate on; none are needed."""
    smoke: bool = False
    """A few steps only, to see that everything runs; the weights are useless."""
    json: bool = False
    """Print the figures as JSON."""

    def run(self) -> None:
        """Train, check the gates, publish."""
        from app.commands.output import progress_line, say, say_json
        from envelope.victims.demo.train import FULL, SMOKE, train_demo

        line = progress_line("training")

        def progress(what: str, done: int, total: int, loss: float) -> None:
            shown = f"{what} {done}/{total}" + (f", loss {loss:.3f}" if loss == loss else "")
            line(shown, done / max(1, total))

        budget = SMOKE if self.smoke else FULL
        figures = train_demo(self.out, budget, progress, self.work, self.photos)
        if self.json:
            say_json(figures)
        else:
            for name, value in figures.items():
                say(f"{name}: {value}")
