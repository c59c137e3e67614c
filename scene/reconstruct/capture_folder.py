"""A capture of any format as the folder that nerfstudio reads: pinhole pictures, poses, points."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scene.camera import Camera
from scene.capture import Capture, Frame
from scene.io.atomic import atomic_write
from scene.reconstruct.photos import trusted

_GL_FROM_CV = np.diag([1.0, -1.0, -1.0, 1.0])


def write_capture_folder(
    capture: Capture,
    folder: Path,
    long_side: int,
    points: NDArray[np.float64],
    colors: NDArray[np.float32],
    masks: bool = True,
) -> Path:
    """Write transforms.json, images/, masks/ and points.ply in the capture's own world frame.

    Lenses are taken out, photos shrunk to `long_side`. points: (P, 3). colors: (P, 3) sRGB.
    Returns the path of transforms.json.
    """
    frames: list[dict[str, Any]] = []
    training: list[str] = []
    held_out: list[str] = []
    for i, frame in enumerate(capture.frames):
        name = f"images/{i:05d}.png"
        frames.append(_frame(frame, name, folder, long_side, masks))
        (held_out if frame.held_out else training).append(name)
    _write_points(folder / "points.ply", points, colors)
    # nerfstudio wants all three lists, none empty
    judged = held_out or training[:1]
    content = {
        "camera_model": "OPENCV",
        "ply_file_path": "points.ply",
        "train_filenames": training,
        "val_filenames": judged,
        "test_filenames": judged,
        "frames": frames,
    }
    path = folder / "transforms.json"
    with atomic_write(path) as file:
        file.write((json.dumps(content, indent=1) + "\n").encode())
    return path


def _frame(frame: Frame, name: str, folder: Path, long_side: int, masks: bool) -> dict[str, Any]:
    camera = frame.camera
    if max(camera.width, camera.height) > long_side:
        camera = camera.fitted(long_side)
    size = (camera.width, camera.height)
    image, alpha = frame.load_layers(size)
    if alpha is not None:
        # nerfstudio lays it over its own backgrounds
        straight = image / np.maximum(alpha[..., None], 1e-6)
        image = np.concatenate([np.clip(straight, 0, 1), alpha[..., None]], axis=2)
    _write_picture(folder / name, image)
    fields = {"file_path": name, **_pinhole(camera)}
    weight = trusted(frame, size) if masks else None
    if weight is not None:
        fields["mask_path"] = name.replace("images/", "masks/")
        _write_picture(folder / fields["mask_path"], np.where(weight > 0.5, 1.0, 0.0))
    return fields


def _pinhole(camera: Camera) -> dict[str, Any]:
    return {
        "w": camera.width,
        "h": camera.height,
        "fl_x": float(camera.K[0, 0]),
        "fl_y": float(camera.K[1, 1]),
        "cx": float(camera.K[0, 2]),
        "cy": float(camera.K[1, 2]),
        "transform_matrix": (camera.world_from_camera @ _GL_FROM_CV).tolist(),
    }


def _write_picture(path: Path, picture: NDArray[Any]) -> None:
    from PIL import Image

    with atomic_write(path) as file:
        Image.fromarray(np.round(picture * 255).astype(np.uint8)).save(file, format="PNG")


def _write_points(path: Path, points: NDArray[np.float64], colors: NDArray[np.float32]) -> None:
    """A binary point cloud: x y z red green blue."""
    kinds = {"<f4": "float", "u1": "uchar"}
    layout = [*((axis, "<f4") for axis in "xyz"), *((c, "u1") for c in ("red", "green", "blue"))]
    rows = np.empty(len(points), layout)
    for i, (name, kind) in enumerate(layout):
        column = points[:, i] if kind == "<f4" else np.round(colors[:, i - 3] * 255)
        rows[name] = column
    properties = "".join(f"property {kinds[kind]} {name}\n" for name, kind in layout)
    header = f"ply\nformat binary_little_endian 1.0\nelement vertex {len(points)}\n{properties}"
    with atomic_write(path) as file:
        file.write(f"{header}end_header\n".encode() + rows.tobytes())
