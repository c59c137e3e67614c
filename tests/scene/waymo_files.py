"""A Waymo segment of our own in both releases' formats: made cameras, known pixels."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from scene.captures.crc32c import masked_crc32c

WIDTH, HEIGHT = 80, 60
INTRINSICS = [100.0, 120.0, 41.0, 28.0, 0.0, 0.0, 0.0, 0.0, 0.0]
TIME = 1_500_000_000_000_000
# The vehicle stands at (1000, 2000, 50) and is turned 90 degrees to the left: its x is world y.
POSE = [0, -1, 0, 1000, 1, 0, 0, 2000, 0, 0, 1, 50, 0, 0, 0, 1]
# When the picture was taken it had moved on by half a metre along its x.
PICTURE_POSE = [0, -1, 0, 1000, 1, 0, 0, 2000.5, 0, 0, 1, 50, 0, 0, 0, 1]
# A camera 2 m above the vehicle's origin that looks forward.
FORWARD = [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 0, 0, 0, 1]
# One that looks to the left: its x (into the picture) is the vehicle's y, its y (left) is -x.
LEFT = [0, -1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 1]
# In the vehicle's frame: 10 ahead, 2 to the left, 1 up; 4 long, 2 wide, 1 high; turned 30 degrees.
BOX = {"center": (10.0, 2.0, 1.0), "size": (4.0, 2.0, 1.0), "heading": np.pi / 6}


def jpeg(red: int = 200) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (WIDTH, HEIGHT), (red, 10, 20)).save(file, "JPEG", quality=95)
    return file.getvalue()


def varint(value: int) -> bytes:
    out = b""
    value &= (1 << 64) - 1
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number: int, value: Any) -> bytes:
    """An int as varint, a float as double, bytes as they are, text; a list repeats."""
    match value:
        case bool() | int():
            return varint(number << 3) + varint(value)
        case float():
            return varint(number << 3 | 1) + struct.pack("<d", value)
        case str():
            return field(number, value.encode())
        case bytes():
            return varint(number << 3 | 2) + varint(len(value)) + value
        case list():
            return b"".join(field(number, item) for item in value)
    raise TypeError(value)


def message(**fields: Any) -> bytes:
    """Fields by number: message(_1=..., _2=...)."""
    return b"".join(field(int(name[1:]), value) for name, value in fields.items())


def transform(values: list[float]) -> bytes:
    return message(_1=[float(v) for v in values])


def packed_transform(values: list[float]) -> bytes:
    return message(_1=struct.pack("<16d", *values))


def calibration(name: int, extrinsic: list[float], intrinsics: list[float] = INTRINSICS) -> bytes:
    return message(
        _1=name, _2=intrinsics, _3=transform(extrinsic), _4=WIDTH, _5=HEIGHT, _6=1, _99="unknown"
    )


def velocity(x: float) -> bytes:
    return varint(1 << 3 | 5) + struct.pack("<f", x)


def image(
    name: int, pose: list[float] | None = PICTURE_POSE, picture: bytes | None = None
) -> bytes:
    fields: dict[str, Any] = {"_1": name, "_2": jpeg() if picture is None else picture}
    if pose is not None:
        fields["_3"] = packed_transform(pose)
    return message(**fields, _4=velocity(8.0), _7=5.0, _8=5.05)


def laser_label(kind: int = 3, track: str = "sign-1", **box: Any) -> bytes:
    box = {**BOX, **box}
    (x, y, z), (length, width, height) = box["center"], box["size"]
    return message(_1=message(_1=x, _2=y, _3=z, _4=width, _5=length, _6=height,
                              _7=float(box["heading"])), _3=kind, _4=track)  # fmt: skip


def camera_labels(name: int) -> bytes:
    # centre (30, 20), 10 along x, 6 along y
    label = message(_1=message(_1=30.0, _2=20.0, _4=6.0, _5=10.0), _3=2, _4="walker")
    return message(_1=name, _2=label)


def frame(time: int = TIME, images: list[bytes] | None = None, labels: list[bytes] | None = None,
          calibrations: list[bytes] | None = None) -> bytes:  # fmt: skip
    context = message(
        _1="segment-x", _2=calibrations or [calibration(1, FORWARD), calibration(4, LEFT)]
    )
    return message(
        _1=context, _2=time, _3=transform(POSE), _5=[b"laser" * 9],
        _4=[image(4, None), image(1)] if images is None else images,
        _6=[laser_label()] if labels is None else labels, _8=[camera_labels(1)],
    )  # fmt: skip


def record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return (length + struct.pack("<I", masked_crc32c(length)) + data
            + struct.pack("<I", masked_crc32c(data)))  # fmt: skip


def write_tfrecord(path: Path, *frames: bytes) -> Path:
    path.write_bytes(b"".join(record(f) for f in frames))
    return path


def write_parquet(root: Path, name: str = "segment-x", words: bool = False, single: bool = False,
                  without: tuple[str, ...] = ()) -> Path:  # fmt: skip
    """words: camera_name as text, as the test data of the release; single: float32 transforms."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = pa.float32() if single else pa.float64()
    camera = (lambda n: {1: "FRONT", 4: "SIDE_LEFT"}[n]) if words else (lambda n: n)
    kind = pa.string() if words else pa.int8()
    matrix = pa.list_(number, 16)
    key = {"key.segment_context_name": [name] * 2}
    time = {"key.frame_timestamp_micros": [TIME] * 2}
    names = {"key.camera_name": pa.array([camera(4), camera(1)], kind)}
    c, i, b, lidar = (
        f"[{n}Component]." for n in ("CameraCalibration", "CameraImage", "CameraBox", "LiDARBox")
    )
    intrinsics = {f"{c}intrinsic.{n}": pa.array([v, v], pa.float64())
                  for n, v in zip("f_u f_v c_u c_v k1 k2 p1 p2 k3".split(), INTRINSICS, strict=True)}  # fmt: skip
    tables = {
        "camera_calibration": {**key, **names, **intrinsics,
            f"{c}extrinsic.transform": pa.array([LEFT, FORWARD], matrix),
            f"{c}width": [WIDTH] * 2, f"{c}height": [HEIGHT] * 2},
        "camera_image": {**key, **time, **names, f"{i}image": [jpeg(50), jpeg(200)],
            f"{i}pose.transform": pa.array([POSE, PICTURE_POSE], matrix),
            f"{i}velocity.linear_velocity.x": pa.array([8, 8], pa.float32()),
            f"{i}velocity.linear_velocity.y": pa.array([0, 0], pa.float32()),
            f"{i}velocity.linear_velocity.z": pa.array([0, 0], pa.float32()),
            f"{i}rolling_shutter_params.camera_trigger_time": [5.0] * 2,
            f"{i}rolling_shutter_params.camera_readout_done_time": [5.05] * 2},
        "vehicle_pose": {"key.segment_context_name": [name], "key.frame_timestamp_micros": [TIME],
            "[VehiclePoseComponent].world_from_vehicle.transform": pa.array([POSE], matrix)},
        "camera_box": {"key.frame_timestamp_micros": [TIME],
            "key.camera_name": pa.array([camera(1)], kind), "key.camera_object_id": ["walker"],
            f"{b}box.center.x": [30.0], f"{b}box.center.y": [20.0], f"{b}box.size.x": [10.0],
            f"{b}box.size.y": [6.0], f"{b}type": pa.array([2], pa.int8())},
        "lidar_box": {"key.frame_timestamp_micros": [TIME], "key.laser_object_id": ["sign-1"],
            **{f"{lidar}box.center.{a}": [v] for a, v in zip("xyz", BOX["center"], strict=True)},
            **{f"{lidar}box.size.{a}": [v] for a, v in zip("xyz", BOX["size"], strict=True)},
            f"{lidar}box.heading": [BOX["heading"]], f"{lidar}type": pa.array([3], pa.int8())},
    }  # fmt: skip
    for component, columns in tables.items():
        if component not in without:
            (root / component).mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table(columns), root / component / f"{name}.parquet")
    return root
