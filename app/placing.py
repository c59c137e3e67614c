"""Where a patch may lie: sizes, moves, the first anchor camera, an outside pair's files."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from scene.errors import InputError
from scene.gaussians import quaternions_to_matrices

if TYPE_CHECKING:
    from patching.anchor import Anchor
    from patching.placement import Placement
    from scene.camera import Camera
    from scene.render.api import Renderer
    from scene.scene import Scene

NUDGE_SHARE = 0.1
TARGET_SHARE = 0.3


def target_width(scene: Scene, camera: Camera) -> float:
    """Width of the target across the picture of `camera`, world units.

    Without a target: a fifth of the distance from the camera to the middle of the scene.
    """
    if scene.target is None:
        middle = np.median(scene.gaussians.means, axis=0)
        return 0.2 * float(np.linalg.norm(camera.center - middle))
    box = scene.target
    reach = np.abs(box.axes @ camera.right) * box.half_sizes
    return 2.0 * float(reach.sum())


def ray_pixel(camera: Camera, point: ArrayLike) -> tuple[float, float]:
    """The pixel of `camera` that shows `point`. Raises InputError when it shows it not."""
    (x, y), z = camera.project(np.asarray(point))
    if not (z > 0 and 0 <= x < camera.width and 0 <= y < camera.height):
        raise InputError("this point is outside the anchor view; choose one that the anchor sees")
    return float(x), float(y)


def moved(placement: Placement, way: str) -> Placement:
    """The placement a tenth of its size further "left", "right", "up" or "down"."""
    steps = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}
    if way not in steps:
        raise InputError(f"nudge: wanted left, right, up or down, found {way!r}")
    u, v = steps[way]
    center = placement.from_uv([0.5 + NUDGE_SHARE * u, 0.5 + NUDGE_SHARE * v])
    return replace(placement, center=center)


def turned(placement: Placement, width: float, aspect: float, in_plane_deg: float) -> Placement:
    """The placement at the same point with another width (world units) and in-plane angle."""
    turn = np.radians(in_plane_deg - placement.in_plane_deg)
    right = np.cos(turn) * placement.right + np.sin(turn) * placement.down
    down = np.cos(turn) * placement.down - np.sin(turn) * placement.right
    return replace(
        placement, right=right, down=down, width=width, height=width * aspect,
        in_plane_deg=float(in_plane_deg),
    )  # fmt: skip


def dragged(placement: Placement, position: ArrayLike, wxyz: ArrayLike) -> Placement:
    """The placement where handles in the scene were dragged to, kept on its surface.

    position: (3,) of the handles; moved back to the surface along the patch's normal.
    wxyz: world_from_handles quaternion whose x and y were the patch's right and down; its part
    about the patch's normal turns the patch.
    """
    rotation = quaternions_to_matrices(np.asarray(wxyz, dtype=np.float32)[None])[0]
    right = rotation[:, 0].astype(np.float64)
    along = np.array([right @ placement.right, right @ placement.down])
    turn = np.degrees(np.arctan2(along[1], along[0])) if np.linalg.norm(along) > 1e-6 else 0.0
    center = placement.from_uv(placement.to_uv(np.asarray(position, dtype=np.float64)))
    angle = (placement.in_plane_deg + turn + 180.0) % 360.0 - 180.0
    aspect = placement.height / placement.width
    return turned(replace(placement, center=center), placement.width, aspect, float(angle))


class OutsidePair:
    """An attacked picture and its mask from another pipeline, as uploaded."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="advscene-pair-"))
        self._parts: dict[str, Path] = {}

    def take(self, part: str, content: bytes) -> None:
        """Keep an uploaded "image" or "mask"."""
        path = self._folder / f"{part}.png"
        path.write_bytes(content)
        self._parts[part] = path

    def text(self) -> str:
        """What is there and what is missing."""
        have = [name for name in ("image", "mask") if name in self._parts]
        need = [name for name in ("image", "mask") if name not in self._parts]
        return ", ".join([*(f"{h} here" for h in have), *(f"{n} missing" for n in need)])

    def anchor(self, renderer: Renderer, camera: Camera, background: Any) -> Anchor:
        """The anchor of the pair, seen by `camera`. Raises InputError."""
        from patching.anchor import anchor_from_files

        if len(self._parts) < 2:
            raise InputError(f"an outside pair needs both pictures: {self.text()}")
        return anchor_from_files(
            renderer, self._parts["image"], self._parts["mask"], camera, background
        )


def describe_placement(placement: Placement, metres_per_unit: float | None) -> str:
    """Size, surface and angle in words."""
    if metres_per_unit is None:
        size = f"{placement.width:.3g} x {placement.height:.3g} units"
    else:
        cm = 100 * metres_per_unit
        size = f"{placement.width * cm:.1f} x {placement.height * cm:.1f} cm"
    surface = type(placement.surface).__name__.lower().replace("heightfield", "height field")
    where = ", ".join(f"{x:.2f}" for x in placement.center)
    return f"{size} on a {surface}\nat ({where}), turned {placement.in_plane_deg:.0f}°"


def first_anchor_camera(scene: Scene) -> Camera:
    """Where to place a patch from before anybody chose.

    Of the capture cameras that have the target's whole box in their picture the one that sees it
    least from the side and about `TARGET_SHARE` of the picture large, so that there is room to
    come nearer; without a target the first camera; without cameras a level view of the middle.
    """
    if scene.target is None or not scene.cameras:
        return scene.cameras[0].camera if scene.cameras else _overview(scene)
    box = scene.target
    signs = np.array([[(i >> b & 1) * 2 - 1 for b in range(3)] for i in range(8)])
    corners = box.center + (signs * box.half_sizes) @ box.axes
    thin = box.axes[int(np.argmin(box.half_sizes))]

    def score(camera: Camera) -> float:
        pixels, z = camera.project(corners)
        if not (z > 0).all():
            return -np.inf
        low, high = pixels.min(axis=0), pixels.max(axis=0)
        inside = (low >= 0).all() and (high <= [camera.width, camera.height]).all()
        share = float((high - low).max()) / max(camera.width, camera.height)
        way = box.center - camera.center
        frontal = abs(float(thin @ way)) / float(np.linalg.norm(way))
        off_size = abs(float(np.log2(max(share, 1e-6) / TARGET_SHARE)))
        return frontal - 0.3 * off_size - (0.0 if inside else 4.0)

    return max((shot.camera for shot in scene.cameras), key=score)


def _overview(scene: Scene) -> Camera:
    """A 4:3 view of the scene's middle half, from a level direction."""
    from scene.camera import Camera

    means = scene.gaussians.means.astype(np.float64)
    middle = np.median(means, axis=0)
    reach = float(np.quantile(np.linalg.norm(means - middle, axis=1), 0.5))
    up = np.asarray(scene.up, dtype=np.float64)
    side = np.cross(up, [1.0, 0.0, 0.0] if abs(up[0]) < 0.9 else [0.0, 0.0, 1.0])
    eye = middle + 3.0 * max(reach, 1e-6) * side / np.linalg.norm(side)
    return Camera.look_at(eye, middle, up, 640, 480, 45.0)
