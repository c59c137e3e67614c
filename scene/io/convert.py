"""A scene file in another format, and what that cost: measured by reading the new file back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from scene.errors import InputError
from scene.gaussians import Gaussians
from scene.io.load import WRITERS, files_of, load_gaussians, splat_file, written_order
from scene.io.sidecar import fitting_sidecar, read_sidecar, sidecar_path
from scene.scene import load_scene, save_scene


@dataclass(frozen=True)
class Conversion:
    """What `convert` did. Errors are maxima over all Gaussians, of the file read back.

    max_position_error: in scene units; max_position_error_of_extent: over the longest side of the
    scene's bounds. max_scale_ratio: >= 1, the worst factor on a standard deviation.
    max_rotation_error_deg: angle between the rotations. max_opacity_error: of [0, 1].
    max_color_error: sRGB at degree 0, not clipped: harmonics add to it and translucent Gaussians
    brighter than 1 show. max_sh_error: the other coefficients.
    lost: Gaussians that the new file's reader drops.
    """

    source: str
    target: str
    source_format: str
    target_format: str
    gaussians: int
    sh_degree: int
    source_bytes: int
    target_bytes: int
    max_position_error: float
    max_position_error_of_extent: float
    max_scale_ratio: float
    max_rotation_error_deg: float
    max_opacity_error: float
    max_color_error: float
    max_sh_error: float
    lost: int
    notes: tuple[str, ...]


def convert(
    source: str | Path,
    target: str | Path,
    frame: str = "original",
    overwrite: bool = False,
    normalisation: Path | None = None,
) -> Conversion:
    """Write the scene `source` as `target` (format by its name), with its sidecar.

    frame, normalisation: see `load_scene`. overwrite: replace a file, or another scene's sidecar,
    of the target's name. Raises InputError.
    """
    source, target = splat_file(Path(source)), Path(target)
    if not target.name.lower().endswith(tuple(WRITERS)):
        raise InputError(f"{target}: wanted a name that ends in {', '.join(WRITERS)}")
    if target.exists() and source.exists() and target.samefile(source):
        raise InputError(f"{target}: is the file to convert; wanted another name")
    if not overwrite:
        _refuse_to_replace(source, target)
    scene = load_scene(source, frame, normalisation)
    facts = scene.provenance
    origin = {"file": source.name, "sha256": facts["sha256"], "format": facts["format"]}
    beside = sidecar_path(target)
    # same-named files of one folder share a sidecar, but only where they share a frame
    shared = facts["as_it_opens"] and beside.resolve() == sidecar_path(source).resolve()
    own = shared and not fitting_sidecar(source, facts["sha256"])[1]
    if beside.exists() and not overwrite and not own:
        raise InputError(
            f"{beside} exists and belongs to another version or world frame of {source.name}; "
            f"choose another name, or give --overwrite"
        )
    also_fits = _sharers(source, facts["sha256"]) if shared else ()
    scene = replace(scene, provenance={**facts, "converted_from": origin})
    save_scene(scene, target, also_fits)
    loaded = load_gaussians(target)
    written = scene.gaussians.select(written_order(scene.gaussians, target)[loaded.dropped.kept])
    return Conversion(
        source=str(source),
        target=str(target),
        source_format=facts["format"],
        target_format=loaded.format,
        gaussians=len(scene.gaussians),
        sh_degree=scene.gaussians.sh_degree,
        source_bytes=sum(part.stat().st_size for part in files_of(source)),
        target_bytes=target.stat().st_size,
        lost=loaded.dropped.total,
        notes=tuple(facts["notes"]),
        **_loss(written, loaded.gaussians),
    )


def _refuse_to_replace(source: Path, target: Path) -> None:
    """Raises InputError; a sidecar that source and target share is looked at later."""
    beside = sidecar_path(target)
    shared = beside.resolve() == sidecar_path(source).resolve()
    if target.exists() or (beside.exists() and not shared):
        found = target if target.exists() else beside
        raise InputError(f"{found} exists; choose another name, or give --overwrite")


def _sharers(source: Path, sha256: str) -> tuple[str, ...]:
    """Hashes of the source and of the other formats that its sidecar was written for."""
    beside = sidecar_path(source)
    known = read_sidecar(beside).splat_sha256 if beside.is_file() else ()
    return tuple(dict.fromkeys((sha256, *(known if sha256 in known else ()))))


def _loss(before: Gaussians, after: Gaussians) -> dict[str, float]:
    position = float(np.linalg.norm(after.means - before.means, axis=1).max())
    extent = float(np.ptp(before.means, axis=0).max())
    with np.errstate(over="ignore", divide="ignore"):
        ratio = float(np.exp(np.abs(np.log(after.scales) - np.log(before.scales)).max()))
    # the chord of the half angle: exact for small angles, where an arc cosine is not
    chords = np.minimum(*(np.linalg.norm(after.quats - s * before.quats, axis=1) for s in (1, -1)))
    colors = after.base_colors - before.base_colors
    return {
        "max_position_error": position,
        "max_position_error_of_extent": position / extent if extent else 0.0,
        "max_scale_ratio": ratio,
        "max_rotation_error_deg": float(np.degrees(4 * np.arcsin(chords.max() / 2))),
        "max_opacity_error": float(np.abs(after.opacities - before.opacities).max()),
        "max_color_error": float(np.abs(colors).max()),
        "max_sh_error": float(np.abs(after.sh[:, 1:] - before.sh[:, 1:]).max(initial=0)),
    }
