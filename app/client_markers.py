"""The dome's markers and the sliders' view in every browser, for its own camera's sake.

A browser whose camera stands in a marker would see one color only, and one that stands at the
sliders' view nothing but the picture in its frustum. What stands in the way is taken away for this
browser until its camera leaves, and stays for all others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from app.dome import Dome, beside, between, marker_mesh

MARKER_SIZE = 0.032
"""Of a marker, in distances from the anchor to the pivot."""
CLEARANCE = 3.0
"""A browser's camera that is nearer to a marker, in marker sizes, would see nothing else."""
SIGHT = 2.0
"""Markers nearer, in marker sizes, to the line from a browser that stands in a marker to the patch
would hide it."""
VANISHED = 1e-4
"""Size of a marker that is out of sight; zero has no inverse matrix."""


@dataclass(frozen=True, eq=False)
class ViewFrustum:
    """Where the sliders' view is. position: (3,). options: what viser's frustum takes."""

    position: NDArray[np.float64]
    options: Mapping[str, Any]


class ClientMarkers:
    """A batched mesh and a frustum per browser. Not safe for several threads: its owner locks.

    on_click(index, client): called from viser's threads.
    """

    def __init__(self, server: Any, on_click: Callable[[int, Any], None]) -> None:
        self._server = server
        self._on_click = on_click
        self._nodes: dict[int, Any] = {}
        self._dome: Dome | None = None
        self._sizes: NDArray[np.float32] = np.empty(0, np.float32)
        self._size = MARKER_SIZE
        self._pivot = np.zeros(3)
        self._visible = True
        self._views: dict[int, Any] = {}
        self._view: ViewFrustum | None = None
        self._view_visible = True

    def show(self, dome: Dome, sizes: NDArray[np.float32], unit: float, pivot: ArrayLike) -> None:
        """Draw `dome` in every browser.

        sizes: (N,) relative ones. unit: distance from the anchor to the pivot. pivot: (3,) what
        the markers' cameras look at.
        """
        self._pivot = np.asarray(pivot, float)
        here = self._server.get_clients()
        for ident, node in self._nodes.items():
            if ident in here:
                node.remove()
        self._nodes.clear()
        self._dome, self._sizes, self._size = dome, sizes, MARKER_SIZE * unit
        for client in here.values():
            self._add_dome(client)

    def show_view(self, view: ViewFrustum) -> None:
        """Draw the frustum of the sliders' view in every browser, instead of the last one."""
        self._view = view
        for client in self._server.get_clients().values():
            self._add_view(client)

    def recolor(self, dome: Dome) -> None:
        """The same markers in other colors."""
        self._dome = dome
        for node in self._nodes.values():
            node.batched_colors = linear_colors(dome.colors)

    def welcome(self, client: Any) -> None:
        """Draw everything in a browser that came, unless it has left meanwhile."""
        if client.client_id not in self._server.get_clients():
            return
        self._add_dome(client)
        if client.client_id not in self._views:
            self._add_view(client)

    def _add_dome(self, client: Any) -> None:
        dome = self._dome
        if dome is None or len(dome) == 0 or client.client_id in self._nodes:
            return
        vertices, faces = marker_mesh(dome.cameras[0].width / dome.cameras[0].height)
        node = client.scene.add_batched_meshes_simple(
            "/dome",
            vertices * np.float32(self._size),
            faces,
            batched_wxyzs=dome.wxyzs,
            batched_positions=dome.positions,
            batched_colors=linear_colors(dome.colors),
            batched_scales=self._scales(client.camera.position),
            lod="off",
            flat_shading=True,
            side="double",
            cast_shadow=False,
            receive_shadow=False,
            visible=self._visible,
        )
        node.on_click(self._clicked)
        self._nodes[client.client_id] = node

    def see_off(self, client: Any) -> None:
        """Forget a browser that left."""
        self._nodes.pop(client.client_id, None)
        self._views.pop(client.client_id, None)

    def make_way(self, eyes: Mapping[int, ArrayLike]) -> None:
        """Take away what each browser's camera stands in, and bring back what it has left.

        eyes: client id -> position of its camera, (3,) world units.
        """
        for ident, eye in eyes.items():
            node = self._nodes.get(ident)
            if node is not None:
                scales = self._scales(eye)
                if not np.array_equal(scales, node.batched_scales):
                    node.batched_scales = scales
            self._let_see(ident, eye)

    def set_visible(self, dome: bool, view: bool) -> None:
        """Hide all markers, or the view's frustum, or bring them back."""
        self._visible, self._view_visible = dome, view
        for node in self._nodes.values():
            node.visible = dome
        for ident, client in self._server.get_clients().items():
            self._let_see(ident, client.camera.position)

    def _add_view(self, client: Any) -> None:
        """A node of the same name takes the last one's place."""
        if self._view is not None:
            visible = self._view_shows(client.camera.position)
            self._views[client.client_id] = client.scene.add_camera_frustum(
                "/view", position=self._view.position, visible=visible, **self._view.options
            )

    def _let_see(self, ident: int, eye: ArrayLike) -> None:
        node = self._views.get(ident)
        if node is not None and node.visible != (shows := self._view_shows(eye)):
            node.visible = shows

    def _view_shows(self, eye: ArrayLike) -> bool:
        """Whether a browser whose camera is at `eye` (3,) sees past the view's frustum."""
        assert self._view is not None
        away = float(np.linalg.norm(np.asarray(eye, float) - self._view.position))
        return self._view_visible and away > CLEARANCE * self._size

    def _scales(self, eye: ArrayLike) -> NDArray[np.float32]:
        assert self._dome is not None
        near = beside(self._dome.positions, eye, CLEARANCE * self._size)
        if near.any():  # somebody came to look from here, at the patch
            near |= between(self._dome.positions, eye, self._pivot, SIGHT * self._size)
        return np.where(near, np.float32(VANISHED), self._sizes)

    def _clicked(self, event: Any) -> None:
        if event.instance_index is not None:
            self._on_click(int(event.instance_index), event.client)


def linear_colors(colors: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """(N, 3) sRGB colors as viser's batched meshes want them: it takes the bytes for linear."""
    return np.rint((colors / 255.0) ** 2.2 * 255).astype(np.uint8)
