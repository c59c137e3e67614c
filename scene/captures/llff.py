"""LLFF: poses_bounds.npy and a folder of pictures in the order of their names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scene.camera import Camera
from scene.capture import Capture, Frame
from scene.captures.pictures import photo_notes, picture_size, size_factors
from scene.captures.rotation import nearest_rotation
from scene.errors import InputError
from scene.up import estimate_up

POSES_FILE = "poses_bounds.npy"
_SUFFIXES = {".jpg", ".jpeg", ".png"}
# LLFF's camera axes are down, right, back; rows are ours (right, down, forward) in them.
_OPENCV_FROM_LLFF = np.array([[0, 1, 0], [1, 0, 0], [0, 0, -1.0]])
_MAX_FRAMES = 100_000


def load_llff(path: Path) -> Capture:
    """Read poses_bounds.npy and the pictures beside it (images, else the least shrunk images_N).

    path: the folder or the file. Each row is a 3x5 matrix [world_from_camera | height width focal]
    and the nearest and farthest depth. Scale is unknown. Raises InputError.
    """
    file = path / POSES_FILE if path.is_dir() else path
    rows = _read_rows(file)
    folder = _picture_folder(file.parent)
    pictures = sorted(
        (p for p in folder.iterdir() if p.suffix.lower() in _SUFFIXES), key=lambda p: p.name
    )
    if len(pictures) != len(rows):
        raise InputError(
            f"{file}: has {len(rows)} poses for the {len(pictures)} pictures in {folder}; LLFF "
            f"pairs them by order, so that the numbers must be equal"
        )
    frames = []
    for i, (row, picture) in enumerate(zip(rows, pictures, strict=True)):
        try:
            frames.append(Frame(picture.name, _camera(row[:15].reshape(3, 5), picture), picture))
        except InputError as error:
            raise InputError(f"{file}: row {i}: {error}") from error
    cameras = [frame.camera for frame in frames]
    return Capture(
        frames=tuple(frames),
        up=estimate_up(cameras),
        up_source=f"estimated from {len(cameras)} cameras",
        format="LLFF",
        notes=("LLFF gives no lens distortion and no points", *photo_notes(frames)),
    )


def _read_rows(file: Path) -> NDArray[np.float64]:
    """(N, 17); mapped, not loaded, so that a header cannot ask for memory."""
    try:
        table = np.load(file, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError as error:
        raise InputError(f"{file}: no such file") from error
    except (OSError, ValueError, EOFError, SyntaxError, TypeError, OverflowError) as error:
        message = (str(error).splitlines() or ["damaged"])[0][:120]
        raise InputError(f"{file}: wanted a table of numbers in .npy ({message})") from error
    if not isinstance(table, np.ndarray) or table.dtype.kind not in "fiu":
        raise InputError(f"{file}: wanted a table of numbers")
    if table.ndim != 2 or table.shape[1] != 17 or not 0 < table.shape[0] <= _MAX_FRAMES:
        raise InputError(f"{file}: wanted N rows of 17 numbers, found the shape {table.shape}")
    rows = np.asarray(table, dtype=np.float64)
    if not np.isfinite(rows).all():
        raise InputError(f"{file}: row {int(np.argmin(np.isfinite(rows).all(axis=1)))} holds NaN "
                         f"or infinity")  # fmt: skip
    return rows


def _picture_folder(root: Path) -> Path:
    shrunk = sorted(
        (int(p.name.removeprefix("images_")), p)
        for p in root.glob("images_*")
        if p.is_dir() and p.name.removeprefix("images_").isdecimal()
    )
    for folder in (root / "images", *(p for _, p in shrunk)):
        if folder.is_dir() and any(p.suffix.lower() in _SUFFIXES for p in folder.iterdir()):
            return folder
    raise InputError(f"{root}: has {POSES_FILE} but no pictures in images or images_N")


def _camera(matrix: NDArray[np.float64], picture: Path) -> Camera:
    height, width, focal = matrix[:, 4].tolist()
    if min(height, width) < 1 or focal <= 0:
        raise InputError(f"wanted height, width and focal length > 0, found {height:g}, {width:g}, "
                         f"{focal:g}")  # fmt: skip
    rotation = nearest_rotation(matrix[:, :3])
    if rotation is None:
        raise InputError("wanted a rotation in its first three columns, found another matrix")
    found = picture_size(picture, (width, height))
    x, y = size_factors(picture, (width, height), found)
    K = np.array([[focal * x, 0, found[0] / 2], [0, focal * y, found[1] / 2], [0, 0, 1]])
    pose = np.eye(4)
    # the file's columns are the axes: world_from_camera in LLFF's axes
    pose[:3, :3] = _OPENCV_FROM_LLFF @ rotation.T
    pose[:3, 3] = -pose[:3, :3] @ matrix[:, 3]
    return Camera(pose, K, *found)
