"""Opening any file of Gaussians: content chooses the reader, then the suffix."""

from __future__ import annotations

import zipfile
from pathlib import Path

from scene.errors import InputError
from scene.gaussians import Gaussians
from scene.io.compressed_ply import (
    gaussians_from_compressed_ply,
    is_compressed,
    save_compressed_ply,
)
from scene.io.loaded import LoadedGaussians
from scene.io.ply import gaussians_from_ply, save_ply
from scene.io.ply_file import read_ply_header
from scene.io.splat import load_splat
from scene.io.spz import is_spz, load_spz

READABLE = ".ply, .compressed.ply, .spz or .splat"
# Formats that hold Gaussians but have no reader here, so that the refusal can say what they are.
_UNREAD_FORMATS = {
    ".ksplat": "a .ksplat file (GaussianSplats3D)",
    ".sog": "a SOG bundle",
    ".ckpt": "a training checkpoint",
    ".pt": "a training checkpoint",
    ".pth": "a training checkpoint",
    ".safetensors": "a safetensors file",
}


def load_gaussians(path: str | Path) -> LoadedGaussians:
    """Read a splat file of any known format. Raises InputError, one sentence, for all others."""
    path = Path(path)
    start = _first_bytes(path)
    if start.startswith(b"ply"):
        header = read_ply_header(path)
        if is_compressed(header):
            return gaussians_from_compressed_ply(header)
        return gaussians_from_ply(header)
    if is_spz(path, start):
        return load_spz(path)
    if path.suffix.lower() == ".splat":
        return load_splat(path)
    raise _refusal(path, start)


def save_gaussians(gaussians: Gaussians, path: str | Path) -> None:
    """Write `.compressed.ply` or `.ply`, by the name's end. Raises InputError for another."""
    path = Path(path)
    if path.name.lower().endswith(".compressed.ply"):
        save_compressed_ply(gaussians, path)
    elif path.suffix.lower() == ".ply":
        save_ply(gaussians, path)
    else:
        raise InputError(f"{path}: wanted a name that ends in .ply or .compressed.ply")


def _first_bytes(path: Path) -> bytes:
    if path.is_dir():
        raise InputError(
            f"{path}: is a folder; wanted a splat file ({READABLE}), or use reconstruct for a "
            f"folder of posed photos"
        )
    try:
        with path.open("rb") as file:
            start = file.read(64)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from error
    if not start:
        raise InputError(f"{path}: the file is empty")
    return start


def _refusal(path: Path, start: bytes) -> InputError:
    suffix = path.suffix.lower()
    if suffix == ".ply":
        return InputError(f"{path}: ends in .ply, but does not begin with 'ply': it is damaged")
    if suffix == ".spz":
        return InputError(f"{path}: is not SPZ: it is neither gzip data nor begins with NGSP")
    if suffix in _UNREAD_FORMATS:
        return InputError(
            f"{path}: {_UNREAD_FORMATS[suffix]} is not read yet; convert it to .ply first"
        )
    if start.startswith((b"glTF", b"solid", b"v ", b"# ")) or suffix in {".obj", ".glb", ".stl"}:
        return InputError(f"{path}: looks like a mesh, not Gaussians; wanted {READABLE}")
    kind = "a zip archive" if zipfile.is_zipfile(path) else f"the suffix {suffix or '(none)'}"
    return InputError(f"{path}: wanted a splat file ({READABLE}), found {kind}")
