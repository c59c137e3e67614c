"""A half-finished reconstruction on disk: safetensors, written atomically, continued exactly."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scene.errors import InputError
from scene.reconstruct.exposure import Exposures
from scene.reconstruct.options import ReconstructOptions
from scene.reconstruct.settings import ReconstructSettings

_ARRAYS = ("parameters", "first", "second", "screen_gradients", "sightings", "waiting")
_EXPOSURES = ("values", "first", "second", "steps")
_VERSION = "1"


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """All that the next iteration depends on.

    parameters: (N, P) rows. first, second: Adam's moments, same shape. screen_gradients,
    sightings: (N,) densification statistics. waiting: photo numbers left in this round.
    rng: state of the random generator (JSON). iteration: the last one done.
    exposures: of the training photos, where they are learnt.
    """

    parameters: NDArray[np.float32]
    first: NDArray[np.float32]
    second: NDArray[np.float32]
    screen_gradients: NDArray[np.float32]
    sightings: NDArray[np.float32]
    waiting: NDArray[np.int64]
    rng: dict[str, Any]
    iteration: int
    exposures: Exposures | None = None


def save_checkpoint(
    checkpoint: Checkpoint,
    settings: ReconstructSettings,
    path: Path,
    options: ReconstructOptions | None = None,
) -> None:
    """Write next to the old file, then take its place."""
    from safetensors.numpy import save_file

    arrays = {name: np.ascontiguousarray(getattr(checkpoint, name)) for name in _ARRAYS}
    if checkpoint.exposures is not None:
        for name in _EXPOSURES:
            arrays["exposure_" + name] = getattr(checkpoint.exposures, name)
    metadata = {
        "version": _VERSION,
        "iteration": str(checkpoint.iteration),
        "rng": json.dumps(checkpoint.rng),
        "settings": json.dumps(asdict(settings)),
        "options": json.dumps(asdict(options or ReconstructOptions())),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".part")
    save_file(arrays, str(temporary), metadata)
    os.replace(temporary, path)


def load_checkpoint(
    path: Path, settings: ReconstructSettings, options: ReconstructOptions | None = None
) -> Checkpoint:
    """Read a checkpoint made with the same settings and options. Raises InputError."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in _ARRAYS}
            exposures = _exposures(file)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such checkpoint") from error
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path}: wanted a checkpoint of `reconstruct`, found {error}") from error
    if metadata.get("version") != _VERSION:
        raise InputError(f"{path}: wanted a checkpoint of version {_VERSION}; start anew")
    stored = json.loads(metadata["settings"])
    plain = json.dumps(asdict(ReconstructOptions()))  # checkpoints from before there were options
    stored |= json.loads(metadata.get("options", plain))
    asked = asdict(settings) | asdict(options or ReconstructOptions())
    changed = [name for name, value in asked.items() if stored.get(name) != value]
    if changed:
        raise InputError(
            f"{path}: the checkpoint was made with other settings ({', '.join(changed)}); give "
            f"the same ones or start anew"
        )
    return Checkpoint(
        **arrays,
        rng=json.loads(metadata["rng"]),
        iteration=int(metadata["iteration"]),
        exposures=exposures,
    )


def _exposures(file: Any) -> Exposures | None:
    """The exposures of an open checkpoint, where it has them."""
    if "exposure_values" not in file.keys():
        return None
    values = file.get_tensor("exposure_values")
    exposures = Exposures(len(values))
    for name in _EXPOSURES:
        setattr(exposures, name, file.get_tensor("exposure_" + name).copy())
    return exposures
