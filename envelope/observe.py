"""What a camera can see: whether the target is observable, where it is, how the patch lies.

Truth comes from the clean scene alone and is computed once per camera, for all render kinds and
victims.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from envelope.outcome import XYXY
from scene.camera import Camera
from scene.render.api import Window
from scene.target import within_capture_limits

if TYPE_CHECKING:
    from patching.anchor import Anchor
    from scene.render.cpu.frame import Frame
    from scene.scene import Scene
    from scene.target import TargetView

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float32]

MIN_VISIBLE_SHARE = 0.25
MIN_BOX_HEIGHT_PX = 12
MIN_PATCH_PX = 10


@dataclass(frozen=True)
class Observation:
    """The facts of one view at render size; the verdicts are read from them.

    visible_px: pixels of the target's visible mask. silhouette_px: of its whole silhouette were
    nothing in front and the frame unbounded. box: tight box of the visible mask.
    patch_px: visible pixels of the patch. footprint: their tight box. incidence_deg: angle between
    the patch's normal and the way to the camera (0 frontal, above 90 from behind).
    capture_distance: distance to the scene as a multiple of the nearest capture camera's, and
    capture_angle_deg the angle to it; None where the scene has no capture cameras.
    held_elevation_deg: where the camera stands instead of at a nominal elevation too near to, or
    beyond, straight up or down; None where it stands as asked.
    """

    visible_px: int
    silhouette_px: int
    box: XYXY | None
    patch_px: int = 0
    footprint: XYXY | None = None
    incidence_deg: float = 0.0
    capture_distance: float | None = None
    capture_angle_deg: float | None = None
    held_elevation_deg: float | None = None

    @property
    def visible_share(self) -> float:
        """Visible part of the whole silhouette, 0 to 1."""
        return min(1.0, self.visible_px / self.silhouette_px) if self.silhouette_px > 0 else 0.0

    @property
    def unobservable_because(self) -> str:
        """Why the condition is not counted, in a few words; "" when it is observable."""
        if self.held_elevation_deg is not None:
            return f"beyond the pole: the camera stops at elevation {self.held_elevation_deg:.1f}"
        if self.box is None or self.visible_px == 0:
            return "target not in view"
        if self.visible_share < MIN_VISIBLE_SHARE:
            return f"only {100 * self.visible_share:.0f} % of the target visible"
        height = self.box[3] - self.box[1]
        if height < MIN_BOX_HEIGHT_PX:
            return f"target only {height:.0f} px high"
        return ""

    @property
    def observable(self) -> bool:
        """A view of its own, visible share >= 25 %, visible box >= 12 px high (method.md 4)."""
        return not self.unobservable_because

    @property
    def patch_hidden(self) -> bool:
        """Fewer than 10 visible patch pixels: counted, but tagged."""
        return self.patch_px < MIN_PATCH_PX

    @property
    def extrapolated(self) -> bool:
        """Far from every capture camera: what is seen may be reconstruction, not evidence."""
        if self.capture_angle_deg is None or self.capture_distance is None:
            return False
        return not within_capture_limits(self.capture_angle_deg, self.capture_distance)

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags that apply, of "unobservable", "patch hidden", "extrapolated"."""
        flags = {
            "unobservable": not self.observable,
            "patch hidden": self.patch_hidden,
            "extrapolated": self.extrapolated,
        }
        return tuple(name for name, on in flags.items() if on)

    def to_dict(self) -> dict[str, Any]:
        """The facts by name, for JSON."""
        return asdict(self)


class Target(Protocol):
    """`scene.target.TargetViewer`, as far as it is needed here."""

    def view(self, camera: Camera, frame: Frame | None = None) -> TargetView:
        """The target's visible mask and silhouette."""
        ...


class Observer:
    """Computes the observation of any camera of one scene and anchor."""

    def __init__(self, scene: Scene, target: Target, anchor: Anchor) -> None:
        """target: the chosen Gaussians of the CLEAN scene; anchor: where the patch lies."""
        from scene.target import CaptureRing

        self._target = target
        self._anchor = anchor
        self._captures = CaptureRing(scene, patch_center(anchor))

    def depth_window(self, camera: Camera) -> Window:
        """The rows and columns of the clean scene's depth that `observe` reads."""
        from patching.raycast import patch_window

        if self._anchor.placement is None:
            return slice(0, camera.height), slice(0, camera.width)
        return patch_window(self._anchor.placement, camera) or (slice(0, 0), slice(0, 0))

    def observe(
        self, camera: Camera, median_depth: FloatArray, frame: Frame | None = None
    ) -> Observation:
        """What can be seen, from the clean scene's depth.

        median_depth: (H, W) as `camera` sees it, 0 where there is nothing; only `depth_window` is
        read.
        frame: the clean scene as `camera` sees it, where the back end keeps one.
        """
        from scene.target import mask_box

        view = self._target.view(camera, frame)
        visible, incidence = patch_in_view(self._anchor, camera, median_depth)
        nearest = self._captures.nearest(camera)
        return Observation(
            visible_px=int(view.visible_px),
            silhouette_px=int(view.silhouette_px),
            box=view.box,
            patch_px=int(visible.sum()),
            footprint=mask_box(visible),
            incidence_deg=incidence,
            capture_distance=None if nearest is None else nearest.distance_ratio,
            capture_angle_deg=None if nearest is None else nearest.angle_deg,
        )


def patch_in_view(
    anchor: Anchor, camera: Camera, median_depth: FloatArray
) -> tuple[BoolArray, float]:
    """(H, W) mask of the pixels that show the patch, and its incidence angle in degrees."""
    if anchor.placement is None:
        return _mask_in_view(anchor, camera, median_depth)
    from patching.placement import footprint

    seen = footprint(anchor.placement, camera, median_depth)
    return seen.visible, float(seen.incidence_deg)


def patch_center(anchor: Anchor) -> NDArray[np.float64]:
    """(3,) the patch's centroid on its surface: the point that conditions turn about."""
    if anchor.placement is not None:
        return np.array(anchor.placement.center, dtype=np.float64)
    pixels = anchor.camera.pixel_centers()[anchor.mask]
    points, hit = anchor.surface.intersect(anchor.camera.center, anchor.camera.rays(pixels))
    return np.asarray(points[hit].mean(axis=0), dtype=np.float64)


def _mask_in_view(
    anchor: Anchor, camera: Camera, median_depth: FloatArray
) -> tuple[BoolArray, float]:
    """`patch_in_view` for an outside pair: the anchor's mask carried over by its surface."""
    directions = camera.rays(camera.pixel_centers())
    points, hit = anchor.surface.intersect(camera.center, directions)
    depth = (points - camera.center) @ camera.forward
    at, in_front = anchor.camera.project(points)
    column = np.floor(np.nan_to_num(at[..., 0], nan=-1)).clip(-1, anchor.camera.width).astype(int)
    row = np.floor(np.nan_to_num(at[..., 1], nan=-1)).clip(-1, anchor.camera.height).astype(int)
    padded = np.pad(anchor.mask, 1)
    visible = hit & (in_front > 0) & padded[row + 1, column + 1]
    visible &= (median_depth <= 0) | (depth <= 1.03 * median_depth)
    center = patch_center(anchor)
    normal = anchor.surface.normal_at(center[None])[0]
    if normal @ (anchor.camera.center - center) < 0:
        normal = -normal
    way = camera.center - center
    cosine = float(normal @ way / np.linalg.norm(way))
    incidence = math.degrees(math.acos(min(1.0, max(-1.0, cosine))))
    if incidence >= 90:
        visible = np.zeros_like(visible)
    return visible, incidence
