"""Training checkpoints of PyTorch: gsplat's trainer, nerfstudio's splatfacto, INRIA's.

Only weights are read (`weights_only=True`): a checkpoint that holds anything which could run code
is refused by name.
"""

from __future__ import annotations

import pickle
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scene.errors import InputError
from scene.io.loaded import LoadedGaussians
from scene.io.parameters import find_parameters, gaussians_from_parameters
from scene.io.pickle_scan import sharing_bits
from scene.io.reasons import reason

_INRIA_NAMES = ("xyz", "features_dc", "features_rest", "scaling", "rotation", "opacity")
# A checkpoint with two dozen optimizers shares 16 bits of settings; 26 bits are seconds of work.
_MOST_SHARING_BITS = 26
# PyTorch lets weights make bytearrays of any size, filled with zeros.
_ALLOCATES = re.compile(rb"(builtins?|__builtin__)\W+bytearray")
_RANK = re.compile(r"(.*_rank)(\d+)(\.\w+)")


class _Inert:
    """Stands in for numpy's scalars, which schedulers' states hold and nobody reads here."""

    def __init__(self, *_: object) -> None:
        pass

    def __setstate__(self, _: object) -> None:
        pass


_INERT_NAMES = (
    "numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar", "numpy.dtype",
)  # fmt: skip


def load_checkpoint(path: str | Path) -> LoadedGaussians:
    """Read a checkpoint of gsplat's trainer, splatfacto or INRIA, in its own frame.

    Raises InputError.
    """
    path = Path(path)
    content = load_weights(path)
    if isinstance(content, dict) and isinstance(content.get("splats"), dict):
        return _load_gsplat(path, content["splats"])
    if isinstance(content, dict) and isinstance(content.get("pipeline"), dict):
        from scene.io.nerfstudio import gaussians_from_pipeline

        return gaussians_from_pipeline(path, content["pipeline"])
    match content:
        case ((int(), *tensors), int()) if len(tensors) >= len(_INRIA_NAMES):
            table = dict(zip(_INRIA_NAMES, tensors, strict=False))
            return gaussians_from_parameters(path, arrays(path, table), "inria checkpoint")
        case dict() if find_parameters(set(map(str, content))):
            table = {str(name): value for name, value in content.items()}
            return gaussians_from_parameters(path, arrays(path, table), "checkpoint", None)
    raise InputError(
        f"{path}: wanted a checkpoint of Gaussians (splats, pipeline or parameter tensors), found "
        f"{_kind(content)}"
    )


def load_weights(path: Path) -> Any:
    """What a checkpoint holds: tensors on the CPU, still on disk. Raises InputError."""
    import torch

    _check_archive(path)
    inert: list[Any] = [(_Inert, name) for name in _INERT_NAMES]
    try:
        with torch.serialization.safe_globals(inert):
            return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except pickle.UnpicklingError as error:
        if found := re.search(r"(?:GLOBAL|global) `?([\w.]+)`?", str(error)):
            raise InputError(
                f"{path}: the checkpoint holds {found[1]}, which is not plain weights and could "
                f"run code; save its tensors alone"
            ) from error
        raise InputError(f"{path}: the checkpoint is damaged or holds more than weights") from error
    except (RuntimeError, OSError, EOFError, ValueError, TypeError, KeyError, IndexError,
            AttributeError, AssertionError, OverflowError, RecursionError,
            MemoryError) as error:  # fmt: skip
        raise InputError(f"{path}: the checkpoint is damaged ({reason(error)})") from error


def arrays(path: Path, table: dict[str, Any]) -> dict[str, NDArray]:
    """The Gaussians' tensors of a state dict as arrays; other entries are left out.

    Raises InputError for views that claim more numbers than the file holds.
    """
    import torch

    limit = path.stat().st_size
    found = {}
    for name in find_parameters(set(table)).values():
        tensor = table[name]
        if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided:
            raise InputError(f"{path}: {name}: wanted a tensor, found {_kind(tensor)}")
        if tensor.dim() == 0 or tensor.is_quantized or tensor.is_complex() or tensor.is_meta:
            raise InputError(f"{path}: {name}: wanted one row of numbers per Gaussian")
        if tensor.numel() * tensor.element_size() > limit:
            raise InputError(f"{path}: {name} claims {tensor.numel()} numbers, more than the file")
        found[name] = tensor.detach().to(torch.float32).numpy()
    return found


def _check_archive(path: Path) -> None:
    """PyTorch's archives are zip files whose members are stored, not packed."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            pickles = [m for m in members if m.filename.endswith("data.pkl")]
            contents = [archive.read(m) for m in pickles if not m.compress_type]
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise InputError(
            f"{path}: wanted a PyTorch checkpoint (a zip archive since PyTorch 1.6), found damaged "
            f"or other data"
        ) from error
    size = path.stat().st_size
    if any(m.compress_type or m.file_size > size for m in members) or (
        sum(m.file_size for m in members) > size
    ):
        raise InputError(f"{path}: its zip archive is packed or lies about sizes, no checkpoint")
    try:
        tangled = any(sharing_bits(content) > _MOST_SHARING_BITS for content in contents)
    except ValueError as error:
        raise InputError(f"{path}: the checkpoint is damaged ({reason(error)})") from error
    if tangled:
        raise InputError(
            f"{path}: the checkpoint's values are nested in one another without end, no weights are"
        )
    if any(_ALLOCATES.search(content) for content in contents):
        raise InputError(
            f"{path}: the checkpoint holds bytearray, which is not plain weights; save its tensors "
            f"alone"
        )


def _load_gsplat(path: Path, splats: dict[str, Any]) -> LoadedGaussians:
    """One rank's splats, or all ranks' in order where the others lie beside it."""
    note = (
        "in gsplat's training frame: its example trainer normalises a COLMAP world and does not "
        "store how"
    )
    paths = ranks(path)
    if len(paths) == 1:
        table = arrays(path, splats)
        return gaussians_from_parameters(path, table or splats, "gsplat checkpoint", notes=(note,))
    tables = []
    for part in paths:
        content = load_weights(part)
        other = content.get("splats") if isinstance(content, dict) else None
        if not isinstance(other, dict):
            raise InputError(f"{part}: wanted splats as in {path.name}, found none")
        tables.append(arrays(part, other))
    if any(set(table) != set(tables[0]) for table in tables):
        raise InputError(f"{path}: its ranks hold different columns")
    try:
        table = {name: np.concatenate([t[name] for t in tables]) for name in tables[0]}
    except ValueError as error:
        raise InputError(f"{path}: its ranks do not fit together ({reason(error)})") from error
    notes = (note, f"{len(paths)} ranks were joined")
    return gaussians_from_parameters(path, table or splats, "gsplat checkpoint", notes=notes)


def ranks(path: Path) -> list[Path]:
    """The run's files: gsplat writes ckpt_STEP_rank0.pt, ..._rank1.pt, a share each."""
    match = _RANK.fullmatch(path.name)
    if match is None:
        return [path]
    numbered = {}
    for other in path.parent.iterdir():
        found = _RANK.fullmatch(other.name)
        if found and (found[1], found[3]) == (match[1], match[3]):
            numbered[int(found[2])] = other
    return [numbered[rank] for rank in sorted(numbered)]


def _kind(value: Any) -> str:
    if isinstance(value, dict):
        return f"a table of {', '.join(str(key)[:30] for key in list(value)[:6]) or 'nothing'}"
    return type(value).__name__
