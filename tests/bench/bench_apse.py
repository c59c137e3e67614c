"""Embedding a patch: whole embeddings and one iteration, beside the prototype's figures.

Times are process CPU of one thread (a busy machine does not disturb them), and wall time with two.
The prototype's sign was part of a made-up street of 100,000 Gaussians seen at 448x448; so is this.
"""

from __future__ import annotations

import time

import numpy as np

from patching.anchor import Anchor, anchor_from_placement
from patching.apse.embed import Embedding, embed
from patching.apse.settings import ApseSettings
from patching.patch import Patch, noise_like
from patching.placement import place_at_pixel
from scene.camera import Camera
from scene.gaussians import Gaussians
from scene.render.api import Renderer, make_renderer
from tests.bench.street_scene import street_scene

Row = tuple[str, str, str]

UP = (0.0, -1.0, 0.0)
SIGN = (1.5, -0.9, 8.0)
"""Centre of the made-up street's sign, which faces -z."""


def run() -> list[Row]:
    """All rows: what, measured, prototype."""
    scene = street_scene(100_000, degree=3)
    renderer = make_renderer(scene, "cpu", threads=1)
    anchor = _anchor(renderer)
    full = ApseSettings.of("inspector")
    embed(scene, anchor, ApseSettings.of("inspector", iterations=2), renderer=renderer)
    rows: list[Row] = []
    made, cpu_s, _ = _timed(scene, anchor, full, renderer, 1)
    counts = f"{made.report.new} new + {made.report.reused} reused"
    per_step = 1e3 * (cpu_s - made.report.setup_s) / full.iterations
    rows.append(("Gaussians of the embedding on the sign", counts, "2672 + 2376"))
    rows.append(("iteration, anchor + 8 views, CPU ms, 1 thread", f"{per_step:.0f}", "85"))
    rows.append(("full embedding, 300 iterations, CPU s, 1 thread", f"{cpu_s:.1f}", "27"))
    _, _, wall_s = _timed(scene, anchor, full, renderer, 2)
    rows.append(("the same, wall s, 2 threads", f"{wall_s:.1f}", "-"))
    _, cpu_s, _ = _timed(scene, anchor, full.preview(), renderer, 1)
    rows.append(("preview, 120 iterations + 2 views, CPU s, 1 thread", f"{cpu_s:.1f}", "-"))
    _, cpu_s, _ = _timed(scene, anchor, ApseSettings.of("paper"), renderer, 1)
    rows.append(("full embedding, `paper`, CPU s, 1 thread", f"{cpu_s:.1f}", "27"))
    return rows


def _anchor(renderer: Renderer) -> Anchor:
    """A 0.5 m patch of colored cells on the sign, 2.4 m away."""
    camera = Camera.look_at((0.8, -0.6, 5.6), (1.5, -0.6, 8.0), UP, 448, 448, 60)
    patch = noise_like(Patch.from_rgb(np.zeros((160, 160, 3)), "cells"), seed=1)
    pixel, _ = camera.project(SIGN)
    placement = place_at_pixel(renderer, camera, (pixel[0], pixel[1]), patch, 0.5, UP)
    return anchor_from_placement(renderer, placement, patch)


def _timed(
    scene: Gaussians, anchor: Anchor, settings: ApseSettings, renderer: Renderer, threads: int
) -> tuple[Embedding, float, float]:
    """(embedding, CPU seconds, wall seconds)."""
    cpu, wall = time.process_time(), time.perf_counter()
    made = embed(scene, anchor, settings, renderer=renderer, threads=threads)
    return made, time.process_time() - cpu, time.perf_counter() - wall
