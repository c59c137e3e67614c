"""The envelope dome: one marker per swept condition, at its true camera, colored by its outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from envelope.condition import Condition, condition_camera
from envelope.figure_data import HOLDS, WORKS
from scene.camera import Camera
from scene.gaussians import matrices_to_quaternions

CellState = Literal["works", "holds", "unobservable", "unscored"]

STATE_TEXT: dict[CellState, str] = {
    "works": "attack works",
    "holds": "victim holds",
    "unobservable": "not observable",
    "unscored": "not scored yet",
}
STATE_COLOR: dict[CellState, tuple[int, int, int]] = {
    "works": WORKS,
    "holds": HOLDS,
    "unobservable": (120, 120, 120),
    "unscored": (236, 236, 236),
}


@dataclass(frozen=True, eq=False)
class Dome:
    """Markers of N conditions.

    conditions: N, in plan order. states: N. positions: (N, 3) optical centres in world units.
    wxyzs: (N, 4) world_from_camera quaternions (z looks forward). colors: (N, 3) uint8.
    cameras: N, the same as cameras.
    """

    conditions: tuple[Condition, ...]
    states: tuple[CellState, ...]
    positions: NDArray[np.float32]
    wxyzs: NDArray[np.float32]
    colors: NDArray[np.uint8]
    cameras: tuple[Camera, ...]

    def __len__(self) -> int:
        return len(self.conditions)


def build_dome(
    cells: Sequence[tuple[Condition, CellState]], anchor: Camera, pivot: ArrayLike, up: ArrayLike
) -> Dome:
    """Markers for `cells`; anchor, pivot and up as in `condition_camera`."""
    cameras = [condition_camera(condition, anchor, pivot, up) for condition, _ in cells]
    rotations = [camera.camera_from_world[:3, :3].T for camera in cameras]
    return Dome(
        conditions=tuple(condition for condition, _ in cells),
        states=tuple(state for _, state in cells),
        positions=np.array([camera.center for camera in cameras], np.float32).reshape(-1, 3),
        wxyzs=matrices_to_quaternions(np.array(rotations).reshape(-1, 3, 3)),
        colors=np.array([STATE_COLOR[state] for _, state in cells], np.uint8).reshape(-1, 3),
        cameras=tuple(cameras),
    )


def beside(positions: NDArray[np.floating], eyes: ArrayLike, reach: float) -> NDArray[np.bool_]:
    """Which of N positions (N, 3) lie nearer than `reach` to one of M eyes (M, 3): (N,)."""
    gaps = positions[:, None, :] - np.asarray(eyes, float).reshape(1, -1, 3)
    near: NDArray[np.bool_] = (np.linalg.norm(gaps, axis=2) < reach).any(axis=1)
    return near


def between(
    positions: NDArray[np.floating], eye: ArrayLike, pivot: ArrayLike, reach: float
) -> NDArray[np.bool_]:
    """Which of N positions (N, 3) lie nearer than `reach` to the line from eye to pivot: (N,)."""
    start, end = np.asarray(eye, float), np.asarray(pivot, float)
    way = end - start
    along = ((positions - start) @ way) / max(float(way @ way), 1e-12)
    feet = start + np.clip(along, 0, 1)[:, None] * way
    near: NDArray[np.bool_] = np.linalg.norm(positions - feet, axis=1) < reach
    return near


def marker_mesh(aspect: float = 4 / 3) -> tuple[NDArray[np.float32], NDArray[np.uint32]]:
    """A small camera, one unit deep: pyramid with its tip at the optical centre, +z forward.

    aspect: width over height of its base. Returns vertices (5, 3) and faces (6, 3), outward.
    """
    w, h = 0.5 * aspect, 0.5
    vertices = np.array([[0, 0, 0], [-w, -h, 1], [w, -h, 1], [w, h, 1], [-w, h, 1]], np.float32)
    faces = np.array([[0, 2, 1], [0, 3, 2], [0, 4, 3], [0, 1, 4], [1, 2, 3], [1, 3, 4]], np.uint32)
    return vertices, faces
