"""Posed photos of a place, before (or beside) its Gaussians: what `reconstruct` starts from."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from scene.camera import Camera
from scene.errors import InputError
from scene.scene import CaptureCamera, TargetBox

if TYPE_CHECKING:
    from scene.captures.lens import Lens
    from scene.normalisation import Normalisation

FloatArray = NDArray[np.float32]

ORIENTATION = 0x0112
"""EXIF's tag for how a photo is to be turned before it is looked at."""
QUARTER_TURNS = {5: "TRANSPOSE", 6: "ROTATE_270", 7: "TRANSVERSE", 8: "ROTATE_90"}
"""Its values that change the shape, and Pillow's names for what undoes them."""


@dataclass(frozen=True, eq=False)
class FrameMask:
    """A gray picture of a photo's size that goes with it, and what its bright pixels mean.

    meaning: "use" - pixels to trust, the dark ones are not to be trained on (people walking by,
    the camera's own car); "object" - the object that the photo was taken for.
    path, pixels: a file, or (H, W) uint8; exactly one of the two.
    label: the object's name, lower case; "" where it has none.
    """

    meaning: Literal["use", "object"]
    path: Path | None = None
    pixels: NDArray[np.uint8] | None = None
    label: str = ""

    def load(self) -> NDArray[np.uint8]:
        """(H, W) uint8, 255 where the mask is set; files of zeros and ones mean that too."""
        if self.pixels is not None:
            return self.pixels
        if self.path is None:
            raise InputError("a mask has neither a file nor pixels")
        gray = _gray(read_picture(self.path))
        return gray * np.uint8(255) if gray.max(initial=0) == 1 else gray


@dataclass(frozen=True)
class FrameBox:
    """A labelled box in a photo: xyxy pixels of the UNDISTORTED picture, edges exclusive.

    The box ends at the picture's edges.
    track: the same name in every photo for the same object, "" where the data does not say.
    """

    label: str
    xyxy: tuple[float, float, float, float]
    track: str = ""


@dataclass(frozen=True, eq=False)
class LabelledBox:
    """An object's 3D box in world units at one moment, as the data states it.

    track: the same name at every moment for the same object. time_s: seconds, on the data's clock.
    """

    box: TargetBox
    track: str
    time_s: float = 0.0


