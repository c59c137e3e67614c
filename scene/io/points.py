"""Point clouds in PLY files: where a reconstruction starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scene.errors import InputError
from scene.io.ply_file import read_ply_elements, read_ply_header

_UNIT_AND_ROUNDING = 1.001


@dataclass(frozen=True, eq=False)
class PointCloud:
    """points: (P, 3) float64. colors: (P, 3) float32 sRGB in [0, 1], None where absent.

    dropped: rows that were left out because they are not finite.
    """

    points: NDArray[np.float64]
    colors: NDArray[np.float32] | None = None
    dropped: int = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """What to tell the user about it."""
        return dropped_points_notes(self.dropped, len(self.points))


def dropped_points_notes(dropped: int, kept: int) -> tuple[str, ...]:
    """The sentence about points that are not finite, if there are any."""
    if not dropped:
        return ()
    return (f"{dropped} of {dropped + kept} points hold NaN or infinity and are left out",)


def load_points(path: str | Path) -> PointCloud:
    """The points of a PLY file.

    Colors in floating point are 0 to 1, or 0 to 255 where
    any of them is above 1. Raises InputError.
    """
    header = read_ply_header(Path(path))
    vertex = header.element("vertex")
    if vertex is None or not {"x", "y", "z"} <= set(vertex.properties):
        raise InputError(f"{path}: wanted a point cloud with x, y, z, found none")
    rows = read_ply_elements(header, ("vertex",))["vertex"]
    points = np.stack([rows[axis].astype(np.float64) for axis in "xyz"], axis=1)
    finite = np.isfinite(points).all(axis=1)
    dropped = int((~finite).sum())
    if not {"red", "green", "blue"} <= set(vertex.properties):
        return PointCloud(points[finite], None, dropped)
    colors = np.stack([rows[c].astype(np.float32) for c in ("red", "green", "blue")], axis=1)
    if rows.dtype["red"].kind in "ui":
        colors /= np.float32(np.iinfo(rows.dtype["red"]).max)
    elif colors.max(initial=0, where=np.isfinite(colors)) > _UNIT_AND_ROUNDING:
        colors /= np.float32(255)
    return PointCloud(points[finite], np.clip(colors[finite], 0, 1), dropped)
