"""The CUDA back end: gsplat 1.5.3, imported only when a renderer is made.

gsplat compiles its kernels at first use, which takes minutes and is logged. Color, alpha and
expected depth come from its `rasterization`; it has no median depth for 3D Gaussians, so that is
computed here from the lists of (pixel, Gaussian) contributions that gsplat can return.

The semantics are gsplat's own, which the CPU kernels and the reference follow. The machine that
this was written on has no CUDA device: the tests run this file's code on the CPU with a stand-in
for gsplat that checks arguments and shapes.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scene.camera import Camera
from scene.errors import InputError
from scene.gaussians import Gaussians
from scene.render.api import Color, Output, Rendered, RenderSettings

log = logging.getLogger(__name__)

TESTED_VERSION = "1.5.3"
TILE = 16
ALPHA_MAX = 0.999
MEDIAN_TRANSMITTANCE = 0.5
BATCHES_AT_ONCE = 8
"""Batches (of TILE * TILE Gaussians of a tile) whose contributions are listed at a time."""


@dataclass(frozen=True, eq=False)
class _DeviceScene:
    """A scene's arrays on the device; `sh_degree` None means that `colors` are final RGB (N, 3)."""

    means: Tensor
    quats: Tensor
    scales: Tensor
    opacities: Tensor
    colors: Tensor
    sh_degree: int | None


class CudaRenderer:
    """A scene on the CUDA device; see `scene.render.api.Renderer`. One picture at a time."""

    backend = "cuda"

    def __init__(
        self,
        gaussians: Gaussians,
        settings: RenderSettings | None = None,
        device: str = "cuda",
    ) -> None:
        self.settings = settings or RenderSettings()
        self._gsplat = load_gsplat()
        self._device = device
        self._lock = threading.Lock()
        self._scene = _DeviceScene(
            means=self._tensor(gaussians.means),
            quats=self._tensor(gaussians.quats),
            scales=self._tensor(gaussians.scales),
            opacities=self._tensor(gaussians.opacities),
            colors=self._tensor(gaussians.sh),
            sh_degree=gaussians.sh_degree,
        )

    def recolored(self, colors: NDArray[np.float32]) -> CudaRenderer:
        """The same Gaussians with final RGB colors (N, 3), sharing all geometry."""
        other = CudaRenderer.__new__(CudaRenderer)
        other.__dict__.update(self.__dict__)
        scene = self._scene
        other._scene = _DeviceScene(
            scene.means, scene.quats, scene.scales, scene.opacities, self._tensor(colors), None
        )
        return other

    def render(
        self,
        camera: Camera,
        background: Color = (0.0, 0.0, 0.0),
        outputs: frozenset[Output] = frozenset({"rgb", "alpha"}),
    ) -> Rendered:
        """Draw one picture."""
        if len(self._scene.means) == 0:  # gsplat divides by the number of Gaussians
            return _empty(camera, background, outputs)
        with self._lock, torch.inference_mode():
            planes, alphas, meta = self._rasterize(camera, background, outputs)
            median = None
            if "median_depth" in outputs:
                in_range = self._gsplat.rasterize_to_indices_in_range
                median = median_depth(in_range, meta, camera.width, camera.height)
            alpha = alphas[0, :, :, 0]
            expected = None
            if "expected_depth" in outputs:
                expected = torch.where(alpha > 0, planes[0, :, :, 3], torch.zeros_like(alpha))
            return Rendered(
                rgb=_array(planes[0, :, :, :3]),
                alpha=_array(alpha),
                expected_depth=None if expected is None else _array(expected),
                median_depth=None if median is None else _array(median),
            )

    def _rasterize(
        self, camera: Camera, background: Color, outputs: frozenset[Output]
    ) -> tuple[Tensor, Tensor, dict[str, Any]]:
        """Planes (1, H, W, 3 or 4), alphas (1, H, W, 1) and gsplat's dictionary of the rest."""
        scene = self._scene
        return self._gsplat.rasterization(
            means=scene.means,
            quats=scene.quats,
            scales=scene.scales,
            opacities=scene.opacities,
            colors=scene.colors,
            viewmats=self._tensor(camera.camera_from_world)[None],
            Ks=self._tensor(camera.K)[None],
            width=camera.width,
            height=camera.height,
            near_plane=self.settings.near,
            eps2d=self.settings.low_pass,
            sh_degree=scene.sh_degree,
            packed=False,  # `median_depth` relies on unpacked Gaussian ids
            tile_size=TILE,
            backgrounds=torch.tensor([background], dtype=torch.float32, device=self._device),
            render_mode="RGB+ED" if "expected_depth" in outputs else "RGB",
            rasterize_mode="antialiased" if self.settings.antialiased else "classic",
        )

    def _tensor(self, array: NDArray) -> Tensor:
        return torch.tensor(np.array(array, dtype=np.float32), device=self._device)


