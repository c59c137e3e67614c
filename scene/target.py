"""The object that victims should see: which Gaussians it is, and how much of it a view shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scene.camera import Camera
from scene.errors import InputError
from scene.gaussians import SH_C0, Gaussians
from scene.render.api import Backend, Renderer, RenderSettings, make_renderer
from scene.scene import Scene, TargetBox
from scene.surface.depth import depth_cluster

if TYPE_CHECKING:
    from scene.render.cpu.frame import Frame

Box = tuple[float, float, float, float]

_VISIBLE = 0.5
_SHARE = 0.2
_SHADOW_ALPHA = 1 / 255
# The enlarged frame for the whole silhouette reaches this many picture sizes beyond the picture,
# and is drawn smaller when it would hold more than this multiple of the picture's pixels.
_REACH = 4.0
_FRAME_BUDGET = 1.0
_MAX_SIGMAS = 3.4

MAX_CAPTURE_ANGLE_DEG = 30.0
MAX_CAPTURE_DISTANCE = 2.0
"""A view beyond one of these from every capture camera is extrapolated (method.md section 4)."""


@dataclass(frozen=True, eq=False)
class TargetSelection:
    """The target's Gaussians: (M,) sorted row numbers in the scene."""

    indices: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.indices)


@dataclass(frozen=True, eq=False)
class TargetView:
    """What one camera sees of the target.

    mask: (H, W) bool, pixels where the target's Gaussians, occlusion counted, weigh >= 0.5.
    visible_px: pixels of the mask. silhouette_px: pixels that the whole target would cover were
    nothing in front of it and the frame unbounded (what lies behind the camera is not counted).
    box: (x0, y0, x1, y1) tight around the mask, right and bottom edges exclusive; None when empty.
    """

    mask: NDArray[np.bool_]
    visible_px: int
    silhouette_px: int
    box: Box | None

    @property
    def visible_share(self) -> float:
        """Visible over whole silhouette, in [0, 1]; 0 where there is no silhouette."""
        return min(1.0, self.visible_px / self.silhouette_px) if self.silhouette_px else 0.0


class NearestCapture(NamedTuple):
    """How far a view is from what was photographed.

    distance_ratio: this camera's distance from the pivot over that capture camera's.
    angle_deg: between the two directions, seen from the pivot.
    """

    distance_ratio: float
    angle_deg: float
    name: str


def select_in_box(gaussians: Gaussians, box: TargetBox) -> TargetSelection:
    """The Gaussians whose centres lie in an oriented 3D box. Raises InputError for none."""
    local = (gaussians.means - box.center) @ np.asarray(box.axes).T
    indices = np.flatnonzero((np.abs(local) <= box.half_sizes).all(axis=1))
    if len(indices) == 0:
        raise InputError("the target box holds no Gaussian: move or enlarge it")
    return TargetSelection(indices)


def select_from_anchor_box(
    gaussians: Gaussians, camera: Camera, box_xyxy: ArrayLike, median_depth: ArrayLike
) -> TargetSelection:
    """The target in a 2D box of the anchor view, lifted by depth.

    The nearest depth cluster of the box that holds >= 20 % of its solid pixels is the target's
    front; clusters part at 10 % of the depth or a quarter of the box's smaller side, whichever is
    less. The back may lie half that side deeper, but at most half-way to what is behind.
    box_xyxy: pixels of `camera`. median_depth: (H, W) of the clean anchor render.
    Raises InputError when the box shows nothing solid.
    """
    x0, y0, x1, y1 = (float(v) for v in np.asarray(box_xyxy, dtype=np.float64))
    depth = np.asarray(median_depth, dtype=np.float64)
    columns = slice(max(0, int(np.floor(x0))), max(0, int(np.ceil(x1))))
    rows = slice(max(0, int(np.floor(y0))), max(0, int(np.ceil(y1))))
    inside = depth[rows, columns].ravel()
    if not (inside > 0).any():
        raise InputError(
            f"the anchor box ({x0:g}, {y0:g}, {x1:g}, {y1:g}) shows nothing solid: draw it around "
            f"the target"
        )
    side_per_depth = min((x1 - x0) / camera.K[0, 0], (y1 - y0) / camera.K[1, 1])
    side = side_per_depth * float(np.quantile(inside[inside > 0], _SHARE))
    member, behind = depth_cluster(inside, 0.25 * side)
    front, back = inside[member].min(), inside[member].max()
    far = back + min(0.5 * side, 0.5 * (behind - back))
    pixels, z = camera.project(gaussians.means)
    in_box = (pixels >= [x0, y0]).all(axis=1) & (pixels <= [x1, y1]).all(axis=1)
    indices = np.flatnonzero(in_box & (z >= front - 0.1 * side) & (z <= far))
    if len(indices) == 0:
        raise InputError("the anchor box holds no Gaussian at the depth it shows: draw it larger")
    return TargetSelection(indices)


