"""Opening any capture: a folder or file of posed photos; its content chooses the reader."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from scene.capture import Capture
from scene.captures.co3d import FRAMES_FILE, SEQUENCES_FILE, co3d_category, load_co3d
from scene.captures.colmap import find_colmap_model, load_colmap
from scene.captures.llff import POSES_FILE, load_llff
from scene.captures.options import CaptureOptions
from scene.captures.tfrecord import is_tfrecord
from scene.captures.transforms_json import is_transforms_folder, load_transforms
from scene.captures.waymo import load_waymo_frames, load_waymo_parquet
from scene.captures.waymo_parquet import parquet_root
from scene.errors import InputError
from scene.io.load import splats_in
from scene.io.sidecar import SIDECAR_SUFFIX

_COLMAP_FILES = {f"{part}.{end}" for part in ("cameras", "images", "points3D")
                 for end in ("txt", "bin")}  # fmt: skip
# Of the cameras' span: a millimetre in ten metres.
_COARSE = 1e-4
_SUFFIXES = {".txt", ".bin", ".jgz", ".npy", ".tfrecord", ".parquet"}


def is_capture_file(path: Path) -> bool:
    """Whether a file's name ends as only captures do (a .json or a folder may be a scene too)."""
    return path.suffix.lower() in _SUFFIXES


def load_capture(path: str | Path, options: CaptureOptions | None = None) -> Capture:
    """Read a capture of any known format, a folder or one of its files.

    Knows transforms.json (nerfstudio, instant-ngp, Blender), COLMAP models (text, binary), CO3D
    1 and 2 (a category, or a sequence's folder in it), Waymo 1 (.tfrecord) and 2 (Parquet), LLFF
    (poses_bounds.npy). Raises InputError.
    """
    path = Path(path)
    options = options or CaptureOptions()
    if path.is_file():
        return _with_far_note(_load_file(path, options))
    if not path.is_dir():
        raise InputError(f"{path}: no such capture")
    capture = _load_folder(path, options)
    if capture is None and (splats := splats_in(path)):
        raise InputError(
            f"{path}: holds no capture, but splat files; open one of them ({', '.join(splats)})"
        )
    if capture is None:
        raise InputError(
            f"{path}: no capture found: wanted transforms.json, transforms_train.json, a COLMAP "
            f"model (cameras, images and points3D, as .txt or .bin) here or in sparse/0, CO3D's "
            f"{FRAMES_FILE}, Waymo's .tfrecord or camera_image/*.parquet, or {POSES_FILE}"
        )
    return _with_far_note(capture)


def _with_far_note(capture: Capture) -> Capture:
    """Gaussians are single precision: say so where the world's origin is too far away for them."""
    centers = np.array([frame.camera.center for frame in capture.frames])
    span = float(np.ptp(centers, axis=0).max())
    step = float(np.spacing(np.float32(min(np.abs(centers).max(), 1e38))))
    if step <= _COARSE * span or span == 0:
        return capture
    note = (
        f"the cameras are so far from the world's origin that Gaussians are placed in steps of "
        f"{step:.2g} units, and they span {span:.3g}; move the origin to them first"
    )
    return replace(capture, notes=(*capture.notes, note))


def _load_file(path: Path, options: CaptureOptions) -> Capture:
    if path.name.endswith(SIDECAR_SUFFIX):
        raise InputError(
            f"{path}: goes with a splat file of the same name and is no capture; open that file"
        )
    if path.name in (FRAMES_FILE, SEQUENCES_FILE):
        return load_co3d(path, options.sequence)
    if path.name in _COLMAP_FILES:
        return load_colmap(path.parent)
    match path.suffix.lower():
        case ".json":
            return load_transforms(path, options.matte, options.frame)
        case ".npy":
            return load_llff(path)
        case ".parquet" if parquet_root(path) is not None:
            return load_waymo_parquet(path, options.sequence)
        case ".tfrecord":
            return load_waymo_frames(path)
    if is_tfrecord(path):
        return load_waymo_frames(path)
    raise InputError(
        f"{path}: wanted a capture: a folder, transforms.json, a COLMAP file, {FRAMES_FILE}, "
        f"{POSES_FILE}, a Waymo .tfrecord or .parquet"
    )


def _load_folder(path: Path, options: CaptureOptions) -> Capture | None:
    if is_transforms_folder(path):
        return load_transforms(path, options.matte, options.frame)
    if find_colmap_model(path) is not None:
        capture = load_colmap(path)
        if (path / POSES_FILE).is_file():
            note = f"{POSES_FILE} is not used: the COLMAP model has points and lenses too"
            capture = replace(capture, notes=(*capture.notes, note))
        return capture
    if co3d_category(path) is not None:
        return load_co3d(path, options.sequence)
    if (path / POSES_FILE).is_file():
        return load_llff(path)
    if parquet_root(path) is not None:
        return load_waymo_parquet(path, options.sequence)
    return _load_records(path, options)


def _load_records(path: Path, options: CaptureOptions) -> Capture | None:
    files = sorted(path.glob("*.tfrecord"))
    if options.sequence is not None and files:
        named = [file for file in files if file.stem == options.sequence]
        if not named:
            raise InputError(f"{path}: has no {options.sequence!r:.80}.tfrecord")
        files = named
    if len(files) > 1:
        raise InputError(
            f"{path}: holds {len(files)} Waymo segments; open one file ({files[0].name}, ...)"
        )
    return load_waymo_frames(files[0]) if files else None
