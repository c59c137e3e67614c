"""Opening any capture: a folder or file of posed photos."""

from __future__ import annotations

from pathlib import Path

from scene.capture import Capture
from scene.captures.colmap import find_colmap_model, load_colmap
from scene.captures.transforms_json import is_transforms_folder, load_transforms
from scene.errors import InputError


def load_capture(path: str | Path) -> Capture:
    """Read a capture of any known format.

    Knows transforms.json (nerfstudio, instant-ngp, Blender) and COLMAP models (text, binary).
    Raises InputError.
    """
    path = Path(path)
    if path.is_file():
        if path.suffix.lower() == ".json":
            return load_transforms(path)
        if path.name in ("images.txt", "images.bin", "cameras.txt", "cameras.bin"):
            return load_colmap(path.parent)
        raise InputError(f"{path}: wanted a capture folder or a transforms.json")
    if not path.is_dir():
        raise InputError(f"{path}: no such capture")
    if is_transforms_folder(path):
        return load_transforms(path)
    if find_colmap_model(path) is not None:
        return load_colmap(path)
    raise InputError(
        f"{path}: no capture found: wanted transforms.json, transforms_train.json, or a COLMAP "
        f"model (cameras, images and points3D, as .txt or .bin) here or in sparse/0"
    )