@dataclass(frozen=True, eq=False)
class Frame:
    """One photo and the pinhole camera that would have taken it.

    camera: describes the UNDISTORTED picture that `load_image` gives, at full size.
    image_path: the photo's file as it is on disk (distorted when `lens` is set), or None.
    pixels: (H, W, 3|4) uint8 sRGB, instead of a file (made pictures).
    encoded: gives the bytes of a JPEG or PNG that lies inside a larger file. Exactly one of
    image_path, pixels and encoded is there.
    lens: the distortion to take out while loading; None for a pinhole picture.
    matte: sRGB laid behind transparent pixels of an RGBA picture.
    held_out: not to be trained on.
    mask: which of its pixels to trust, or which show the object.
    boxes: what the data says is to be seen in it.
    """

    name: str
    camera: Camera
    image_path: Path | None = None
    held_out: bool = False
    pixels: NDArray[np.uint8] | None = None
    lens: Lens | None = None
    matte: tuple[float, float, float] = (1.0, 1.0, 1.0)
    encoded: Callable[[], bytes] | None = None
    mask: FrameMask | None = None
    boxes: tuple[FrameBox, ...] = ()

    def load_image(self, size: tuple[int, int] | None = None) -> FloatArray:
        """The undistorted picture, (H, W, 3) float32 sRGB in [0, 1], over `matte`.

        size: (width, height) to shrink to by area averaging; it fits `camera.resized(*size)`.
        Raises InputError when the file is unreadable or has another size than the camera.
        """
        image, alpha = self.load_layers(size)
        if alpha is None:
            return image
        behind = np.array(self.matte, dtype=np.float32) * (1 - alpha[..., None])
        return np.asarray(image + behind, dtype=np.float32)

    def load_layers(
        self, size: tuple[int, int] | None = None
    ) -> tuple[FloatArray, FloatArray | None]:
        """The undistorted picture over black, (H, W, 3), and its opacity (H, W) in [0, 1].

        The opacity is None where no pixel is transparent. See `load_image`.
        """
        image = self._stored_image()
        found = image.shape[1::-1]
        wanted = self.stored_size
        if found != wanted:
            raise InputError(
                f"{self.image_path or self.name}: wanted a {wanted[0]}x{wanted[1]} picture as its "
                f"camera says, found {found[0]}x{found[1]}"
            )
        if self.lens is not None:
            image = self.lens.undistort(image)
        unit = np.multiply(image, np.float32(1 / 255), dtype=np.float32)
        if image.shape[2] == 3 or image[..., 3].min() == 255:
            return _shrunk(np.ascontiguousarray(unit[..., :3]), size), None
        unit[..., :3] *= unit[..., 3:]
        layers = _shrunk(unit, size)
        return layers[..., :3], layers[..., 3]

    def load_mask(self, size: tuple[int, int] | None = None) -> FloatArray | None:
        """The undistorted mask, (H, W) float32 in [0, 1], for the pixels of `load_image(size)`.

        What its bright pixels mean is `mask.meaning`. A mask of the photo's shape but another
        size is resampled to it. None when the frame has no mask. Raises InputError.
        """
        if self.mask is None:
            return None
        from scene.captures.pictures import size_factors

        gray = self.mask.load()
        wanted = self.stored_size
        source = self.mask.path or Path(self.name)
        size_factors(source, wanted, (gray.shape[1], gray.shape[0]))
        unit = np.multiply(gray, np.float32(1 / 255), dtype=np.float32)[..., None]
        unit = _shrunk(unit, wanted)
        if self.lens is not None:
            unit = self.lens.undistort(unit).reshape(*unit.shape[:2], 1)
        return _shrunk(unit, size)[..., 0]

    @property
    def stored_size(self) -> tuple[int, int]:
        """(width, height) of the photo before its lens' distortion is taken out."""
        lens = self.lens
        return (lens.width, lens.height) if lens else (self.camera.width, self.camera.height)

    def _stored_image(self) -> NDArray[np.uint8]:
        if self.pixels is not None:
            return self.pixels
        if self.encoded is not None:
            return read_picture(BytesIO(self.encoded()), self.name)
        if self.image_path is None:
            raise InputError(f"frame {self.name}: has no picture")
        return read_picture(self.image_path, size=self.stored_size)


@dataclass(frozen=True, eq=False)
class Capture:
    """Posed photos, and what the format knows of scale, up and points.

    points: (P, 3) float64 world points on surfaces, or None. point_colors: (P, 3) float32 sRGB.
    up: (3,) unit signed up axis, None where unknown; up_source says where it is from.
    metres_per_unit: None where the scale is unknown.
    boxes: objects that the data itself marks in 3D.
    from_data: how this capture's frame came from the data's own, for example a shift to the first
    car's place; None where the two are one. `in_data_frame()` goes back.
    format: what it was read from, for the user ("COLMAP text", "CO3D", ...).
    notes: sentences that the user should see (pictures missing, distortion taken out, ...).
    """

    frames: tuple[Frame, ...]
    points: NDArray[np.float64] | None = None
    point_colors: FloatArray | None = None
    up: tuple[float, float, float] | None = None
    up_source: str = "unknown"
    metres_per_unit: float | None = None
    notes: tuple[str, ...] = ()
    boxes: tuple[LabelledBox, ...] = ()
    from_data: Normalisation | None = None
    format: str = ""

    @property
    def training(self) -> tuple[Frame, ...]:
        """The frames to train on."""
        return tuple(frame for frame in self.frames if not frame.held_out)

    @property
    def held_out(self) -> tuple[Frame, ...]:
        """The frames kept back to judge by."""
        return tuple(frame for frame in self.frames if frame.held_out)

    def in_data_frame(self) -> Capture:
        """The same capture in the data's own world frame."""
        if self.from_data is None:
            return self
        return replace(changed_frame(self, self.from_data.inverse()), from_data=None)

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


