"""A differentiable picture of the few Gaussians that a patch changes, in front of all the others.

A `PatchView` has one camera, fixed Gaussians (drawn, never differentiated) and editable ones, whose
means, scales, opacities and colors are given anew at every call. It draws only the tiles that the
editable Gaussians can touch. The fixed Gaussians are projected, sorted and put into tile lists
once, and those in front of all editable ones are blended once; a call projects the editable ones
and merges the two by depth, so the picture is that of `Renderer.render` for both together. When
an editable Gaussian has come forward, everything is blended anew.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from scene.camera import Camera
from scene.gaussians import Gaussians
from scene.render.api import Color, RenderSettings
from scene.render.cpu import backward, backward_patch, training_pack
from scene.render.cpu.backward_fixed import fixed_in_region, front_limits, region_around
from scene.render.cpu.backward_simd import MOMENTS
from scene.render.cpu.project import camera_vector
from scene.render.cpu.records import LANES, RECORD_FLOATS, FloatArray, PackedScene, aligned
from scene.render.cpu.renderer import Buffers, CpuRenderer, View
from scene.render.cpu.simd_tile import TILE

log = logging.getLogger(__name__)

Bounds = tuple[int, int, int, int]


class PatchView:
    """One camera's differentiable view; may be called from several Python threads at once.

    crop: (y0, y1, x0, x1) pixel bounds of the returned picture in the camera's picture.
    outside: True if, at the last call, an editable Gaussian reached beyond the crop. What it does
        there is neither drawn nor differentiated; make a new view (`grown`) if that matters.
    """

    def __init__(
        self,
        static: Gaussians,
        camera: Camera,
        background: Color,
        editable: Gaussians,
        margin_px: int = 12,
        settings: RenderSettings | None = None,
    ) -> None:
        """Project and bin `static`; find the crop from where `editable` is now.

        static: the Gaussians that never change; may be empty. editable: the starting state; its
        quaternions stay as they are. margin_px: pixels around the editable Gaussians that are
        drawn too (rounded up to whole tiles).
        """
        self.camera = camera
        self.background = background
        self.settings = settings or RenderSettings()
        self.outside = False
        self._margin_px = margin_px
        self._static = static
        self._quats = editable.quats
        self._rotations = _rotation_rows(editable.quats)
        self._vector = camera_vector(camera, self.settings)
        self._background = np.array(background, np.float32)
        self._tiles_x = -(-camera.width // TILE)
        self._lock = threading.Lock()
        self._free: list[_Projection] = []

        with_colors = (editable.means, editable.scales, editable.opacities)
        start = self._project(*with_colors, np.zeros((len(editable), 3), np.float32))
        self._region = region_around(start.view, camera, margin_px)
        limits = front_limits(start.view, self._region, self._tiles_x)
        self._release(start)
        self._fixed = fixed_in_region(static, camera, self.settings, self._region, limits)

    @property
    def crop(self) -> Bounds:
        """(y0, y1, x0, x1) pixel bounds of what a call returns."""
        top, left, height, width = (int(number) for number in self._region[:4])
        return top, top + height, left, left + width

    def __call__(
        self,
        means: torch.Tensor,
        scales: torch.Tensor,
        opacities: torch.Tensor,
        colors: torch.Tensor,
    ) -> torch.Tensor:
        """Draw the crop: (4, h, w) float32, RGB with background, then alpha.

        means, scales, colors: (n, 3) float32; opacities: (n,) float32. World units, linear, in
        [0, 1]; colors are final (what this camera sees), used as they are. Differentiable.
        """
        return _Draw.apply(self, means, scales, opacities, colors)

    def grown(self, editable: Gaussians) -> PatchView:
        """The same view with its crop found anew from `editable`."""
        return PatchView(
            self._static, self.camera, self.background, editable, self._margin_px, self.settings
        )

    def draw(self, parameters: Parameters) -> Drawn:
        """Forward pass on arrays, for callers without autograd."""
        _check(parameters, len(self._rotations))
        projection = self._project(
            parameters.means, parameters.scales, parameters.opacities, parameters.colors
        )
        view, fixed = projection.view, self._fixed
        resume = fixed.front_holds(view, self._region, self._tiles_x)
        layer = fixed.behind if resume else fixed.whole
        records = aligned((len(layer.records) + view.count * RECORD_FLOATS,))
        records[: len(layer.records)] = layer.records
        records[len(layer.records) :] = view.records[: view.count * RECORD_FLOATS]
        tiles, total = int(self._region[backward.REGION_TILES]), int(view.starts[-1])
        starts, ends = np.empty(tiles + 1, np.int64), np.empty(tiles, np.int64)
        lists = np.empty(len(layer.lists) + total, np.int32)
        taken = backward_patch.merge_lists(
            records,
            layer.count,
            layer.lists,
            layer.starts,
            view.lists,
            view.starts,
            self._tiles_x,
            self._region,
            starts,
            ends,
            lists,
        )
        self._note_outside(taken < total)
        ids = view.ids.copy()
        self._release(projection)
        planes = np.empty((4, int(self._region[2]), int(self._region[3])), np.float32)
        backward.draw_region(
            records,
            starts,
            lists,
            self._region,
            resume,
            fixed.states,
            self._background,
            0,
            1,
            planes,
        )
        return Drawn(planes, records, layer.count, starts, ends, lists, resume, ids)

    def gradients(self, parameters: Parameters, drawn: Drawn, seeds: FloatArray) -> Parameters:
        """dL/d(parameters) from dL/d(planes): seeds (4, h, w) float32, contiguous."""
        count = len(drawn.ids)
        moments = aligned((max(count, 1), MOMENTS))
        backward.gradients_of_region(
            drawn.records,
            drawn.starts,
            drawn.ends,
            drawn.lists,
            self._region,
            drawn.resume,
            self._fixed.states,
            drawn.planes,
            seeds,
            drawn.fixed,
            0,
            1,
            moments,
        )
        result = Parameters(
            np.zeros_like(parameters.means),
            np.zeros_like(parameters.scales),
            np.zeros_like(parameters.opacities),
            np.zeros_like(parameters.colors),
        )
        backward_patch.editable_gradients(
            self._vector,
            self.settings.antialiased,
            parameters.means,
            self._rotations,
            parameters.scales,
            parameters.opacities,
            drawn.records,
            drawn.fixed,
            drawn.ids,
            moments,
            result.means,
            result.scales,
            result.opacities,
            result.colors,
        )
        return result

    def _project(
        self, means: FloatArray, scales: FloatArray, opacities: FloatArray, colors: FloatArray
    ) -> _Projection:
        """Project the editable Gaussians in working memory that no other call is using."""
        with self._lock:
            projection = self._free.pop() if self._free else None
        if projection is None:
            projection = _Projection(len(self._rotations), self.settings)
        projection.run(self.camera, means, self._rotations, scales, opacities, colors)
        return projection

    def _release(self, projection: _Projection) -> None:
        with self._lock:
            self._free.append(projection)

    def _note_outside(self, outside: bool) -> None:
        if outside and not self.outside:
            log.warning(
                "editable Gaussians reach beyond the crop %s of their view; what they do there is "
                "not drawn",
                self.crop,
            )
        self.outside = outside


@dataclass(frozen=True, eq=False)
class Parameters:
    """What changes from call to call, or its gradient; float32, contiguous.

    means, scales, colors: (n, 3). opacities: (n,).
    """

    means: FloatArray
    scales: FloatArray
    opacities: FloatArray
    colors: FloatArray


@dataclass(frozen=True, eq=False)
class Drawn:
    """A forward pass: its picture, and what the backward pass needs of it.

    fixed: how many of the records are fixed ones; they come first. resume: whether the picture
    starts from what was blended once.
    """

    planes: FloatArray
    records: FloatArray
    fixed: int
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    lists: NDArray[np.int32]
    resume: bool
    ids: NDArray[np.int32]


class _Draw(torch.autograd.Function):
    """`PatchView.draw` and `PatchView.gradients` for torch."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any,
        view: PatchView,
        means: torch.Tensor,
        scales: torch.Tensor,
        opacities: torch.Tensor,
        colors: torch.Tensor,
    ) -> torch.Tensor:
        parameters = Parameters(
            *(
                np.ascontiguousarray(tensor.detach().numpy(), dtype=np.float32)
                for tensor in (means, scales, opacities, colors)
            )
        )
        drawn = view.draw(parameters)
        ctx.view, ctx.parameters, ctx.drawn = view, parameters, drawn
        # a copy: callers may change the picture in place, the backward pass needs it as drawn
        return torch.from_numpy(drawn.planes.copy())

    @staticmethod
    def backward(ctx: Any, seeds: torch.Tensor) -> tuple[torch.Tensor | None, ...]:  # type: ignore[override]
        array = np.ascontiguousarray(seeds.numpy(), dtype=np.float32)
        result = ctx.view.gradients(ctx.parameters, ctx.drawn, array)
        arrays = (result.means, result.scales, result.opacities, result.colors)
        return None, *(torch.from_numpy(gradient) for gradient in arrays)