@runtime_checkable
class _Recolorable(Protocol):
    """A renderer that can share its geometry."""

    def recolored(self, colors: NDArray[np.float32]) -> Renderer:
        """The same Gaussians in other colors (N, 3)."""
        ...


class TargetViewer:
    """Sees the target from any camera, at about the cost of one extra render of the scene.

    Safe to call from several threads.
    """

    def __init__(
        self,
        gaussians: Gaussians,
        indices: NDArray[np.int64],
        settings: RenderSettings | None = None,
        backend: Backend = "auto",
        renderer: Renderer | None = None,
    ) -> None:
        """gaussians: the clean scene. indices: (M,) rows of the target.

        renderer: one of the same Gaussians whose prepared geometry can be shared, if there is one.
        """
        if len(indices) == 0:
            raise InputError("the target has no Gaussians: choose it again")
        colors = np.zeros(len(gaussians), dtype=np.float32)
        colors[indices] = 1
        self._marks = colors > 0
        target = gaussians.select(np.asarray(indices))
        self._target = target
        self._reach = target.scales.max(axis=1) * _MAX_SIGMAS
        self._marked: Renderer = (
            renderer.recolored(np.repeat(colors[:, None], 3, axis=1))
            if isinstance(renderer, _Recolorable)
            else make_renderer(_painted(gaussians, colors), backend, settings)
        )
        self._alone: Renderer = make_renderer(
            _painted(target, np.ones(len(target), dtype=np.float32)), backend, settings
        )

    def view(self, camera: Camera, frame: Frame | None = None) -> TargetView:
        """Visible mask, its box, and the area of the whole silhouette.

        frame: the clean scene as drawn from `camera`, if there is one; saves a render.
        """
        bounds = self._bounds(camera)
        if bounds is None:
            return TargetView(np.zeros((camera.height, camera.width), dtype=bool), 0, 0, None)
        x0, y0, x1, y1 = bounds
        if x1 <= 0 or y1 <= 0 or x0 >= camera.width or y0 >= camera.height:
            mask = np.zeros((camera.height, camera.width), dtype=bool)
        else:
            weight = frame.weight(self._marks) if frame else self._marked.render(camera).rgb[..., 0]
            mask = weight >= _VISIBLE
        return TargetView(
            mask=mask,
            visible_px=int(np.count_nonzero(mask)),
            silhouette_px=self._silhouette(camera, bounds),
            box=mask_box(mask),
        )

    def _bounds(self, camera: Camera) -> Box | None:
        """Pixel rectangle around all of the target in front of the camera, limited to `_REACH`."""
        pixels, z = camera.project(self._target.means)
        drawn = (z > self._alone.settings.near) & (self._target.opacities >= _SHADOW_ALPHA)
        if not drawn.any():
            return None
        radius = self._reach[drawn, None] * camera.K[[0, 1], [0, 1]] / z[drawn, None] + 1
        size = np.array([camera.width, camera.height])
        low = np.maximum((pixels[drawn] - radius).min(axis=0), -_REACH * size)
        high = np.minimum((pixels[drawn] + radius).max(axis=0), (1 + _REACH) * size)
        if (high <= low).any():
            return None
        (x0, y0), (x1, y1) = np.floor(low), np.ceil(high)
        return float(x0), float(y0), float(x1), float(y1)

    def _silhouette(self, camera: Camera, bounds: Box) -> int:
        x0, y0, x1, y1 = bounds
        width, height = x1 - x0, y1 - y0
        budget = _FRAME_BUDGET * camera.width * camera.height
        shrink = min(1.0, float(np.sqrt(budget / (width * height))))
        K = camera.K.copy()
        K[:2, 2] -= (x0, y0)
        K[:2] *= shrink
        frame = Camera(
            camera.camera_from_world,
            K,
            max(1, int(np.ceil(width * shrink))),
            max(1, int(np.ceil(height * shrink))),
        )
        alpha = self._alone.render(frame).alpha
        return round(np.count_nonzero(alpha >= _VISIBLE) / shrink**2)


