"""The part of a `PatchView` that stands still: its tiles and the fixed Gaussians in them."""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scene.camera import Camera
from scene.gaussians import Gaussians
from scene.render.api import RenderSettings
from scene.render.cpu import backward, backward_patch
from scene.render.cpu.records import (
    DEPTH,
    EXTENT_X,
    EXTENT_Y,
    MEAN_X,
    MEAN_Y,
    RECORD_FLOATS,
    FloatArray,
    aligned,
)
from scene.render.cpu.renderer import Buffers, CpuRenderer, View
from scene.render.cpu.simd_tile import TILE

IntArray = NDArray[np.int64]

_FRONT_SHARE = np.float32(0.98)


@dataclass(frozen=True, eq=False)
class Layer:
    """Some fixed Gaussians: flat records and a region's tile lists.

    records: float32, `count` rows in depth order. lists, starts: tile t's are
    lists[starts[t]:starts[t + 1]].
    """

    records: FloatArray
    count: int
    lists: NDArray[np.int32]
    starts: IntArray


@dataclass(frozen=True, eq=False)
class Fixed:
    """The fixed Gaussians that a region needs.

    whole: all of them. behind: those that are not yet blended into states[t], which are tile t's
    nearest ones, up to front_depths[t] (0 where there are none).
    """

    whole: Layer
    behind: Layer
    states: FloatArray
    front_depths: FloatArray

    def front_holds(self, view: View, region: IntArray, tiles_x: int) -> bool:
        """Whether all Gaussians of a view stand behind what is blended already."""
        nearest, filled = _nearest_depths(view, region, tiles_x)
        return bool((nearest >= self.front_depths[filled]).all())


def region_around(view: View, camera: Camera, margin_px: int) -> IntArray:
    """The rectangle of whole tiles (`backward`: REGION_*) that holds a view's Gaussians.

    margin_px: pixels to add on all sides.
    """
    rows = _rows(view.records[: view.count * RECORD_FLOATS])
    if len(rows) == 0:
        # nothing to be seen: one tile, so that callers need no special case
        low, high = np.zeros(2), np.ones(2)
    else:
        centers, reach = rows[:, [MEAN_X, MEAN_Y]], rows[:, [EXTENT_X, EXTENT_Y]]
        low = (centers - reach).min(axis=0) - margin_px
        high = (centers + reach).max(axis=0) + margin_px
    size = np.array([camera.width, camera.height])
    first = np.clip(np.floor(low), 0, size - 1).astype(int) // TILE
    last = np.clip(np.ceil(high) - 1, 0, size - 1).astype(int) // TILE
    left, top = first * TILE
    right, bottom = np.minimum((last + 1) * TILE, size)
    tiles_x, tiles_y = last - first + 1
    numbers = (top, left, bottom - top, right - left, tiles_x, tiles_x * tiles_y)
    return np.array(numbers, dtype=np.int64)


def front_limits(view: View, region: IntArray, tiles_x: int) -> FloatArray:
    """(tiles,) the depth up to which fixed Gaussians are taken to stay in front of a view's.

    A little nearer than the nearest one of each tile, so that they may move; infinite where there
    is none. tiles_x: tiles per row of the picture.
    """
    limits = np.full(int(region[backward.REGION_TILES]), np.inf, np.float32)
    nearest, filled = _nearest_depths(view, region, tiles_x)
    limits[filled] = _FRONT_SHARE * nearest
    return limits


def _nearest_depths(view: View, region: IntArray, tiles_x: int) -> tuple[FloatArray, IntArray]:
    """Depths of the first entry of the region's tiles that have any, and these tiles' numbers."""
    tiles = np.arange(int(region[backward.REGION_TILES]))
    across = int(region[backward.REGION_TILES_X])
    rows = int(region[backward.REGION_TOP]) // TILE + tiles // across
    columns = int(region[backward.REGION_LEFT]) // TILE + tiles % across
    here = rows * tiles_x + columns
    filled = np.flatnonzero(view.starts[here + 1] > view.starts[here])
    first = view.lists[view.starts[here[filled]]].astype(np.int64)
    return view.records[first * RECORD_FLOATS + DEPTH], filled


def fixed_in_region(
    static: Gaussians,
    camera: Camera,
    settings: RenderSettings,
    region: IntArray,
    limits: FloatArray,
) -> Fixed:
    """Project the fixed Gaussians, blend what is in front once, drop what is hidden for good.

    What the fixed Gaussians alone hide stays hidden when others are added in front.
    """
    tiles = int(region[backward.REGION_TILES])
    fronts, needed = np.zeros(tiles, np.int64), np.zeros(tiles, np.int64)
    states = aligned((tiles, backward.STATE_FLOATS))
    records, lists, starts = aligned((0,)), np.zeros(0, np.int32), np.zeros(tiles + 1, np.int64)
    if len(static) > 0:
        renderer = _renderer_of(static, settings)
        view = renderer.view(camera, Buffers(len(renderer.packed.geometry), renderer.threads))
        lists, starts = _lists_of_region(view, region, -(-camera.width // TILE))
        records = view.records
    backward.blend_front(records, starts, lists, region, limits, fronts, states, needed)
    ends = starts[:-1] + fronts
    depths = np.zeros(tiles, np.float32)
    last = lists[ends[fronts > 0] - 1].astype(np.int64)
    depths[fronts > 0] = records[last * RECORD_FLOATS + DEPTH]
    whole = _layer(records, lists, starts[:-1], needed)
    behind = _layer(records, lists, ends, needed - fronts)
    return Fixed(whole, behind, states, depths)


def _layer(
    records: FloatArray, lists: NDArray[np.int32], firsts: IntArray, lengths: IntArray
) -> Layer:
    """Cut lengths[t] entries from firsts[t] on out of every list, and keep only their records."""
    starts = np.concatenate([[0], np.cumsum(lengths)])
    places = np.arange(int(starts[-1])) + np.repeat(firsts - starts[:-1], lengths)
    kept, numbers = np.unique(lists[places], return_inverse=True)
    own = aligned((len(kept) * RECORD_FLOATS,))
    _rows(own)[:] = _rows(records)[kept]
    return Layer(own, len(kept), numbers.astype(np.int32).reshape(-1), starts)


def _lists_of_region(
    view: View, region: IntArray, tiles_x: int
) -> tuple[NDArray[np.int32], IntArray]:
    starts = np.empty(int(region[backward.REGION_TILES]) + 1, np.int64)
    picture = (view.lists, view.starts, tiles_x, region, starts)
    needed = backward_patch.lists_of_region(*picture, np.empty(0, np.int32))
    lists = np.empty(needed, np.int32)
    backward_patch.lists_of_region(*picture, lists)
    return lists, starts


def _rows(records: FloatArray) -> FloatArray:
    return records.reshape(-1, RECORD_FLOATS)


_renderers: weakref.WeakKeyDictionary[Gaussians, dict[RenderSettings, CpuRenderer]]
_renderers = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def _renderer_of(static: Gaussians, settings: RenderSettings) -> CpuRenderer:
    """A renderer of the fixed Gaussians, shared by all views of them while they live."""
    with _lock:
        of_settings = _renderers.setdefault(static, {})
        if settings not in of_settings:
            of_settings[settings] = CpuRenderer(static, settings)
        return of_settings[settings]
