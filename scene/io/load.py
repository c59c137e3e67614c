"""Opening any file of Gaussians: content chooses the reader, then the suffix."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scene.errors import InputError
from scene.gaussians import Gaussians
from scene.io.compressed_ply import (
    gaussians_from_compressed_ply,
    is_compressed,
    morton_order,
    save_compressed_ply,
)
from scene.io.frames import DATAPARSER_FILE, find_above, in_frame
from scene.io.ksplat import is_ksplat, load_ksplat
from scene.io.loaded import LoadedGaussians
from scene.io.ply import gaussians_from_ply, save_ply, says_normalised
from scene.io.ply_file import read_ply_header
from scene.io.safetensors_file import load_safetensors, save_safetensors
from scene.io.sog import META, is_sog, is_sog_meta, load_sog, sog_files
from scene.io.splat import load_splat
from scene.io.spz import is_spz, load_spz
from scene.io.spz_write import save_spz

READABLE = (
    ".ply, .compressed.ply, .spz, .splat, .ksplat, .sog, .safetensors, a .pt or .ckpt checkpoint, "
    "or a nerfstudio run's config.yml"
)
WRITERS = {
    ".compressed.ply": save_compressed_ply,
    ".ply": save_ply,
    ".spz": save_spz,
    ".safetensors": save_safetensors,
}
"""What writes Gaussians, by the end of the file's name; the first that fits."""

_TRAINED = (
    ("point_cloud/iteration_*/point_cloud.ply", re.compile(r"iteration_(\d{1,12})\W")),
    ("ckpts/ckpt_*_rank0.pt", re.compile(r"ckpt_(\d{1,12})_rank0")),
)
_CHECKPOINT_SUFFIXES = (".pt", ".pth", ".ckpt")


def load_gaussians(
    path: str | Path, frame: str = "original", normalisation: Path | None = None
) -> LoadedGaussians:
    """Read a splat file of any known format. Raises InputError, one sentence, for all others.

    path: a file; or a folder, see `splat_file`.
    frame: "original" undoes nerfstudio's normalisation of a run or of a PLY that ns-export wrote,
    where dataparser_transforms.json lies beside it; "normalised" keeps it. Other files state none.
    normalisation: such a file, or its run's folder or config.yml, to undo for any format.
    """
    path = splat_file(Path(path))
    return in_frame(_load(path), path, frame, normalisation)


def _load(path: Path) -> LoadedGaussians:
    start = _first_bytes(path)
    suffix = path.suffix.lower()
    if start.startswith(b"ply"):
        header = read_ply_header(path)
        if is_compressed(header):
            return gaussians_from_compressed_ply(header)
        return gaussians_from_ply(header)
    if is_spz(path, start):
        return load_spz(path)
    if suffix in _CHECKPOINT_SUFFIXES or _is_run_config(path):
        # PyTorch takes seconds to import
        from scene.io.checkpoint import load_checkpoint
        from scene.io.nerfstudio import newest_checkpoint

        return load_checkpoint(newest_checkpoint(path.parent) if _is_run_config(path) else path)
    if suffix == ".safetensors":
        return load_safetensors(path)
    if is_sog(path, start):
        return load_sog(path)
    if is_ksplat(path):
        return load_ksplat(path)
    if suffix == ".splat":
        return load_splat(path)
    raise _refusal(path, start)


def save_gaussians(gaussians: Gaussians, path: str | Path) -> None:
    """Write by the name's end: see `WRITERS`. Raises InputError for another."""
    path = Path(path)
    for end, write in WRITERS.items():
        if path.name.lower().endswith(end):
            write(gaussians, path)
            return
    raise InputError(f"{path}: wanted a name that ends in {', '.join(WRITERS)}")


def written_order(gaussians: Gaussians, path: Path) -> NDArray[np.int64]:
    """(N,) the Gaussian that each row of `path` holds after `save_gaussians`."""
    if path.name.lower().endswith(".compressed.ply"):
        return morton_order(gaussians.means)
    return np.arange(len(gaussians))


def splat_file(path: Path) -> Path:
    """The file that stands for `path`: itself, or the one that a folder is opened for.

    That is an unbundled SOG's meta.json, a nerfstudio run's config.yml, and the result of most
    iterations in the output folder of INRIA's trainer or of gsplat's.
    """
    if not path.is_dir():
        return path
    for name, fits in ((META, is_sog_meta), ("config.yml", Path.is_file)):
        if fits(path / name):
            return path / name
    for pattern, number in _TRAINED:
        found = [p.relative_to(path) for p in path.glob(pattern)]
        steps = [(int(m[1]), p) for p in found if (m := number.search(str(p)))]
        if steps:
            return path / max(steps)[1]
    return path


def splats_in(folder: Path) -> list[str]:
    """Names of a folder's splat files, at most three, by their ends."""
    ends = (".ply", ".spz", ".splat", ".ksplat", ".sog", ".safetensors", *_CHECKPOINT_SUFFIXES)
    found = sorted(p.name for p in folder.glob("*") if p.name.lower().endswith(ends))
    return found[:3] + (["..."] if len(found) > 3 else [])


def holds_gaussians(path: Path) -> bool:
    """Whether a folder, .json or .yml is a scene rather than a capture; True for other files."""
    path = splat_file(path)
    if path.suffix.lower() == ".json":
        return is_sog_meta(path)
    return not path.is_dir()


def files_of(path: Path) -> tuple[Path, ...]:
    """Every file that decides what `path` opens as. Raises InputError.

    nerfstudio's normalisation is one of them where it is undone: without it the same splat opens
    in another world frame.
    """
    path = splat_file(path)
    return (*_parts_of(path), *_frame_file(path))


def _frame_file(path: Path) -> tuple[Path, ...]:
    found = find_above(path, DATAPARSER_FILE)
    if found is None:
        return ()
    if path.suffix.lower() == ".ply":
        return (found,) if says_normalised(path) else ()
    return (found,) if _is_run_config(path) or path.suffix.lower() == ".ckpt" else ()


def _parts_of(path: Path) -> tuple[Path, ...]:
    if path.suffix.lower() == ".json" and is_sog_meta(path):
        return sog_files(path)
    if _is_run_config(path):
        from scene.io.nerfstudio import newest_checkpoint

        return (path, newest_checkpoint(path.parent))
    if path.suffix.lower() in _CHECKPOINT_SUFFIXES and path.is_file():
        from scene.io.checkpoint import ranks

        return tuple(ranks(path))
    return (path,)


def _is_run_config(path: Path) -> bool:
    return path.suffix.lower() in (".yml", ".yaml")


def _first_bytes(path: Path) -> bytes:
    if path.is_dir():
        if inside := splats_in(path):
            raise InputError(f"{path}: is a folder; open one of its files ({', '.join(inside)})")
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
    if suffix == ".sog":
        return InputError(f"{path}: is not SOG: it is no zip archive")
    if start.startswith((b"glTF", b"solid", b"v ")) or suffix in {".obj", ".glb", ".stl"}:
        return InputError(f"{path}: looks like a mesh, not Gaussians; wanted {READABLE}")
    kind = "a zip archive" if zipfile.is_zipfile(path) else f"the suffix {suffix or '(none)'}"
    return InputError(f"{path}: wanted a splat file ({READABLE}), found {kind}")
