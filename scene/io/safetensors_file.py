"""Gaussians in safetensors: our own exact columns, and trainers' columns by their usual names.

Our own file holds float32 tensors means (N, 3), quats (N, 4) wxyz unit, scales (N, 3) linear,
opacities (N,) in [0, 1] and sh (N, K, 3), and the metadata {"format": "advscene.gaussians",
"version": "1"}. It keeps every bit and the order; in particular opacities of exactly 0 and 1.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path

from scene.errors import InputError
from scene.gaussians import Gaussians
from scene.io.atomic import atomic_write
from scene.io.loaded import LoadedGaussians
from scene.io.parameters import find_parameters, gaussians_from_parameters
from scene.io.reasons import reason

_FORMAT = "advscene.gaussians"
_VERSION = "1"
_COLUMNS = ("means", "quats", "scales", "opacities", "sh")


def load_safetensors(path: str | Path) -> LoadedGaussians:
    """Read a safetensors file of Gaussians. Raises InputError.

    Files of ours are read as documented above; others by the names that trainers use, their
    scales and opacities as logarithms and logits unless the values say otherwise (noted).
    """
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            wanted = find_parameters(set(file.keys())).values()
            table = {name: file.get_tensor(name) for name in wanted}
            names = dict.fromkeys(file.keys())
    except (SafetensorError, OSError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"{path}: the safetensors file is damaged or of an unknown type ({reason(error)})"
        ) from error
    if not table:
        found = ", ".join(list(names)[:8]) or "none"
        raise InputError(f"{path}: wanted Gaussians (means, quats, ...), found the tensors {found}")
    if any(array.ndim == 0 for array in table.values()):
        raise InputError(f"{path}: wanted one row per Gaussian, found single numbers")
    if metadata.get("format") != _FORMAT:
        return gaussians_from_parameters(path, table, "safetensors", activated=None)
    if metadata.get("version") != _VERSION:
        raise InputError(
            f"{path}: {_FORMAT} version {metadata.get('version')} is not read ({_VERSION} is)"
        )
    return gaussians_from_parameters(path, table, "safetensors", activated=True)


def save_safetensors(gaussians: Gaussians, path: str | Path) -> None:
    """Write our own columns, exactly and in order."""
    header: dict[str, object] = {"__metadata__": {"format": _FORMAT, "version": _VERSION}}
    offset = 0
    for name in _COLUMNS:
        array = getattr(gaussians, name)
        span = [offset, offset + array.nbytes]
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": span}
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with atomic_write(path) as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in _COLUMNS:
            file.write(getattr(gaussians, name).astype("<f4", copy=False).data)
