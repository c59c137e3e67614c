"""Small scenes and cameras that the render tests share."""

from __future__ import annotations

import numpy as np

from scene.camera import Camera
from scene.gaussians import SH_C0, Gaussians


def random_scene(n: int, degree: int = 0, seed: int = 0, size: float = 0.08) -> Gaussians:
    """Gaussians of many shapes in front of `camera()`, a few of them behind it or huge."""
    rng = np.random.default_rng(seed)
    means = rng.uniform([-1.5, -1.0, 1.0], [1.5, 1.0, 5.0], (n, 3))
    means[:: max(1, n // 7), 2] -= 4.0
    quats = rng.normal(size=(n, 4))
    quats /= np.linalg.norm(quats, axis=1, keepdims=True)
    scales = np.exp(np.log(size) + rng.normal(0, 0.7, (n, 3)))
    scales[: n // 50] *= 10.0
    opacities = np.clip(rng.beta(1.2, 1.0, n), 0.002, 1.0)
    sh = rng.normal(0, 0.35, (n, (degree + 1) ** 2, 3))
    sh[:, 1:] *= 0.4
    return Gaussians(means, quats, scales, opacities, sh)


def flat_color(rgb: tuple[float, float, float], n: int = 1) -> np.ndarray:
    """Degree-0 harmonics (n, 1, 3) of a color."""
    return np.broadcast_to((np.asarray(rgb) - 0.5) / SH_C0, (n, 1, 3)).astype(np.float32)


def camera(
    width: int = 83,
    height: int = 58,
    focal: tuple[float, float] = (70.0, 64.0),
    center: tuple[float, float] | None = None,
    eye: tuple[float, float, float] = (0.1, -0.05, -0.2),
    turn_deg: float = 4.0,
) -> Camera:
    """Looks along +z, a little turned; neither side is a multiple of the tile size."""
    c, s = np.cos(np.radians(turn_deg)), np.sin(np.radians(turn_deg))
    pose = np.eye(4)
    pose[:3, :3] = [[c, 0, -s], [0, 1, 0], [s, 0, c]]
    pose[:3, 3] = -pose[:3, :3] @ np.array(eye)
    cx, cy = center if center is not None else (width / 2, height / 2)
    return Camera(pose, np.array([[focal[0], 0, cx], [0, focal[1], cy], [0, 0, 1]]), width, height)


def one_gaussian(
    mean: tuple[float, float, float],
    scale: float = 0.1,
    opacity: float = 0.8,
    rgb: tuple[float, float, float] = (1.0, 0.5, 0.25),
) -> Gaussians:
    """One round Gaussian of a plain color."""
    return Gaussians(
        np.array([mean]), np.array([[1.0, 0, 0, 0]]), np.full((1, 3), scale), np.array([opacity]),
        flat_color(rgb),
    )  # fmt: skip


def straight_camera(width: int = 41, height: int = 31, focal: float = 100.0) -> Camera:
    """At the origin, looking along +z, principal point in the middle of pixel (20, 15)."""
    return Camera(
        np.eye(4), np.array([[focal, 0, 20.5], [0, focal, 15.5], [0, 0, 1]]), width, height
    )
