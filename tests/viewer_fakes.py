"""A small street-like scene and a quick stand-in victim, for tests of the viewer."""

from __future__ import annotations

import numpy as np

from scene.camera import Camera
from scene.gaussians import SH_C0, Gaussians
from scene.scene import CaptureCamera, Scene, TargetBox

SIGN = np.array([0.0, 3.0, 2.0])


def small_scene(per_area: int = 900) -> Scene:
    """A red disc of 0.75 m at y = 3 before a wall at y = 6, over a floor; z is up."""
    rng = np.random.default_rng(0)
    angle, radius = (
        rng.uniform(0, 2 * np.pi, per_area),
        0.375 * np.sqrt(rng.uniform(0, 1, per_area)),
    )
    disc = np.stack([radius * np.cos(angle), np.zeros(per_area), radius * np.sin(angle)], 1) + SIGN
    wall = rng.uniform([-5, 6, 0], [5, 6.01, 4], (per_area, 3))
    floor = rng.uniform([-5, -3, 0], [5, 6, 0.01], (per_area, 3))
    means = np.concatenate([disc, wall, floor])
    colors = np.repeat([[0.8, 0.05, 0.1], [0.6, 0.55, 0.5], [0.35, 0.35, 0.35]], per_area, axis=0)
    scales = np.repeat(
        [[0.02, 0.004, 0.02], [0.15, 0.01, 0.15], [0.2, 0.2, 0.01]], per_area, axis=0
    )
    gaussians = Gaussians(
        means,
        np.tile([1.0, 0, 0, 0], (len(means), 1)),
        scales,
        np.full(len(means), 0.9),
        ((colors - 0.5) / SH_C0)[:, None],
    )
    cameras = tuple(
        CaptureCamera(
            f"photo_{i}",
            Camera.look_at(
                SIGN + np.array([3 * np.sin(a), -3 * np.cos(a), -0.2]),
                SIGN,
                [0, 0, 1],
                320,
                240,
                35,
            ),
        )
        for i, a in enumerate(np.radians([-50, -25, 4, 30, 55]))
    )
    target = TargetBox(SIGN, np.eye(3), np.array([0.4, 0.05, 0.4]), "stop sign")
    return Scene(
        gaussians, "small street", cameras, (0.0, 0.0, 1.0), "known", 1.0, target, (0.7, 0.8, 0.9)
    )


class RedFinder:
    """Finds the box around reddish pixels, unless more than a fifth of it is something else."""

    def __init__(self, name: str = "red-finder") -> None:
        from envelope.victims.protocols import VictimInfo

        self.info = VictimInfo(
            name, "detector", "none", "test", (320, 240), 0.5, "0" * 64, ("stop sign", "car")
        )
        self.calls = 0

    def predict(self, images):
        from envelope.victims.protocols import Detections

        self.calls += 1
        found = []
        for image in images.astype(int):
            red = (image[..., 0] > image[..., 1] + 60) & (image[..., 0] > image[..., 2] + 60)
            rows, columns = np.flatnonzero(red.any(1)), np.flatnonzero(red.any(0))
            if len(rows) < 4:
                found.append(Detections(np.zeros((0, 4)), np.zeros(0), ()))
                continue
            box = [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]
            filled = red[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].mean()
            found.append(Detections([box], [min(1.0, filled + 0.2)], ("stop sign",)))
        return found


def load_red_finder(spec: str, label: str) -> RedFinder:
    """A loader for VictimDesk that knows `red-finder` and `other`."""
    from scene.errors import InputError

    if spec not in ("red-finder", "other"):
        raise InputError(f"there is no victim {spec!r}")
    return RedFinder(spec)