class _Projection:
    """Working memory in which the editable Gaussians are packed, projected, sorted and binned."""

    def __init__(self, count: int, settings: RenderSettings) -> None:
        blocks = max(1, -(-count // LANES))
        ids = np.zeros(blocks * LANES, np.int32)
        ids[:count] = np.arange(count)
        self._geometry = aligned((blocks, 12, LANES))
        self._colors = aligned((blocks, 3, LANES))
        packed = PackedScene(self._geometry, self._colors, 0, np.arange(count), ids)
        self._renderer = CpuRenderer.of_packed(packed, settings, threads=1)
        self._buffers = Buffers(blocks, threads=1)
        self.view: View

    def run(
        self,
        camera: Camera,
        means: FloatArray,
        rotations: NDArray[np.float64],
        scales: FloatArray,
        opacities: FloatArray,
        colors: FloatArray,
    ) -> None:
        """Fill `view`; it stays valid until the next call."""
        training_pack.pack_editable(
            means, rotations, scales, opacities, colors, self._geometry, self._colors
        )
        self.view = self._renderer.view(camera, self._buffers)


def _rotation_rows(quats: FloatArray) -> NDArray[np.float64]:
    """(n, 4) wxyz to (n, 9) float64, the rows of the rotation matrices."""
    quats64 = quats.astype(np.float64)
    w, x, y, z = (quats64 / np.linalg.norm(quats64, axis=1, keepdims=True)).T
    entries = (
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    )  # fmt: skip
    return np.ascontiguousarray(np.stack(entries, axis=1))


def _check(parameters: Parameters, count: int) -> None:
    shapes = {
        "means": (count, 3),
        "scales": (count, 3),
        "opacities": (count,),
        "colors": (count, 3),
    }
    for name, shape in shapes.items():
        array = getattr(parameters, name)
        if array.shape != shape:
            raise ValueError(f"{name}: wanted shape {shape}, found {array.shape}")
        # the kernels are compiled without NaN checks, and would draw nonsense
        if not np.isfinite(array).all():
            raise ValueError(f"{name}: holds NaN or infinity")
