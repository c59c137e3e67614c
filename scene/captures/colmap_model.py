"""What a COLMAP model holds, as plain values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Names and parameter counts by COLMAP's model number.
CAMERA_MODELS: tuple[tuple[str, int], ...] = (
    ("SIMPLE_PINHOLE", 3),
    ("PINHOLE", 4),
    ("SIMPLE_RADIAL", 4),
    ("RADIAL", 5),
    ("OPENCV", 8),
    ("OPENCV_FISHEYE", 8),
    ("FULL_OPENCV", 12),
    ("FOV", 5),
    ("SIMPLE_RADIAL_FISHEYE", 4),
    ("RADIAL_FISHEYE", 5),
    ("THIN_PRISM_FISHEYE", 12),
    ("RAD_TAN_THIN_PRISM_FISHEYE", 16),
    ("SIMPLE_DIVISION", 4),
    ("DIVISION", 5),
    ("SIMPLE_FISHEYE", 3),
    ("FISHEYE", 4),
    ("EUCM", 6),
    ("EQUIRECTANGULAR", 2),
)
PARAMETER_COUNT = dict(CAMERA_MODELS)


@dataclass(frozen=True)
class ColmapCamera:
    """Intrinsics; `params` in COLMAP's order for `model`, pixels, first pixel's centre at 0.5."""

    id: int
    model: str
    width: int
    height: int
    params: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class ColmapImage:
    """A posed picture. quat: wxyz, translation: of camera_from_world.

    observations: (M, 2) pixels of the points it sees; point_ids: (M,) their ids, -1 for none.
    """

    name: str
    quat: tuple[float, float, float, float]
    translation: tuple[float, float, float]
    camera_id: int
    observations: NDArray[np.float64]
    point_ids: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ColmapModel:
    """A whole model. point_ids: (P,); points: (P, 3) world; colors: (P, 3) sRGB in [0, 1].

    dropped_points: how many are left out because they are not finite.
    """

    cameras: dict[int, ColmapCamera]
    images: tuple[ColmapImage, ...]
    point_ids: NDArray[np.int64]
    points: NDArray[np.float64]
    colors: NDArray[np.float32]
    dropped_points: int = 0
