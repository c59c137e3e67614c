"""The one way to draw Gaussians: `render`, or a `Renderer` kept for many cameras.

Semantics are gsplat 1.5.3's: screen-space low-pass 0.3 px^2 added to the 2D covariance, alpha
<= 0.999, contributions under 1/255 skipped, blending stops before transmittance <= 1e-4.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from scene.camera import Camera
from scene.gaussians import Gaussians

Backend = Literal["auto", "cpu", "cuda", "reference"]
Output = Literal["rgb", "alpha", "expected_depth", "median_depth"]
Color = tuple[float, float, float]
Window = tuple[slice, slice]
"""Rows and columns of a picture."""

FloatArray = NDArray[np.float32]


@dataclass(frozen=True)
class RenderSettings:
    """What changes a picture besides scene and camera; stored with every score.

    near: depth (world units) before which Gaussians are dropped.
    low_pass: px^2 added to the diagonal of each 2D covariance.
    antialiased: divide opacity by the area that the low-pass adds (Mip-Splatting's screen part).
    """

    near: float = 0.01
    low_pass: float = 0.3
    antialiased: bool = False


@dataclass(frozen=True, eq=False)
class Rendered:
    """One picture. Outputs that were not asked for are None.

    rgb: (H, W, 3) float32 sRGB, background included, unclipped above 1.
    alpha: (H, W) float32 in [0, 1], 1 - final transmittance.
    expected_depth: (H, W) float32 camera z, sum(w z) / sum(w); 0 where alpha is 0.
    median_depth: (H, W) float32 camera z of the first Gaussian after which transmittance < 0.5;
        0 where it never falls that low.
    """

    rgb: FloatArray
    alpha: FloatArray
    expected_depth: FloatArray | None = None
    median_depth: FloatArray | None = None


class Renderer(Protocol):
    """A scene prepared once for one back end; safe to call from several threads."""

    backend: str
    settings: RenderSettings

    def render(
        self,
        camera: Camera,
        background: Color = (0.0, 0.0, 0.0),
        outputs: frozenset[Output] = frozenset({"rgb", "alpha"}),
    ) -> Rendered:
        """Draw one picture."""
        ...

    def recolored(self, colors: FloatArray) -> Renderer:
        """The same Gaussians, geometry shared, with final RGB `colors` (N, 3) used as they are.

        With 1 for some Gaussians, 0 for the rest and a black background, a channel of the picture
        is the weight of those Gaussians as drawn in the scene, with its occlusion.
        """
        ...


def make_renderer(
    gaussians: Gaussians,
    backend: Backend = "auto",
    settings: RenderSettings | None = None,
    threads: int | None = None,
) -> Renderer:
    """Prepare `gaussians` for many pictures.

    `auto` is CUDA where torch sees a device and gsplat is installed, else the CPU.
    """
    settings = settings or RenderSettings()
    if backend == "auto":
        backend = "cuda" if _cuda_available() else "cpu"
    if backend == "cuda":
        from scene.render.cuda import CudaRenderer

        return CudaRenderer(gaussians, settings)
    if backend == "reference":
        from scene.render.reference import ReferenceRenderer

        return ReferenceRenderer(gaussians, settings)
    from scene.render.cpu.renderer import CpuRenderer

    return CpuRenderer(gaussians, settings, threads=threads)


def render(
    gaussians: Gaussians,
    camera: Camera,
    background: Color = (0.0, 0.0, 0.0),
    outputs: frozenset[Output] = frozenset({"rgb", "alpha"}),
    backend: Backend = "auto",
    settings: RenderSettings | None = None,
) -> Rendered:
    """Draw one picture of `gaussians`; keep a `make_renderer` instead for more than one."""
    return make_renderer(gaussians, backend, settings).render(camera, background, outputs)


def _cuda_available() -> bool:
    if find_spec("gsplat") is None:
        return False
    import torch

    return torch.cuda.is_available()
