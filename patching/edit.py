"""What an embedding changes in a scene: a few Gaussians recolored or faded, and some added."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scene.errors import InputError
from scene.gaussians import Gaussians

FloatArray = NDArray[np.float32]

FORMAT = "advscene-edit-1"


@dataclass(frozen=True, eq=False)
class GaussianEdit:
    """A small change of a scene; the clean scene itself is shared and never copied to disk.

    indices: (M,) int64, unique, the clean Gaussians that change.
    opacities: (M,) float32 in [0, 1], their new opacities.
    sh_dc: (M, 3) float32, their new degree-0 coefficients; higher degrees stay.
    added: new Gaussians, appended after the clean ones.
    base_count: how many Gaussians the clean scene has, None where unknown; guards `apply`.
    """

    indices: NDArray[np.int64]
    opacities: FloatArray
    sh_dc: FloatArray
    added: Gaussians
    base_count: int | None = None

    def __post_init__(self) -> None:
        indices = np.array(self.indices, dtype=np.int64).reshape(-1)
        opacities = np.array(self.opacities, dtype=np.float32)
        sh_dc = np.array(self.sh_dc, dtype=np.float32)
        count = len(indices)
        if opacities.shape != (count,) or sh_dc.shape != (count, 3):
            raise ValueError(
                f"edit of {count} Gaussians: wanted opacities ({count},) and sh_dc ({count}, 3), "
                f"found {opacities.shape} and {sh_dc.shape}"
            )
        if len(np.unique(indices)) != count or (count and indices.min() < 0):
            raise ValueError("edit indices: wanted unique non-negative numbers")
        for name, array in (("indices", indices), ("opacities", opacities), ("sh_dc", sh_dc)):
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    def apply(self, clean: Gaussians) -> Gaussians:
        """The edited scene: `len(clean) + len(added)` Gaussians, clean order kept.

        Raises InputError when the edit belongs to another scene.
        """
        if self.base_count is not None and self.base_count != len(clean):
            raise InputError(
                f"the embedded patch belongs to a scene of {self.base_count} Gaussians, this one "
                f"has {len(clean)}; embed the patch again"
            )
        if len(self.indices) and self.indices.max() >= len(clean):
            raise InputError(
                f"the embedded patch changes Gaussian {self.indices.max()}, the scene has only "
                f"{len(clean)}; embed the patch again"
            )
        opacities, sh = clean.opacities.copy(), clean.sh.copy()
        opacities[self.indices] = self.opacities
        sh[self.indices, 0] = self.sh_dc
        edited = Gaussians(clean.means, clean.quats, clean.scales, opacities, sh)
        return Gaussians.concatenate([edited, self.added]) if len(self.added) else edited


def no_gaussians() -> Gaussians:
    """A scene of zero Gaussians, for edits that add none."""
    shapes = ((0, 3), (0, 4), (0, 3), (0,), (0, 1, 3))
    return Gaussians(*(np.zeros(shape, np.float32) for shape in shapes))


def save_edit(edit: GaussianEdit, path: str | Path) -> None:
    """Write a safetensors file, whole or not at all."""
    from safetensors.numpy import save_file

    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    tensors: dict[str, NDArray[Any]] = {
        "indices": np.array(edit.indices),
        "opacities": np.array(edit.opacities),
        "sh_dc": np.array(edit.sh_dc),
        "added.means": np.array(edit.added.means),
        "added.quats": np.array(edit.added.quats),
        "added.scales": np.array(edit.added.scales),
        "added.opacities": np.array(edit.added.opacities),
        "added.sh": np.array(edit.added.sh),
    }
    about = {"format": FORMAT}
    if edit.base_count is not None:
        about["base_count"] = str(edit.base_count)
    partial = path.with_name(path.name + ".part")
    save_file(tensors, partial, metadata=about)
    os.replace(partial, path)


def load_edit(path: str | Path) -> GaussianEdit:
    """Read what `save_edit` wrote. Raises InputError with one sentence."""
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such edit file")
    try:
        with safe_open(path, framework="numpy") as file:
            about = file.metadata() or {}
            if about.get("format") != FORMAT:
                raise InputError(f"{path}: wanted an embedded patch, found other tensors")
            tensors = {name: file.get_tensor(name) for name in file.keys()}
        added = Gaussians(
            *(tensors[f"added.{n}"] for n in ("means", "quats", "scales", "opacities", "sh"))
        )
        base_count = about.get("base_count")
        return GaussianEdit(
            tensors["indices"], tensors["opacities"], tensors["sh_dc"], added,
            None if base_count is None else int(base_count),
        )  # fmt: skip
    except InputError:
        raise
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise InputError(
            f"{path}: wanted an embedded patch (safetensors), found a damaged or foreign file; "
            f"embed the patch again"
        ) from error
