"""The readable renderer that the fast ones are held to: plain torch, any dtype, differentiable.

Every formula of the CPU kernels and of gsplat 1.5.3 stands here once, in the order in which it is
applied: project, sort by depth, blend front to back. Gradients flow to all five inputs by autograd.
Pictures are drawn in square pieces to bound memory; nothing depends on their size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scene.camera import Camera
from scene.gaussians import Gaussians
from scene.render.api import Color, Output, Rendered, RenderSettings

ALPHA_CUT = 1.0 / 255.0
ALPHA_MAX = 0.999
TRANSMITTANCE_STOP = 1e-4
MEDIAN_TRANSMITTANCE = 0.5
JACOBIAN_MARGIN = 0.15
"""The Jacobian is taken at most this share of the picture outside its edges (gsplat)."""


@dataclass(frozen=True, eq=False)
class SplatTensors:
    """N Gaussians as tensors of one dtype; fields as in `scene.gaussians.Gaussians`.

    colors: (N, 3) final RGB that is drawn instead of the harmonics, or None.
    """

    means: Tensor
    quats: Tensor
    scales: Tensor
    opacities: Tensor
    sh: Tensor
    colors: Tensor | None = None

    @staticmethod
    def of(gaussians: Gaussians, dtype: torch.dtype = torch.float64) -> SplatTensors:
        """Copies of a scene's arrays."""
        arrays = (
            gaussians.means,
            gaussians.quats,
            gaussians.scales,
            gaussians.opacities,
            gaussians.sh,
        )
        return SplatTensors(*(torch.tensor(np.array(array), dtype=dtype) for array in arrays))


@dataclass(frozen=True, eq=False)
class Projected:
    """The M Gaussians in front of the camera, nearest first.

    xy: (M, 2) pixels. conics: (M, 3) inverse 2D covariance xx, xy, yy. variances: (M, 2) its
    covariance's diagonal. opacities: (M,). colors: (M, 3). depths: (M,).
    """

    xy: Tensor
    conics: Tensor
    variances: Tensor
    opacities: Tensor
    colors: Tensor
    depths: Tensor


@dataclass(frozen=True, eq=False)
class Images:
    """rgb (H, W, 3) without background; alpha, expected_depth, median_depth (H, W)."""

    rgb: Tensor
    alpha: Tensor
    expected_depth: Tensor
    median_depth: Tensor


def render_tensors(
    splats: SplatTensors, camera: Camera, settings: RenderSettings | None = None, piece: int = 16
) -> Images:
    """Draw a picture, piece x piece pixels at a time."""
    projected = project(splats, camera, settings or RenderSettings())
    rows = []
    for top in range(0, camera.height, piece):
        row = []
        for left in range(0, camera.width, piece):
            right, bottom = min(left + piece, camera.width), min(top + piece, camera.height)
            row.append(_draw(projected, left, top, right, bottom))
        rows.append(torch.cat(row, dim=1))
    planes = torch.cat(rows, dim=0)
    return Images(planes[..., :3], planes[..., 3], planes[..., 4], planes[..., 5])


