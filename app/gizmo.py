"""Handles in the scene that slide and turn the placed patch on its surface."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scene.gaussians import matrices_to_quaternions

if TYPE_CHECKING:
    import viser

    from patching.placement import Placement

Vector = tuple[float, ...]
OnDrag = Callable[[Vector, Vector, bool], None]
"""(position, wxyz, done): where the handles are now; done: they were let go. Must be quick."""

NAME = "/patch/handles"
SIZE = 0.9
"""Length of an arrow, in longer sides of the patch."""


class Gizmo:
    """Two arrows, a square and a ring: x is the patch's right, y its down, none leaves its plane.

    on_drag: called from viser's event loop, in the order of the drag. Not safe to use from several
    threads at once.
    """

    def __init__(self, scene: viser.SceneApi, on_drag: OnDrag) -> None:
        self._scene = scene
        self._on_drag = on_drag
        self._node: Any = None
        self.enabled = False

    def show(self, placement: Placement | None) -> None:
        """Stand at `placement`; without one, or when switched off, vanish."""
        if self._node is not None:
            self._node.remove()
            self._node = None
        if placement is None or not self.enabled:
            return
        position, wxyz = handle_pose(placement)
        node = self._scene.add_transform_controls(
            NAME,
            scale=SIZE * max(placement.width, placement.height),
            active_axes=(True, True, False),
            depth_test=False,
            wxyz=wxyz,
            position=position,
        )
        node.on_update(self._moved)
        self._node = node

    def set_visible(self, visible: bool) -> None:
        """Show or hide what stands."""
        if self._node is not None:
            self._node.visible = visible

    async def _moved(self, event: Any) -> None:
        if event.phase != "start":
            target = event.target
            position = tuple(float(v) for v in target.position)
            wxyz = tuple(float(v) for v in target.wxyz)
            self._on_drag(position, wxyz, event.phase == "end")


def handle_pose(placement: Placement) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
    """(position (3,), wxyz (4,) world_from_handles) of the handles of a placement."""
    axes = np.stack([placement.right, placement.down, -placement.outward], axis=1)
    return placement.center, matrices_to_quaternions(axes[None])[0]
