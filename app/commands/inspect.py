"""`advscene inspect`: what a splat file holds, in one screen."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True)
class Inspect:
    """Say what a splat file or a capture holds: format, counts, bounds, up axis, cameras, notes."""

    file: Annotated[Path, tyro.conf.Positional]
    """Splat file, capture folder or transforms.json."""
    json: bool = False
    """Print JSON."""

    def run(self) -> None:
        """Print the description."""
        from app.commands.output import say, say_json
        from scene.inspect import describe, describe_text

        facts = describe(self.file)
        if self.json:
            say_json(facts)
        else:
            say(describe_text(facts))
