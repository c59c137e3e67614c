"""Warm-up stages of the forward kernels (see `scene.render.warmup`)."""

from __future__ import annotations

from functools import cache

import numpy as np

from scene.camera import Camera
from scene.gaussians import Gaussians
from scene.render.cpu.quantize import quantize, quantize_tiles
from scene.render.cpu.renderer import Buffers, CpuRenderer


@cache
def _tiny() -> tuple[CpuRenderer, Camera, Buffers]:
    gaussian = Gaussians(
        np.array([[0.0, 0.0, 2.0]]),
        np.array([[1.0, 0.0, 0.0, 0.0]]),
        np.full((1, 3), 0.1),
        np.array([0.5]),
        np.zeros((1, 1, 3), np.float32),
    )
    renderer = CpuRenderer(gaussian, threads=1)
    camera = Camera(np.eye(4), np.array([[20.0, 0, 8], [0, 20.0, 8], [0, 0, 1]]), 16, 16)
    return renderer, camera, Buffers(len(renderer.packed.geometry), threads=1)


def warm_projection() -> None:
    """Compile the projection."""
    renderer, camera, buffers = _tiny()
    renderer.project(camera, buffers)


def warm_sorting() -> None:
    """Compile the depth sort."""
    renderer, camera, buffers = _tiny()
    renderer.sort(buffers, *renderer.project(camera, buffers))


def warm_binning() -> None:
    """Compile the tile lists."""
    renderer, camera, buffers = _tiny()
    renderer.view(camera, buffers)


def warm_color() -> None:
    """Compile the blend of color and alpha."""
    renderer, camera, _ = _tiny()
    renderer.render(camera)


def warm_depths() -> None:
    """Compile the blend with both depths."""
    renderer, camera, _ = _tiny()
    renderer.render(camera, outputs=frozenset({"expected_depth", "median_depth"}))


def warm_frames() -> None:
    """Compile the lists of tiles that an edit touches, and the bytes of pictures."""
    renderer, camera, _ = _tiny()
    frame = renderer.frame(camera)
    frame.weight(np.ones(1, bool))
    picture = np.empty((camera.height, camera.width, 3), np.uint8)
    quantize(frame.drawn.rgb.reshape(-1), picture.reshape(-1))
    quantize_tiles(frame.drawn.rgb, np.zeros(1, np.int32), picture)
