"""The photos of a capture in memory, at training size and at half of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scene.camera import Camera
from scene.capture import Capture, Frame
from scene.errors import InputError

FloatArray = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Photo:
    """One photo and the camera that fits it. pixels: (3, H, W) uint8 sRGB, planar.

    weight: (H, W) float32 in [0, 1], how much a pixel counts; None: all fully.
    alpha: (H, W) float32, how opaque a pixel is; the pixels then are those over black. None: fully.
    matte: sRGB to judge transparent photos over.
    """

    name: str
    camera: Camera
    pixels: NDArray[np.uint8]
    weight: FloatArray | None = None
    alpha: FloatArray | None = None
    matte: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def planes(self, background: tuple[float, float, float] | None = None) -> FloatArray:
        """(3, H, W) float32 in [0, 1], over `background`, or over `matte`."""
        planes = np.multiply(self.pixels, np.float32(1 / 255), dtype=np.float32)
        if self.alpha is not None:
            behind = np.array(self.matte if background is None else background, np.float32)
            planes += (1 - self.alpha) * behind[:, None, None]
        return planes


@dataclass(frozen=True, eq=False)
class Photos:
    """Training and held-out photos; `half` are the training photos at half size."""

    training: tuple[Photo, ...]
    half: tuple[Photo, ...]
    held_out: tuple[Photo, ...]

    @property
    def centers(self) -> NDArray[np.float64]:
        """(N, 3) where the training photos were taken."""
        return np.array([photo.camera.center for photo in self.training])

    @property
    def extent(self) -> float:
        """3DGS's size of a scene: 1.1 times the farthest camera's distance from their mean."""
        centers = self.centers
        extent = 1.1 * float(np.linalg.norm(centers - centers.mean(axis=0), axis=1).max())
        if extent <= 0:
            raise InputError("reconstruct: all photos were taken from one point; walk around")
        return extent

    @property
    def background(self) -> tuple[float, float, float]:
        """What to draw a scene of these photos on (sRGB): what lies behind transparent ones."""
        return next((p.matte for p in self.training if p.alpha is not None), (0.0, 0.0, 0.0))


def load_photos(capture: Capture, long_side: int, masks: bool = True) -> Photos:
    """Read all photos of a capture, shrunk so that the longer side is at most `long_side`.

    masks: weigh pixels by the frames' masks where these say which pixels to trust.
    """
    if len(capture.training) < 3:
        raise InputError(
            f"reconstruct: wanted at least 3 training photos, found {len(capture.training)}"
        )
    training = tuple(_photo(frame, long_side, masks) for frame in capture.training)
    half = tuple(_photo(frame, long_side, masks, 2) for frame in capture.training)
    held_out = tuple(_photo(frame, long_side, masks) for frame in capture.held_out)
    return Photos(training, half, held_out)


def trusted(frame: Frame, size: tuple[int, int]) -> FloatArray | None:
    """(H, W) weights of a frame's pixels at `size` (width, height); None where all count fully."""
    if frame.mask is None or frame.mask.meaning != "use":
        return None
    weight = frame.load_mask(size)
    if weight is not None and not weight.any():
        raise InputError(f"{frame.name}: its mask leaves no pixel to use; remove photo or mask")
    return weight


def _photo(frame: Frame, long_side: int, masks: bool, divisor: int = 1) -> Photo:
    camera = frame.camera
    if max(camera.width, camera.height) > long_side:
        camera = camera.fitted(long_side)
    if divisor > 1:
        camera = camera.resized(max(1, camera.width // divisor), max(1, camera.height // divisor))
    image, alpha = frame.load_layers((camera.width, camera.height))
    pixels = np.round(image * 255).astype(np.uint8)
    weight = trusted(frame, (camera.width, camera.height)) if masks else None
    planar = np.ascontiguousarray(pixels.transpose(2, 0, 1))
    if alpha is None:
        return Photo(frame.name, camera, planar, weight)
    return Photo(frame.name, camera, planar, weight, np.ascontiguousarray(alpha), frame.matte)
