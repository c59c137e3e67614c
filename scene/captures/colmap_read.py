"""Reading COLMAP's text and binary files into a `ColmapModel`."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from scene.captures.colmap_model import (
    CAMERA_MODELS,
    PARAMETER_COUNT,
    ColmapCamera,
    ColmapImage,
    ColmapModel,
)
from scene.errors import InputError

_OBSERVATION = np.dtype([("xy", "<f8", 2), ("point", "<i8")])


def read_text_model(folder: Path) -> ColmapModel:
    """cameras.txt, images.txt and, where there is one, points3D.txt. Raises InputError."""
    try:
        cameras = _text_cameras(folder / "cameras.txt")
        images = _text_images(folder / "images.txt")
        points_file = folder / "points3D.txt"
        rows = _text_points(points_file) if points_file.is_file() else []
    except UnicodeDecodeError as error:
        raise InputError(f"{folder}: the COLMAP model holds bytes that are not text") from error
    return _model(cameras, images, rows)


def read_binary_model(folder: Path) -> ColmapModel:
    """cameras.bin, images.bin and, where there is one, points3D.bin. Raises InputError."""
    cameras = _binary_cameras(_Cursor(folder / "cameras.bin"))
    images = _binary_images(_Cursor(folder / "images.bin"))
    points_file = folder / "points3D.bin"
    rows = _binary_points(_Cursor(points_file)) if points_file.is_file() else []
    return _model(cameras, images, rows)


def _model(
    cameras: dict[int, ColmapCamera], images: list[ColmapImage], rows: list[tuple[Any, ...]]
) -> ColmapModel:
    table = np.array([row[1:7] for row in rows], dtype=np.float64).reshape(-1, 6)
    ids = np.array([row[0] for row in rows], dtype=np.int64)
    finite = np.isfinite(table).all(axis=1)
    colors = np.clip(table[finite, 3:] / 255, 0, 1).astype(np.float32)
    dropped = int((~finite).sum())
    return ColmapModel(cameras, tuple(images), ids[finite], table[finite, :3], colors, dropped)


def _camera(source: str, id: int, model: str, width: int, height: int, params: Any) -> ColmapCamera:
    wanted = PARAMETER_COUNT.get(model)
    values = tuple(float(p) for p in params)
    if wanted is not None and len(values) != wanted:
        raise InputError(f"{source}: {model} has {wanted} parameters, found {len(values)}")
    if not 0 < width < 1 << 17 or not 0 < height < 1 << 17:
        raise InputError(f"{source}: wanted a picture size, found {width}x{height}")
    return ColmapCamera(id, model, width, height, values)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines without comments; blank lines are kept, they mean "no observations"."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, 1):
                if not line.startswith("#"):
                    yield number, line.rstrip("\r\n")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error


def _text_cameras(path: Path) -> dict[int, ColmapCamera]:
    cameras = {}
    for number, line in _lines(path):
        words = line.split()
        if not words:
            continue
        source = f"{path}: line {number}"
        try:
            id, width, height = int(words[0]), int(words[2]), int(words[3])
            camera = _camera(source, id, words[1], width, height, map(float, words[4:]))
        except (IndexError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{source}: wanted CAMERA_ID MODEL WIDTH HEIGHT PARAMS") from error
        cameras[camera.id] = camera
    return cameras


def _text_images(path: Path) -> list[ColmapImage]:
    images = []
    lines = _lines(path)
    for number, line in lines:
        if not line.strip():
            continue
        words = line.split(maxsplit=9)
        points = next(lines, (number + 1, ""))[1].split()
        try:
            if len(points) % 3:
                raise ValueError("observations come in threes")
            table = np.array(points, dtype=np.float64).reshape(-1, 3)
            q, t = [float(w) for w in words[1:5]], [float(w) for w in words[5:8]]
            images.append(
                ColmapImage(
                    name=words[9].strip(),
                    quat=(q[0], q[1], q[2], q[3]),
                    translation=(t[0], t[1], t[2]),
                    camera_id=int(words[8]),
                    observations=table[:, :2],
                    point_ids=table[:, 2].astype(np.int64),
                )
            )
        except (IndexError, ValueError) as error:
            raise InputError(
                f"{path}: line {number}: wanted IMAGE_ID QW QX QY QZ TX TY TZ CAMERA_ID NAME and a "
                f"line of observations"
            ) from error
    return images


def _text_points(path: Path) -> list[tuple[Any, ...]]:
    rows = []
    for number, line in _lines(path):
        words = line.split(maxsplit=7)
        if not words:
            continue
        try:
            rows.append((int(words[0]), *(float(w) for w in words[1:7])))
            if len(rows[-1]) != 7:
                raise ValueError("too few numbers")
        except ValueError as error:
            raise InputError(f"{path}: line {number}: wanted POINT3D_ID X Y Z R G B ...") from error
    return rows


class _Cursor:
    """Bytes of a binary file, read forward; InputError where it ends too early."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.data = path.read_bytes()
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from error
        self.position = 0

    def skip(self, size: int) -> int:
        """Move `size` bytes on; the position before."""
        start = self.position
        if size < 0 or start + size > len(self.data):
            raise InputError(f"{self.path}: the file is cut off or damaged at byte {start}")
        self.position = start + size
        return start

    def unpack(self, layout: str) -> tuple[Any, ...]:
        """Little-endian values."""
        return struct.unpack_from("<" + layout, self.data, self.skip(struct.calcsize("<" + layout)))

    def name(self) -> str:
        """Zero-terminated text."""
        end = self.data.find(b"\0", self.position)
        start = self.skip(end - self.position + 1 if end >= 0 else len(self.data))
        return self.data[start:end].decode("utf-8", errors="replace")


def _binary_cameras(cursor: _Cursor) -> dict[int, ColmapCamera]:
    cameras = {}
    for _ in range(cursor.unpack("Q")[0]):
        id, model, width, height = cursor.unpack("iiQQ")
        if not 0 <= model < len(CAMERA_MODELS):
            raise InputError(f"{cursor.path}: camera {id}: unknown camera model number {model}")
        name, count = CAMERA_MODELS[model]
        source = f"{cursor.path}: camera {id}"
        cameras[id] = _camera(source, id, name, width, height, cursor.unpack(f"{count}d"))
    return cameras


def _binary_images(cursor: _Cursor) -> list[ColmapImage]:
    images = []
    for _ in range(cursor.unpack("Q")[0]):
        _, *pose, camera_id = cursor.unpack("i7di")
        name = cursor.name()
        (count,) = cursor.unpack("Q")
        start = cursor.skip(count * _OBSERVATION.itemsize)
        table = np.frombuffer(cursor.data, _OBSERVATION, count, start)
        images.append(
            ColmapImage(
                name=name,
                quat=(pose[0], pose[1], pose[2], pose[3]),
                translation=(pose[4], pose[5], pose[6]),
                camera_id=camera_id,
                observations=table["xy"].astype(np.float64),
                point_ids=table["point"].astype(np.int64),
            )
        )
    return images


def _binary_points(cursor: _Cursor) -> list[tuple[Any, ...]]:
    rows = []
    for _ in range(cursor.unpack("Q")[0]):
        id, x, y, z, r, g, b, _, track = cursor.unpack("q3d3BdQ")
        cursor.skip(track * 8)
        rows.append((id, x, y, z, r, g, b))
    return rows
