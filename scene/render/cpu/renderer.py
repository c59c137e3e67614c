"""The CPU renderer: the kernels' stages put together, with buffers for concurrent callers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scene.camera import Camera
from scene.gaussians import Gaussians
from scene.render.api import Color, Output, Rendered, RenderSettings, Window
from scene.render.cpu import binning, blend, depth_sort, project
from scene.render.cpu.records import (
    LANES,
    RECORD_FLOATS,
    FloatArray,
    Int32Array,
    IntArray,
    PackedScene,
    aligned,
    pack_scene,
)
from scene.render.cpu.simd_tile import TILE
from scene.render.cpu.threads import default_threads, run_shares

if TYPE_CHECKING:
    from scene.render.cpu.frame import Frame

_FIRST_PAIRS = 1 << 18
_KEPT_BUFFERS = 2


@dataclass(frozen=True, eq=False)
class View:
    """What is visible from one camera, ready to be blended. Arrays live in reused buffers.

    records: flat float32, one row per visible Gaussian, in depth order (see `records`).
    lists, starts: lists[starts[t]:starts[t + 1]] are the records of tile t (row by row), in order.
    order, unordered_ids: unordered_ids[order] are the records' indices in the scene.
    """

    records: FloatArray
    lists: Int32Array
    starts: IntArray
    order: Int32Array
    unordered_ids: Int32Array

    @property
    def count(self) -> int:
        """Number of visible Gaussians."""
        return len(self.order)

    @property
    def ids(self) -> Int32Array:
        """(count,) each record's index in the scene."""
        return self.unordered_ids[self.order]


