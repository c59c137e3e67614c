"""PlayCanvas SOG, versions 1 and 2: Gaussians in the pixels of lossless WebP pictures.

meta.json names the pictures; they lie beside it or, in a `.sog` bundle, in the same zip archive.
Gaussian i is pixel i, row by row. Version 2 looks scales, colors and harmonics up in codebooks of
256 values, version 1 scales them between minima and maxima.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scene.errors import InputError
from scene.gaussians import Gaussians
from scene.io.json_file import finite_number, read_json_object
from scene.io.loaded import LoadedGaussians
from scene.io.reasons import reason

FloatArray = NDArray[np.float32]
ByteArray = NDArray[np.uint8]

META = "meta.json"
_MAX_META_BYTES = 8 << 20
_MAX_TEXTURE_BYTES = 1 << 30
_ZIP_ERRORS = (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, OSError, ValueError,
               struct.error, zlib.error)  # fmt: skip
_PALETTE_COLUMNS = 64
_REST_SIZES = (0, 3, 8, 15)
_MOST_PALETTE_PIXELS = 65536 * 15
# Positions are noise to a compressor: a file with more Gaussians than bytes is no scene.
_LEAST_BYTES = 1
# The largest part of a quaternion is left out; alpha - 252 says which of wxyz it is.
_OTHER_PARTS = np.array([[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]])
_FIRST_TAG = 252


@dataclass(frozen=True)
class _Source:
    """Where the pictures come from: their sizes in the file, and their bytes."""

    path: Path
    meta: dict[str, Any]
    size: Callable[[str], int]
    read: Callable[[str], bytes]

    def wrong(self, what: str) -> InputError:
        return InputError(f"{self.path}: SOG {what}")


def is_sog(path: Path, start: bytes) -> bool:
    """Whether a file that begins with `start` is a SOG bundle or a SOG's meta.json."""
    if start.startswith(b"PK\x03\x04"):
        return path.suffix.lower() == ".sog" or _zip_names(path).count(META) > 0
    return path.suffix.lower() == ".json" and is_sog_meta(path)


def is_sog_meta(path: Path) -> bool:
    """Whether a JSON file has SOG's fields; False for whatever cannot be read."""
    try:
        if path.stat().st_size > _MAX_META_BYTES:
            return False
        fields = read_json_object(path)
    except (OSError, InputError):
        return False
    return {"means", "scales", "quats", "sh0"} <= set(fields)


def sog_files(path: Path) -> tuple[Path, ...]:
    """The meta.json and every picture that it names, for hashing and counting bytes."""
    meta = read_json_object(path)
    return (path, *(path.with_name(name) for name in _picture_names(path, meta)))


def load_sog(path: str | Path) -> LoadedGaussians:
    """Read a `.sog` bundle, or the meta.json of an unbundled SOG. Raises InputError."""
    path = Path(path)
    if path.suffix.lower() == ".json":
        return _load(_Source(path, read_json_object(path), *_folder_reader(path)))
    try:
        with zipfile.ZipFile(path) as archive:
            size, read = _zip_reader(path, archive)
            return _load(_Source(path, _bundled_meta(path, size, read), size, read))
    except InputError:
        raise
    except _ZIP_ERRORS as error:
        raise InputError(f"{path}: the SOG bundle is damaged ({reason(error)})") from error


