"""Waymo Open Dataset, second release: a folder of Parquet files per component.

`<component>/<segment>.parquet`; read are camera_image, camera_calibration, vehicle_pose,
camera_box and lidar_box, of which the first two must be there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from scene.captures.waymo_data import (
    CAMERA_NAMES,
    WaymoBox2D,
    WaymoBox3D,
    WaymoPicture,
    WaymoSegment,
    calibration,
    pose_matrix,
)
from scene.errors import InputError

_NEEDED = ("camera_image", "camera_calibration")
_KNOWN = (*_NEEDED, "vehicle_pose", "camera_box", "lidar_box", "camera_hkp", "lidar")
_MAX_ROWS = 2_000_000
_MAX_GROUP_BYTES = 4 << 30
_BATCH_ROWS = 1024
_CAMERA_NUMBERS = {name: number for number, name in CAMERA_NAMES.items()}
_TIME = "key.frame_timestamp_micros"
_CAMERA = "key.camera_name"


def parquet_root(path: Path) -> Path | None:
    """The folder of component folders that `path` is, lies in, or is a file of; None if none."""
    folder = path.parent if path.suffix == ".parquet" else path
    if folder.name in _KNOWN:
        folder = folder.parent
    if any(next((folder / name).glob("*.parquet"), None) for name in _KNOWN):
        return folder
    return None


def read_parquet_segment(path: Path, segment: str | None = None) -> WaymoSegment:
    """One segment; `path` is the root folder, a component's folder or one of its files.

    segment: its name, needed when the folder holds several and `path` is not one's file.
    Pictures stay in their file until they are asked for. Raises InputError.
    """
    root = parquet_root(path)
    if root is None:
        raise InputError(f"{path}: no Waymo Parquet files found")
    files = _files(root, path.stem if path.suffix == ".parquet" else segment)
    name = files["camera_image"].stem
    drive = WaymoSegment(name)
    _read_calibrations(files["camera_calibration"], drive)
    if "vehicle_pose" in files:
        column = "[VehiclePoseComponent].world_from_vehicle.transform"
        for row in _rows(files["vehicle_pose"], (_TIME, column)):
            drive.vehicle_poses[_time(row, files["vehicle_pose"])] = pose_matrix(
                row[column] or (), f"{files['vehicle_pose']}: {column}"
            )
    seen = _camera_boxes(files["camera_box"]) if "camera_box" in files else {}
    _read_pictures(files["camera_image"], drive, seen)
    if "lidar_box" in files:
        _read_lidar_boxes(files["lidar_box"], drive)
        if not drive.vehicle_poses:
            drive.notes.append("3D boxes are not used: vehicle_pose is not there to place them")
    absent = [part for part in ("vehicle_pose", "camera_box", "lidar_box") if part not in files]
    if absent:
        drive.notes.append(f"this segment comes without {', '.join(absent)}")
    return drive


def _files(root: Path, segment: str | None) -> dict[str, Path]:
    """The files of one segment by component."""
    found = {name: sorted(file.stem for file in (root / name).glob("*.parquet"))
             for name in _KNOWN if (root / name).is_dir()}  # fmt: skip
    missing = [name for name in _NEEDED if not found.get(name)]
    if missing:
        raise InputError(
            f"{root}: a Waymo capture needs camera_image and camera_calibration; missing "
            f"{', '.join(missing)}, found {', '.join(n for n, f in found.items() if f) or 'none'}"
        )
    names = found["camera_image"]
    if segment is None:
        if len(names) > 1:
            raise InputError(
                f"{root}: holds {len(names)} segments; open one's file in camera_image or name it "
                f"({', '.join(names[:3])}, ...)"
            )
        segment = names[0]
    files = {name: root / name / f"{segment}.parquet" for name, stems in found.items()
             if segment in stems}  # fmt: skip
    lacking = [name for name in _NEEDED if name not in files]
    if lacking:
        raise InputError(f"{root}: segment {segment!r:.80} has no file in {', '.join(lacking)}")
    return files


def _read_calibrations(path: Path, drive: WaymoSegment) -> None:
    part = "[CameraCalibrationComponent]."
    numbers = [f"{part}intrinsic.{n}" for n in "f_u f_v c_u c_v k1 k2 p1 p2 k3".split()]
    pose, width, height = f"{part}extrinsic.transform", f"{part}width", f"{part}height"
    for row in _rows(path, (_CAMERA, *numbers, pose, width, height)):
        camera = _camera_number(row[_CAMERA], path)
        drive.calibrations[camera] = calibration(
            [_finite(row[n]) for n in numbers],
            row[pose] or (),
            (_whole(row[width]), _whole(row[height])),
            f"{path}: camera {row[_CAMERA]}",
        )


def _read_pictures(
    path: Path, drive: WaymoSegment, seen: dict[tuple[int, int], list[WaymoBox2D]]
) -> None:
    part = "[CameraImageComponent]."
    pose = f"{part}pose.transform"
    speed = [f"{part}velocity.linear_velocity.{axis}" for axis in "xyz"]
    shutter = [f"{part}rolling_shutter_params.camera_{n}_time" for n in ("trigger", "readout_done")]
    empty = _empty_cells(path, f"{part}image")
    for i, row in enumerate(_rows(path, (_TIME, _CAMERA), (pose, *speed, *shutter))):
        camera, time_us = _camera_number(row[_CAMERA], path), _time(row, path)
        if i in empty:
            drive.empty[camera] += 1
            continue
        velocity = np.array([_finite(row.get(n)) for n in speed])
        seconds = _finite(row.get(shutter[1])) - _finite(row.get(shutter[0]))
        moved = float(np.linalg.norm(velocity)) * seconds if 0 < seconds < 1 else 0.0
        stated = row.get(pose)
        drive.pictures.append(
            WaymoPicture(
                camera,
                time_us,
                ParquetCell(path, f"{part}image", i),
                pose_matrix(stated, f"{path}: {pose}") if stated else None,
                moved if np.isfinite(moved) else 0.0,
                tuple(seen.pop((time_us, camera), ())),
            )
        )
    drive.boxes_apart = sum(map(len, seen.values()))


def _camera_boxes(path: Path) -> dict[tuple[int, int], list[WaymoBox2D]]:
    part = "[CameraBoxComponent]."
    sides = [f"{part}box.{of}.{axis}" for of in ("center", "size") for axis in "xy"]
    kind, track = f"{part}type", "key.camera_object_id"
    found: dict[tuple[int, int], list[WaymoBox2D]] = {}
    for row in _rows(path, (_TIME, _CAMERA, *sides, kind), (track,)):
        x, y, w, h = (_finite(row[n]) for n in sides)
        key = _time(row, path), _camera_number(row[_CAMERA], path)
        box = WaymoBox2D(_whole(row[kind]), (x, y), (w, h), str(row.get(track) or ""))
        found.setdefault(key, []).append(box)
    return found


def _read_lidar_boxes(path: Path, drive: WaymoSegment) -> None:
    part = "[LiDARBoxComponent]."
    center = [f"{part}box.center.{axis}" for axis in "xyz"]
    size = [f"{part}box.size.{axis}" for axis in "xyz"]
    heading, kind, track = f"{part}box.heading", f"{part}type", "key.laser_object_id"
    for row in _rows(path, (_TIME, *center, *size, heading, kind), (track,)):
        x, y, z = (_finite(row[n]) for n in center)
        length, width, height = (_finite(row[n]) for n in size)
        drive.boxes.append(
            WaymoBox3D(
                _whole(row[kind]), (x, y, z), (length, width, height), _finite(row[heading]),
                str(row.get(track) or ""), _time(row, path),
            )
        )  # fmt: skip


def _camera_number(value: Any, path: Path) -> int:
    """Files hold the number of the release, or its name."""
    if isinstance(value, str):
        value = _CAMERA_NUMBERS.get(value.removeprefix("CameraName."), value)
    if not isinstance(value, int):
        raise InputError(f"{path}: {_CAMERA}: wanted a camera's number or name, found "
                         f"{value!r:.40}")  # fmt: skip
    return value


def _time(row: dict[str, Any], path: Path) -> int:
    """The row's moment, by which poses, pictures and boxes are joined."""
    value = row[_TIME]
    if not isinstance(value, int):
        raise InputError(f"{path}: {_TIME}: wanted whole microseconds, found {value!r:.40}")
    return value


