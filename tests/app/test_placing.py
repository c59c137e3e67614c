"""Dragging a placement by its handles keeps it on its surface."""

from __future__ import annotations

import numpy as np
import pytest

from app.gizmo import handle_pose
from app.placing import dragged
from patching.placement import Placement, place_by_numbers
from scene.camera import Camera
from scene.gaussians import matrices_to_quaternions

UP = [0.0, 0.0, 1.0]


def _placement(in_plane_deg: float = 0.0) -> Placement:
    """0.4 wide, 0.2 high, on the wall y = 3, looked at from y = 0: right is +x, down is -z."""
    camera = Camera.look_at([0, 0, 1], [0, 3, 1], UP, 320, 200, 50)
    return place_by_numbers([0, 3, 1], [0, -1, 0], 0.4, 0.5, camera, UP, in_plane_deg)


def test_handles_stand_on_the_patch_with_its_axes():
    position, wxyz = handle_pose(_placement())
    assert position == pytest.approx([0, 3, 1])
    again = dragged(_placement(), position, wxyz)
    assert again.center == pytest.approx([0, 3, 1], abs=1e-6)
    assert again.in_plane_deg == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize(
    ("to", "wanted"),
    [
        ([0.3, 3.0, 1.1], [0.3, 3.0, 1.1]),
        # pulled off the wall: back along the normal
        ([0.3, 2.0, 1.1], [0.3, 3.0, 1.1]),
        ([-0.2, 3.5, 0.7], [-0.2, 3.0, 0.7]),
    ],
)
def test_a_drag_ends_on_the_surface(to, wanted):
    placed = _placement()
    after = dragged(placed, to, handle_pose(placed)[1])
    assert after.center == pytest.approx(wanted, abs=1e-6)
    assert (after.width, after.height) == pytest.approx((0.4, 0.2))
    assert after.right == pytest.approx(placed.right, abs=1e-6)


@pytest.mark.parametrize(("start", "by", "angle"), [(0, 30, 30), (20, -50, -30), (170, 20, -170)])
def test_a_turn_of_the_ring_turns_the_patch_clockwise(start, by, angle):
    placed = _placement(start)
    # clockwise as seen from the front is right towards down
    c, s = np.cos(np.radians(by)), np.sin(np.radians(by))
    right, down = c * placed.right + s * placed.down, c * placed.down - s * placed.right
    axes = np.stack([right, down, np.cross(right, down)], axis=1)
    after = dragged(placed, placed.center, matrices_to_quaternions(axes[None])[0])
    assert after.in_plane_deg == pytest.approx(angle, abs=1e-3)
    assert after.right == pytest.approx(right, abs=1e-6)
    assert after.down == pytest.approx(down, abs=1e-6)
