"""Where the photos of the street are taken from."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scene.camera import Camera

DoubleArray = NDArray[np.float64]

UP = (0.0, 0.0, 1.0)

# distance from the sign, camera heights (used in turn), photos: near rings to far ones
_RINGS = (
    (1.5, (1.75, 2.35), 9),
    (2.3, (1.45, 2.25), 12),
    (3.3, (1.25, 1.95, 2.75), 14),
    (4.8, (1.10, 2.45), 13),
    (6.8, (0.85, 1.70, 3.00), 12),
)
_HALF_SWEEP_DEG = 72.0
HELD_OUT_EVERY = 8


def orbit_camera(
    target: ArrayLike,
    distance: float,
    azimuth_deg: float,
    height: float,
    size: tuple[int, int] = (480, 360),
    aim: ArrayLike = (0.0, 0.0, 0.0),
    vertical_fov_deg: float = 45.4,
) -> Camera:
    """A camera in front of a sign that faces -y.

    azimuth_deg: 0 straight in front, positive to the right as its reader sees it. height: metres
    above the ground. distance: to the target. aim: metres that the view's middle is off target.
    """
    target = np.asarray(target, dtype=np.float64)
    rise = height - target[2]
    level = np.sqrt(max(distance**2 - rise**2, 0.01))
    azimuth = np.radians(azimuth_deg)
    eye = target + np.array([level * np.sin(azimuth), -level * np.cos(azimuth), rise])
    width, picture_height = size
    return Camera.look_at(
        eye, target + np.asarray(aim), UP, width, picture_height, vertical_fov_deg
    )


def capture_cameras(
    target: ArrayLike, size: tuple[int, int] = (480, 360), seed: int = 0
) -> list[tuple[str, Camera, bool]]:
    """60 named cameras on five rings around the sign, with a flag for those held out.

    The rings reach beyond +-60 degrees and 1.6-6.5 m, so that a sweep of that size stays among
    photographed views. Held-out cameras are every eighth of each ring's inner ones.
    """
    rng = np.random.default_rng([17, seed])
    cameras: list[tuple[str, Camera, bool]] = []
    inner = 0
    for distance, heights, count in _RINGS:
        for i, azimuth in enumerate(np.linspace(-_HALF_SWEEP_DEG, _HALF_SWEEP_DEG, count)):
            aim = rng.uniform(-1, 1, 3) * np.array([0.10, 0.0, 0.06]) * distance
            aim[2] -= 0.05 * distance
            camera = orbit_camera(
                target,
                distance * rng.uniform(0.95, 1.05),
                azimuth + rng.uniform(-3, 3),
                heights[i % len(heights)] + rng.uniform(-0.08, 0.08),
                size,
                aim,
            )
            edge = i in (0, count - 1)
            inner += not edge
            held_out = not edge and inner % HELD_OUT_EVERY == 4
            cameras.append((f"{len(cameras):03d}", camera, held_out))
    return cameras
