"""The whole scene, differentiable in everything that a reconstruction learns.

Parameters are rows of float32 (`training_pack` names the columns): mean, log scales, quaternion,
logit of the opacity, harmonics. They are activated and packed for every picture, and from there on
the kernels are the renderer's own, so trainer and renderer draw and cull alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scene.camera import Camera
from scene.gaussians import Gaussians
from scene.render.api import Color, RenderSettings
from scene.render.cpu import backward
from scene.render.cpu.backward_simd import MOMENTS
from scene.render.cpu.project import camera_vector
from scene.render.cpu.records import (
    GEOMETRY_PLANES,
    LANES,
    FloatArray,
    PackedScene,
    aligned,
)
from scene.render.cpu.renderer import Buffers, CpuRenderer, View
from scene.render.cpu.simd_tile import TILE
from scene.render.cpu.threads import default_threads, run_shares
from scene.render.cpu.training_gradients import parameter_gradients
from scene.render.cpu.training_pack import (
    ACTIVE_FLOATS,
    HARMONICS,
    LOG_SCALE,
    LOGIT,
    MEAN,
    QUATERNION,
    pack_parameters,
    parameter_floats,
)

_NO_STATES = np.zeros((0, 0), np.float32)


@dataclass(frozen=True, eq=False)
class _Pass:
    """What the backward pass needs of the last forward pass."""

    parameters: FloatArray
    coefficients: int
    vector: FloatArray
    view: View
    region: NDArray[np.int64]
    planes: FloatArray


class TrainingRenderer:
    """Draws pictures of parameter rows and takes gradients back; one caller at a time."""

    def __init__(self, settings: RenderSettings | None = None, threads: int | None = None) -> None:
        self.settings = settings or RenderSettings()
        self.threads = threads or default_threads()
        self._rows = -1
        self._last: _Pass | None = None
        self._gradients: FloatArray = aligned((0, 0))
        self._moments: FloatArray = aligned((0, 0, MOMENTS))

    def forward(
        self, parameters: FloatArray, coefficients: int, camera: Camera, background: Color
    ) -> FloatArray:
        """Draw one picture: (4, H, W) float32, RGB with background, then alpha.

        parameters: (N, parameter_floats) float32. coefficients: harmonics per channel to use.
        The picture is reused by the next call; so are all buffers.
        """
        self._allocate(parameters, coefficients)
        threads = self.threads
        colors = self._colors[: len(self._geometry) * 3 * coefficients * LANES]
        run_shares(
            threads,
            lambda thread: pack_parameters(
                parameters, coefficients, thread, threads, self._geometry, colors, self._active
            ),
        )
        packed = PackedScene(
            self._geometry, colors, coefficients, np.arange(len(parameters)), self._ids
        )
        renderer = CpuRenderer.of_packed(packed, self.settings, threads)
        view = renderer.view(camera, self._buffers)
        region = _whole_picture(camera)
        planes = np.empty((4, camera.height, camera.width), np.float32)
        behind = np.array(background, np.float32)
        run_shares(
            threads,
            lambda thread: backward.draw_region(
                view.records,
                view.starts,
                view.lists,
                region,
                False,
                _NO_STATES,
                behind,
                thread,
                threads,
                planes,
            ),
        )
        vector = camera_vector(camera, self.settings)
        self._last = _Pass(parameters, coefficients, vector, view, region, planes)
        return planes

    def backward(
        self, seeds: FloatArray, screen_gradients: FloatArray, sightings: FloatArray
    ) -> FloatArray:
        """dL/dparameters of the last picture, given seeds (3 or 4, H, W) = dL/dpicture.

        screen_gradients, sightings: (N,) float32 statistics for densification, added to. The
        result is reused by the next call, which expects its rows to be zero: whoever consumes
        them clears them (`Adam` does).
        """
        last, threads = self._last, self.threads
        if last is None:
            raise ValueError("backward: wanted a forward pass first")
        view = last.view
        if self._moments.shape[1] < view.count:
            self._moments = aligned((threads, view.count + view.count // 4, MOMENTS))
        moments = self._moments
        run_shares(
            threads,
            lambda thread: backward.gradients_of_region(
                view.records,
                view.starts,
                view.starts[1:],
                view.lists,
                last.region,
                False,
                _NO_STATES,
                last.planes,
                seeds,
                0,
                thread,
                threads,
                moments[thread, : view.count],
            ),
        )
        run_shares(
            threads,
            lambda thread: parameter_gradients(
                last.parameters,
                self._active,
                last.coefficients,
                last.vector,
                self.settings.antialiased,
                view.records,
                view.ids,
                moments,
                thread,
                threads,
                self._gradients,
                screen_gradients,
                sightings,
            ),
        )
        return self._gradients

    def _allocate(self, parameters: FloatArray, coefficients: int) -> None:
        """Buffers for this many rows; kept while the number stays."""
        rows, columns = parameters.shape
        if columns < HARMONICS + 3 * coefficients:
            raise ValueError(
                f"parameters: wanted rows of {parameter_floats(coefficients)}, found {columns}"
            )
        if rows == self._rows and self._gradients.shape == parameters.shape:
            return
        blocks = -(-rows // LANES)
        most = (columns - HARMONICS) // 3
        self._rows = rows
        self._geometry = aligned((blocks, GEOMETRY_PLANES, LANES))
        self._colors = aligned((blocks * 3 * most * LANES,))
        self._active = aligned((rows, ACTIVE_FLOATS))
        self._ids = np.zeros(blocks * LANES, np.int32)
        self._ids[:rows] = np.arange(rows)
        self._buffers = Buffers(blocks, self.threads)
        self._gradients = aligned(parameters.shape)
        self._moments = aligned((self.threads, 0, MOMENTS))


def parameters_of(gaussians: Gaussians, coefficients: int | None = None) -> FloatArray:
    """Rows of parameters that draw as `gaussians` do, with room for `coefficients` harmonics."""
    kept = gaussians.sh.shape[1]
    coefficients = coefficients or kept
    parameters = aligned((len(gaussians), parameter_floats(coefficients)))
    opacities = np.clip(gaussians.opacities.astype(np.float64), 1e-6, 1 - 1e-6)
    parameters[:, MEAN : MEAN + 3] = gaussians.means
    parameters[:, LOG_SCALE : LOG_SCALE + 3] = np.log(gaussians.scales)
    parameters[:, QUATERNION : QUATERNION + 4] = gaussians.quats
    parameters[:, LOGIT] = np.log(opacities / (1 - opacities))
    used = min(kept, coefficients)
    flat = gaussians.sh[:, :used].reshape(len(gaussians), 3 * used)
    parameters[:, HARMONICS : HARMONICS + 3 * used] = flat
    return parameters


def gaussians_of(parameters: FloatArray, coefficients: int) -> Gaussians:
    """The Gaussians that rows of parameters stand for (activated, quaternions normalised)."""
    quats = parameters[:, QUATERNION : QUATERNION + 4].astype(np.float64)
    logits = parameters[:, LOGIT].astype(np.float64)
    sh = parameters[:, HARMONICS : HARMONICS + 3 * coefficients]
    gaussians, _ = Gaussians.validated(
        parameters[:, MEAN : MEAN + 3],
        quats,
        np.exp(parameters[:, LOG_SCALE : LOG_SCALE + 3].astype(np.float64)),
        1.0 / (1.0 + np.exp(-logits)),
        sh.reshape(len(parameters), coefficients, 3),
    )
    return gaussians


def _whole_picture(camera: Camera) -> NDArray[np.int64]:
    tiles_x, tiles_y = -(-camera.width // TILE), -(-camera.height // TILE)
    numbers = (0, 0, camera.height, camera.width, tiles_x, tiles_x * tiles_y)
    return np.array(numbers, dtype=np.int64)
