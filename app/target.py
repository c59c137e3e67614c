"""The target, as drawn with the mouse: a rectangle in some view becomes a box in the scene."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scene.camera import Camera
from scene.scene import Scene, TargetBox

if TYPE_CHECKING:
    from scene.render.api import Renderer

OUTLIERS = 0.01
"""Share of the chosen Gaussians, at either end of an axis, that may stick out of the box."""


def target_box_from_view(
    scene: Scene,
    renderer: Renderer,
    camera: Camera,
    box: tuple[float, float, float, float],
    label: str,
) -> TargetBox:
    """The box, upright and turned to the view, around what `box` shows.

    renderer: of the clean scene. box: xyxy pixels of `camera`. Raises InputError.
    """
    from scene.target import select_from_anchor_box

    drawn = renderer.render(camera, scene.background, frozenset({"median_depth"}))
    assert drawn.median_depth is not None
    chosen = select_from_anchor_box(scene.gaussians, camera, box, drawn.median_depth)
    up = np.asarray(scene.up, dtype=np.float64)
    right = np.cross(camera.forward, up)
    right = right / np.linalg.norm(right) if np.linalg.norm(right) > 1e-6 else camera.right
    right = right - (right @ up) * up
    right = right / np.linalg.norm(right)
    axes = np.stack([right, np.cross(up, right), up])
    along = scene.gaussians.means[chosen.indices].astype(np.float64) @ axes.T
    low, high = np.quantile(along, [OUTLIERS, 1 - OUTLIERS], axis=0)
    sigma = float(np.median(scene.gaussians.scales[chosen.indices].max(axis=1)))
    half = np.maximum(0.5 * (high - low) + sigma, 1e-9)
    return TargetBox(0.5 * (low + high) @ axes, axes, half, label)
