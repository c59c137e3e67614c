"""`advscene envelope`: the figures, tables and numbers of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True)
class Envelope:
    """Print a run's measures with counts and intervals; write figures, report and rows."""

    run_folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(name="run")]
    """Run folder."""
    out: Path | None = None
    """Folder for heat maps and curves (PNG), report.html and scores.csv; default: none written."""
    tau: float | None = None
    """Least IoU for a right answer; stored rows are read again, nothing is scored."""
    gamma: float | None = None
    """Least confidence of a detector's box; stored rows are read again. A victim's own gamma, where
    the run file gives one, stays."""
    without_hidden: bool = False
    """Leave out conditions in which the patch is hidden."""
    scene: Path | None = None
    """Where the scene is now, if it moved."""
    json: bool = False
    """Print the summary as JSON."""

    def run(self) -> None:
        """Summarize and write."""
        from dataclasses import replace

        from app.commands.output import say, say_json
        from envelope.report import write_report
        from envelope.run import open_run
        from envelope.summary import summarize, summary_text

        run = open_run(self.run_folder, read_only=True, scene_path=self.scene)
        try:
            reading = run.settings.reading
            if self.tau is not None:
                reading = replace(reading, tau=self.tau)
            if self.gamma is not None:
                reading = replace(reading, gamma=self.gamma)
            summary = summarize(run, reading=reading, skip_hidden=self.without_hidden)
            if self.out is not None:
                written = write_report(run, self.out, reading, self.without_hidden)
                if not self.json:
                    for path in written:
                        say(str(path))
            if self.json:
                say_json(summary)
            else:
                say(summary_text(summary))
        finally:
            run.close()
