"""What the 3D viewport shows of a session: splats, patch outline, target box, dome, cameras."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from app.captures import far_views
from app.client_markers import ClientMarkers, ViewFrustum
from app.display import display_copy, most_important, storage_scale
from app.dome import Dome, build_dome
from app.gizmo import Gizmo, OnDrag
from scene.camera import Camera
from scene.gaussians import Gaussians, matrices_to_quaternions

if TYPE_CHECKING:
    import viser

    from app.session import Session
    from patching.placement import Placement

OUTLINE_COLOR = (255, 214, 10)
TARGET_COLOR = (0, 200, 120)
VIEW_COLOR = (255, 255, 255)
CAPTURE_COLOR = (150, 150, 160)
FAR_SIZE = 0.55
"""Of markers far from every capture camera, in sizes of the others."""
MARKERS = ("dome", "view", "captures")
"""What takes clicks or hide surfaces."""
BOX_EDGES = [(i, i ^ bit) for i in range(8) for bit in (1, 2, 4) if not i & bit]


def _alone(method: Callable[..., None]) -> Callable[..., None]:
    """Only one thread at a time draws: worker, refresher and jobs all do."""

    @wraps(method)
    def guarded(self: Viewport, *args: Any, **options: Any) -> None:
        with self._lock:
            method(self, *args, **options)

    return guarded


class Viewport:
    """Draws a session into a viser scene. Safe to call from any thread.

    on_marker(index, client): called (from viser's threads) when a dome marker is clicked, with the
    browser that did. on_capture(index, client): the same for a capture camera. on_drag: when the
    patch's handles are dragged (see `Gizmo`).
    """

    def __init__(
        self,
        server: viser.ViserServer,
        session: Session,
        display_budget: int,
        on_marker: Callable[[int, Any], None],
        on_capture: Callable[[int, Any], None],
        on_drag: OnDrag,
    ) -> None:
        self._lock = threading.RLock()
        self._scene = server.scene
        self._session = session
        self._on_capture = on_capture
        self._nodes: dict[str, list[Any]] = {}
        self._markers = ClientMarkers(server, on_marker)
        self.dome: Dome | None = None
        self.display_budget = display_budget
        self.kind = "clean"
        self.shown = 0
        self.total = 0
        self.victims_eye = False
        self._markers_hidden = False
        self.captures_shown = False
        self._standing_at: int | None = None
        self.gizmo = Gizmo(server.scene, on_drag)

    @property
    def unit(self) -> float:
        """Length that sizes the markers: the distance from the anchor to the pivot."""
        session = self._session
        return max(float(np.linalg.norm(session.anchor_camera.center - session.pivot)), 1e-6)

    @_alone
    def refresh_all(self) -> None:
        """Draw everything anew, for a scene that was just opened."""
        self._scene.set_up_direction(self._session.scene.up)
        self._scene.world_axes.visible = False
        self._light_flatly()
        self.refresh_splats()
        self.refresh_outline()
        self.refresh_target()
        self.refresh_captures()
        self.refresh_dome()

    def sky(self) -> NDArray[np.uint8]:
        """(1, 1, 3) picture of the scene's background color, to stand behind the splats."""
        color = np.clip(np.asarray(self._session.scene.background), 0, 1)
        return np.rint(color * 255).astype(np.uint8).reshape(1, 1, 3)

    @_alone
    def refresh_splats(self) -> None:
        """Send the display copy: what all kinds share once, and each kind's own part."""
        self._clear("splats")
        parts = self._session.patchwork.display_parts()
        shared = parts.pop("shared")
        own = max((len(part) for part in parts.values()), default=0)
        eye = self._session.anchor_camera.center
        target = self._session.scene.target
        chosen = most_important(shared, max(self.display_budget - own, 0), eye, target)
        scale = storage_scale(shared)
        self._add_splats("shared", shared.select(chosen), scale)
        for kind, part in parts.items():
            self._add_splats(
                kind, part.select(most_important(part, self.display_budget, eye)), scale
            )
        self.shown = len(chosen) + min(own, self.display_budget)
        self.total = len(shared) + own
        self._show_kind()

    @_alone
    def show_kind(self, kind: str) -> None:
        """Switch the splats to one render kind ("clean", "gray", "adversarial", ...)."""
        self.kind = kind
        self._show_kind()

    @_alone
    def set_victims_eye(self, on: bool) -> None:
        """Hide everything, for our own renderer's frame to fill the canvas, or show it again."""
        self.victims_eye = on
        self._show_kind()
        self._show_groups()

    @_alone
    def hide_markers(self, hide: bool) -> None:
        """Take away what stands in the way of a click on a surface, or bring it back."""
        self._markers_hidden = hide
        self._show_groups()

    @_alone
    def refresh_outline(self) -> None:
        """The patch's edge on its surface, and the handles that drag it."""
        placement = self._session.patchwork.placement
        self.gizmo.show(placement)
        self._show_groups()
        self.draw_outline(placement)

    @_alone
    def draw_outline(self, placement: Placement | None) -> None:
        """The edge of `placement`, lifted a little towards the anchor."""
        self._clear("outline")
        if placement is None:
            return
        edge = placement.outline(steps=8)
        towards = self._session.anchor_camera.center - edge
        edge = edge + towards / np.linalg.norm(towards, axis=1, keepdims=True) * (0.004 * self.unit)
        segments = np.stack([edge, np.roll(edge, -1, axis=0)], axis=1)
        self._add_lines("outline", "/patch/outline", segments, OUTLINE_COLOR, 4.0)

    @_alone
    def refresh_target(self) -> None:
        """The target's 3D box."""
        self._clear("target")
        box = self._session.scene.target
        if box is None:
            return
        signs = np.array([[(i >> b & 1) * 2 - 1 for b in range(3)] for i in range(8)])
        corners = box.center + (signs * box.half_sizes) @ box.axes
        segments = np.array([[corners[i], corners[j]] for i, j in BOX_EDGES])
        self._add_lines("target", "/target/box", segments, TARGET_COLOR, 2.0)

    @_alone
    def refresh_captures(self, show: bool = False) -> None:
        """Frustums of the cameras that the scene was reconstructed from."""
        self._clear("captures")
        self.captures_shown = show
        if not show:
            return
        for index, capture in enumerate(self._session.scene.cameras):
            node: Any = self._scene.add_camera_frustum(
                f"/captures/{index}",
                position=capture.camera.center,
                **frustum_options(capture.camera, CAPTURE_COLOR, 0.06 * self.unit),
            )
            node.visible = self._shows("captures")
            node.on_click(lambda event, index=index: self._on_capture(index, event.client))
            self._keep("captures", node)

    @_alone
    def stand_at_capture(self, index: int | None) -> None:
        """Take away the frustum that somebody now looks out of; the others are shown."""
        self._standing_at = index
        self._show_groups()

    @_alone
    def show_thumbnail(self, index: int, picture: NDArray[np.uint8]) -> None:
        """Put what a capture camera sees into its frustum."""
        nodes = self._nodes.get("captures", [])
        if index < len(nodes):
            nodes[index].image = picture

    @_alone
    def refresh_dome(self) -> None:
        """Markers at the swept cameras; only their colors are sent when the cells are the same."""
        session = self._session
        cells = session.readings.states()
        old = self.dome
        self.dome = build_dome(cells, session.anchor_camera, session.pivot, session.scene.up)
        same = (
            old is not None
            and old.conditions == self.dome.conditions
            and np.allclose(old.positions, self.dome.positions)
        )
        if same:
            self._markers.recolor(self.dome)
            return
        far = far_views(session.scene, self.dome.cameras, session.pivot)
        sizes = np.where(far, FAR_SIZE, 1.0).astype(np.float32)
        self._markers.show(self.dome, sizes, self.unit, session.pivot)

    @_alone
    def welcome(self, client: Any) -> None:
        """Show the dome to a browser that came."""
        self._markers.welcome(client)

    @_alone
    def see_off(self, client: Any) -> None:
        """Forget a browser that left."""
        self._markers.see_off(client)

    @_alone
    def make_way(self, eyes: Mapping[int, ArrayLike]) -> None:
        """Take away, for each browser, the markers that its own camera stands in.

        eyes: client id -> position of its camera, (3,) world units.
        """
        self._markers.make_way(eyes)

    @_alone
    def refresh_view(self, picture: NDArray[np.uint8] | None) -> None:
        """The frustum of the sliders' camera, with what was last rendered in it."""
        camera = self._session.camera()
        options = frustum_options(camera, VIEW_COLOR, 0.07 * self.unit)
        options |= {"image": picture, "line_width": 2.5}
        self._markers.show_view(ViewFrustum(camera.center, options))

    def _shows(self, group: str) -> bool:
        """Whether nodes of a group are to be seen now."""
        return not self.victims_eye and not (self._markers_hidden and group in MARKERS)

    def _show_groups(self) -> None:
        for group in ("outline", "target", "captures"):
            for node in self._nodes.get(group, []):
                node.visible = self._shows(group)
        self._markers.set_visible(self._shows("dome"), self._shows("view"))
        if self._standing_at is not None and self.captures_shown:
            for node in self._nodes.get("captures", [])[self._standing_at :][:1]:
                node.visible = False
        self.gizmo.set_visible(self._shows("outline") and not self._markers_hidden)

    def _light_flatly(self) -> None:
        """Light that leaves the markers' colors what the legend says, with a hint of shape."""
        self._scene.configure_environment_map(None)
        self._scene.configure_default_lights(False)
        self._scene.add_light_ambient("/lights/ambient", intensity=2.7)
        self._scene.add_light_directional(
            "/lights/above", intensity=0.8, position=self._session.scene.up
        )

    def _add_splats(self, kind: str, part: Gaussians, scale: float) -> None:
        if len(part) == 0:
            return
        splats = display_copy(part, scale)
        node = self._scene.add_gaussian_splats(
            f"/splats/{kind}",
            centers=splats.centers,
            covariances=splats.covariances,
            rgbs=splats.rgbs,
            opacities=splats.opacities,
            scale=splats.scale,
        )
        self._keep("splats", node)

    def _show_kind(self) -> None:
        for node in self._nodes.get("splats", []):
            part = node.name.rsplit("/", 1)[-1]
            node.visible = part in ("shared", self.kind) and not self.victims_eye

    def _add_lines(
        self, group: str, name: str, segments: NDArray[Any], color: tuple[int, int, int], px: float
    ) -> None:
        node = self._scene.add_line_segments(
            name,
            points=segments.astype(np.float32),
            colors=color,
            thickness=px,
            thickness_units="screen",
            visible=not self.victims_eye,
        )
        self._keep(group, node)

    def _keep(self, group: str, node: Any) -> None:
        self._nodes.setdefault(group, []).append(node)

    def _clear(self, group: str) -> None:
        for node in self._nodes.pop(group, []):
            node.remove()


def frustum_options(camera: Camera, color: tuple[int, int, int], size: float) -> dict[str, Any]:
    """How viser draws the frustum of `camera`, `size` world units deep; without its position."""
    rotation = camera.camera_from_world[:3, :3].T[None]
    return {
        "fov": float(2 * np.arctan(0.5 * camera.height / camera.K[1, 1])),
        "aspect": camera.width / camera.height,
        "scale": size,
        "color": color,
        "wxyz": matrices_to_quaternions(rotation)[0],
    }


def fly(client: viser.ClientHandle, camera: Camera, distance: float) -> None:
    """Put a browser's camera where `camera` is, so that the whole of its picture is in sight.

    distance: world units ahead about which the browser then orbits. The principal point is shown
    centered: browsers have no shifted lens (the victim's-eye mode has).
    """
    position, look_at, up = view_of(camera, distance)
    view = client.camera
    with client.atomic():
        view.up_direction = up
        view.position = position
        view.look_at = look_at
        view.fov = fitting_fov(camera, view.aspect)


def view_of(camera: Camera, distance: float) -> tuple[Any, Any, Any]:
    """(position, look_at, up) of a browser's camera that looks as `camera` does."""
    return camera.center, camera.center + distance * camera.forward, -camera.down


def fitting_fov(camera: Camera, aspect: float) -> float:
    """Vertical field of view, radians, in which all of `camera`'s picture fits a canvas.

    aspect: the canvas's width over height.
    """
    half_height = 0.5 * camera.height / camera.K[1, 1]
    half_width = 0.5 * camera.width / camera.K[0, 0]
    return float(2 * np.arctan(max(half_height, half_width / max(aspect, 1e-3))))