def project(splats: SplatTensors, camera: Camera, settings: RenderSettings) -> Projected:
    """Gaussians in the world to ellipses in the picture, sorted by depth (stable)."""
    dtype = splats.means.dtype
    rotation = torch.tensor(camera.camera_from_world[:3, :3].copy(), dtype=dtype)
    local = splats.means @ rotation.T + torch.tensor(camera.camera_from_world[:3, 3].copy()).to(
        dtype
    )
    kept = torch.nonzero(local[:, 2].detach() >= settings.near).squeeze(1)
    kept = kept[torch.argsort(local[kept, 2].detach(), stable=True)]
    x, y, z = local[kept].unbind(dim=1)
    fx, fy, cx, cy = (float(camera.K[i]) for i in ((0, 0), (1, 1), (0, 2), (1, 2)))

    def clamped(tangent: Tensor, size: int, focal: float, center: float) -> Tensor:
        margin = JACOBIAN_MARGIN * size / focal
        return tangent.clamp(-center / focal - margin, (size - center) / focal + margin)

    tangent_x = clamped(x / z, camera.width, fx, cx)
    tangent_y = clamped(y / z, camera.height, fy, cy)
    zero = torch.zeros_like(z)
    jacobian = torch.stack(
        [
            torch.stack([fx / z, zero, -fx * tangent_x / z], dim=1),
            torch.stack([zero, fy / z, -fy * tangent_y / z], dim=1),
        ],
        dim=1,
    )
    axes = rotations(splats.quats[kept]) * splats.scales[kept][:, None, :]
    spread = jacobian @ rotation @ axes
    covariances = spread @ spread.transpose(1, 2)
    xx, xy, yy = covariances[:, 0, 0], covariances[:, 0, 1], covariances[:, 1, 1]
    sharp = xx * yy - xy * xy
    xx, yy = xx + settings.low_pass, yy + settings.low_pass
    determinant = xx * yy - xy * xy
    opacities = splats.opacities[kept]
    if settings.antialiased:
        opacities = opacities * (sharp / determinant).clamp(min=0.0).sqrt()
    if splats.colors is None:
        away = splats.means[kept] - torch.tensor(camera.center.copy(), dtype=dtype)
        colors = view_colors(splats.sh[kept], away)
    else:
        colors = splats.colors[kept]
    return Projected(
        xy=torch.stack([fx * x / z + cx, fy * y / z + cy], dim=1),
        conics=torch.stack([yy, -xy, xx], dim=1) / determinant[:, None],
        variances=torch.stack([xx, yy], dim=1).detach(),
        opacities=opacities,
        colors=colors,
        depths=z,
    )


def rotations(quats: Tensor) -> Tensor:
    """(N, 4) quaternions wxyz, normalised here, to (N, 3, 3) matrices world_from_gaussian."""
    w, x, y, z = (quats / quats.norm(dim=1, keepdim=True)).unbind(dim=1)
    entries = [
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    ]  # fmt: skip
    return torch.stack(entries, dim=1).reshape(-1, 3, 3)


def view_colors(sh: Tensor, away: Tensor) -> Tensor:
    """(M, K, 3) harmonics seen along (M, 3) directions camera -> Gaussian; RGB clamped at 0."""
    x, y, z = (away / away.norm(dim=1, keepdim=True)).unbind(dim=1)
    one = torch.ones_like(x)
    basis = [0.28209479177387814 * one]
    if sh.shape[1] >= 4:
        basis += [-0.4886025119029199 * y, 0.4886025119029199 * z, -0.4886025119029199 * x]
    if sh.shape[1] >= 9:
        basis += [
            1.0925484305920792 * x * y,
            -1.0925484305920792 * y * z,
            0.31539156525252005 * (2 * z * z - x * x - y * y),
            -1.0925484305920792 * x * z,
            0.5462742152960396 * (x * x - y * y),
        ]
    if sh.shape[1] >= 16:
        basis += [
            -0.5900435899266435 * y * (3 * x * x - y * y),
            2.890611442640554 * x * y * z,
            -0.4570457994644658 * y * (4 * z * z - x * x - y * y),
            0.3731763325901154 * z * (2 * z * z - 3 * x * x - 3 * y * y),
            -0.4570457994644658 * x * (4 * z * z - x * x - y * y),
            1.445305721320277 * z * (x * x - y * y),
            -0.5900435899266435 * x * (x * x - 3 * y * y),
        ]
    return (torch.einsum("mk,mkc->mc", torch.stack(basis, dim=1), sh) + 0.5).clamp(min=0.0)


def _draw(projected: Projected, left: int, top: int, right: int, bottom: int) -> Tensor:
    """The piece [top, bottom) x [left, right) as (h, w, 6): rgb, alpha, expected, median depth."""
    near = _reaching(projected, left, top, right, bottom)
    dtype = projected.xy.dtype
    ys = torch.arange(top, bottom, dtype=dtype) + 0.5
    xs = torch.arange(left, right, dtype=dtype) + 0.5
    pixels = torch.stack(torch.meshgrid(xs, ys, indexing="xy"), dim=-1).reshape(-1, 2)
    planes = blend(
        pixels,
        Projected(
            projected.xy[near],
            projected.conics[near],
            projected.variances[near],
            projected.opacities[near],
            projected.colors[near],
            projected.depths[near],
        ),
    )
    return planes.reshape(bottom - top, right - left, 6)


