"""`advscene warmup`: compile the renderer's kernels once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Warmup:
    """Compile the CPU kernels now, so that the first picture does not wait for it."""

    def run(self) -> None:
        """Compile, with a progress line."""
        from app.commands.output import progress_line
        from patching.warm import warm_kernels
        from scene.render.warmup import warmup

        warmup(progress_line("compiling"))
        warm_kernels()
