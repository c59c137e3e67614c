"""Finding a capture's pictures: inside its folder only, missing ones counted, sizes compared."""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scene.capture import ORIENTATION, QUARTER_TURNS
from scene.errors import InputError

if TYPE_CHECKING:
    from scene.capture import Frame

Size = tuple[float, float]

_SAME_SHAPE = (2, 3, 4)
_TAGGED = ("JPEG", "MPO")
_SUFFIXES = ("", ".png", ".jpg", ".jpeg", ".JPG", ".PNG", ".webp")


@dataclass(frozen=True)
class FileSlice:
    """Bytes in the middle of a file, read when called. Raises InputError."""

    path: Path
    offset: int
    size: int

    def __call__(self) -> bytes:
        """The bytes."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                return file.read(self.size)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read ({error.strerror})") from error


def inside(folder: Path, name: str, source: Path) -> Path:
    """The path that `name`, found in the file `source`, means; it must lie in `folder`.

    Backslashes part folders, as Windows writes them, where no file has them in its name. Raises
    InputError for absolute or `..` paths that lead out of the folder.
    """
    if "\0" in name:
        raise InputError(f"{source}: a file name holds a zero byte")
    path = Path(os.path.normpath(folder / name))
    root = Path(os.path.normpath(folder))
    if "\\" in name and not path.exists():
        path = Path(os.path.normpath(folder / name.replace("\\", "/")))
    if not path.is_relative_to(root):
        raise InputError(f"{source}: {name!r:.120} leads out of the capture's folder; not opened")
    return path


def find_picture(folder: Path, name: str, source: Path) -> Path | None:
    """The picture `name` in `folder`; Blender's names lack the suffix. None when it is missing."""
    path = inside(folder, name, source)
    for suffix in _SUFFIXES:
        candidate = path.with_name(path.name + suffix)
        if candidate.is_file():
            return candidate
    return None


def picture_size(path: Path, stated: Size | None = None) -> tuple[int, int]:
    """(width, height) from the picture's header. Raises InputError.

    stated: (width, height) that the capture says. Where only the picture as its orientation tag
    turns it has that shape, the size is that of the turned one; `Frame.load_image` turns it too.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as picture:
            width, height = picture.size
            if stated is None or _fits(stated, (width, height)):
                return width, height
            turned = picture.getexif().get(ORIENTATION) in QUARTER_TURNS
            return (height, width) if turned and _fits(stated, (height, width)) else (width, height)
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, struct.error) as error:
        raise InputError(f"{path}: wanted a picture (JPEG, PNG, ...), found {error}") from error
    except Image.DecompressionBombError as error:
        raise InputError(f"{path}: the picture is too large to open ({error})") from error


def size_factors(path: Path, stated: Size, found: tuple[int, int]) -> Size:
    """What to multiply intrinsics by in x and y when the pictures were resized.

    Raises InputError when the shapes differ, so that the intrinsics fit no scaled picture.
    """
    if not _fits(stated, found):
        raise InputError(
            f"{path}: wanted a {stated[0]:g}x{stated[1]:g} picture or one of that shape, found "
            f"{found[0]}x{found[1]}"
        )
    return found[0] / stated[0], found[1] / stated[1]


def _fits(stated: Size, found: tuple[int, int]) -> bool:
    """Whether a picture has the stated shape, at any size."""
    x, y = found[0] / stated[0], found[1] / stated[1]
    # a side that was rounded to whole pixels may be off by one
    return abs(x - y) * max(stated) <= 1.5 * max(1.0, x)


def photo_notes(frames: Sequence[Frame]) -> list[str]:
    """What is done to the photos while they are read."""
    notes = []
    if any(frame.lens for frame in frames):
        notes.append("lens distortion is taken out of the pictures as they are read")
    files = [(f.image_path, f.stored_size) for f in frames if f.image_path is not None]
    turned = sum(picture_size(path) != size for path, size in files)
    unsure = sum(_turns_unseen(path, size) for path, size in files)
    if unsure:
        notes.append(
            f"{unsure} of {len(frames)} photos have an orientation tag that is not applied: it "
            f"does not change their shape, so nothing tells whether their poses heed it"
        )
    if turned:
        notes.append(
            f"{turned} of {len(frames)} photos are turned as their orientation tag says: only "
            f"then they have their camera's shape"
        )
    return notes


def _turns_unseen(path: Path, size: tuple[int, int]) -> bool:
    """Whether a JPEG's orientation tag turns or mirrors it without changing its shape."""
    from PIL import Image

    try:
        with Image.open(path) as picture:
            # elsewhere the tag may stand behind the pixels, which then were all read for it
            if picture.format not in _TAGGED:
                return False
            tag = picture.getexif().get(ORIENTATION)
    except (OSError, SyntaxError, ValueError, struct.error):
        # a damaged tag says nothing
        return False
    return tag in _SAME_SHAPE or (tag in QUARTER_TURNS and size[0] == size[1])


def usage_notes(listed: int, missing: Sequence[str]) -> tuple[str, ...]:
    """The sentence about missing pictures, if any are."""
    if not missing:
        return ()
    examples = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
    return (
        f"{listed - len(missing)} of {listed} frames used: {len(missing)} pictures are missing "
        f"({examples})",
    )