def _reaching(projected: Projected, left: int, top: int, right: int, bottom: int) -> Tensor:
    """Indices of the Gaussians whose alpha reaches the cut somewhere in a piece, roughly."""
    opacities = projected.opacities.detach()
    radius = (2.0 * torch.log((opacities / ALPHA_CUT).clamp(min=1.0))).sqrt()
    reach = radius[:, None] * projected.variances.sqrt() + 1.0
    low, high = projected.xy.detach() - reach, projected.xy.detach() + reach
    inside = (high[:, 0] > left) & (low[:, 0] < right) & (high[:, 1] > top) & (low[:, 1] < bottom)
    return torch.nonzero(inside & (opacities >= ALPHA_CUT)).squeeze(1)


def blend(pixels: Tensor, projected: Projected) -> Tensor:
    """(P, 2) pixel centres to (P, 6): rgb, alpha, expected depth, median depth."""
    dx = pixels[:, None, 0] - projected.xy[None, :, 0]
    dy = pixels[:, None, 1] - projected.xy[None, :, 1]
    xx, xy, yy = projected.conics.unbind(dim=1)
    sigma = 0.5 * (xx * dx * dx + yy * dy * dy) + xy * dx * dy
    alpha = (projected.opacities * torch.exp(-sigma)).clamp(max=ALPHA_MAX)
    alpha = torch.where(alpha >= ALPHA_CUT, alpha, torch.zeros_like(alpha))
    after = torch.cumprod(1.0 - alpha, dim=1)
    before = torch.cat([torch.ones_like(after[:, :1]), after[:, :-1]], dim=1)
    # `after` only falls, so a pixel that has stopped stays stopped
    live = after > TRANSMITTANCE_STOP
    weights = torch.where(live, alpha * before, torch.zeros_like(alpha))
    total = weights.sum(dim=1)
    depth_sum = weights @ projected.depths
    expected = torch.where(total > 0, depth_sum / total.clamp(min=1e-30), torch.zeros_like(total))
    crosses = (before >= MEDIAN_TRANSMITTANCE) & (after < MEDIAN_TRANSMITTANCE) & live
    median = torch.where(crosses, projected.depths, torch.zeros_like(after)).sum(dim=1)
    rgb = weights @ projected.colors
    return torch.cat([rgb, torch.stack([total, expected, median], dim=1)], dim=1)


class ReferenceRenderer:
    """`scene.render.api.Renderer` on the reference: slow, for tests and comparisons."""

    backend = "reference"

    def __init__(
        self,
        gaussians: Gaussians,
        settings: RenderSettings | None = None,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        self.settings = settings or RenderSettings()
        self._splats = SplatTensors.of(gaussians, dtype)

    def recolored(self, colors: NDArray[np.float32]) -> ReferenceRenderer:
        """The same Gaussians with final RGB colors (N, 3)."""
        other = ReferenceRenderer.__new__(ReferenceRenderer)
        other.settings = self.settings
        given = torch.tensor(np.array(colors), dtype=self._splats.means.dtype)
        other._splats = replace(self._splats, colors=given)
        return other

    def render(
        self,
        camera: Camera,
        background: Color = (0.0, 0.0, 0.0),
        outputs: frozenset[Output] = frozenset({"rgb", "alpha"}),
    ) -> Rendered:
        """Draw one picture."""
        with torch.inference_mode():
            images = render_tensors(self._splats, camera, self.settings)
            behind = torch.tensor(background, dtype=images.rgb.dtype)
            rgb = images.rgb + (1.0 - images.alpha)[..., None] * behind
        return Rendered(
            rgb.float().numpy(),
            images.alpha.float().numpy(),
            images.expected_depth.float().numpy() if "expected_depth" in outputs else None,
            images.median_depth.float().numpy() if "median_depth" in outputs else None,
        )
