"""Cameras that trainers leave beside a splat: INRIA's cameras.json, and lists of OpenCV poses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from scene.camera import Camera
from scene.errors import InputError
from scene.io.json_file import read_json
from scene.scene import CaptureCamera


def find_cameras_json(splat: Path) -> Path | None:
    """`<stem>_cameras.json` or cameras.json beside a splat, or in INRIA's training folder."""
    candidates = [splat.with_name(f"{splat.stem}_cameras.json"), splat.with_name("cameras.json")]
    if splat.parent.name.startswith("iteration_"):
        candidates.append(splat.parent.parent.parent / "cameras.json")
    return next((path for path in candidates if path.is_file()), None)


def read_cameras_json(path: Path) -> tuple[tuple[CaptureCamera, ...], int]:
    """Read either layout: the cameras, and how many are left out as "unused".

    Raises InputError that names the entry.

    INRIA: a list of id, img_name, width, height, position, rotation (world_from_camera), fx, fy.
    Poses: {w, h, fl_x, fl_y, cx, cy, frames: [{file, w2c, split}]}; cameras of a split other than
    "train" are held out.
    """
    fields = read_json(path)
    shared: dict[str, Any] = fields if isinstance(fields, dict) else {}
    entries = shared.get("frames") if shared else fields
    if not isinstance(entries, list):
        raise InputError(f"{path}: wanted a list of cameras")
    used = [e for e in entries if not isinstance(e, dict) or e.get("split") != "unused"]
    read = _posed_entry if shared else _inria_entry
    cameras = []
    for i, entry in enumerate(used):
        try:
            cameras.append(read(entry, shared))
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise InputError(f"{path}: camera {i} cannot be read: {error}") from error
    return tuple(cameras), len(entries) - len(used)


def _inria_entry(entry: dict[str, Any], _: dict[str, Any]) -> CaptureCamera:
    rotation = np.asarray(entry["rotation"], dtype=np.float64)
    position = np.asarray(entry["position"], dtype=np.float64)
    width, height = int(entry["width"]), int(entry["height"])
    pose = np.eye(4)
    pose[:3, :3] = rotation.T
    pose[:3, 3] = -rotation.T @ position
    K = [[float(entry["fx"]), 0, width / 2], [0, float(entry["fy"]), height / 2], [0, 0, 1]]
    return CaptureCamera(str(entry["img_name"]), Camera(pose, np.array(K), width, height))


def _posed_entry(entry: dict[str, Any], shared: dict[str, Any]) -> CaptureCamera:
    K = np.array(
        [[shared["fl_x"], 0, shared["cx"]], [0, shared["fl_y"], shared["cy"]], [0, 0, 1]],
        dtype=np.float64,
    )
    pose = np.asarray(entry["w2c"], dtype=np.float64)
    camera = Camera(pose, K, int(shared["w"]), int(shared["h"]))
    return CaptureCamera(str(entry["file"]), camera, entry.get("split", "train") != "train")
