"""Expectation over transformation: what happens to a patch and a picture between print and victim.

Three components (AdvScene App. C): geometry of the patch on its surface, blur (optics, noise,
compression) and camera (fewer pixels, fewer levels). Each has levels none, weak, strong, very
strong; the paper's numbers were lost, these are ours.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch.nn import functional

Level = Literal["none", "weak", "strong", "very strong"]
LEVELS: tuple[Level, ...] = ("none", "weak", "strong", "very strong")
VIEWS: dict[Level, int] = {"none": 1, "weak": 4, "strong": 8, "very strong": 16}
"""Transformed views per optimizer step."""


@dataclass(frozen=True)
class EotSettings:
    """Ranges of the random transformations; all zero is the identity.

    views: per optimizer step.
    Geometry: rotation_deg, scale (share), shift (share of the patch's width), perspective (each
    corner, share of the width); crop: probability that a random edge strip of up to a fifth is
    lost. Light: brightness, contrast, color (shares), gamma (share).
    Blur: blur_px (sd, picture), noise (sd), jpeg: lowest quality or 0 for none.
    Camera: downscale (lowest factor, 1 = none), bits (0 = none).
    """

    views: int = 1
    rotation_deg: float = 0.0
    scale: float = 0.0
    shift: float = 0.0
    perspective: float = 0.0
    crop: float = 0.0
    brightness: float = 0.0
    contrast: float = 0.0
    color: float = 0.0
    gamma: float = 0.0
    blur_px: float = 0.0
    noise: float = 0.0
    jpeg: int = 0
    downscale: float = 1.0
    bits: int = 0

    @classmethod
    def of(
        cls, level: Level, components: frozenset[str] = frozenset({"geometry", "blur", "camera"})
    ) -> EotSettings:
        """The settings of a level, restricted to some components (light goes with geometry)."""
        settings = _LEVEL_SETTINGS[level]
        off: dict[str, Any] = {}
        if "geometry" not in components:
            off.update(rotation_deg=0.0, scale=0.0, shift=0.0, perspective=0.0, crop=0.0,
                       brightness=0.0, contrast=0.0, color=0.0, gamma=0.0)  # fmt: skip
        if "blur" not in components:
            off.update(blur_px=0.0, noise=0.0, jpeg=0)
        if "camera" not in components:
            off.update(downscale=1.0, bits=0)
        return replace(settings, **off)


_LEVEL_SETTINGS: dict[Level, EotSettings] = {
    "none": EotSettings(),
    "weak": EotSettings(
        views=4, rotation_deg=8, scale=0.06, shift=0.03, perspective=0.02, crop=0.1,
        brightness=0.06, contrast=0.06, color=0.03, gamma=0.05, blur_px=0.5, noise=0.01, jpeg=80,
        downscale=0.8,
    ),
    "strong": EotSettings(
        views=8, rotation_deg=20, scale=0.12, shift=0.06, perspective=0.05, crop=0.2,
        brightness=0.12, contrast=0.12, color=0.06, gamma=0.12, blur_px=0.9, noise=0.02, jpeg=60,
        downscale=0.6, bits=6,
    ),
    "very strong": EotSettings(
        views=16, rotation_deg=35, scale=0.25, shift=0.12, perspective=0.1, crop=0.35,
        brightness=0.25, contrast=0.25, color=0.1, gamma=0.25, blur_px=1.5, noise=0.04, jpeg=40,
        downscale=0.4, bits=5,
    ),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Jitter:
    """One draw of the patch's own transformation.

    warp: (3, 3) float64 in patch coordinates centred at 0 (edges at +-0.5), from a placed point
    to where in the print it reads. gains, offset, gamma: of its colors, (3,), (3,), scalar.
    cut: (low u, high u, low v, high v) of the print that is left.
    """

    warp: np.ndarray
    gains: np.ndarray
    offset: np.ndarray
    gamma: float
    cut: tuple[float, float, float, float]


def draw_jitter(settings: EotSettings, rng: np.random.Generator) -> Jitter:
    """A random geometry and light of the patch."""
    angle = np.radians(settings.rotation_deg * rng.uniform(-1, 1))
    size = np.exp(np.log1p(settings.scale) * rng.uniform(-1, 1))
    shift = settings.shift * rng.uniform(-1, 1, 2)
    c, s = np.cos(angle) / size, np.sin(angle) / size
    warp = np.array([[c, s, 0], [-s, c, 0], [0, 0, 1.0]])
    warp[:2, 2] = -warp[:2, :2] @ shift
    warp = _corner_warp(settings.perspective * rng.uniform(-1, 1, (4, 2))) @ warp
    contrast = 1 + settings.contrast * rng.uniform(-1, 1)
    gains = contrast * (1 + settings.color * rng.uniform(-1, 1, 3))
    offset = 0.5 * (1 - contrast) + settings.brightness * rng.uniform(-1, 1) * np.ones(3)
    gamma = float(np.exp(np.log1p(settings.gamma) * rng.uniform(-1, 1)))
    cut = [0.0, 1.0, 0.0, 1.0]
    if rng.uniform() < settings.crop:
        side, depth = int(rng.integers(4)), 0.2 * rng.uniform()
        cut[side] = depth if side % 2 == 0 else 1 - depth
    return Jitter(warp, gains, offset, gamma, (cut[0], cut[1], cut[2], cut[3]))


def _corner_warp(moves: np.ndarray) -> np.ndarray:
    """(3, 3) homography that moves the corners (+-0.5) by `moves` (4, 2)."""
    corners = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
    rows = []
    for (x, y), (u, v) in zip(corners, corners + moves, strict=True):
        rows.append([x, y, 1, 0, 0, 0, -u * x, -u * y, u])
        rows.append([0, 0, 0, x, y, 1, -v * x, -v * y, v])
    table = np.array(rows)
    solution = np.linalg.solve(table[:, :8], table[:, 8])
    return np.append(solution, 1.0).reshape(3, 3)


def paste(
    picture: torch.Tensor,
    rgb: torch.Tensor,
    uv_from_pixel: np.ndarray,
    jitter: Jitter | None = None,
) -> torch.Tensor:
    """Lay a patch into a picture, differentiable in the patch; edges are anti-aliased.

    picture: (3, H, W) in [0, 1]. rgb: (3, h, w). uv_from_pixel: (3, 3) homography from pixels
    (x, y, 1) to patch coordinates 0..1 (inverse of `Placement.homography`). jitter: see `Jitter`.
    """
    height, width = picture.shape[1:]
    grid = np.stack(np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5), axis=-1)
    homogeneous = np.concatenate([grid, np.ones((height, width, 1))], axis=-1) @ uv_from_pixel.T
    positive = np.sign(homogeneous[..., 2]) == np.sign(np.median(homogeneous[..., 2]))
    uv = homogeneous[..., :2] / homogeneous[..., 2:]
    if jitter is not None:
        centred = np.concatenate([uv - 0.5, np.ones((height, width, 1))], axis=-1)
        centred = centred @ jitter.warp.T
        uv = centred[..., :2] / centred[..., 2:] + 0.5
    cover = _coverage(uv, (0.0, 1.0, 0.0, 1.0) if jitter is None else jitter.cut) * positive
    rows, columns = np.nonzero(cover > 0)
    if len(rows) == 0:
        return picture
    y, x = slice(rows.min(), rows.max() + 1), slice(columns.min(), columns.max() + 1)
    size = (max(len(rows), 1)) ** 0.5
    texture = _averaged_down(rgb, size)
    if jitter is not None:
        texture = _relit(texture, jitter)
    at = torch.from_numpy(np.clip(uv[y, x] * 2 - 1, -2, 2).astype(np.float32))
    laid = functional.grid_sample(
        texture[None], at[None], padding_mode="border", align_corners=False
    )[0]
    weight = torch.from_numpy(cover[y, x].astype(np.float32))
    result = picture.clone()
    result[:, y, x] = weight * laid + (1 - weight) * picture[:, y, x]
    return result


def photographed(
    picture: torch.Tensor, settings: EotSettings, rng: np.random.Generator
) -> torch.Tensor:
    """Blur and camera components over a whole picture (3, H, W); differentiable."""
    height, width = picture.shape[1:]
    if settings.downscale < 1:
        factor = rng.uniform(settings.downscale, 1)
        small = (max(8, round(height * factor)), max(8, round(width * factor)))
        picture = _resized(_resized(picture, small), (height, width))
    if settings.blur_px > 0:
        picture = _blurred(picture, settings.blur_px * rng.uniform())
    if settings.noise > 0:
        sd = settings.noise * rng.uniform()
        noise = rng.normal(0, sd, tuple(picture.shape)).astype(np.float32)
        picture = (picture + torch.from_numpy(noise)).clamp(0, 1)
    if settings.jpeg > 0:
        picture = straight_through(picture, jpeg(picture, int(rng.integers(settings.jpeg, 96))))
    if settings.bits > 0:
        levels = 2**settings.bits - 1
        picture = straight_through(picture, (picture.detach() * levels).round() / levels)
    return picture


def straight_through(picture: torch.Tensor, changed: torch.Tensor) -> torch.Tensor:
    """The value of `changed` with the gradient of `picture`, for steps that have none."""
    return picture + (changed - picture).detach()


def jpeg(picture: torch.Tensor, quality: int) -> torch.Tensor:
    """(3, H, W) in [0, 1] after JPEG compression; not differentiable."""
    from PIL import Image

    array = (picture.detach().clamp(0, 1).permute(1, 2, 0).numpy() * 255).round().astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, format="JPEG", quality=quality)
    decoded = np.asarray(Image.open(buffer).convert("RGB")).astype(np.float32) / np.float32(255)
    return torch.from_numpy(decoded.transpose(2, 0, 1).copy())


def _coverage(uv: np.ndarray, cut: tuple[float, float, float, float]) -> np.ndarray:
    """(H, W) share of each pixel inside the print, from the distance to its edges in pixels."""
    covered = np.ones(uv.shape[:2])
    for axis, (low, high) in enumerate((cut[:2], cut[2:])):
        across = np.hypot(*np.gradient(uv[..., axis]))
        across = np.maximum(across, 1e-9)
        inner = np.minimum(uv[..., axis] - low, high - uv[..., axis]) / across
        covered = covered * np.clip(inner + 0.5, 0, 1)
    return np.nan_to_num(covered)


def _averaged_down(rgb: torch.Tensor, size_px: float) -> torch.Tensor:
    """The patch at no more pixels than it covers, so that fine print does not alias."""
    size = (min(rgb.shape[1], max(2, round(size_px))), min(rgb.shape[2], max(2, round(size_px))))
    return rgb if size == tuple(rgb.shape[1:]) else _resized(rgb, size)


def _relit(rgb: torch.Tensor, jitter: Jitter) -> torch.Tensor:
    gains = torch.tensor(jitter.gains, dtype=torch.float32)[:, None, None]
    offset = torch.tensor(jitter.offset, dtype=torch.float32)[:, None, None]
    lit = (rgb * gains + offset).clamp(0, 1)
    # a power has no finite slope at 0
    return lit if jitter.gamma == 1 else lit.clamp(min=1e-4) ** jitter.gamma


def _resized(picture: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    return functional.interpolate(picture[None], size=size, mode="bilinear", antialias=True)[0]


def _blurred(picture: torch.Tensor, sd: float) -> torch.Tensor:
    reach = max(1, int(np.ceil(3 * sd)))
    offsets = torch.arange(-reach, reach + 1, dtype=torch.float32)
    kernel = torch.exp(-0.5 * (offsets / max(sd, 1e-3)) ** 2)
    kernel = kernel / kernel.sum()
    padded = functional.pad(picture[None], (reach,) * 4, mode="replicate")
    along = functional.conv2d(padded, kernel.expand(3, 1, 1, -1), groups=3)
    return functional.conv2d(along, kernel[:, None].expand(3, 1, -1, 1), groups=3)[0]
