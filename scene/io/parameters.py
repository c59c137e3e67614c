"""Trainers' parameter tables, whatever they call their columns, to Gaussians.

| ours | gsplat | splatfacto | INRIA | stored by trainers as |
| --- | --- | --- | --- | --- |
| means | means | means | xyz | world units |
| quats | quats | quats | rotation | wxyz, any length |
| scales | scales | scales | scaling | natural logarithm |
| opacities | opacities | opacities | opacity | logit |
| sh | sh0, shN | features_dc, features_rest | features_dc, features_rest | coefficients |
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scene.errors import InputError
from scene.gaussians import Gaussians, Rows
from scene.io.loaded import LoadedGaussians
from scene.io.ply import BLOCK_ROWS

FloatArray = NDArray[np.float32]

_NAMES = {
    "means": ("means", "xyz", "_xyz", "positions", "mean3d", "means3d"),
    "quats": ("quats", "rotation", "_rotation", "rotations", "quaternions"),
    "scales": ("scales", "scaling", "_scaling", "scale"),
    "opacities": ("opacities", "opacity", "_opacity"),
    "sh": ("sh", "shs", "spherical_harmonics"),
    "dc": ("sh0", "features_dc", "_features_dc", "f_dc"),
    "rest": ("shN", "features_rest", "_features_rest", "f_rest"),
}
_REST_SIZES = (0, 3, 8, 15)
# Trainers that learn appearance keep features for a network instead of harmonics.
_NEURAL = ("features", "anchor_feat", "_anchor_feat", "embed")


def find_parameters(names: set[str]) -> dict[str, str]:
    """Which of `names` holds means, quats, scales, opacities, sh, dc and rest; absent ones lack."""
    found = {}
    for column, synonyms in _NAMES.items():
        match = next((name for name in synonyms if name in names), None)
        if match is not None:
            found[column] = match
    return found


def gaussians_from_parameters(
    path: Path,
    table: Mapping[str, NDArray],
    format_name: str,
    activated: bool | None = False,
    notes: tuple[str, ...] = (),
) -> LoadedGaussians:
    """Gaussians from a trainer's columns. Raises InputError.

    table: arrays by any of the known names, N rows each.
    activated: whether scales are linear and opacities in [0, 1]; False for logarithms and logits;
    None to tell by the values, which is then noted.
    """
    columns = _columns(path, table)
    count = len(columns["means"])
    means = _shaped(path, columns, "means", count, 3)
    quats = _shaped(path, columns, "quats", count, 4)
    scales = _shaped(path, columns, "scales", count, 3)
    opacities = _shaped(path, columns, "opacities", count, 1)[:, 0]
    if activated is None:
        activated = bool((scales > 0).all() and (opacities >= 0).all() and (opacities <= 1).all())
        kind = "linear scales and opacities" if activated else "log scales and logit opacities"
        notes = (*notes, f"taken as {kind}, by their values")
    colors = _harmonics(path, columns, count)
    coefficients = sum(part.shape[1] for part in colors)

    def block(rows: slice) -> Rows:
        sizes, alphas = scales[rows], opacities[rows]
        if not activated:
            with np.errstate(over="ignore", invalid="ignore"):
                sizes = np.exp(sizes)
                alphas = np.reciprocal(1 + np.exp(-alphas)).astype(np.float32)
        sh = np.concatenate([part[rows] for part in colors], axis=1)
        return Rows(means[rows], quats[rows], sizes, alphas, sh)

    blocks = (block(slice(first, first + BLOCK_ROWS)) for first in range(0, count, BLOCK_ROWS))
    try:
        gaussians, dropped = Gaussians.gathered(count, coefficients, blocks)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    return LoadedGaussians(gaussians, format_name, dropped, notes)


def _columns(path: Path, table: Mapping[str, NDArray]) -> dict[str, NDArray]:
    """The table under our names. Raises InputError when something is missing."""
    columns = {column: table[name] for column, name in find_parameters(set(table)).items()}
    missing = [name for name in ("means", "quats", "scales", "opacities") if name not in columns]
    if missing or not {"sh", "dc"} & set(columns):
        if set(table) & set(_NEURAL):
            raise InputError(
                f"{path}: its colors come from a network (appearance features); train without them"
            )
        raise InputError(
            f"{path}: wanted the columns of Gaussians, {' and '.join(missing) or 'colors'} not "
            f"found among {', '.join(sorted(table)[:12]) or 'none'}"
        )
    return columns


def _shaped(
    path: Path, columns: Mapping[str, NDArray], name: str, count: int, width: int
) -> FloatArray:
    """(count, width) float32."""
    array = columns[name]
    if array.dtype.kind not in "fiu" or array.size != count * width or array.ndim > 3:
        raise InputError(
            f"{path}: {name}: wanted {count} x {width} numbers, found {_size(array)} {array.dtype}"
        )
    with np.errstate(over="ignore"):
        return np.asarray(array, dtype=np.float32).reshape(count, width)


def _harmonics(path: Path, columns: Mapping[str, NDArray], count: int) -> list[FloatArray]:
    """(count, k, 3) each, to stand side by side; trainers keep them RGB inside."""
    if "sh" in columns:
        sh = columns["sh"]
        size = sh.shape[1] if sh.ndim == 3 else 0
        if size - 1 not in _REST_SIZES:
            raise InputError(f"{path}: sh: wanted N x 1, 4, 9 or 16 x 3, found {_size(sh)}")
        return [_shaped(path, columns, "sh", count, size * 3).reshape(count, size, 3)]
    dc = _shaped(path, columns, "dc", count, 3).reshape(count, 1, 3)
    rest = columns.get("rest")
    if rest is None or rest.size == 0:
        return [dc]
    size = rest.shape[1] if rest.ndim == 3 else 0
    if size not in _REST_SIZES or rest.shape[2] != 3:
        raise InputError(f"{path}: wanted N x 3, 8 or 15 x 3 higher harmonics, found {_size(rest)}")
    return [dc, _shaped(path, columns, "rest", count, size * 3).reshape(count, size, 3)]


def _size(array: NDArray) -> str:
    return " x ".join(str(n) for n in array.shape) or "one"
