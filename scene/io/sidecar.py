"""The JSON file beside a splat that holds what splat formats cannot: cameras, up, scale, target."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scene.camera import Camera
from scene.capture import changed_box
from scene.errors import InputError
from scene.io.atomic import atomic_write
from scene.io.json_file import finite_number, read_json_object
from scene.scene import CaptureCamera, Scene, TargetBox

if TYPE_CHECKING:
    from scene.normalisation import Normalisation

SIDECAR_SUFFIX = ".scene.json"
SIDECAR_VERSION = 1
FRAME_KEY = "nerfstudio_frame"
"""Of the provenance: which of nerfstudio's frames the scene is in; absent where it has none."""
_FIELDS = frozenset(
    {"version", "name", "up", "up_source", "metres_per_unit", "background", "target", "cameras",
     "splat_sha256", "provenance"}
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Sidecar:
    """The fields of `<stem>.scene.json`, validated; None where the file is silent."""

    name: str | None = None
    cameras: tuple[CaptureCamera, ...] = ()
    up: tuple[float, float, float] | None = None
    up_source: str | None = None
    metres_per_unit: float | None = None
    target: TargetBox | None = None
    background: tuple[float, float, float] | None = None
    splat_sha256: tuple[str, ...] = ()
    provenance: dict[str, Any] = field(default_factory=dict)


def sidecar_path(splat: Path) -> Path:
    """`street.ply` and `street.compressed.ply` both have `street.scene.json`."""
    stem = splat.stem.removesuffix(".compressed")
    return splat.with_name(f"{stem}{SIDECAR_SUFFIX}")


def read_sidecar(path: Path) -> Sidecar:
    """Read and validate a sidecar. Raises InputError that names the file and the field."""
    fields = read_json_object(path)
    version = fields.get("version")
    if version != SIDECAR_VERSION:
        raise InputError(f"{path}: version: wanted {SIDECAR_VERSION}, found {version!r}")
    if unknown := sorted(set(fields) - _FIELDS):
        raise InputError(f"{path}: unknown field {unknown[0]!r}; known are {', '.join(_FIELDS)}")
    check = _Checker(path, fields)
    up = check.vector("up")
    if up is not None:
        norm = float(np.linalg.norm(up))
        if norm < 1e-9:
            raise InputError(f"{path}: up: wanted a direction, found {up}")
        up = (up[0] / norm, up[1] / norm, up[2] / norm)
    scale = check.number("metres_per_unit")
    if scale is not None and scale <= 0:
        raise InputError(f"{path}: metres_per_unit: wanted > 0, found {scale:g}")
    background = check.vector("background")
    if background is not None and not all(0 <= c <= 1 for c in background):
        raise InputError(f"{path}: background: wanted sRGB values in [0, 1], found {background}")
    return Sidecar(
        name=check.text("name"),
        cameras=_cameras(path, fields.get("cameras")),
        up=up,
        up_source=check.text("up_source"),
        metres_per_unit=scale,
        target=_target(path, fields.get("target")),
        background=background,
        splat_sha256=check.texts("splat_sha256"),
        provenance=check.mapping("provenance"),
    )


def fitting_sidecar(splat: Path, sha256: str) -> tuple[Sidecar, list[str]]:
    """The sidecar beside `splat`, and what to tell the user; an empty one where none fits.

    sha256: of the splat. A sidecar that names other splats only is another scene's: its cameras
    would look at this one from wrong places. One that names none is the user's own, and is used.
    Raises InputError.
    """
    path = sidecar_path(splat)
    if not path.is_file():
        return Sidecar(), []
    found = read_sidecar(path)
    if not found.splat_sha256 or sha256 in found.splat_sha256:
        return found, []
    note = (
        f"{path.name} is not used (cameras, up axis, scale, target): it was written for another "
        f"version of this splat file; take its splat_sha256 out to use it all the same"
    )
    return Sidecar(), [note]


def moved_sidecar(sidecar: Sidecar, change: Normalisation) -> Sidecar:
    """The same place seen from another world frame: cameras, up axis, unit length and target."""
    up, scale, target = sidecar.up, sidecar.metres_per_unit, sidecar.target
    if up is not None:
        x, y, z = change.apply_to_direction(up).tolist()
        up = (x, y, z)
    return replace(
        sidecar,
        cameras=tuple(replace(c, camera=change.apply_to_camera(c.camera)) for c in sidecar.cameras),
        up=up,
        metres_per_unit=None if scale is None else scale / change.scale,
        target=None if target is None else changed_box(target, change),
    )


def write_sidecar(scene: Scene, path: Path, splat_sha256: tuple[str, ...]) -> None:
    """Write the sidecar of `scene`, whose splat files (one per format) have these hashes."""
    target = scene.target
    fields: dict[str, Any] = {
        "version": SIDECAR_VERSION,
        "name": scene.name,
        "up": list(scene.up),
        "up_source": scene.up_source,
        "metres_per_unit": scene.metres_per_unit,
        "background": list(scene.background),
        "target": None
        if target is None
        else {
            "label": target.label,
            "center": target.center.tolist(),
            "axes": target.axes.tolist(),
            "half_sizes": target.half_sizes.tolist(),
        },
        "cameras": [
            {"name": c.name, "held_out": c.held_out, **c.camera.to_dict()} for c in scene.cameras
        ],
        "splat_sha256": splat_sha256[0] if len(splat_sha256) == 1 else list(splat_sha256),
        "provenance": scene.provenance,
    }
    with atomic_write(path) as file:
        file.write(json.dumps(fields, indent=1).encode())


@dataclass(frozen=True)
class _Checker:
    """Typed access to one object's fields; InputError names file and field."""

    path: Path
    fields: dict[str, Any]

    def _wrong(self, name: str, wanted: str) -> InputError:
        return InputError(f"{self.path}: {name}: wanted {wanted}, found {self.fields[name]!r:.80}")

    def text(self, name: str) -> str | None:
        value = self.fields.get(name)
        if value is not None and not isinstance(value, str):
            raise self._wrong(name, "text")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """One text or a list of them, as a tuple; empty where the file is silent."""
        value = self.fields.get(name)
        values = value if isinstance(value, list) else [] if value is None else [value]
        if not all(isinstance(item, str) for item in values):
            raise self._wrong(name, "text")
        return tuple(values)

    def mapping(self, name: str) -> dict[str, Any]:
        value = self.fields.get(name)
        if value is not None and not isinstance(value, dict):
            raise self._wrong(name, "an object")
        return value or {}

    def number(self, name: str) -> float | None:
        value = self.fields.get(name)
        if value is None:
            return None
        number = finite_number(value)
        if number is None:
            raise self._wrong(name, "a finite number")
        return number

    def array(self, name: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
        try:
            array = np.asarray(self.fields.get(name), dtype=np.float64)
        except (TypeError, ValueError):
            array = np.empty(0)
        if array.shape != shape or not np.isfinite(array).all():
            size = "x".join(str(n) for n in shape)
            raise (
                self._wrong(name, f"{size} finite numbers")
                if name in self.fields
                else InputError(f"{self.path}: {name}: wanted {size} finite numbers, found none")
            )
        return array

    def vector(self, name: str) -> tuple[float, float, float] | None:
        if self.fields.get(name) is None:
            return None
        x, y, z = self.array(name, (3,)).tolist()
        return (x, y, z)


def _cameras(path: Path, entries: Any) -> tuple[CaptureCamera, ...]:
    if entries is None:
        return ()
    if not isinstance(entries, list):
        raise InputError(f"{path}: cameras: wanted a list, found {type(entries).__name__}")
    cameras = []
    for i, entry in enumerate(entries):
        camera = Camera.from_dict(entry, source=f"{path}: cameras[{i}]")
        name = str(entry.get("name", f"camera {i}"))
        cameras.append(CaptureCamera(name, camera, bool(entry.get("held_out", False))))
    return tuple(cameras)


def _target(path: Path, entry: Any) -> TargetBox | None:
    if entry is None:
        return None
    if not isinstance(entry, dict):
        raise InputError(f"{path}: target: wanted an object, found {type(entry).__name__}")
    check = _Checker(path, {f"target.{name}": value for name, value in entry.items()})
    axes = check.array("target.axes", (3, 3))
    if not np.allclose(axes @ axes.T, np.eye(3), atol=1e-4):
        raise InputError(f"{path}: target.axes: wanted three perpendicular unit rows")
    half_sizes = check.array("target.half_sizes", (3,))
    if (half_sizes <= 0).any():
        raise InputError(f"{path}: target.half_sizes: wanted > 0, found {half_sizes.tolist()}")
    return TargetBox(
        center=check.array("target.center", (3,)),
        axes=axes,
        half_sizes=half_sizes,
        label=(check.text("target.label") or "").strip().lower(),
    )
