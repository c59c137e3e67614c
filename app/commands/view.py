"""`advscene view`: the viewer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from scene.errors import InputError


@dataclass(frozen=True)
class View:
    """Open the viewer on a scene, on a run folder, or on the embedded demo."""

    path: Annotated[Path | None, tyro.conf.Positional] = None
    """Splat file or run folder; default: the embedded demo with its partly swept run."""
    scene: Path | None = None
    """Where the scene of a run folder is now, if it moved."""
    host: str = "127.0.0.1"
    """Address to listen on; anything but 127.0.0.1 lets other machines in."""
    port: int = 8080
    """Port; the next free one is taken, and said, where it is in use."""
    allow_origin: tuple[str, ...] = ()
    """Extra page origins that may connect, such as https://tunnel.example (for proxies)."""
    display_budget: int = 200_000
    """Most Gaussians sent to the browser; scoring always uses all of them."""
    present: bool = False
    """Read-only, for showing to others: no file access, upload, export, embedding or sweep."""

    def run(self) -> None:
        """Serve until interrupted."""
        from app.commands.output import progress_line
        from app.session import Session
        from app.viewer import serve
        from scene.render.warmup import warmup

        if self.path is not None and not self.path.exists():
            raise InputError(f"{self.path}: no such file or folder")
        warmup(progress_line("preparing the renderer (compiles once)"))
        session = Session.open(self.path, scene_path=self.scene)
        serve(
            session,
            host=self.host,
            port=self.port,
            allow_origins=self.allow_origin,
            display_budget=self.display_budget,
            present=self.present,
        )
