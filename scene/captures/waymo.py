"""Waymo segments as captures: camera and vehicle axes to ours, boxes to the world, metres."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scene.camera import Camera
from scene.capture import Capture, Frame, FrameBox, LabelledBox, changed_frame
from scene.captures.lens import Lens
from scene.captures.pictures import photo_notes
from scene.captures.waymo_data import (
    CAMERA_NAMES,
    LABEL_NAMES,
    WaymoBox2D,
    WaymoBox3D,
    WaymoCalibration,
    WaymoPicture,
    WaymoSegment,
)
from scene.captures.waymo_frames import read_frames
from scene.captures.waymo_parquet import read_parquet_segment
from scene.errors import InputError
from scene.normalisation import Normalisation
from scene.scene import TargetBox

# Waymo's camera axes (x into the picture, y left, z up) to ours.
_OPENCV_FROM_WAYMO = np.array([[0, -1, 0, 0], [0, 0, -1, 0], [1, 0, 0, 0], [0, 0, 0, 1.0]])


def load_waymo_frames(path: Path) -> Capture:
    """Read a segment of the first release (.tfrecord). Raises InputError."""
    return waymo_capture(read_frames(path), path)


def load_waymo_parquet(path: Path, segment: str | None = None) -> Capture:
    """Read a segment of the second release (Parquet); see `read_parquet_segment`."""
    return waymo_capture(read_parquet_segment(path, segment), path)


def waymo_capture(segment: WaymoSegment, path: Path) -> Capture:
    """A segment's pictures, cameras and boxes in one world; +z is up, the unit is the metre.

    The world is the data's own, moved by whole metres so that the drive starts near the origin:
    Gaussians are single precision, and the data's coordinates reach tens of kilometres.
    Each picture is taken as a whole at its own pose. Raises InputError.
    """
    if not segment.pictures:
        listed = f", {segment.empty.total()} are listed without bytes" if segment.empty else ""
        raise InputError(f"{path}: the Waymo segment {segment.name} has no pictures{listed}")
    times = {time: i for i, time in enumerate(sorted({p.time_us for p in segment.pictures}))}
    order = sorted(segment.pictures, key=lambda p: (p.time_us, p.camera))
    frames = tuple(_frame(segment, picture, times, path) for picture in order)
    boxes = tuple(b for box in segment.boxes if (b := _world_box(segment, box)) is not None)
    capture = Capture(
        frames=frames,
        up=(0.0, 0.0, 1.0),
        up_source="the Waymo world's z axis",
        metres_per_unit=1.0,
        format="Waymo",
        boxes=boxes,
        notes=(*segment.notes, *_notes(frames, segment, len(boxes))),
    )
    start = min(segment.vehicle_poses) if segment.vehicle_poses else None
    origin = frames[0].camera.center if start is None else segment.vehicle_poses[start][:3, 3]
    offset = np.round(origin)
    shift = Normalisation(np.column_stack([np.eye(3), -offset]))
    x, y, z = offset.tolist()
    note = f"the world's origin is at ({x:.0f}, {y:.0f}, {z:.0f}) m of the data's own"
    moved = changed_frame(capture, shift)
    return replace(moved, from_data=shift, notes=(*capture.notes, note))


def waymo_camera(
    calibration: WaymoCalibration, world_from_vehicle: NDArray[np.float64]
) -> tuple[Camera, Lens | None]:
    """The pinhole camera of the undistorted picture, and the lens; None without distortion."""
    fx, fy, cx, cy, *coefficients = calibration.intrinsics
    size = calibration.width, calibration.height
    lens = Lens("opencv", fx, fy, cx, cy, *size, tuple(coefficients)) if any(coefficients) else None
    K = np.array([[fx, 0, cx], [0, fy, cy], [0, 0, 1]])
    world_from_camera = world_from_vehicle @ calibration.vehicle_from_camera
    pose = _OPENCV_FROM_WAYMO @ np.linalg.inv(world_from_camera)
    return Camera(pose, lens.pinhole_K() if lens else K, *size), lens


def _camera_name(number: int) -> str:
    return CAMERA_NAMES.get(number, f"camera {number}")


def _frame(
    segment: WaymoSegment, picture: WaymoPicture, times: dict[int, int], path: Path
) -> Frame:
    name = _camera_name(picture.camera)
    source = f"{path}: {name} at {picture.time_us}"
    calibration = segment.calibrations.get(picture.camera)
    if calibration is None:
        raise InputError(f"{source}: the segment has no calibration of this camera")
    pose = picture.world_from_vehicle
    if pose is None:
        pose = segment.vehicle_poses.get(picture.time_us)
    if pose is None:
        raise InputError(f"{source}: neither the picture nor its frame has a pose")
    try:
        camera, lens = waymo_camera(calibration, pose)
    except InputError as error:
        raise InputError(f"{source}: {error}") from error
    marked = [box for box in picture.boxes if _is_box(box.center, box.size)]
    shown = [box for mark in marked if (box := _frame_box(mark, camera, lens)) is not None]
    return Frame(
        f"{times[picture.time_us]:03d}_{name}",
        camera,
        lens=lens,
        encoded=picture.encoded,
        boxes=tuple(shown),
    )


def _is_box(center: tuple[float, ...], size: tuple[float, ...]) -> bool:
    return bool(np.isfinite([*center, *size]).all() and min(size) > 0)


def _frame_box(box: WaymoBox2D, camera: Camera, lens: Lens | None) -> FrameBox | None:
    """The box in the undistorted picture; None where all of it is beyond that picture's edges."""
    (x, y), (w, h) = box.center, box.size
    xyxy = (x - w / 2, y - h / 2, x + w / 2, y + h / 2)
    x0, y0, x1, y1 = lens.undistort_box(xyxy) if lens else xyxy
    x0, x1 = max(x0, 0.0), min(x1, float(camera.width))
    y0, y1 = max(y0, 0.0), min(y1, float(camera.height))
    if x0 >= x1 or y0 >= y1:
        return None
    return FrameBox(LABEL_NAMES.get(box.kind, "object"), (x0, y0, x1, y1), box.track)


