"""Opening any file of Gaussians: content chooses the reader, then the suffix."""

from __future__ import annotations

from pathlib import Path

from scene.errors import InputError
from scene.gaussians import Gaussians
from scene.io.loaded import LoadedGaussians
from scene.io.ply import gaussians_from_ply, save_ply
from scene.io.ply_file import read_ply_header


def load_gaussians(path: str | Path) -> LoadedGaussians:
    """Read a splat file of any known format. Raises InputError."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    return gaussians_from_ply(read_ply_header(path))


def save_gaussians(gaussians: Gaussians, path: str | Path) -> None:
    """Write `.ply` or `.compressed.ply`, by suffix. Raises InputError for another suffix."""
    path = Path(path)
    if path.suffix.lower() == ".ply":
        save_ply(gaussians, path)
    else:
        raise InputError(f"{path}: wanted a name that ends in .ply or .compressed.ply")
