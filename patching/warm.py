"""Compile (or load) the kernels of patches before the first view needs them."""

from __future__ import annotations

import numpy as np


def warm_kernels() -> None:
    """Lay a tiny patch into a tiny picture, in every way that has a kernel."""
    from patching.overlay import paste_overlay
    from patching.patch import Patch
    from patching.placement import footprint, place_by_numbers
    from patching.raycast import composite
    from scene.camera import Camera

    up = (0.0, -1.0, 0.0)
    camera = Camera.look_at((0, 0, 0), (0, 0, 1), up, 8, 8, 60.0)
    placement = place_by_numbers((0, 0, 2), (0, 0, -1), 1.0, 1.0, camera, up)
    patch = Patch.from_rgb(np.ones((2, 2, 3), np.float32), "warm-up")
    picture = np.zeros((8, 8, 3), np.float32)
    footprint(placement, camera, None)
    paste_overlay(picture, camera, placement, patch)
    composite(placement, patch, camera, picture)