def _world_box(segment: WaymoSegment, box: WaymoBox3D) -> LabelledBox | None:
    """The box in the world; None where it is no box or its moment has no pose."""
    pose = segment.vehicle_poses.get(box.time_us)
    if pose is None or not _is_box((*box.center, box.heading), box.size):
        return None
    c, s = np.cos(box.heading), np.sin(box.heading)
    axes = np.array([[c, s, 0], [-s, c, 0], [0, 0, 1.0]])
    target = TargetBox(
        pose[:3, :3] @ box.center + pose[:3, 3],
        axes @ pose[:3, :3].T,
        np.array(box.size) / 2,
        LABEL_NAMES.get(box.kind, "object"),
    )
    return LabelledBox(target, box.track, box.time_us / 1e6)


def _notes(frames: tuple[Frame, ...], segment: WaymoSegment, placed: int) -> list[str]:
    notes = []
    if segment.empty:
        cameras = ", ".join(f"{_camera_name(c)} {n}" for c, n in sorted(segment.empty.items()))
        notes.append(f"{segment.empty.total()} pictures are listed without bytes and left out "
                     f"({cameras})")  # fmt: skip
    shown = sum(len(frame.boxes) for frame in frames)
    marked = segment.boxes_apart + sum(len(picture.boxes) for picture in segment.pictures)
    if shown < marked:
        notes.append(
            f"{marked - shown} of {marked} boxes in pictures are left out: without extent, beyond "
            f"the edges of the undistorted picture, or of a picture that is not there"
        )
    if segment.vehicle_poses and placed < len(segment.boxes):
        notes.append(
            f"{len(segment.boxes) - placed} of {len(segment.boxes)} 3D boxes are left out: without "
            f"extent, or the vehicle's pose at their moment is not there"
        )
    notes += photo_notes(frames)
    moved = max(picture.moved_m for picture in segment.pictures)
    notes.append(
        "rolling shutter: each picture is taken as a whole at its own pose"
        + (f"; the car moved up to {moved:.2f} m while one was read out" if moved else "")
    )
    return notes
