"""A nerfstudio splatfacto run, read without nerfstudio: checkpoint, config.yml, normalisation.

nerfstudio turns, centres and scales the cameras before it trains and keeps that change in
dataparser_transforms.json; it is undone here by default, so that scene and capture coincide.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from scene.errors import InputError
from scene.gaussians import SH_C0, Gaussians
from scene.io.checkpoint import arrays
from scene.io.loaded import LoadedGaussians
from scene.io.parameters import gaussians_from_parameters
from scene.io.reasons import reason
from scene.normalisation import DATAPARSER_FILE, Normalisation, read_normalisation

Frame = Literal["original", "normalised"]

CONFIG_FILE = "config.yml"
_CHECKPOINT_FOLDER = "nerfstudio_models"
_PREFIX = "_model."
_MAX_CONFIG_BYTES = 1 << 19
_LEVELS_UP = 3
# Of a Gaussian's standard deviation, moving it by less is not seen.
_COARSE = 0.1
_UPRIGHT = ("up", "vertical", "pca")


def newest_checkpoint(folder: Path) -> Path:
    """The checkpoint of most steps in a run's folder. Raises InputError."""
    found = [*(folder / _CHECKPOINT_FOLDER).glob("*.ckpt"), *folder.glob("*.ckpt")]
    steps = [(int(m[1]), p) for p in found if (m := re.search(r"(\d{1,12})", p.stem))]
    if not steps:
        raise InputError(
            f"{folder}: the nerfstudio run has no checkpoint step-*.ckpt in {_CHECKPOINT_FOLDER}"
        )
    return max(steps)[1]


def gaussians_from_pipeline(
    path: Path, pipeline: dict[str, Any], frame: str = "original"
) -> LoadedGaussians:
    """Gaussians of a splatfacto checkpoint's `pipeline` state. Raises InputError.

    frame: "original" undoes the run's normalisation, "normalised" keeps it; the notes say which.
    """
    model = {
        str(name).removeprefix(_PREFIX).removeprefix("gauss_params."): value
        for name, value in pipeline.items()
        if str(name).startswith(_PREFIX)
    }
    if not {"means", "features_dc"} <= set(model):
        raise InputError(
            f"{path}: wanted a splatfacto checkpoint (gauss_params), found another nerfstudio "
            f"model, which has no Gaussians"
        )
    table = arrays(path, model)
    config = _find(path, CONFIG_FILE)
    settings = read_config(config) if config else {}
    notes = []
    if table["features_dc"].shape[0] and not table.get("features_rest", np.empty(0)).size:
        # without harmonics splatfacto draws sigmoid(features_dc), not 0.5 + C0 * dc
        with np.errstate(over="ignore"):
            rgb = 1 / (1 + np.exp(-table["features_dc"]))
        table["features_dc"] = (rgb - np.float32(0.5)) / np.float32(SH_C0)
    if _setting(settings, "pipeline", "model", "rasterize_mode") == "antialiased":
        notes.append("trained for anti-aliased drawing: switch that on in the render settings")
    loaded = gaussians_from_parameters(path, table, "splatfacto checkpoint", notes=tuple(notes))
    method = _setting(settings, "pipeline", "datamanager", "dataparser", "orientation_method")
    up = (0.0, 0.0, 1.0) if method in _UPRIGHT else None
    name = config.parent.parent.parent.name if config else ""
    return _in_frame(replace(loaded, up=up, name=name or None), path, frame)


def read_config(path: Path) -> dict[str, Any]:
    """Read config.yml as plain values; its Python objects are never built.

    Raises InputError.
    """
    import yaml

    try:
        if path.stat().st_size > _MAX_CONFIG_BYTES:
            raise InputError(f"{path}: larger than {_MAX_CONFIG_BYTES >> 10} kB, not read")
        content = yaml.load(path.read_bytes(), Loader=_plain_loader())
    except (yaml.YAMLError, OSError, RecursionError, ArithmeticError, AttributeError, LookupError,
            TypeError) as error:  # fmt: skip
        raise InputError(f"{path}: cannot be read as YAML ({reason(error)})") from error
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: cannot be read as YAML ({reason(error)})") from error
    return content if isinstance(content, dict) else {}


def _plain_loader() -> Any:
    """A SafeLoader to which every Python tag is a dict, list or text; merge keys do nothing."""
    import yaml

    class PlainLoader(yaml.SafeLoader):
        def flatten_mapping(self, node: Any) -> None:
            """Nested merges would grow without bound; these files have none."""

    def build(loader: Any, _: str, node: Any) -> Any:
        if isinstance(node, yaml.MappingNode):
            return loader.construct_mapping(node, deep=True)
        if isinstance(node, yaml.SequenceNode):
            return loader.construct_sequence(node, deep=True)
        return loader.construct_scalar(node)

    PlainLoader.add_multi_constructor("tag:yaml.org,2002:python/", build)
    return PlainLoader


def _in_frame(loaded: LoadedGaussians, path: Path, frame: str) -> LoadedGaussians:
    if frame not in ("original", "normalised"):
        raise InputError(f"frame: wanted original or normalised, found {frame!r}")
    file = _find(path, DATAPARSER_FILE)
    if file is None:
        note = f"no {DATAPARSER_FILE} beside it: left in nerfstudio's normalised frame"
        return replace(loaded, notes=(*loaded.notes, note))
    if frame == "normalised":
        note = "kept in nerfstudio's normalised frame, as asked"
        return replace(loaded, notes=(*loaded.notes, note))
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
    return replace(loaded, gaussians=gaussians, notes=notes, up=up)


def _coarse(gaussians: Gaussians) -> list[str]:
    """A note where the original frame's coordinates leave single precision too few digits."""
    step = float(np.spacing(np.abs(gaussians.means).max()))
    if step < _COARSE * float(np.median(gaussians.scales)):
        return []
    return [
        f"the original frame's origin is so far away that positions are rounded to {step:.2g} "
        f"units, visibly; keep the normalised frame (frame 'normalised') to avoid that"
    ]


def _find(path: Path, name: str) -> Path | None:
    """`name` beside the checkpoint or in one of the folders above it."""
    folders = path.resolve().parents[:_LEVELS_UP]
    return next((f / name for f in folders if (f / name).is_file()), None)


def _setting(settings: Any, *keys: str) -> Any:
    for key in keys:
        settings = settings.get(key) if isinstance(settings, dict) else None
    return settings
