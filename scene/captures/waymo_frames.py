"""Waymo Open Dataset, first release: TFRecord files of protobuf Frames."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from scene.captures.pictures import FileSlice
from scene.captures.tfrecord import read_records
from scene.captures.waymo_data import (
    NO_EXTENT,
    WaymoBox2D,
    WaymoBox3D,
    WaymoPicture,
    WaymoSegment,
    calibration,
    pose_matrix,
)
from scene.captures.wire import Message
from scene.errors import InputError

_MAX_LABELS = 20_000


def read_frames(path: Path) -> WaymoSegment:
    """All frames of a segment's TFRecord file. Raises InputError.

    Pictures stay in the file until they are asked for; laser data is skipped.
    """
    segment = WaymoSegment(path.stem)
    for number, (offset, data) in enumerate(read_records(path)):
        frame = Message.whole(data, f"{path}: frame {number}")
        context = frame.message(1)
        if context is None or frame.message(3) is None:
            raise InputError(f"{frame.source}: is not a Waymo Frame: it has no context or no pose")
        if not segment.calibrations:
            segment.name = context.text(1) or segment.name
            _read_calibrations(context, segment)
        _read_frame(frame, path, offset, segment)
    if not segment.vehicle_poses:
        raise InputError(f"{path}: holds no frame")
    return segment


def _read_calibrations(context: Message, segment: WaymoSegment) -> None:
    for camera in context.messages(2):
        name = camera.number(1)
        source = f"{camera.source}: camera calibration {name}"
        size = camera.number(4), camera.number(5)
        segment.calibrations[name] = calibration(
            camera.doubles(2), _transform(camera, 3), size, source
        )


def _transform(message: Message, number: int) -> list[float]:
    found = message.message(number)
    return found.doubles(1) if found else []


def _read_frame(frame: Message, path: Path, offset: int, segment: WaymoSegment) -> None:
    time_us = frame.number(2)
    segment.vehicle_poses[time_us] = pose_matrix(_transform(frame, 3), f"{frame.source}: pose")
    seen = _camera_boxes(frame)
    for image in frame.messages(4):
        camera = image.number(1)
        jpeg = image.message(2)
        if jpeg is None or jpeg.start == jpeg.end:
            segment.empty[camera] += 1
            continue
        own = _transform(image, 3)
        segment.pictures.append(
            WaymoPicture(
                camera,
                time_us,
                FileSlice(path, offset + jpeg.start, jpeg.end - jpeg.start),
                pose_matrix(own, f"{image.source}: pose") if own else None,
                _moved(image),
                seen.pop(camera, ()),
            )
        )
    segment.boxes_apart += sum(map(len, seen.values()))
    labels = frame.messages(6)
    if len(labels) > _MAX_LABELS:
        raise InputError(f"{frame.source}: holds {len(labels)} laser labels, too many to be true")
    segment.boxes += [_box_3d(label, time_us) for label in labels]


def _moved(image: Message) -> float:
    """Metres between the first and the last row: speed times readout."""
    velocity = image.message(4)
    seconds = image.double(8) - image.double(7)
    if velocity is None or not 0 < seconds < 1:
        return 0.0
    speed = float(np.linalg.norm([sum(velocity.floats(n)[-1:]) for n in (1, 2, 3)]))
    return speed * seconds if np.isfinite(speed) else 0.0


def _camera_boxes(frame: Message) -> dict[int, tuple[WaymoBox2D, ...]]:
    """What people marked in the pictures, by camera."""
    found: dict[int, tuple[WaymoBox2D, ...]] = {}
    for camera in frame.messages(8):
        boxes = []
        for label in camera.messages(2):
            box = label.message(1)
            x, y, size_x, size_y = _numbers(box, (1, 2, 5, 4))
            boxes.append(WaymoBox2D(label.number(3), (x, y), (size_x, size_y), label.text(4)))
        name = camera.number(1)
        found[name] = (*found.get(name, ()), *boxes)
    return found


def _numbers(box: Message | None, fields: Iterable[int]) -> list[float]:
    """A box's doubles; of a label without a box no extent."""
    return [box.double(n) if box else NO_EXTENT for n in fields]


def _box_3d(label: Message, time_us: int) -> WaymoBox3D:
    x, y, z, width, length, height, heading = _numbers(label.message(1), range(1, 8))
    return WaymoBox3D(
        label.number(3), (x, y, z), (length, width, height), heading, label.text(4), time_us
    )
