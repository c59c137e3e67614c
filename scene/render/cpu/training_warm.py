"""Warm-up stages of the backward kernels (see `scene.render.warmup`)."""

from __future__ import annotations

import numpy as np

from scene.camera import Camera
from scene.gaussians import Gaussians


def _tiny() -> tuple[Gaussians, Camera]:
    gaussian = Gaussians(
        np.array([[0.0, 0.0, 2.0]]),
        np.array([[1.0, 0.0, 0.0, 0.0]]),
        np.full((1, 3), 0.1),
        np.array([0.5]),
        np.zeros((1, 1, 3), np.float32),
    )
    camera = Camera(np.eye(4), np.array([[20.0, 0, 8], [0, 20.0, 8], [0, 0, 1]]), 16, 16)
    return gaussian, camera


def warm_patch_view() -> None:
    """Compile the differentiable crop."""
    from scene.render.patch_view import Parameters, PatchView

    gaussian, camera = _tiny()
    view = PatchView(gaussian, camera, (0.0, 0.0, 0.0), gaussian)
    arrays = (gaussian.means, gaussian.scales, gaussian.opacities, np.zeros((1, 3)))
    parameters = Parameters(*(np.array(a, dtype=np.float32) for a in arrays))
    view.gradients(parameters, view.draw(parameters), np.zeros((4, 16, 16), np.float32))


def warm_training() -> None:
    """Compile the trainer's renderer."""
    from scene.render.cpu.training import TrainingRenderer, parameters_of

    gaussian, camera = _tiny()
    renderer = TrainingRenderer(threads=1)
    renderer.forward(parameters_of(gaussian), 1, camera, (0.0, 0.0, 0.0))
    seeds, statistics = np.zeros((3, 16, 16), np.float32), np.zeros((2, 1), np.float32)
    renderer.backward(seeds, statistics[0], statistics[1])
