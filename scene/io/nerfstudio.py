"""A nerfstudio splatfacto run, read without nerfstudio: checkpoint and config.yml."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from scene.errors import InputError
from scene.gaussians import SH_C0
from scene.io.checkpoint import arrays
from scene.io.frames import find_above
from scene.io.loaded import LoadedGaussians
from scene.io.parameters import gaussians_from_parameters
from scene.io.reasons import reason

CONFIG_FILE = "config.yml"
_CHECKPOINT_FOLDER = "nerfstudio_models"
_PREFIX = "_model."
_MAX_CONFIG_BYTES = 1 << 19
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


def gaussians_from_pipeline(path: Path, pipeline: dict[str, Any]) -> LoadedGaussians:
    """Gaussians of a splatfacto checkpoint's `pipeline` state, normalised as they are in it.

    Raises InputError.
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
    config = find_above(path, CONFIG_FILE)
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
    return replace(loaded, up=up, name=name or None, normalised=True)


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


def _setting(settings: Any, *keys: str) -> Any:
    for key in keys:
        settings = settings.get(key) if isinstance(settings, dict) else None
    return settings