@cache
def load_gsplat() -> Any:
    """The package gsplat; InputError where it cannot work."""
    if not torch.cuda.is_available():
        raise InputError(
            "the cuda back end wanted a CUDA device, torch sees none: choose the cpu back end"
        )
    if find_spec("gsplat") is None:
        raise InputError(
            "the cuda back end wanted the package gsplat, which is not installed: "
            "pip install 'advscene-inspector[cuda]', or choose the cpu back end"
        )
    import gsplat

    if gsplat.__version__ != TESTED_VERSION:
        log.warning("gsplat %s found, %s expected", gsplat.__version__, TESTED_VERSION)
    log.info("compiling gsplat's CUDA kernels if this is their first use (some minutes, once)")
    return gsplat


def median_depth(in_range: Any, meta: dict[str, Any], width: int, height: int) -> Tensor:
    """(H, W) depth of the Gaussian at which each pixel's transmittance first falls below a half.

    in_range: gsplat's `rasterize_to_indices_in_range`. meta: from `rasterization` of one camera
    with packed=False. gsplat lists, for a range of batches of every tile, the contributions that
    its blend would make, pixel by pixel and nearest first; a cumulative sum of log(1 - alpha)
    within each pixel gives the transmittance after each. A few batches at a time bound the memory,
    and the walk ends when no pixel is left above a half.
    """
    means, conics = meta["means2d"][0], meta["conics"][0]
    opacities, depths = meta["opacities"][0], meta["depths"][0]
    device = means.device
    # float64: hundreds of factors per pixel, and the sum runs over the whole picture
    log_transmittance = torch.zeros(height * width, dtype=torch.float64, device=device)
    median = torch.zeros(height * width, dtype=torch.float32, device=device)
    log_half = float(np.log(MEDIAN_TRANSMITTANCE))
    for first in range(0, _batches(meta), BATCHES_AT_ONCE):
        gaussians, pixels, _ = in_range(
            first,
            first + BATCHES_AT_ONCE,
            log_transmittance.exp().float().reshape(1, height, width),
            meta["means2d"],
            meta["conics"],
            meta["opacities"],
            width,
            height,
            TILE,
            meta["isect_offsets"],
            meta["flatten_ids"],
        )
        if len(pixels) == 0:
            continue
        x, y = pixels % width + 0.5, pixels // width + 0.5
        alpha = _alpha(x, y, means[gaussians], conics[gaussians], opacities[gaussians])
        step = torch.log1p(-alpha.double())
        after = _running_sum(step, pixels) + log_transmittance[pixels]
        before = after - step
        crosses = (before >= log_half) & (after < log_half)
        # at most one contribution of a pixel crosses: transmittance only falls
        median[pixels[crosses]] = depths[gaussians[crosses]]
        log_transmittance.index_add_(0, pixels, step)
        if bool((log_transmittance < log_half).all()):
            break
    return median.reshape(height, width)


def _batches(meta: dict[str, Any]) -> int:
    """Batches of the fullest tile."""
    offsets = meta["isect_offsets"].reshape(-1).long()
    ends = torch.cat([offsets[1:], offsets.new_tensor([len(meta["flatten_ids"])])])
    most = int((ends - offsets).max()) if len(offsets) else 0
    return -(-most // (TILE * TILE))


def _alpha(x: Tensor, y: Tensor, means: Tensor, conics: Tensor, opacities: Tensor) -> Tensor:
    """Alpha of each contribution, by the formula of gsplat's kernels."""
    dx, dy = means[:, 0] - x, means[:, 1] - y
    xx, xy, yy = conics.unbind(dim=1)
    sigma = 0.5 * (xx * dx * dx + yy * dy * dy) + xy * dx * dy
    return (opacities * torch.exp(-sigma)).clamp(max=ALPHA_MAX)


def _running_sum(values: Tensor, groups: Tensor) -> Tensor:
    """Cumulative sum that starts anew wherever `groups` (equal ids are neighbours) changes."""
    total = torch.cumsum(values, dim=0)
    starts = torch.ones_like(groups, dtype=torch.bool)
    starts[1:] = groups[1:] != groups[:-1]
    group = torch.cumsum(starts, dim=0) - 1
    before = (total - values)[starts]
    return total - before[group]


def _empty(camera: Camera, background: Color, outputs: frozenset[Output]) -> Rendered:
    nothing = np.zeros((camera.height, camera.width), np.float32)
    return Rendered(
        rgb=np.tile(np.array(background, np.float32), (*nothing.shape, 1)),
        alpha=nothing,
        expected_depth=nothing.copy() if "expected_depth" in outputs else None,
        median_depth=nothing.copy() if "median_depth" in outputs else None,
    )


def _array(plane: Tensor) -> NDArray[np.float32]:
    return plane.float().cpu().contiguous().numpy()