def _load(source: _Source) -> LoadedGaussians:
    meta = source.meta
    version = meta.get("version", 1)
    if version not in (1, 2):
        raise source.wrong(f"version {version!r:.20} is not read (1 and 2 are)")
    names = _picture_names(source.path, meta)
    count = _count(source, version)
    total = sum(source.size(name) for name in names)
    if count > total // _LEAST_BYTES:
        raise source.wrong(f"files of {total} bytes cannot hold the {count} Gaussians it announces")
    opacities, dc = _colors(source, count, version)
    sh = np.concatenate([dc[:, None], _rest(source, count, version)], axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        scales = np.exp(_values(source, "scales", _pixels(source, "scales", count)[:, :3], version))
    columns = (_means(source, count), _quats(source, count), scales, opacities, sh)
    try:
        gaussians, dropped = Gaussians.validated(*columns)
    except InputError as error:
        raise InputError(f"{source.path}: {error}") from error
    name = source.path.resolve().parent.name if source.path.name == META else None
    return LoadedGaussians(gaussians, f"sog {version}", dropped, name=name)


def _picture_names(path: Path, meta: dict[str, Any]) -> list[str]:
    """Every picture's name; plain names beside meta.json, nothing that leads elsewhere."""
    names = []
    for part, wanted in (("means", 2), ("scales", 1), ("quats", 1), ("sh0", 1), ("shN", 2)):
        fields = meta.get(part)
        if fields is None and part == "shN":
            continue
        files = fields.get("files") if isinstance(fields, dict) else None
        if not isinstance(files, list) or len(files) < wanted:
            raise InputError(f"{path}: SOG {part}: wanted the names of {wanted} files, found none")
        for name in files[:wanted]:
            if not isinstance(name, str) or not name or set(name) & set("/\\:\0") or name[0] == ".":
                raise InputError(
                    f"{path}: SOG {part}: wanted plain file names beside meta.json, found "
                    f"{name!r:.80}"
                )
            names.append(name)
    return names


def _folder_reader(path: Path) -> tuple[Callable[[str], int], Callable[[str], bytes]]:
    def size(name: str) -> int:
        file = path.with_name(name)
        if file.is_symlink() or not file.is_file():
            raise InputError(f"{path}: SOG picture {name} is not beside it")
        return file.stat().st_size

    return size, lambda name: path.with_name(name).read_bytes()


def _zip_names(path: Path) -> list[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            return [Path(name).name for name in archive.namelist()]
    except _ZIP_ERRORS:
        return []


def _bundled_meta(
    path: Path, size: Callable[[str], int], read: Callable[[str], bytes]
) -> dict[str, Any]:
    if size(META) > _MAX_META_BYTES:
        raise InputError(f"{path}: its meta.json is larger than {_MAX_META_BYTES >> 20} MB")
    try:
        meta = json.loads(read(META))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: wanted JSON in its meta.json, found {reason(error)}") from error
    if not isinstance(meta, dict):
        raise InputError(f"{path}: wanted an object in its meta.json")
    return meta


def _zip_reader(
    path: Path, archive: zipfile.ZipFile
) -> tuple[Callable[[str], int], Callable[[str], bytes]]:
    members = {Path(info.filename).name: info for info in archive.infolist()}

    def size(name: str) -> int:
        if name not in members:
            raise InputError(f"{path}: the SOG bundle has no {name}")
        return members[name].compress_size

    def read(name: str) -> bytes:
        info = members[name]
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise InputError(f"{path}: {name} in the bundle is packed in a way that is not read")
        if info.file_size > min(_MAX_TEXTURE_BYTES, 64 * info.compress_size + _MAX_META_BYTES):
            raise InputError(f"{path}: {name} in the bundle unpacks to {info.file_size} bytes from "
                             f"{info.compress_size}")  # fmt: skip
        with archive.open(info) as file:
            return file.read(info.file_size)

    return size, read


def _count(source: _Source, version: int) -> int:
    if version == 2:
        count = source.meta.get("count")
    else:
        shape = source.meta["means"].get("shape")
        count = shape[0] if isinstance(shape, list) and shape else None
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise source.wrong(f"count: wanted a number of Gaussians >= 1, found {count!r:.40}")
    return count


def _picture(source: _Source, name: str, least: int, most: int) -> ByteArray:
    """(H, W, 4) uint8 of `least` to `most` pixels."""
    from PIL import Image

    source.size(name)
    content = io.BytesIO(source.read(name))
    try:
        with Image.open(content, formats=["WEBP", "PNG"]) as picture:
            width, height = picture.size
            if least <= width * height <= most:
                return np.asarray(picture.convert("RGBA"))
    except Image.DecompressionBombError as error:
        raise source.wrong(f"picture {name} is too large ({reason(error)})") from error
    except (OSError, SyntaxError, ValueError) as error:
        raise source.wrong(f"picture {name}: wanted a WebP picture, found damaged data") from error
    raise source.wrong(f"picture {name}: wanted {least} pixels, found {width}x{height}")


def _pixels(source: _Source, part: str, count: int, which: int = 0) -> ByteArray:
    """(count, 4) uint8; Gaussian i is pixel i."""
    name = source.meta[part]["files"][which]
    return _picture(source, name, count, 2 * count + (1 << 16)).reshape(-1, 4)[:count]


def _numbers(source: _Source, part: str, field: str, shape: tuple[int, ...]) -> FloatArray:
    try:
        values = np.asarray(source.meta[part].get(field), dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        values = np.full(shape, np.nan)
    if values.shape != shape or not np.isfinite(values).all():
        wanted = f"{shape[0]} finite numbers" if shape else "a finite number"
        raise source.wrong(f"{part}.{field}: wanted {wanted}")
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def _codebook(source: _Source, part: str) -> FloatArray:
    """(256,) values; an early writer left the first one empty, one step below the second."""
    fields = source.meta[part]
    values = fields.get("codebook")
    if isinstance(values, list) and len(values) == 256 and values[0] is None:
        second, last = finite_number(values[1]), finite_number(values[255])
        if second is not None and last is not None:
            fields["codebook"] = [second + (second - last) / 255, *values[1:]]
    return _numbers(source, part, "codebook", (256,))


def _means(source: _Source, count: int) -> FloatArray:
    """16 bits an axis between minimum and maximum of sign(x) log(1 + |x|)."""
    low, high = (_numbers(source, "means", name, (3,)) for name in ("mins", "maxs"))
    words = _pixels(source, "means", count, 0)[:, :3].astype(np.uint16)
    words |= _pixels(source, "means", count, 1)[:, :3].astype(np.uint16) << 8
    with np.errstate(over="ignore", invalid="ignore"):
        logs = low + (high - low).astype(np.float64) * (words / 65535)
        return np.asarray(np.sign(logs) * np.expm1(np.abs(logs)), dtype=np.float32)


def _quats(source: _Source, count: int) -> FloatArray:
    """(count, 4) wxyz; a pixel without a valid tag is the identity, as PlayCanvas reads it."""
    pixels = _pixels(source, "quats", count)
    small = (pixels[:, :3] / np.float32(255) * 2 - 1) * np.float32(np.sqrt(0.5))
    largest = np.maximum(pixels[:, 3].astype(np.int64) - _FIRST_TAG, 0)
    quats = np.empty((count, 4), dtype=np.float32)
    np.put_along_axis(quats, _OTHER_PARTS[largest], small, axis=1)
    rest = np.sqrt(np.maximum(0, 1 - (small * small).sum(axis=1)))
    np.put_along_axis(quats, largest[:, None], rest[:, None], axis=1)
    quats[pixels[:, 3] < _FIRST_TAG] = (1, 0, 0, 0)
    return quats


def _values(source: _Source, part: str, pixels: ByteArray, version: int) -> FloatArray:
    """Codebook entries (version 2), or values between each channel's minimum and maximum."""
    if version == 2:
        return _codebook(source, part)[pixels]
    channels = (pixels.shape[1],)
    low, high = (_numbers(source, part, name, channels) for name in ("mins", "maxs"))
    return np.asarray(low + (high - low) * (pixels / np.float32(255)), dtype=np.float32)


def _colors(source: _Source, count: int, version: int) -> tuple[FloatArray, FloatArray]:
    """Opacities (count,) in [0, 1] and degree-0 coefficients (count, 3)."""
    pixels = _pixels(source, "sh0", count)
    if version == 2:
        dc = _values(source, "sh0", pixels[:, :3], version)
        return np.asarray(pixels[:, 3] / np.float32(255), dtype=np.float32), dc
    values = _values(source, "sh0", pixels, version)
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-values[:, 3])), dtype=np.float32), values[:, :3]