class Buffers:
    """Working memory of one render call; grows when a view needs more."""

    def __init__(self, blocks: int, threads: int) -> None:
        rows = blocks * LANES
        self.unsorted = aligned((rows * RECORD_FLOATS,))
        self.records = aligned((rows * RECORD_FLOATS,))
        self.keys = np.empty(rows, np.uint32)
        self.ids = np.empty(rows, np.int32)
        self.sort_keys = (np.empty(rows, np.uint32), np.empty(rows, np.uint32))
        self.sort_order = (np.empty(rows, np.int32), np.empty(rows, np.int32))
        self.pairs = [np.empty(_FIRST_PAIRS, np.int64) for _ in range(threads)]
        self.lists = np.empty(_FIRST_PAIRS, np.int32)
        self._scratch = np.empty(0, np.float32)

    def scratch(self, height: int, width: int) -> tuple[FloatArray, FloatArray]:
        """(H, W, 3) and (H, W) to draw in; they hold whatever was drawn before."""
        pixels = height * width
        if self._scratch.size < 4 * pixels:
            self._scratch = np.empty(4 * pixels, np.float32)
        rgb, alpha = self._scratch[: 3 * pixels], self._scratch[3 * pixels : 4 * pixels]
        return rgb.reshape(height, width, 3), alpha.reshape(height, width)

    def pairs_for(self, thread: int, needed: int) -> IntArray:
        """The thread's pair buffer, replaced by one with a quarter more than `needed` rows."""
        self.pairs[thread] = np.empty(needed + needed // 4, np.int64)
        return self.pairs[thread]

    def records_for(self, needed: int, keep: int) -> None:
        """Room for `needed` sorted records, of which the first `keep` stay."""
        if len(self.records) < needed * RECORD_FLOATS:
            larger = aligned(((needed + needed // 4) * RECORD_FLOATS,))
            larger[: keep * RECORD_FLOATS] = self.records[: keep * RECORD_FLOATS]
            self.records = larger

    def lists_for(self, needed: int) -> Int32Array:
        """The list buffer, with room for `needed` entries."""
        if len(self.lists) < needed:
            self.lists = np.empty(needed + needed // 4, np.int32)
        return self.lists


class CpuRenderer:
    """A scene packed for the CPU kernels; see `scene.render.api.Renderer`.

    Any number of Python threads may render at once: each call works in buffers of its own.
    """

    backend = "cpu"

    def __init__(
        self,
        gaussians: Gaussians,
        settings: RenderSettings | None = None,
        threads: int | None = None,
    ) -> None:
        self._prepare(pack_scene(gaussians), settings or RenderSettings(), threads)

    @classmethod
    def of_packed(
        cls,
        packed: PackedScene,
        settings: RenderSettings | None = None,
        threads: int | None = None,
    ) -> CpuRenderer:
        """A renderer of a scene that is packed already."""
        renderer = cls.__new__(cls)
        renderer._prepare(packed, settings or RenderSettings(), threads)
        return renderer

    def _prepare(self, packed: PackedScene, settings: RenderSettings, threads: int | None) -> None:
        if settings.near <= 0:
            raise ValueError(f"near: wanted a depth > 0, found {settings.near}")
        self.packed = packed
        self.settings = settings
        self.threads = threads or default_threads()
        self._free: list[Buffers] = []
        self._lock = threading.Lock()

    def frame(
        self,
        camera: Camera,
        background: Color = (0.0, 0.0, 0.0),
        outputs: frozenset[Output] = frozenset({"rgb", "alpha"}),
        depth_window: Window | None = None,
    ) -> Frame:
        """Draw one picture and keep what it was drawn from.

        depth_window: rows and columns where depths are wanted, NaN elsewhere; None: everywhere.
        """
        from scene.render.cpu.frame import Frame

        return Frame(self, camera, background, outputs, depth_window)

    def recolored(self, colors: FloatArray) -> CpuRenderer:
        """The same Gaussians with other colors, sharing all geometry.

        colors: (N, 3) final RGB in the scene's order, used as they are: no harmonics, no clamp.
        """
        return CpuRenderer.of_packed(self.packed.recolored(colors), self.settings, self.threads)

    def render(
        self,
        camera: Camera,
        background: Color = (0.0, 0.0, 0.0),
        outputs: frozenset[Output] = frozenset({"rgb", "alpha"}),
    ) -> Rendered:
        """Draw one picture."""
        with self._buffers() as buffers:
            view = self.view(camera, buffers)
            return self.blend(view, camera, background, outputs)

    def view(self, camera: Camera, buffers: Buffers) -> View:
        """Project, sort and bin: everything before the first pixel."""
        starts, counts = self.project(camera, buffers)
        order = self.sort(buffers, starts, counts)
        lists, tile_starts = self.bin(camera, buffers, order)
        return View(buffers.records, lists, tile_starts, order, buffers.ids)

    def project(self, camera: Camera, buffers: Buffers) -> tuple[IntArray, IntArray]:
        """Fill the unsorted records; returns each thread's first row and number of rows."""
        vector = project.camera_vector(camera, self.settings)
        packed, threads = self.packed, self.threads

        def share(thread: int) -> int:
            return project.project(
                packed.geometry.reshape(-1),
                packed.colors.reshape(-1),
                packed.coefficients,
                packed.ids,
                vector,
                self.settings.antialiased,
                thread,
                threads,
                buffers.unsorted,
                buffers.keys,
                buffers.ids,
            )

        counts = np.array(run_shares(threads, share), dtype=np.int64)
        blocks = len(packed.geometry)
        starts = [LANES * project.first_block(blocks, t, threads) for t in range(threads)]
        return np.array(starts, dtype=np.int64), counts

    def sort(self, buffers: Buffers, starts: IntArray, counts: IntArray) -> Int32Array:
        """Rows of the unsorted records in depth order."""
        (keys_a, keys_b), (order_a, order_b) = buffers.sort_keys, buffers.sort_order
        count = depth_sort.depth_order(
            buffers.keys, buffers.ids, starts, counts, keys_a, order_a, keys_b, order_b
        )
        return order_b[:count]

    def bin(
        self, camera: Camera, buffers: Buffers, order: Int32Array
    ) -> tuple[Int32Array, IntArray]:
        """Fill the sorted records; returns the tiles' lists and where each begins."""
        threads, count = self.threads, len(order)
        width, height = camera.width, camera.height
        tiles = -(-width // TILE) * -(-height // TILE)
        tile_counts = np.empty((threads, tiles), np.int32)

        def list_share(thread: int) -> None:
            first, last = count * thread // threads, count * (thread + 1) // threads
            depth_sort.gather_records(buffers.unsorted, order, first, last, buffers.records)
            pairs = buffers.pairs[thread]
            while True:
                needed = binning.list_pairs(
                    buffers.records, first, last, width, height, pairs, tile_counts[thread]
                )
                if needed <= len(pairs):
                    return
                pairs = buffers.pairs_for(thread, needed)

        run_shares(threads, list_share)
        pair_counts = tile_counts.sum(axis=1)
        starts = np.empty(tiles + 1, np.int64)
        total = binning.tile_starts(tile_counts, starts)
        lists = buffers.lists_for(total)

        def scatter_share(thread: int) -> None:
            binning.scatter_pairs(
                buffers.pairs[thread], int(pair_counts[thread]), tile_counts[thread], lists
            )

        run_shares(threads, scatter_share)
        return lists, starts

    def blend(
        self,
        view: View,
        camera: Camera,
        background: Color,
        outputs: frozenset[Output],
        depth_window: Window | None = None,
    ) -> Rendered:
        """Draw the picture of a view; depths are computed only when asked for, and where.

        depth_window: as in `frame`.
        """
        size = (camera.height, camera.width)
        rgb, alpha = np.empty((*size, 3), np.float32), np.empty(size, np.float32)
        tickets = np.zeros(1, np.int64)
        tiles = np.arange(len(view.starts) - 1, dtype=np.int32)
        color = np.array(background, np.float32)
        shared = (view.records, view.lists, view.starts, tiles, color, tickets)
        if not outputs & {"expected_depth", "median_depth"}:
            run_shares(self.threads, lambda thread: blend.blend_color(*shared, rgb, alpha))
            return Rendered(rgb, alpha)
        expected, median = np.full(size, np.nan, np.float32), np.full(size, np.nan, np.float32)
        wanted = _tiles_in(depth_window, size)
        run_shares(
            self.threads,
            lambda thread: blend.blend_depths(*shared, rgb, alpha, expected, median, wanted),
        )
        return Rendered(
            rgb,
            alpha,
            expected if "expected_depth" in outputs else None,
            median if "median_depth" in outputs else None,
        )

    def take_buffers(self) -> Buffers:
        """Buffers that no other call is using."""
        with self._lock:
            buffers = self._free.pop() if self._free else None
        return buffers or Buffers(len(self.packed.geometry), self.threads)

    def give_buffers(self, buffers: Buffers) -> None:
        """Give them back; a few are kept for the next calls."""
        with self._lock:
            if len(self._free) < _KEPT_BUFFERS:
                self._free.append(buffers)

    @contextmanager
    def _buffers(self) -> Iterator[Buffers]:
        buffers = self.take_buffers()
        try:
            yield buffers
        finally:
            self.give_buffers(buffers)


def _tiles_in(window: Window | None, size: tuple[int, int]) -> NDArray[np.uint8]:
    """(tiles,) 1 for each tile of an (H, W) picture that touches the window, row by row."""
    rows, columns = window or (slice(0, size[0]), slice(0, size[1]))
    wanted = np.zeros((-(-size[0] // TILE), -(-size[1] // TILE)), np.uint8)
    down = slice(rows.start // TILE, -(-rows.stop // TILE))
    across = slice(columns.start // TILE, -(-columns.stop // TILE))
    wanted[down, across] = 1
    return wanted.reshape(-1)
