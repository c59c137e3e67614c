"""Posed photos of a place, before (or beside) its Gaussians: what `reconstruct` starts from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scene.camera import Camera
from scene.errors import InputError
from scene.scene import CaptureCamera

if TYPE_CHECKING:
    from scene.captures.lens import Lens

FloatArray = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Frame:
    """One photo and the pinhole camera that would have taken it.

    camera: describes the UNDISTORTED picture that `load_image` gives, at full size.
    image_path: the photo's file as it is on disk (distorted when `lens` is set), or None.
    pixels: (H, W, 3|4) uint8 sRGB, instead of a file (made pictures); exactly one of the two.
    lens: the distortion to take out while loading; None for a pinhole picture.
    matte: sRGB laid behind transparent pixels of an RGBA picture.
    held_out: not to be trained on.
    """

    name: str
    camera: Camera
    image_path: Path | None = None
    held_out: bool = False
    pixels: NDArray[np.uint8] | None = None
    lens: Lens | None = None
    matte: tuple[float, float, float] = (1.0, 1.0, 1.0)

    def load_image(self, size: tuple[int, int] | None = None) -> FloatArray:
        """The undistorted picture, (H, W, 3) float32 sRGB in [0, 1].

        size: (width, height) to shrink to by area averaging; it fits `camera.resized(*size)`.
        Raises InputError when the file is unreadable or has another size than the camera.
        """
        image = self._stored_image()
        found = image.shape[1::-1]
        lens = self.lens
        wanted = (lens.width, lens.height) if lens else (self.camera.width, self.camera.height)
        if found != wanted:
            raise InputError(
                f"{self.image_path or self.name}: wanted a {wanted[0]}x{wanted[1]} picture as its "
                f"camera says, found {found[0]}x{found[1]}"
            )
        if lens is not None:
            image = lens.undistort(image)
        return _shrunk(_over(image, self.matte), size)

    def _stored_image(self) -> NDArray[np.uint8]:
        if self.pixels is not None:
            return self.pixels
        if self.image_path is None:
            raise InputError(f"frame {self.name}: has no picture")
        return read_picture(self.image_path)


@dataclass(frozen=True, eq=False)
class Capture:
    """Posed photos, and what the format knows of scale, up and points.

    points: (P, 3) float64 world points on surfaces, or None. point_colors: (P, 3) float32 sRGB.
    up: (3,) unit signed up axis, None where unknown; up_source says where it is from.
    metres_per_unit: None where the scale is unknown.
    notes: sentences that the user should see (pictures missing, distortion taken out, ...).
    """

    frames: tuple[Frame, ...]
    points: NDArray[np.float64] | None = None
    point_colors: FloatArray | None = None
    up: tuple[float, float, float] | None = None
    up_source: str = "unknown"
    metres_per_unit: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def training(self) -> tuple[Frame, ...]:
        """The frames to train on."""
        return tuple(frame for frame in self.frames if not frame.held_out)

    @property
    def held_out(self) -> tuple[Frame, ...]:
        """The frames kept back to judge by."""
        return tuple(frame for frame in self.frames if frame.held_out)

    def scene_cameras(self) -> tuple[CaptureCamera, ...]:
        """The frames' cameras as a `Scene` keeps them, without the pictures."""
        return tuple(CaptureCamera(f.name, f.camera, f.held_out) for f in self.frames)

    def hold_out(self, every: int, first: int = 0) -> Capture:
        """The same capture with each `every`-th frame, from `first` on, held out."""
        if every < 2:
            raise InputError(f"hold out every n-th frame: wanted n >= 2, found {every}")
        frames = tuple(
            replace(frame, held_out=(i - first) % every == 0 and i >= first)
            for i, frame in enumerate(self.frames)
        )
        return replace(self, frames=frames)


def read_picture(path: Path) -> NDArray[np.uint8]:
    """A picture file as (H, W, 3|4) uint8 sRGB, as stored: orientation tags are not applied.

    Capture formats give intrinsics for the stored pixels. Raises InputError.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as picture:
            alpha = "A" in picture.getbands() or "transparency" in picture.info
            return np.asarray(picture.convert("RGBA" if alpha else "RGB"))
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such picture") from error
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
        raise InputError(f"{path}: wanted a picture (JPEG, PNG, ...), found {error}") from error
    except Image.DecompressionBombError as error:
        raise InputError(f"{path}: the picture is too large to open ({error})") from error


def _over(image: NDArray[np.uint8], matte: tuple[float, float, float]) -> FloatArray:
    """(H, W, 3|4) uint8 to (H, W, 3) float32 with `matte` behind transparent pixels."""
    unit = np.multiply(image, np.float32(1 / 255), dtype=np.float32)
    if image.shape[2] == 3:
        return unit
    behind = np.array(matte, dtype=np.float32) * (1 - unit[..., 3:])
    return np.asarray(unit[..., :3] * unit[..., 3:] + behind, dtype=np.float32)


def _shrunk(image: FloatArray, size: tuple[int, int] | None) -> FloatArray:
    if size is None or size == image.shape[1::-1]:
        return image
    from PIL import Image

    channels = [
        np.asarray(Image.fromarray(image[..., c], mode="F").resize(size, Image.Resampling.BOX))
        for c in range(3)
    ]
    return np.clip(np.stack(channels, axis=-1), 0.0, 1.0)
