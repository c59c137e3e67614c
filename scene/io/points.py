"""Point clouds in PLY files: where a reconstruction starts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scene.errors import InputError
from scene.io.ply_file import read_ply_elements, read_ply_header

_UNIT_AND_ROUNDING = 1.001


def load_points(
    path: str | Path,
) -> tuple[NDArray[np.float64], NDArray[np.float32] | None]:
    """Points (P, 3) float64 and their sRGB colors (P, 3) float32 in [0, 1], None where absent.

    Rows that are not finite are left out. Colors in floating point are 0 to 1, or 0 to 255 where
    any of them is above 1. Raises InputError.
    """
    header = read_ply_header(Path(path))
    vertex = header.element("vertex")
    if vertex is None or not {"x", "y", "z"} <= set(vertex.properties):
        raise InputError(f"{path}: wanted a point cloud with x, y, z, found none")
    rows = read_ply_elements(header, ("vertex",))["vertex"]
    points = np.stack([rows[axis].astype(np.float64) for axis in "xyz"], axis=1)
    finite = np.isfinite(points).all(axis=1)
    if not {"red", "green", "blue"} <= set(vertex.properties):
        return points[finite], None
    colors = np.stack([rows[c].astype(np.float32) for c in ("red", "green", "blue")], axis=1)
    if rows.dtype["red"].kind in "ui":
        colors /= np.float32(np.iinfo(rows.dtype["red"]).max)
    elif colors.max(initial=0, where=np.isfinite(colors)) > _UNIT_AND_ROUNDING:
        colors /= np.float32(255)
    return points[finite], np.clip(colors[finite], 0, 1)