def changed_frame(capture: Capture, change: Normalisation) -> Capture:
    """The capture with cameras, points, boxes, up axis and unit length in another world frame."""
    scale = capture.metres_per_unit
    up = capture.up
    if up is not None:
        x, y, z = change.apply_to_direction(up).tolist()
        up = (x, y, z)
    return replace(
        capture,
        frames=tuple(replace(f, camera=change.apply_to_camera(f.camera)) for f in capture.frames),
        points=None if capture.points is None else change.apply_to_points(capture.points),
        up=up,
        metres_per_unit=None if scale is None else scale / change.scale,
        boxes=tuple(replace(b, box=changed_box(b.box, change)) for b in capture.boxes),
    )


def changed_box(box: TargetBox, change: Normalisation) -> TargetBox:
    """The box in another world frame."""
    return TargetBox(
        change.apply_to_points(box.center),
        change.apply_to_direction(box.axes),
        np.asarray(box.half_sizes) * change.scale,
        box.label,
    )


def read_picture(
    source: Path | BytesIO, name: str = "", size: tuple[int, int] | None = None
) -> NDArray[np.uint8]:
    """A picture file as (H, W, 3|4) uint8 sRGB, as stored: orientation tags are not applied.

    Capture formats give intrinsics for the stored pixels. 16-bit gray is brought to 8 bits. name:
    for messages, where `source` is not a file. size: (width, height) that is wanted; a picture that
    has it only as its orientation tag turns it is turned. Raises InputError.
    """
    from PIL import Image, UnidentifiedImageError

    label = name or str(source)
    try:
        with Image.open(source) as opened:
            picture: Image.Image = opened
            if size is not None and picture.size != size and picture.size[::-1] == size:
                tag = picture.getexif().get(ORIENTATION, 1)
                if (turn := QUARTER_TURNS.get(tag)) is not None:
                    picture = picture.transpose(Image.Transpose[turn])
            if picture.mode.startswith("I;16"):
                return np.repeat(_eight_bits(np.asarray(picture))[..., None], 3, axis=2)
            if picture.mode in ("I", "F"):
                raise InputError(
                    f"{label}: wanted a picture of 8 or 16 bits a channel, found "
                    f"{'32-bit integers' if picture.mode == 'I' else 'floating-point numbers'}"
                )
            alpha = "A" in picture.getbands() or "transparency" in picture.info
            return np.asarray(picture.convert("RGBA" if alpha else "RGB"))
    except FileNotFoundError as error:
        raise InputError(f"{label}: no such picture") from error
    except InputError:
        raise
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, struct.error) as error:
        raise InputError(f"{label}: wanted a picture (JPEG, PNG, ...), found {error}") from error
    except Image.DecompressionBombError as error:
        raise InputError(f"{label}: the picture is too large to open ({error})") from error


def _eight_bits(gray: NDArray[np.uint16]) -> NDArray[np.uint8]:
    """16-bit values to 8 bits; masks of zeros and ones stay as they are."""
    if gray.max(initial=0) <= 1:
        return gray.astype(np.uint8)
    return np.round(gray / 257).astype(np.uint8)


def _gray(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """(H, W) of a mask picture: its red channel, or alpha where only that varies."""
    if image.shape[2] == 4 and (image[..., 3] < 255).any():
        return np.minimum(image[..., 0], image[..., 3])
    return image[..., 0]


def _shrunk(image: FloatArray, size: tuple[int, int] | None) -> FloatArray:
    if size is None or size == image.shape[1::-1]:
        return image
    from PIL import Image

    channels = [
        np.asarray(Image.fromarray(image[..., c], mode="F").resize(size, Image.Resampling.BOX))
        for c in range(image.shape[2])
    ]
    return np.clip(np.stack(channels, axis=-1), 0.0, 1.0)
