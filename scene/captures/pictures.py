"""Finding a capture's pictures: inside its folder only, missing ones counted, sizes compared."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scene.errors import InputError

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

    Raises InputError for absolute or `..` paths that lead out of the folder.
    """
    if "\0" in name:
        raise InputError(f"{source}: a file name holds a zero byte")
    path = Path(os.path.normpath(folder / name))
    root = Path(os.path.normpath(folder))
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


def picture_size(path: Path) -> tuple[int, int]:
    """(width, height) from the picture's header. Raises InputError."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as picture:
            return picture.size
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
        raise InputError(f"{path}: wanted a picture (JPEG, PNG, ...), found {error}") from error
    except Image.DecompressionBombError as error:
        raise InputError(f"{path}: the picture is too large to open ({error})") from error


def size_factors(
    path: Path, stated: tuple[float, float], found: tuple[int, int]
) -> tuple[float, float]:
    """What to multiply intrinsics by in x and y when the pictures were resized.

    Raises InputError when the shapes differ, so that the intrinsics fit no scaled picture.
    """
    x, y = found[0] / stated[0], found[1] / stated[1]
    # a side that was rounded to whole pixels may be off by one
    if abs(x - y) * max(stated) > 1.5 * max(1.0, x):
        raise InputError(
            f"{path}: wanted a {stated[0]:g}x{stated[1]:g} picture or one of that shape, found "
            f"{found[0]}x{found[1]}"
        )
    return x, y


def usage_notes(listed: int, missing: Sequence[str]) -> tuple[str, ...]:
    """The sentence about missing pictures, if any are."""
    if not missing:
        return ()
    examples = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
    return (
        f"{listed - len(missing)} of {listed} frames used: {len(missing)} pictures are missing "
        f"({examples})",
    )
