"""What optics, sensor and file format do to a picture; differentiable, or straight through."""

from __future__ import annotations

import io

import numpy as np
import torch
from torch.nn import functional

from patching.optimize.settings import EotSettings

_BEST_JPEG = 95


def photographed(
    picture: torch.Tensor, settings: EotSettings, rng: np.random.Generator
) -> torch.Tensor:
    """The blur and camera components over a picture (3, H, W) in [0, 1], drawn from `rng`.

    In the order of a camera: optics, pixels, noise, levels, file.
    """
    if settings.blur_px > 0:
        picture = blurred(picture, settings.blur_px * rng.uniform())
    if settings.downscale < 1:
        picture = coarser(picture, rng.uniform(settings.downscale, 1))
    if settings.noise > 0:
        sd = settings.noise * rng.uniform()
        noise = sd * rng.standard_normal(tuple(picture.shape), dtype=np.float32)
        picture = (picture + torch.from_numpy(noise)).clamp(0, 1)
    if settings.bits > 0:
        picture = straight_through(picture, quantised(picture, settings.bits))
    if settings.jpeg > 0:
        quality = int(rng.integers(settings.jpeg, _BEST_JPEG, endpoint=True))
        picture = straight_through(picture, jpeg(picture, quality))
    return picture


def straight_through(picture: torch.Tensor, changed: torch.Tensor) -> torch.Tensor:
    """The value of `changed` with the gradient of `picture`, for steps that have none."""
    return picture + (changed - picture).detach()


def quantised(picture: torch.Tensor, bits: int) -> torch.Tensor:
    """The nearest of 2^bits levels; its gradient is zero."""
    levels = 2**bits - 1
    return (picture.detach() * levels).round() / levels


def jpeg(picture: torch.Tensor, quality: int) -> torch.Tensor:
    """(3, H, W) in [0, 1] after JPEG compression; without gradient."""
    from PIL import Image

    pixels = (picture.detach().clamp(0, 1) * 255).round().to(torch.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels.permute(1, 2, 0).contiguous().numpy()).save(
        buffer, format="JPEG", quality=quality
    )
    decoded = np.array(Image.open(buffer).convert("RGB"))
    return torch.from_numpy(decoded).permute(2, 0, 1).to(torch.float32) / 255


def blurred(picture: torch.Tensor, sd: float) -> torch.Tensor:
    """Gaussian blur of a picture (3, H, W), edges repeated; sd in pixels."""
    reach = int(np.ceil(3 * sd))
    if reach == 0:
        return picture
    offsets = torch.arange(-reach, reach + 1, dtype=torch.float32)
    kernel = torch.exp(-0.5 * (offsets / sd) ** 2)
    kernel = kernel / kernel.sum()
    padded = functional.pad(picture[:, None], (reach,) * 4, mode="replicate")
    across = functional.conv2d(padded, kernel.view(1, 1, 1, -1))
    return functional.conv2d(across, kernel.view(1, 1, -1, 1))[:, 0]


def coarser(picture: torch.Tensor, factor: float) -> torch.Tensor:
    """The picture with `factor` times as many pixels a side, enlarged to its size again."""
    height, width = picture.shape[1:]
    small = (max(2, round(height * factor)), max(2, round(width * factor)))
    return resized(resized(picture, small), (height, width))


def resized(picture: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    """(3, H, W) to size = (height, width), bilinear, anti-aliased."""
    if tuple(picture.shape[1:]) == size:
        return picture
    return functional.interpolate(
        picture[None], size=size, mode="bilinear", align_corners=False, antialias=True
    )[0]
