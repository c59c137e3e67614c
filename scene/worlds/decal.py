"""A picture that really lies on a flat surface of a world."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scene.worlds.textures import Texture, TextureAtlas, srgb_to_linear

FloatArray = NDArray[np.float32]
DoubleArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Decal:
    """A flat picture stuck on the named surface.

    picture: (h, w, 3 or 4) sRGB float32 in [0, 1], alpha last. surface: name of the surface that
    carries it. center: (3,) metres. right, down: (3,) unit directions of the picture's axes, in
    the surface's plane. width, height: metres.
    """

    picture: FloatArray
    surface: str
    center: DoubleArray
    right: DoubleArray
    down: DoubleArray
    width: float
    height: float

    def corners(self) -> DoubleArray:
        """(4, 3) corners TL, TR, BR, BL: the outer edges of the corner pixels."""
        across, along = self.right * self.width / 2, self.down * self.height / 2
        return np.stack(
            [
                self.center - across - along,
                self.center + across - along,
                self.center + across + along,
                self.center - across + along,
            ]
        )

    def painter(self) -> DecalPainter:
        """The decal prepared for many samples."""
        return DecalPainter(self)


class DecalPainter:
    """Samples a decal's linear color and coverage at points of its surface."""

    def __init__(self, decal: Decal) -> None:
        self._decal = decal
        self._origin = decal.corners()[0]
        linear = srgb_to_linear(decal.picture[..., :3])
        alpha = (
            decal.picture[..., 3:4]
            if decal.picture.shape[2] == 4
            else np.ones_like(linear[..., :1])
        )
        # premultiplied, so that transparent pixels lend no color to their neighbours
        self._atlas = TextureAtlas(
            [Texture.from_linear(np.concatenate([linear * alpha, alpha], axis=2))]
        )
        self._texels_per_metre = decal.picture.shape[1] / decal.width

    def paint(self, albedo: FloatArray, points: FloatArray, footprint: FloatArray) -> FloatArray:
        """Albedo (n, 3) with the decal over it; points (n, 3), footprint (n,) metres a sample."""
        local = points.astype(np.float64) - self._origin
        a = local @ self._decal.right / self._decal.width
        b = local @ self._decal.down / self._decal.height
        inside = np.flatnonzero((a >= 0) & (a < 1) & (b >= 0) & (b < 1))
        if len(inside) == 0:
            return albedo
        uv = np.stack([a[inside], 1 - b[inside]], axis=1).astype(np.float32)
        color = self._atlas.sample(
            np.zeros(len(inside), np.int64),
            uv,
            footprint[inside] * np.float32(self._texels_per_metre),
            repeat=False,
        )
        painted = albedo.copy()
        painted[inside] = albedo[inside] * (1 - color[:, 3:]) + color[:, :3]
        return painted