def _finite(value: Any) -> float:
    """A number; NaN for a cell that is empty or holds something else."""
    return float(value) if isinstance(value, int | float) else float("nan")


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _rows(
    path: Path, wanted: tuple[str, ...], optional: tuple[str, ...] = ()
) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file as {column: value}. Raises InputError."""
    file = _open(path)
    import pyarrow as pa

    present = set(file.schema_arrow.names)
    if missing := [name for name in wanted if name not in present]:
        raise InputError(f"{path}: has no column {missing[0]!r}")
    if file.metadata.num_rows > _MAX_ROWS:
        raise InputError(f"{path}: says it has {file.metadata.num_rows} rows; too many to be true")
    columns = [*wanted, *(name for name in optional if name in present)]
    try:
        for batch in file.iter_batches(_BATCH_ROWS, columns=columns):
            yield from batch.to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({_first_line(error)})") from error


def _open(path: Path) -> Any:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise InputError(
            "reading Waymo's Parquet files needs pyarrow: pip install 'advscene-inspector[waymo]'"
        ) from error
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(
            f"{path}: wanted a Parquet file, found a damaged one ({_first_line(error)})"
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:160]


@dataclass(frozen=True)
class ParquetCell:
    """The bytes of one cell of a Parquet file, read when called. Raises InputError."""

    path: Path
    column: str
    row: int

    def __call__(self) -> bytes:
        """The bytes."""
        group, first = _group_of(self.path, self.row)
        value = _group_column(self.path, self.column, group)[self.row - first].as_py()
        if not isinstance(value, bytes):
            raise InputError(f"{self.path}: {self.column}: row {self.row} holds no picture")
        return value


def _empty_cells(path: Path, column: str) -> set[int]:
    """Rows of a column that hold nothing; read only where the file's statistics count some."""
    file = _open(path)
    if column not in file.schema_arrow.names:
        raise InputError(f"{path}: has no column {column!r}")
    found: set[int] = set()
    first = 0
    for group in range(file.metadata.num_row_groups):
        facts = file.metadata.row_group(group)
        chunks = (facts.column(i) for i in range(facts.num_columns))
        counted = [c.statistics for c in chunks if c.path_in_schema == column and c.statistics]
        if any(c.has_null_count and c.null_count for c in counted):
            cells = _group_column(path, column, group)
            found |= {first + i for i, cell in enumerate(cells.is_null().to_pylist()) if cell}
        first += facts.num_rows
    return found


def _group_of(path: Path, row: int) -> tuple[int, int]:
    """The row group that holds a row, and its first row."""
    metadata = _open(path).metadata
    first = 0
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group).num_rows
        if row < first + rows:
            return group, first
        first += rows
    raise InputError(f"{path}: has no row {row}")


@lru_cache(maxsize=1)
def _group_column(path: Path, column: str, group: int) -> Any:
    """One column of one row group; kept, since pictures are read one after the other."""
    import pyarrow as pa

    file = _open(path)
    if column not in file.schema_arrow.names:
        raise InputError(f"{path}: has no column {column!r}")
    if file.metadata.row_group(group).total_byte_size > _MAX_GROUP_BYTES:
        raise InputError(f"{path}: a row group holds more than {_MAX_GROUP_BYTES >> 30} GB")
    try:
        return file.read_row_group(group, columns=[column]).column(0)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({_first_line(error)})") from error
