"""A picture kept with its tile lists, so that pictures that differ little from it cost little.

Equal to the last bit to drawing the other picture whole: tiles whose records are the same are
copied, the others are blended anew from the same records in the same order.
"""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from scene.camera import Camera
from scene.gaussians import Gaussians
from scene.render.api import Color, Output, Rendered, RenderSettings, Window
from scene.render.cpu import blend, frame_lists
from scene.render.cpu.quantize import quantize_tiles, take_red
from scene.render.cpu.records import (
    BLUE,
    GEOMETRY_EXTENT2,
    LANES,
    RECORD_FLOATS,
    RED,
    FloatArray,
    Int32Array,
    IntArray,
    PackedScene,
    aligned,
    pack_scene,
)
from scene.render.cpu.renderer import CpuRenderer, View
from scene.render.cpu.threads import run_shares

_BLACK = (0.0, 0.0, 0.0)
Picture = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Layer:
    """A small change of a scene, prepared for `Frame.edited`.

    renderer: of the changed and added Gaussians alone; its ids are those in the edited scene.
    replaced: (N,) bool, rows of the unedited scene that are not drawn as they were.
    """

    renderer: CpuRenderer
    replaced: NDArray[np.bool_]


def make_layer(edited: Gaussians, changed: IntArray, count: int, settings: RenderSettings) -> Layer:
    """edited: the whole edited scene, its first `count` Gaussians those of the unedited one.

    changed: (M,) rows of the unedited scene that differ in it; later ones are all new.
    """
    replaced = np.zeros(count, dtype=bool)
    replaced[changed] = True
    chosen = np.concatenate([replaced, np.ones(len(edited) - count, dtype=bool)])
    packed = _taken(pack_scene(edited), chosen)
    return Layer(CpuRenderer.of_packed(packed, settings, threads=1), replaced)


class Frame:
    """One view of a scene: its picture (`drawn`) and what it was drawn from.

    Safe to call from several threads, one at a time. Working memory returns to the renderer with
    the last reference.
    """

    def __init__(
        self,
        renderer: CpuRenderer,
        camera: Camera,
        background: Color,
        outputs: frozenset[Output],
        depth_window: Window | None = None,
    ) -> None:
        """Arguments as of `CpuRenderer.frame`."""
        buffers = renderer.take_buffers()
        weakref.finalize(self, renderer.give_buffers, buffers)
        self._buffers = buffers
        self._camera = camera
        self._background = background
        self._threads = renderer.threads
        self._lock = threading.Lock()
        self._view = renderer.view(camera, buffers)
        self._ids = self._view.ids
        self.drawn: Rendered = renderer.blend(self._view, camera, background, outputs, depth_window)

    def weight(self, marked: NDArray[np.bool_]) -> FloatArray:
        """(H, W) float32 in [0, 1]: weight of the marked Gaussians as drawn, occlusion counted.

        marked: (N,) bool, rows of the scene.
        """
        found = np.zeros((self._camera.height, self._camera.width), np.float32)
        flags = marked[self._ids]
        with self._lock:
            colors = self._records(self._view.count)[:, RED : BLUE + 1]
            kept = colors.copy()
            colors[:] = flags[:, None]
            try:
                lists = self._touched(flags, False, _empty_view(len(self._view.starts)))
                take_red(self._blend(lists, _BLACK), lists.tiles, found)
            finally:
                colors[:] = kept
        return found

    def edited(self, layer: Layer, picture: Picture) -> Picture:
        """(H, W, 3) uint8 picture of the edited scene from the same camera.

        picture: that of the unedited scene (`drawn`, as bytes); stays as it is.
        """
        found = picture.copy()
        small = layer.renderer
        buffers = small.take_buffers()
        try:
            view = small.view(self._camera, buffers)
            with self._lock:
                lists = self._touched(layer.replaced[self._ids], True, view)
                quantize_tiles(self._blend(lists, self._background), lists.tiles, found)
        finally:
            small.give_buffers(buffers)
        return found

    def _touched(self, flags: NDArray[np.bool_], drop: bool, view: View) -> _Lists:
        """The tiles that hold a flagged record or one of `view`, and their new lists.

        drop: leave the flagged records out; else what follows the last flagged or added one.
        """
        first = self._view.count
        if view.count:
            self._buffers.records_for(first + view.count, keep=first)
            added = view.records[: view.count * RECORD_FLOATS]
            self._records(first + view.count)[first:] = added.reshape(-1, RECORD_FLOATS)
        tiles = np.empty(len(self._view.starts) - 1, np.int32)
        starts = np.empty(len(tiles) + 1, np.int64)
        lists = np.empty(int(self._view.starts[-1] + view.starts[-1]), np.int32)
        used = frame_lists.touched_lists(
            self._buffers.records, self._ids, self._view.lists, self._view.starts,
            flags.view(np.uint8), drop, view.ids, view.lists, view.starts, tiles, starts, lists,
        )  # fmt: skip
        return _Lists(tiles[:used], starts[: used + 1], lists)

    def _records(self, count: int) -> FloatArray:
        return self._buffers.records[: count * RECORD_FLOATS].reshape(-1, RECORD_FLOATS)

    def _blend(self, found: _Lists, background: Color) -> FloatArray:
        """(H, W, 3) working memory in which the found tiles are drawn; the rest is anything."""
        rgb, alpha = self._buffers.scratch(self._camera.height, self._camera.width)
        tickets = np.zeros(1, np.int64)
        color = np.array(background, np.float32)
        records = self._buffers.records

        def share(thread: int) -> None:
            blend.blend_color(
                records, found.lists, found.starts, found.tiles, color, tickets, rgb, alpha
            )

        run_shares(self._threads, share)
        return rgb


@dataclass(frozen=True, eq=False)
class _Lists:
    """lists[starts[k]:starts[k + 1]] are the records of tile tiles[k]."""

    tiles: Int32Array
    starts: IntArray
    lists: Int32Array


def _empty_view(starts: int) -> View:
    nothing = np.zeros(0, np.int32)
    return View(np.zeros(0, np.float32), nothing, np.zeros(starts, np.int64), nothing, nothing)


def _taken(packed: PackedScene, chosen: NDArray[np.bool_]) -> PackedScene:
    """The chosen Gaussians of a packed scene, their values to the bit; ids stay the scene's."""
    positions = np.flatnonzero(chosen[packed.order])
    blocks = max(1, -(-len(positions) // LANES))

    def planes(source: FloatArray) -> FloatArray:
        rows = np.zeros((blocks * LANES, source.shape[1]), np.float32)
        rows[: len(positions)] = source.transpose(0, 2, 1).reshape(-1, source.shape[1])[positions]
        taken = aligned((blocks, source.shape[1], LANES))
        taken[:] = rows.reshape(blocks, LANES, -1).transpose(0, 2, 1)
        return taken

    geometry = planes(packed.geometry)
    filling = np.arange(len(positions), blocks * LANES)
    geometry[filling // LANES, GEOMETRY_EXTENT2, filling % LANES] = -1.0
    ids = np.zeros(blocks * LANES, np.int32)
    ids[: len(positions)] = packed.ids[positions]
    return replace(
        packed, geometry=geometry, colors=planes(packed.colors), order=packed.order[positions],
        ids=ids,
    )  # fmt: skip
