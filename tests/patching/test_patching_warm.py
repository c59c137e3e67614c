"""After the warm-up no view of a patch waits for a compiler."""

from __future__ import annotations

import numpy as np

from patching import footprint_kernel, texture_kernel
from patching.overlay import paste_overlay
from patching.patch import Patch
from patching.placement import Placement, footprint
from patching.raycast import composite
from patching.warm import warm_kernels

KERNELS = (
    texture_kernel.sample_texture,
    texture_kernel.paste_texture,
    footprint_kernel.count_plane_rays,
)


def test_real_calls_compile_nothing_new(placed: Placement, stripes: Patch) -> None:
    warm_kernels()
    before = [len(kernel.signatures) for kernel in KERNELS]
    assert min(before) >= 1
    picture, depth = np.zeros((120, 160, 3), np.float32), np.full((120, 160), 4, np.float32)
    depth.flags.writeable = False
    footprint(placed, placed.camera, depth)
    paste_overlay(picture, placed.camera, placed, stripes)
    composite(placed, stripes, placed.camera, picture, depth)
    assert [len(kernel.signatures) for kernel in KERNELS] == before
