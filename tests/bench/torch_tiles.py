"""What one writes in plain torch when speed matters: all Gaussians of a tile at once."""

from __future__ import annotations

import torch

from scene.camera import Camera
from scene.render.api import RenderSettings
from scene.render.reference import (
    ALPHA_CUT,
    ALPHA_MAX,
    TRANSMITTANCE_STOP,
    Projected,
    SplatTensors,
    project,
)

TILE = 16


@torch.inference_mode()
def torch_by_tiles(splats: SplatTensors, camera: Camera) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw a scene by tiles.

    Returns rgb (H, W, 3) on black and alpha (H, W). Same semantics as the reference, in place
    where torch can, only the wanted outputs, selection by the exact box of each ellipse.
    """
    found = project(splats, camera, RenderSettings())
    reach = (2 * torch.log((found.opacities / ALPHA_CUT).clamp(min=1.0))).sqrt()[:, None]
    low, high = (found.xy + sign * reach * found.variances.sqrt() for sign in (-1, 1))
    kept = torch.nonzero(
        (found.opacities > ALPHA_CUT)
        & (high > 0).all(dim=1)
        & (low[:, 0] < camera.width)
        & (low[:, 1] < camera.height)
    ).squeeze(1)
    names = ("xy", "conics", "variances", "opacities", "colors", "depths")
    found = Projected(*(getattr(found, name)[kept] for name in names))
    low, high = low[kept].T.contiguous(), high[kept].T.contiguous()
    rgb = torch.empty(camera.height, camera.width, 3)
    alpha = torch.empty(camera.height, camera.width)
    for top in range(0, camera.height, TILE):
        bottom = min(top + TILE, camera.height)
        in_row = torch.nonzero((high[1] > top) & (low[1] < bottom)).squeeze(1)
        row_low, row_high = low[0, in_row], high[0, in_row]
        for left in range(0, camera.width, TILE):
            right = min(left + TILE, camera.width)
            near = in_row[(row_high > left) & (row_low < right)]
            weights = _tile_weights(found, near, left, top, right, bottom)
            shape = (bottom - top, right - left)
            rgb[top:bottom, left:right] = (weights @ found.colors[near]).reshape(*shape, 3)
            alpha[top:bottom, left:right] = weights.sum(dim=1).reshape(shape)
    return rgb, alpha


def _tile_weights(
    found: Projected, near: torch.Tensor, left: int, top: int, right: int, bottom: int
) -> torch.Tensor:
    """(pixels, M) blending weights of the Gaussians `near`, in depth order."""
    x, y = torch.arange(left, right) + 0.5, torch.arange(top, bottom) + 0.5
    mean_x, mean_y = found.xy[near].T
    xx, xy, yy = found.conics[near].T
    dx, dy = x[:, None] - mean_x, y[:, None] - mean_y
    # the part in x and the part in y are small tables; only the mixed term is per pixel
    alpha = dy[:, None] * (xy * dx)[None]
    alpha += (0.5 * xx * dx * dx - torch.log(found.opacities[near]))[None]
    alpha += (0.5 * yy * dy * dy)[:, None]
    alpha = alpha.reshape(-1, len(near)).neg_().exp_().clamp_(max=ALPHA_MAX)
    alpha *= alpha >= ALPHA_CUT
    after = torch.cumprod(1.0 - alpha, dim=1)
    weights = alpha
    weights[:, 1:] *= after[:, :-1]
    weights *= after > TRANSMITTANCE_STOP
    return weights