def mask_box(mask: NDArray[np.bool_]) -> Box | None:
    """Tight (x0, y0, x1, y1) around the true pixels of (H, W), right and bottom edges exclusive."""
    columns, rows = np.flatnonzero(mask.any(axis=0)), np.flatnonzero(mask.any(axis=1))
    if len(columns) == 0:
        return None
    return float(columns[0]), float(rows[0]), float(columns[-1] + 1), float(rows[-1] + 1)


class CaptureRing:
    """A scene's capture cameras as seen from a pivot; made once, asked for every view."""

    def __init__(self, scene: Scene, pivot: ArrayLike | None = None) -> None:
        """pivot: (3,); default the target's centre, else the centroid of the Gaussians.

        Only capture cameras that have the pivot in their picture count, unless none has.
        """
        if pivot is None and scene.cameras:
            middle = np.median(scene.gaussians.means, axis=0)
            pivot = scene.target.center if scene.target else middle
        self._pivot = np.asarray(pivot if scene.cameras else (0, 0, 0), dtype=np.float64)
        seeing = [c for c in scene.cameras if _sees(c.camera, self._pivot)] or list(scene.cameras)
        self._names = [c.name for c in seeing]
        centers = np.array([c.camera.center for c in seeing]).reshape(-1, 3)
        self._from_pivot = centers - self._pivot
        self._distances = np.maximum(np.linalg.norm(self._from_pivot, axis=1), 1e-12)

    def nearest(self, camera: Camera) -> NearestCapture | None:
        """The capture camera nearest to `camera`; None when the scene has none.

        Nearest is the least angle, after adding 30 degrees per doubling of the distance beyond its
        own; those within both limits come before all others, so that a view is beyond a limit only
        when it is so for every camera.
        """
        if not self._names:
            return None
        own = camera.center - self._pivot
        own_distance = max(float(np.linalg.norm(own)), 1e-12)
        cosines = np.clip(self._from_pivot @ own / (self._distances * own_distance), -1, 1)
        angles = np.degrees(np.arccos(cosines))
        ratios = own_distance / self._distances
        cost = angles + 30 * np.maximum(0, np.log2(ratios))
        near = within_capture_limits(angles, ratios)
        best = int(np.argmin(np.where(near, cost, cost + 1e3)))
        return NearestCapture(float(ratios[best]), float(angles[best]), self._names[best])


def within_capture_limits(angle_deg: Any, distance_ratio: Any) -> Any:
    """Whether a view is near enough to a capture camera (numbers or arrays); else extrapolated."""
    return (angle_deg <= MAX_CAPTURE_ANGLE_DEG) & (distance_ratio <= MAX_CAPTURE_DISTANCE)


def _sees(camera: Camera, point: NDArray[np.float64]) -> bool:
    (x, y), z = camera.project(point)
    return bool(z > 0 and 0 <= x <= camera.width and 0 <= y <= camera.height)


def _painted(gaussians: Gaussians, colors: NDArray[np.float32]) -> Gaussians:
    """The same Gaussians in flat gray (N,) values, without view dependence."""
    dc = ((colors - np.float32(0.5)) / np.float32(SH_C0))[:, None, None]
    return Gaussians(
        gaussians.means,
        gaussians.quats,
        gaussians.scales,
        gaussians.opacities,
        np.broadcast_to(dc, (len(colors), 1, 3)),
    )
