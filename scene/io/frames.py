"""The world frame that Gaussians are given in: nerfstudio's normalised one, or the data's own.

nerfstudio turns, centres and scales the cameras before it trains and keeps that change in
dataparser_transforms.json. It is undone by default, so that scene and capture coincide.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from scene.errors import InputError
from scene.gaussians import Gaussians
from scene.io.json_file import finite_number, read_json_object
from scene.io.loaded import LoadedGaussians
from scene.normalisation import Normalisation

DATAPARSER_FILE = "dataparser_transforms.json"
"""Where nerfstudio keeps the normalisation of a run, beside its config.yml."""

LEFT_ALONE = (
    f"nothing in the file says that it is in nerfstudio's frame, so the {DATAPARSER_FILE} beside "
    f"it is not used; if it is, convert it with --normalisation"
)
"""The note of a file of another program that lies in a run's folder."""

Frame = Literal["original", "normalised"]

_LEVELS_UP = 3
# Of a Gaussian's standard deviation, moving it by less is not seen.
_COARSE = 0.1


def read_normalisation(path: str | Path) -> Normalisation:
    """Read dataparser_transforms.json of nerfstudio: {"transform": 3x4, "scale": number}.

    Its original frame is that of the data BEFORE ns-process-data's `applied_transform`: for a
    COLMAP capture COLMAP's own. Raises InputError.
    """
    path = Path(path)
    fields = read_json_object(path)
    scale = finite_number(fields.get("scale", 1.0))
    try:
        transform = np.asarray(fields["transform"], dtype=np.float64)
        return Normalisation(transform, float("nan") if scale is None else scale)
    except KeyError as error:
        raise InputError(f"{path}: wanted the fields transform and scale, found none") from error
    except (TypeError, ValueError) as error:
        raise InputError(f"{path}: {error}") from error


def find_above(path: Path, name: str) -> Path | None:
    """The file `name` beside `path` or in one of the folders above it."""
    folders = path.resolve().parents[:_LEVELS_UP]
    return next((f / name for f in folders if (f / name).is_file()), None)


def in_frame(
    loaded: LoadedGaussians, path: Path, frame: str, normalisation: Path | None = None
) -> LoadedGaussians:
    """The Gaussians in the frame that is asked for; the notes say what was done, or could not be.

    loaded: as the file has them. frame: "original" undoes the normalisation where a file says it
    is there, "normalised" keeps it. normalisation: what to undo, whatever the file says of itself:
    a dataparser_transforms.json, or the config.yml or folder of its run. Raises InputError.
    """
    if frame not in ("original", "normalised"):
        raise InputError(f"frame: wanted original or normalised, found {frame!r}")
    if normalisation is not None:
        if frame == "normalised":
            raise InputError(
                f"{normalisation}: is to be undone, and the normalised frame is to be kept; wanted "
                f"one of the two"
            )
        return _as_named(loaded, path, normalisation)
    if not loaded.normalised:
        return _left_alone(loaded, path)
    file = find_above(path, DATAPARSER_FILE)
    if file is None:
        note = (
            f"no {DATAPARSER_FILE} beside it: left in nerfstudio's normalised frame (turned, "
            f"centred, scaled), whose lengths are not the capture's; put the run's file beside it, "
            f"or convert it with --normalisation"
        )
        return replace(loaded, notes=(*loaded.notes, note))
    if frame == "normalised":
        note = "kept in nerfstudio's normalised frame, as asked"
        there = read_normalisation(file)
        return replace(loaded, notes=(*loaded.notes, note), from_default=there)
    return _undone(loaded, file)


def _as_named(loaded: LoadedGaussians, path: Path, named: Path) -> LoadedGaussians:
    """Undone as the user says; the sidecar then is in the frame that the file opens in unasked."""
    file = named / DATAPARSER_FILE if named.is_dir() else named
    if file.suffix.lower() in (".yml", ".yaml"):
        file = file.with_name(DATAPARSER_FILE)
    opens_undone = loaded.normalised and find_above(path, DATAPARSER_FILE) is not None
    undone = _undone(loaded, file)
    return undone if opens_undone else replace(undone, from_default=undone.from_file)


def _left_alone(loaded: LoadedGaussians, path: Path) -> LoadedGaussians:
    if not path.with_name(DATAPARSER_FILE).is_file():
        return loaded
    return replace(loaded, notes=(*loaded.notes, LEFT_ALONE))


def _undone(loaded: LoadedGaussians, file: Path) -> LoadedGaussians:
    back: Normalisation = read_normalisation(file).inverse()
    note = (
        f"nerfstudio's normalisation was undone: original frame, {back.scale:.4g} units for one "
        f"of nerfstudio's"
    )
    up = loaded.up
    if up is not None:
        x, y, z = back.apply_to_direction(up).tolist()
        up = (x, y, z)
    gaussians = back.apply_to_gaussians(loaded.gaussians)
    if not np.isfinite(gaussians.means).all() or not (gaussians.scales > 0).all():
        raise InputError(f"{file}: its scale takes the scene out of the range of numbers")
    notes = (*loaded.notes, note, *_coarse(gaussians))
    return replace(loaded, gaussians=gaussians, notes=notes, up=up, from_file=back)


def _coarse(gaussians: Gaussians) -> list[str]:
    """A note where the original frame's coordinates leave single precision too few digits."""
    step = float(np.spacing(np.abs(gaussians.means).max()))
    if step < _COARSE * float(np.median(gaussians.scales)):
        return []
    return [
        f"the original frame's origin is so far away that positions are rounded to {step:.2g} "
        f"units, visibly; keep the normalised frame (frame 'normalised') to avoid that"
    ]
