"""What a Waymo segment holds, as plain values, from either release of the dataset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from scene.captures.rotation import nearest_rotation
from scene.errors import InputError

DoubleArray = NDArray[np.float64]

CAMERA_NAMES = {1: "FRONT", 2: "FRONT_LEFT", 3: "FRONT_RIGHT", 4: "SIDE_LEFT", 5: "SIDE_RIGHT"}
NO_EXTENT = 0.0
"""Side of a box that its label does not state; such a box is left out, and counted."""
LABEL_NAMES = {1: "vehicle", 2: "pedestrian", 3: "sign", 4: "cyclist"}


@dataclass(frozen=True, eq=False)
class WaymoCalibration:
    """intrinsics: f_u f_v c_u c_v k1 k2 p1 p2 k3, pixels. vehicle_from_camera: (4, 4)."""

    intrinsics: tuple[float, ...]
    vehicle_from_camera: DoubleArray
    width: int
    height: int


@dataclass(frozen=True)
class WaymoBox2D:
    """A box in a picture as taken: centre and sizes along x and y, pixels."""

    kind: int
    center: tuple[float, float]
    size: tuple[float, float]
    track: str


@dataclass(frozen=True, eq=False)
class WaymoBox3D:
    """A box in the vehicle's frame at `time_us`; metres, heading in radians about +z.

    size: length (along the heading), width, height.
    """

    kind: int
    center: tuple[float, float, float]
    size: tuple[float, float, float]
    heading: float
    track: str
    time_us: int


@dataclass(frozen=True, eq=False)
class WaymoPicture:
    """One picture. world_from_vehicle: (4, 4) when it was taken, None where not stated.

    moved_m: how far the camera moved while the picture was read out row by row.
    """

    camera: int
    time_us: int
    encoded: Callable[[], bytes]
    world_from_vehicle: DoubleArray | None = None
    moved_m: float = 0.0
    boxes: tuple[WaymoBox2D, ...] = ()


@dataclass(eq=False)
class WaymoSegment:
    """A drive. vehicle_poses: (4, 4) world from vehicle by frame time, for the 3D boxes.

    empty: how many pictures of each camera are listed without bytes. boxes_apart: how many boxes
    are marked in pictures that are not there.
    """

    name: str
    calibrations: dict[int, WaymoCalibration] = field(default_factory=dict)
    vehicle_poses: dict[int, DoubleArray] = field(default_factory=dict)
    pictures: list[WaymoPicture] = field(default_factory=list)
    boxes: list[WaymoBox3D] = field(default_factory=list)
    empty: Counter[int] = field(default_factory=Counter)
    boxes_apart: int = 0
    notes: list[str] = field(default_factory=list)


def pose_matrix(values: Sequence[float], source: str) -> DoubleArray:
    """(4, 4) from 16 row-major numbers, its rotation made exact. Raises InputError."""
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.shape != (16,) or not np.isfinite(matrix).all():
        raise InputError(f"{source}: wanted a pose of 16 finite numbers, found {matrix.size}"
                         + (" with NaN or infinity" if matrix.size == 16 else ""))  # fmt: skip
    matrix = matrix.reshape(4, 4)
    rotation = nearest_rotation(matrix[:3, :3])
    if rotation is None:
        raise InputError(f"{source}: wanted a rotation and a translation, found another matrix")
    rigid = np.eye(4)
    rigid[:3, :3] = rotation
    rigid[:3, 3] = matrix[:3, 3]
    return rigid


def calibration(
    intrinsics: Sequence[float], extrinsic: Sequence[float], size: tuple[int, int], source: str
) -> WaymoCalibration:
    """A checked calibration. Raises InputError."""
    numbers = tuple(float(v) for v in intrinsics)
    if len(numbers) != 9 or not np.isfinite(numbers).all():
        raise InputError(f"{source}: wanted 9 finite intrinsics, found {len(numbers)}")
    if not (0 < size[0] < 1 << 15 and 0 < size[1] < 1 << 15):
        raise InputError(f"{source}: wanted a picture size, found {size[0]}x{size[1]}")
    pose = pose_matrix(extrinsic, f"{source}: extrinsic")
    return WaymoCalibration(numbers, pose, *size)
