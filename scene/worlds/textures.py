"""Mip-mapped textures in linear light, and one atlas that samples many of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]


def srgb_to_linear(color: NDArray[np.floating]) -> FloatArray:
    """SRGB values in [0, 1] to linear light in [0, 1], float32."""
    color = np.asarray(color, dtype=np.float32)
    return np.where(
        color <= 0.04045, color / 12.92, ((np.maximum(color, 0) + 0.055) / 1.055) ** 2.4
    ).astype(np.float32)


def linear_to_srgb(light: NDArray[np.floating]) -> FloatArray:
    """Linear light, clipped to [0, 1], to sRGB values in [0, 1], float32."""
    light = np.clip(np.asarray(light, dtype=np.float32), 0.0, 1.0)
    return np.where(
        light <= 0.0031308, 12.92 * light, 1.055 * np.maximum(light, 1e-9) ** (1 / 2.4) - 0.055
    ).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Texture:
    """A picture on a surface.

    mips: linear light (h, w, 3) float32, each half the size of the one before. Row 0 is v = 1.
    """

    mips: tuple[FloatArray, ...]

    @classmethod
    def from_srgb(cls, picture: NDArray[np.generic]) -> Texture:
        """From (h, w, 3) sRGB, uint8 or float in [0, 1]."""
        values = np.asarray(picture)
        if values.dtype == np.uint8:
            values = values.astype(np.float32) / 255
        return cls.from_linear(srgb_to_linear(values))

    @classmethod
    def from_linear(cls, picture: FloatArray) -> Texture:
        """From (h, w, c) linear light."""
        mips = [np.ascontiguousarray(picture, dtype=np.float32)]
        while min(mips[-1].shape[:2]) >= 4:
            mips.append(_halved(mips[-1]))
        return cls(tuple(mips))

    @classmethod
    def flat(cls, color: tuple[float, float, float]) -> Texture:
        """One sRGB color."""
        return cls.from_srgb(np.broadcast_to(np.asarray(color, np.float32), (2, 2, 3)))

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the finest level."""
        height, width = self.mips[0].shape[:2]
        return height, width


def _halved(picture: FloatArray) -> FloatArray:
    height, width = (n // 2 * 2 for n in picture.shape[:2])
    even = picture[:height, :width]
    halved: FloatArray = (
        even[::2, ::2] + even[1::2, ::2] + even[::2, 1::2] + even[1::2, 1::2]
    ) * np.float32(0.25)
    return halved


class TextureAtlas:
    """Many textures in one flat array, so that hits on different surfaces are sampled together.

    texels: (T, channels) of all levels. start, width, height: (textures, levels) of each level.
    levels: (textures,) how many a texture has.
    """

    def __init__(self, textures: Sequence[Texture]) -> None:
        deepest = max(len(texture.mips) for texture in textures)
        shape = (len(textures), deepest)
        self.start = np.zeros(shape, np.int64)
        self.width = np.ones(shape, np.int32)
        self.height = np.ones(shape, np.int32)
        self.levels = np.array([len(texture.mips) for texture in textures], np.int32)
        offset = 0
        parts = []
        for i, texture in enumerate(textures):
            for level in range(deepest):
                mip = texture.mips[min(level, len(texture.mips) - 1)]
                if level < len(texture.mips):
                    parts.append(mip.reshape(-1, mip.shape[2]))
                    offset += len(parts[-1])
                self.start[i, level] = offset - mip.shape[0] * mip.shape[1]
                self.height[i, level], self.width[i, level] = mip.shape[:2]
        self.texels = np.concatenate(parts)

    def sample(
        self,
        texture: NDArray[np.integer],
        uv: FloatArray,
        texels_per_sample: FloatArray,
        dither: FloatArray | float = 0.5,
        repeat: bool = True,
    ) -> FloatArray:
        """Bilinear color of each sample.

        texture: (n,) index. uv: (n, 2), v up, 1 = one repeat. texels_per_sample: (n,) width of the
        sample's footprint in finest texels. dither: (n,) in [0, 1) spreads neighbouring samples
        over the two nearest levels, which hides the step between them. Returns (n, channels).
        """
        level = np.log2(np.maximum(texels_per_sample, 1e-6)) + dither
        level = np.clip(np.floor(level).astype(np.int32), 0, self.levels[texture] - 1)
        width, height = self.width[texture, level], self.height[texture, level]
        x = uv[:, 0] * width - np.float32(0.5)
        y = (1 - uv[:, 1]) * height - np.float32(0.5)
        x0, y0 = np.floor(x), np.floor(y)
        fx, fy = (x - x0)[:, None], (y - y0)[:, None]
        left, top = x0.astype(np.int32), y0.astype(np.int32)
        if repeat:
            left, top = left % width, top % height
            right, bottom = left + 1, top + 1
            right[right == width] = 0
            bottom[bottom == height] = 0
        else:
            right, bottom = np.clip(left + 1, 0, width - 1), np.clip(top + 1, 0, height - 1)
            left, top = np.clip(left, 0, width - 1), np.clip(top, 0, height - 1)
        upper = self.start[texture, level] + top.astype(np.int64) * width
        lower = self.start[texture, level] + bottom.astype(np.int64) * width
        texels = self.texels
        above = texels[upper + left] * (1 - fx) + texels[upper + right] * fx
        below = texels[lower + left] * (1 - fx) + texels[lower + right] * fx
        color: FloatArray = above * (1 - fy) + below * fy
        return color.astype(np.float32, copy=False)
