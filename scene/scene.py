"""A reconstructed scene: Gaussians plus what is known about the place they stand for."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scene.camera import Camera
from scene.errors import InputError
from scene.gaussians import Gaussians

if TYPE_CHECKING:
    from scene.io.loaded import LoadedGaussians
    from scene.io.sidecar import Sidecar

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CaptureCamera:
    """A camera that the scene was reconstructed from."""

    name: str
    camera: Camera
    held_out: bool = False


@dataclass(frozen=True, eq=False)
class TargetBox:
    """An oriented 3D box around the object that victims should see.

    center: (3,) world units. axes: (3, 3), rows are the box's unit axes. half_sizes: (3,) > 0.
    label: the class name, normalised lower case ("stop sign").
    """

    center: NDArray[np.float64]
    axes: NDArray[np.float64]
    half_sizes: NDArray[np.float64]
    label: str = ""


@dataclass(frozen=True, eq=False)
class Scene:
    """Gaussians + capture cameras + up axis + target + provenance; one in memory, shared by all.

    up: (3,) unit signed up axis of the world. metres_per_unit: None where the scale is unknown.
    background: sRGB behind the Gaussians. provenance: file hash, format, transforms, warnings.
    """

    gaussians: Gaussians
    name: str
    cameras: tuple[CaptureCamera, ...] = ()
    up: tuple[float, float, float] = (0.0, 1.0, 0.0)
    up_source: str = "default"
    metres_per_unit: float | None = None
    target: TargetBox | None = None
    background: tuple[float, float, float] = (0.0, 0.0, 0.0)
    provenance: dict[str, Any] = field(default_factory=dict)


def load_scene(
    path: str | Path, frame: str = "original", normalisation: Path | None = None
) -> Scene:
    """Open a splat file of any format, with the sidecar `<stem>.scene.json` where there is one.

    path: a file, or a folder, see `splat_file`.
    frame, normalisation: see `load_gaussians`; cameras, up, scale and target come along.

    A sidecar that was written for another file (by its hash) is not used, and that is said.
    Without sidecar cameras those of a cameras.json beside the splat are used, and noted. Up comes
    from the sidecar, else the splat file, else the cameras (estimated), else a default;
    `up_source` says which. Raises InputError.
    """
    from scene.io.load import load_gaussians, splat_file
    from scene.io.sidecar import fitting_sidecar, moved_sidecar

    asked, path = Path(path), splat_file(Path(path))
    loaded = load_gaussians(path, frame, normalisation)
    digest = file_sha256(path)
    sidecar, sidecar_notes = fitting_sidecar(path, digest)
    for note in sidecar_notes:
        log.warning("%s: %s", path, note)
    if loaded.dropped.total:
        log.warning("%s: %d unusable Gaussians are left out", path, loaded.dropped.total)
    if loaded.from_default is not None:
        sidecar = moved_sidecar(sidecar, loaded.from_default)
    cameras, camera_notes = (sidecar.cameras, []) if sidecar.cameras else _cameras_beside(path)
    if not sidecar.cameras and loaded.from_file is not None:
        change = loaded.from_file
        cameras = tuple(replace(c, camera=change.apply_to_camera(c.camera)) for c in cameras)
    up, up_source = _choose_up(sidecar, loaded, cameras)
    nested = path.parent not in (asked, asked.parent)
    stem = asked.resolve().name if nested else path.stem.removesuffix(".compressed")
    which = [f"{path.relative_to(asked)} is opened, of the most iterations"] if nested else []
    return Scene(
        gaussians=loaded.gaussians,
        name=sidecar.name or loaded.name or stem,
        cameras=cameras,
        up=up,
        up_source=up_source,
        metres_per_unit=sidecar.metres_per_unit,
        target=sidecar.target,
        background=sidecar.background or (0.0, 0.0, 0.0),
        provenance=_provenance(
            path, digest, loaded, sidecar, [*which, *sidecar_notes, *camera_notes]
        ),
    )


def save_scene(scene: Scene, path: str | Path, also_fits: tuple[str, ...] = ()) -> Scene:
    """Write `scene` in any format that can be written, plus its sidecar; returns it with the hash.

    `.ply` and `.safetensors` are exact; `.compressed.ply` and `.spz` round (`save_compressed_ply`,
    `save_spz`). also_fits: hashes of other files of the same name and frame that the sidecar
    belongs to as well.
    """
    from scene.io.load import save_gaussians
    from scene.io.sidecar import sidecar_path, write_sidecar

    path = Path(path)
    save_gaussians(scene.gaussians, path)
    digest = file_sha256(path)
    scene = replace(scene, provenance={**scene.provenance, "file": path.name, "sha256": digest})
    write_sidecar(scene, sidecar_path(path), tuple(dict.fromkeys((digest, *also_fits))))
    return scene


def file_sha256(path: Path) -> str:
    """Hex SHA-256 of a scene file's bytes; of all their hashes where it stands for several."""
    from scene.io.load import files_of

    digests = []
    for part in files_of(path):
        try:
            with part.open("rb") as file:
                digests.append(hashlib.file_digest(file, "sha256").hexdigest())
        except OSError as error:
            raise InputError(f"{part}: cannot be read ({error.strerror})") from error
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def _cameras_beside(path: Path) -> tuple[tuple[CaptureCamera, ...], list[str]]:
    """Cameras that a trainer left beside the splat, and what to tell the user about them."""
    from scene.io.cameras_json import find_cameras_json, read_cameras_json

    found = find_cameras_json(path)
    if found is None:
        return (), []
    try:
        cameras, unused = read_cameras_json(found)
    except InputError as error:
        return (), [f"cameras were not read: {error}"]
    left_out = f"; {unused} that it marks as unused are left out" if unused else ""
    return cameras, [f"{len(cameras)} cameras are from {found.name}{left_out}"]


def _choose_up(
    sidecar: Sidecar, loaded: LoadedGaussians, cameras: tuple[CaptureCamera, ...]
) -> tuple[tuple[float, float, float], str]:
    from scene.up import DEFAULT_UP, DEFAULT_UP_SOURCE, estimate_up

    if sidecar.up is not None:
        return sidecar.up, sidecar.up_source or "scene file"
    if loaded.up is not None:
        return loaded.up, "splat file"
    if cameras:
        return estimate_up([c.camera for c in cameras]), f"estimated from {len(cameras)} cameras"
    return DEFAULT_UP, DEFAULT_UP_SOURCE


def _provenance(
    path: Path, digest: str, loaded: LoadedGaussians, sidecar: Sidecar, notes: list[str]
) -> dict[str, Any]:
    from scene.io.frames import LEFT_ALONE
    from scene.io.sidecar import FRAME_KEY

    # a conversion's sidecar knows the frame that its file cannot state
    known = FRAME_KEY in sidecar.provenance
    said = [note for note in loaded.notes if not (known and note == LEFT_ALONE)]
    if loaded.frame is None and sidecar.provenance.get(FRAME_KEY) == "normalised":
        notes = [*notes, "converted in nerfstudio's normalised frame: lengths are its own"]
    dropped = loaded.dropped
    return {
        **sidecar.provenance,
        **({FRAME_KEY: loaded.frame} if loaded.frame else {}),
        "file": path.name,
        "sha256": digest,
        "format": loaded.format,
        "gaussians": len(loaded.gaussians),
        "dropped": {
            "not_finite": dropped.not_finite,
            "zero_quaternion": dropped.zero_quaternion,
            "bad_scale": dropped.bad_scale,
        },
        "as_it_opens": loaded.from_default is None,
        "notes": [*said, *notes],
    }
