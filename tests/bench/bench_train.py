"""Training iterations and `PatchView` calls, beside the prototype's figures.

One thread is measured in CPU time, two threads in wall time (medians; a busy machine adds to it).
The prototype's training figures are of a trained scene (fox, 40,000 Gaussians, 270x480); here the
made-up street takes its place, drawn at that size.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from scene.camera import Camera
from scene.gaussians import SH_C0, Gaussians
from scene.reconstruct.adam import Adam
from scene.reconstruct.losses import PhotometricLoss
from scene.render.cpu.records import FloatArray, morton_order
from scene.render.cpu.training import TrainingRenderer, parameters_of
from scene.render.patch_view import Drawn, Parameters, PatchView
from tests.bench.street_scene import street_camera, street_scene

Row = tuple[str, str, str]
_GRAY = (0.4, 0.5, 0.6)
_REPEATS = 15
_SKIPPED = 3


def run() -> list[Row]:
    """All rows: what, measured, prototype."""
    return [*_training_rows(), *_patch_rows()]


def _training_rows() -> list[Row]:
    scene = street_scene(40_000, degree=1)
    parameters = parameters_of(scene)[morton_order(scene.means)]
    camera = _portrait_camera()
    one = _iteration(parameters, camera, 1, time.process_time)
    two = _iteration(parameters, camera, 2, time.perf_counter)
    split = ", ".join(f"{name} {ms:.1f}" for name, ms in one.items())
    return [
        (
            "training iteration, 40k at 270x480, SH 1, CPU ms, 1 thread",
            f"{sum(one.values()):.1f} ({split})",
            "47 (forward 13.4, loss 7.5, backward 24.4, optimizer 1.6)",
        ),
        ("the same, wall ms, 2 threads", f"{sum(two.values()):.1f}", "24.4"),
    ]


def _portrait_camera() -> Camera:
    wide = street_camera(480, 480)
    K = wide.K.copy()
    K[0, 2] = 135
    return replace(wide, K=K, width=270)


def _iteration(
    parameters: FloatArray, camera: Camera, threads: int, clock: Callable[[], float]
) -> dict[str, float]:
    """Median ms of the four stages of an iteration, by the given clock."""
    renderer = TrainingRenderer(threads=threads)
    photo = np.random.default_rng(0).random((3, camera.height, camera.width), dtype=np.float32)
    loss = PhotometricLoss(camera.height, camera.width, threads=threads)
    adam, rates = Adam(parameters.shape, threads), np.full(parameters.shape[1], 1e-9, np.float32)
    statistics = np.zeros((2, len(parameters)), np.float32)
    stages: dict[str, list[float]] = {}

    def timed(name: str, work: Callable):
        start = clock()
        result = work()
        stages.setdefault(name, []).append(1e3 * (clock() - start))
        return result

    for _ in range(_REPEATS + _SKIPPED):
        picture = timed("forward", lambda: renderer.forward(parameters, 4, camera, _GRAY))
        _, seeds = timed("loss", lambda drawn=picture: loss(drawn, photo))
        got = timed("backward", lambda s=seeds: renderer.backward(s, statistics[0], statistics[1]))
        timed("optimizer", lambda gradient=got: adam.step(parameters, gradient, rates))
    return {name: float(np.median(values[_SKIPPED:])) for name, values in stages.items()}


def _patch_rows() -> list[Row]:
    """5,000 editable of 300,000, 448x448, one thread."""
    scene, camera = street_scene(300_000, degree=3), street_camera(448, 448)
    chosen = _patch_indices(scene, camera, 5000)
    static, editable = _taken(scene, np.setdiff1d(np.arange(len(scene)), chosen)), None
    editable = _taken(scene, chosen)
    view = PatchView(static, camera, _GRAY, editable)
    colors = np.maximum(0.5 + SH_C0 * editable.sh[:, 0], 0)
    arrays = (editable.means, editable.scales, editable.opacities, colors)
    parameters = Parameters(*(np.array(a, dtype=np.float32) for a in arrays))
    y0, y1, x0, x1 = view.crop
    seeds = np.random.default_rng(0).random((4, y1 - y0, x1 - x0), dtype=np.float32)
    drawn: list[Drawn] = []
    forward = _median(lambda: drawn.append(view.draw(parameters)))
    backward = _median(lambda: view.gradients(parameters, drawn[-1], seeds))
    tensors = [torch.tensor(a, requires_grad=True) for a in vars(parameters).values()]
    both = _median(lambda: view(*tensors).sum().backward())
    return [
        (
            f"PatchView, 5k editable of 300k, exact, crop {x1 - x0}x{y1 - y0}, CPU ms",
            f"forward {forward:.1f}, backward {backward:.1f} (through torch {both:.1f})",
            "7.2, 4.5",
        )
    ]


def _patch_indices(scene: Gaussians, camera: Camera, count: int) -> np.ndarray:
    """The `count` Gaussians nearest to the middle of the sign, by their place in the picture."""
    pixels, depth = camera.project(scene.means)
    near = (depth > 0) & (depth < np.percentile(depth[depth > 0], 40))
    middle = np.array([camera.width, camera.height]) / 2
    far_off = np.where(near, np.abs(pixels - middle).max(axis=1), np.inf)
    return np.sort(np.argsort(far_off)[:count])


def _taken(scene: Gaussians, rows: np.ndarray) -> Gaussians:
    names = ("means", "quats", "scales", "opacities", "sh")
    return Gaussians(*(getattr(scene, name)[rows] for name in names))


def _median(work: Callable[[], object]) -> float:
    """Median CPU ms."""
    times = []
    for _ in range(_REPEATS + _SKIPPED):
        start = time.process_time()
        work()
        times.append(1e3 * (time.process_time() - start))
    return float(np.median(times[_SKIPPED:]))
