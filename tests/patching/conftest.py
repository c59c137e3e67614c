"""Small worlds for patching: one textured wall of Gaussians, and placements on it."""

from __future__ import annotations

import numpy as np
import pytest

from patching.patch import Patch
from patching.placement import Placement, place_by_numbers
from scene.camera import Camera
from scene.gaussians import SH_C0, Gaussians

UP = (0.0, -1.0, 0.0)


def wall_gaussians(side: int = 40, depth: float = 4.0, half: float = 1.2) -> Gaussians:
    """A wall at z = depth facing the origin, of side x side flat Gaussians in two-tone stripes."""
    rng = np.random.default_rng(3)
    axis = (np.arange(side) + 0.5) / side * 2 * half - half
    x, y = (grid.ravel() for grid in np.meshgrid(axis, axis))
    count = len(x)
    means = np.stack([x, y, depth + rng.normal(0, 0.003, count)], axis=1)
    step = 2 * half / side
    scales = np.tile([0.65 * step, 0.65 * step, 0.05 * step], (count, 1))
    color = np.where((np.floor(x * 5) % 2 == 0)[:, None], [0.75, 0.3, 0.25], [0.85, 0.8, 0.6])
    sh = ((color - 0.5) / SH_C0)[:, None, :]
    quats = np.tile([1.0, 0, 0, 0], (count, 1))
    parts = (means, quats, scales, np.full(count, 0.95), sh)
    return Gaussians(*(np.asarray(part, np.float32) for part in parts))


@pytest.fixture(scope="session")
def wall() -> Gaussians:
    return wall_gaussians()


@pytest.fixture
def front_camera() -> Camera:
    """At the origin, looking along +z; non-square picture, off-centre principal point."""
    K = np.array([[120.0, 0, 84.0], [0, 120.0, 58.0], [0, 0, 1]])
    return Camera(np.eye(4), K, 160, 120)


@pytest.fixture
def stripes() -> Patch:
    """A 12 x 8 px patch whose four corners differ in color."""
    rgb = np.zeros((8, 12, 3), np.float32)
    rgb[:4, :6] = [1, 0, 0]
    rgb[:4, 6:] = [0, 1, 0]
    rgb[4:, 6:] = [0, 0, 1]
    rgb[4:, :6] = [1, 1, 0]
    return Patch.from_rgb(rgb, "corners")


@pytest.fixture
def placed(front_camera: Camera) -> Placement:
    """0.9 x 0.6 world units at (0.1, -0.05, 4) on the wall, upright."""
    return place_by_numbers((0.1, -0.05, 4.0), (0, 0, -1), 0.9, 2 / 3, front_camera, UP)
