"""The CPU renderer at 100,000 Gaussians, SH degree 3, 640x480, beside the prototype's figures.

One thread is measured in CPU time of the process, two threads in wall time (on a busy machine
only the best of many runs says something); everything that forms a ratio alternates in one run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import torch

from scene.camera import Camera
from scene.gaussians import Gaussians
from scene.render.cpu.renderer import Buffers, CpuRenderer, View
from scene.render.reference import ReferenceRenderer, SplatTensors
from tests.bench.fma_limit import count_useful_blends, flops_per_second
from tests.bench.street_scene import street_camera, street_scene
from tests.bench.torch_tiles import torch_by_tiles

Row = tuple[str, str, str]
Result = TypeVar("Result")

FLOPS_PER_BLEND = 35
"""Floating-point operations of one Gaussian in one pixel, as the prototype counted them."""
_BLACK = (0.0, 0.0, 0.0)
_COLOR = frozenset({"rgb", "alpha"})
_DEPTHS = frozenset({"rgb", "alpha", "expected_depth", "median_depth"})


def run() -> list[Row]:
    """All rows: what, measured, prototype."""
    scene, camera = street_scene(), street_camera()
    one, two = CpuRenderer(scene, threads=1), CpuRenderer(scene, threads=2)
    for renderer in (one, two):
        for outputs in (_COLOR, _DEPTHS):
            renderer.render(camera, outputs=outputs)
    rows, ms, view = _one_thread(one, camera)
    rows += _against_torch(scene, camera, ms)
    rows += _against_fma_limit(view, camera, ms)
    rows += _two_threads(one, two, camera)
    return rows


def _one_thread(renderer: CpuRenderer, camera: Camera) -> tuple[list[Row], dict[str, float], View]:
    """Rows, median CPU ms of every stage and of whole frames, and the view that was drawn."""
    buffers = Buffers(len(renderer.packed.geometry), threads=1)
    stages: dict[str, list[float]] = {}

    def timed(name: str, work: Callable):
        start = time.process_time()
        result = work()
        stages.setdefault(name, []).append(1e3 * (time.process_time() - start))
        return result

    for _ in range(31):
        projected = timed("project", lambda: renderer.project(camera, buffers))
        order = timed("sort", lambda found=projected: renderer.sort(buffers, *found))
        lists, starts = timed("bin", lambda found=order: renderer.bin(camera, buffers, found))
        view = View(buffers.records, lists, starts, order, buffers.ids)
        timed("blend", lambda v=view: renderer.blend(v, camera, _BLACK, _COLOR))
        timed("blend, depths", lambda v=view: renderer.blend(v, camera, _BLACK, _DEPTHS))
        timed("frame", lambda: renderer.render(camera))
        timed("frame, depths", lambda: renderer.render(camera, outputs=_DEPTHS))
    ms = {name: float(np.median(values)) for name, values in stages.items()}
    split = ", ".join(f"{name} {ms[name]:.1f}" for name in ("project", "sort", "bin", "blend"))
    rows = [
        ("frame, rgb + alpha, CPU ms, 1 thread", f"{ms['frame']:.1f}", "-"),
        (
            "frame with depth, CPU ms, 1 thread",
            f"{ms['frame, depths']:.1f} (expected and median)",
            "31.9 (expected only)",
        ),
        (
            "stages, CPU ms",
            f"{split} (with depths {ms['blend, depths']:.1f})",
            "project 2.8, sort 2.8, bin 8.2, blend 17.9 (with expected depth)",
        ),
    ]
    return rows, ms, view


def _two_threads(one: CpuRenderer, two: CpuRenderer, camera: Camera) -> list[Row]:
    best = {1: np.inf, 2: np.inf}
    for _ in range(60):
        for threads, renderer in ((1, one), (2, two)):
            start = time.perf_counter()
            renderer.render(camera)
            best[threads] = min(best[threads], 1e3 * (time.perf_counter() - start))
    return [
        (
            "two threads, best wall ms 1 -> 2",
            f"{best[1]:.1f} -> {best[2]:.1f} (x{best[1] / best[2]:.2f}; load {os.getloadavg()[0]:.0f})",
            "32.0 -> 18.4 (x1.74)",
        )
    ]


def _against_torch(scene: Gaussians, camera: Camera, ms: dict[str, float]) -> list[Row]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        reference = ReferenceRenderer(scene, dtype=torch.float32)
        _, reference_ms = _best_ms(lambda: reference.render(camera, outputs=_DEPTHS), 1)
        splats = SplatTensors.of(scene, torch.float32)
        (rgb, _), tuned_ms = _best_ms(lambda: torch_by_tiles(splats, camera), 2)
    finally:
        torch.set_num_threads(threads)
    error = float(np.abs(CpuRenderer(scene, threads=1).render(camera).rgb - rgb.numpy()).mean())
    return [
        (
            "times faster than the torch reference (float32, by tiles, with depths), 1 thread",
            f"{reference_ms / ms['frame, depths']:.0f}x ({reference_ms:.0f} ms)",
            "107x (3400 ms)",
        ),
        (
            "times faster than torch tuned for speed (by tiles, rgb + alpha), 1 thread",
            f"{tuned_ms / ms['frame']:.0f}x ({tuned_ms:.0f} ms; mean difference {error:.0e})",
            "-",
        ),
    ]


def _best_ms(work: Callable[[], Result], runs: int) -> tuple[Result, float]:
    """The result of `work` and the least CPU time that it took."""
    best = np.inf
    for _ in range(runs):
        start = time.process_time()
        result = work()
        best = min(best, 1e3 * (time.process_time() - start))
    return result, best


def _against_fma_limit(view: View, camera: Camera, ms: dict[str, float]) -> list[Row]:
    useful = count_useful_blends(view.records, view.lists, view.starts, camera.width, camera.height)
    limit = flops_per_second()
    least_ms = 1e3 * useful * FLOPS_PER_BLEND / limit
    return [
        (
            "share of the FMA limit, blend / frame",
            f"{100 * least_ms / ms['blend']:.0f} % / {100 * least_ms / ms['frame']:.0f} %"
            f" ({useful / 1e6:.2f} M useful blends, {limit / 1e9:.0f} GFLOP/s)",
            "19 % / 11 % (16.45 M, 171 GFLOP/s)",
        )
    ]