def _rest(source: _Source, count: int, version: int) -> FloatArray:
    """(count, K - 1, 3): each Gaussian's palette entry, 64 entries in a row of the picture."""
    fields = source.meta.get("shN")
    if fields is None or (version == 2 and fields.get("bands") == 0):
        return np.zeros((count, 0, 3), dtype=np.float32)
    palette = _picture(source, fields["files"][0], 1, _MOST_PALETTE_PIXELS)
    size, odd = divmod(palette.shape[1], _PALETTE_COLUMNS)
    if odd or size not in _REST_SIZES[1:]:
        raise source.wrong(
            f"picture {fields['files'][0]}: wanted a width of 192, 512 or 960 (SH degree 1 to 3), "
            f"found {palette.shape[1]}"
        )
    if version == 2 and fields.get("bands") != _REST_SIZES.index(size):
        raise source.wrong(f"shN.bands: {fields.get('bands')!r:.20} does not fit its palette")
    table = _dequantised(source, palette.reshape(-1, size, 4)[..., :3], version)
    labels = _pixels(source, "shN", count, 1).astype(np.int64)
    entry = labels[:, 0] | labels[:, 1] << 8
    if entry.max(initial=0) >= len(table):
        raise source.wrong(f"labels lead to palette entry {entry.max()} of {len(table)}")
    return table[entry]


def _dequantised(source: _Source, palette: ByteArray, version: int) -> FloatArray:
    """Palette bytes (P, K - 1, 3) to coefficients."""
    if version == 2:
        return _codebook(source, "shN")[palette]
    low, high = (_numbers(source, "shN", name, ()) for name in ("mins", "maxs"))
    return np.asarray(low + (high - low) * (palette / np.float32(255)), dtype=np.float32)
