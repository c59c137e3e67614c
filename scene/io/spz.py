"""Niantic's SPZ, versions 2 to 4: attribute streams of small integers, gzip or Zstandard.

Its frame is right-up-back; ours is whatever the splat was trained in, for which splats in the wild
use right-down-forward, so y and z are negated (a half turn about x): positions, quaternions and
the harmonics that are odd under it.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scene.errors import InputError
from scene.gaussians import Gaussians, Rows
from scene.io.loaded import LoadedGaussians
from scene.io.ply import BLOCK_ROWS

FloatArray = NDArray[np.float32]
ByteArray = NDArray[np.uint8]

MAGIC = b"NGSP"
_GZIP_MAGIC = b"\x1f\x8b"
MAX_POINTS = 10_000_000
_SPARED = 4096
_MOST_EXTENSION_BYTES = 1 << 16
_ZSTD_HEADER_BYTES = 32
HEADER = struct.Struct("<4sIIBBBB")
_STREAM = struct.Struct("<QQ")
_EXTENSION = struct.Struct("<II")
_FRAME_EXTENSION = 0xADBE0003
# Harmonics between a minimum and a maximum of their own, from before extensions were settled.
_HARMONICS_EXTENSION = 0xADBE0001
_OLD_EXTENSIONS = tuple(struct.pack("<I", kind) for kind in (_HARMONICS_EXTENSION, 0xADBE0002))
_RIGHT_UP_BACK, _RIGHT_DOWN_FORWARD = 4, 6
_ANTIALIASED, _EXTENDED = 1, 2
COLOR_SCALE = 0.15
_SH_SIZES = (0, 3, 8, 15)
# Signs of the harmonics 1 to 15 (3DGS order) under (x, -y, -z): each is odd in y and z together or
# even, e.g. degree 1 is y, z, x.
SH_SIGNS = np.array([-1, -1, 1, -1, 1, 1, -1, 1, -1, 1, -1, -1, 1, -1, 1], dtype=np.float32)
FLIP = np.array([1, -1, -1], dtype=np.float32)
"""Between SPZ's right-up-back frame and right-down-forward, either way."""
OTHER_PARTS = np.array([[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]])
"""The three parts that are stored when part i of a quaternion is left out."""


@dataclass(frozen=True)
class _Header:
    version: int
    count: int
    sh_degree: int
    fractional_bits: int
    flags: int
    streams: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bytes of positions, opacities, colors, scales, rotations, harmonics."""
        rotation = 3 if self.version < 3 else 4
        widths = (9, 1, 3, 3, rotation, 3 * _SH_SIZES[self.sh_degree])
        return tuple(width * self.count for width in widths)


def is_spz(path: Path, start: bytes) -> bool:
    """Whether a file that begins with `start` is SPZ; gzip data only by its name."""
    gzip = start.startswith(_GZIP_MAGIC) and path.suffix.lower() == ".spz"
    return gzip or start.startswith(MAGIC)


def load_spz(path: str | Path) -> LoadedGaussians:
    """Read SPZ version 2, 3 (gzip) or 4 (Zstandard). Raises InputError."""
    path = Path(path)
    data = path.read_bytes()
    if data.startswith(_GZIP_MAGIC):
        header, streams, extensions = _gzip_streams(path, data)
    elif data.startswith(MAGIC):
        header, streams, extensions = _zstd_streams(path, data)
    else:
        raise InputError(f"{path}: wanted an SPZ file, but it is neither gzip nor begins with NGSP")
    n = header.count
    columns = [np.frombuffer(stream, np.uint8).reshape(n, -1) for stream in streams]
    records = _records(extensions) if header.flags & _EXTENDED else {}
    _refuse_old_extensions(path, header, records, streams[0])
    turned = _is_turned(path, records)
    blocks = (
        _decode([column[first : first + BLOCK_ROWS] for column in columns], header, turned)
        for first in range(0, n, BLOCK_ROWS)
    )
    try:
        gaussians, dropped = Gaussians.gathered(n, 1 + _SH_SIZES[header.sh_degree], blocks)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    notes = ["turned from SPZ's right-up-back frame to right-down-forward"] if turned else []
    if header.flags & _ANTIALIASED:
        notes.append("trained for anti-aliased drawing: switch that on in the render settings")
    return LoadedGaussians(gaussians, f"spz {header.version}", dropped, tuple(notes))


def _decode(columns: list[ByteArray], header: _Header, turned: bool) -> Rows:
    """Some rows of the six streams."""
    positions, opacities, colors, scales, rotations, harmonics = columns
    flip, signs = (FLIP, SH_SIGNS) if turned else (np.ones_like(FLIP), np.ones_like(SH_SIGNS))
    sh = np.empty((len(positions), 1 + _SH_SIZES[header.sh_degree], 3), dtype=np.float32)
    sh[:, 0] = (colors / np.float32(255) - np.float32(0.5)) / np.float32(COLOR_SCALE)
    # byte 128 is zero; RGB are inside each coefficient
    steps = np.repeat(signs[: sh.shape[1] - 1] / np.float32(128), 3)
    rest = np.multiply(harmonics, steps, dtype=np.float32)
    rest -= 128 * steps
    sh[:, 1:] = rest.reshape(len(sh), -1, 3)
    return Rows(
        _positions(positions, header.fractional_bits) * flip,
        _rotations(rotations) * np.append(np.float32(1), flip),
        np.exp(scales / np.float32(16) - np.float32(10)),
        opacities[:, 0] / np.float32(255),
        sh,
    )


def _records(extensions: bytes) -> dict[int, bytes]:
    """Payloads by type, of records of type, length, payload; a cut-off one is left out."""
    found = {}
    position = 0
    while position + _EXTENSION.size <= len(extensions):
        kind, length = _EXTENSION.unpack_from(extensions, position)
        position += _EXTENSION.size
        if position + length <= len(extensions):
            found[kind] = extensions[position : position + length]
        position += length
    return found


def _refuse_old_extensions(
    path: Path, header: _Header, records: dict[int, bytes], positions: bytes
) -> None:
    """Such files would open with wrong harmonics, or with extensions read as positions."""
    own_range = header.sh_degree > 0 and _HARMONICS_EXTENSION in records
    early = bool(header.flags & _EXTENDED) and positions.startswith(_OLD_EXTENSIONS)
    if own_range or early:
        raise InputError(
            f"{path}: SPZ with extensions of an early draft (harmonics in a range of their own, or "
            f"extensions before the positions) is not read; save it again with SPZ 3 or later"
        )


def _is_turned(path: Path, records: dict[int, bytes]) -> bool:
    """Whether the file is in SPZ's own frame; one extension can state another."""
    payload = records.get(_FRAME_EXTENSION, b"")
    if len(payload) != 4:
        return True
    (frame,) = struct.unpack("<I", payload)
    if frame not in (0, _RIGHT_UP_BACK, _RIGHT_DOWN_FORWARD):
        raise InputError(
            f"{path}: SPZ in coordinate system {frame} is not read (right-up-back and "
            f"right-down-forward are); save it in one of those"
        )
    return bool(frame != _RIGHT_DOWN_FORWARD)


def _parse_header(path: Path, data: bytes) -> _Header:
    if len(data) < HEADER.size:
        raise InputError(f"{path}: the file is cut off in its SPZ header")
    magic, version, count, degree, bits, flags, streams = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise InputError(f"{path}: wanted an SPZ file, found other gzip data")
    if version not in (2, 3, 4):
        raise InputError(f"{path}: SPZ version {version} is not read (2, 3 and 4 are)")
    if degree > 3 or bits > 24:
        raise InputError(f"{path}: wanted SH degree 0 to 3 and at most 24 fractional bits, found "
                         f"{degree} and {bits}")  # fmt: skip
    if not 0 < count <= MAX_POINTS:
        raise InputError(f"{path}: wanted 1 to {MAX_POINTS} Gaussians, its header says {count}")
    return _Header(version, count, degree, bits, flags, streams)


def _check_count(path: Path, header: _Header, size: int) -> None:
    """Positions are noise to a compressor: more Gaussians than bytes are a bomb, no scene."""
    if header.count > size + _SPARED:
        raise InputError(
            f"{path}: the file is cut off: {header.count} Gaussians cannot be in {size} bytes"
        )


def _gzip_streams(path: Path, data: bytes) -> tuple[_Header, list[bytes], bytes]:
    inflater = zlib.decompressobj(wbits=31)
    try:
        start = inflater.decompress(data, HEADER.size)
        header = _parse_header(path, start)
        if header.version > 3:
            raise InputError(f"{path}: SPZ version {header.version} inside gzip is not valid")
        needed = sum(header.sizes)
        _check_count(path, header, len(data))
        body = inflater.decompress(inflater.unconsumed_tail, needed)
        extensions = inflater.decompress(inflater.unconsumed_tail, _MOST_EXTENSION_BYTES)
    except zlib.error as error:
        raise InputError(f"{path}: the gzip data is damaged ({error})") from error
    if len(body) < needed:
        raise InputError(
            f"{path}: the file is cut off: {header.count} Gaussians need {needed} bytes, found "
            f"{len(body)}"
        )
    edges = np.cumsum([0, *header.sizes]).tolist()
    return header, [body[a:b] for a, b in pairwise(edges)], extensions


def _zstd_streams(path: Path, data: bytes) -> tuple[_Header, list[bytes], bytes]:
    header = _parse_header(path, data)
    _check_count(path, header, len(data))
    if header.version < 4:
        raise InputError(f"{path}: SPZ version {header.version} must be gzip data; gzip the file")
    sizes = [size for size in header.sizes if size]
    if len(data) < _ZSTD_HEADER_BYTES or header.streams != len(sizes):
        raise InputError(f"{path}: wanted {len(sizes)} SPZ streams, found {header.streams}")
    (table,) = struct.unpack_from("<I", data, HEADER.size)
    position = table + len(sizes) * _STREAM.size
    if position > len(data):
        raise InputError(f"{path}: the file is cut off in its table of streams")
    streams = []
    for i, size in enumerate(sizes):
        packed, unpacked = _STREAM.unpack_from(data, table + i * _STREAM.size)
        if unpacked != size or position + packed > len(data):
            raise InputError(
                f"{path}: the file is cut off or damaged in stream {i}: wanted {size} bytes, its "
                f"table says {unpacked}"
            )
        streams.append(_unzstd(path, data[position : position + packed], size))
        position += packed
    return header, streams + [b""] * (6 - len(streams)), data[_ZSTD_HEADER_BYTES:table]


def _unzstd(path: Path, data: bytes, size: int) -> bytes:
    """Exactly `size` bytes; never more memory than that."""
    import zstandard

    try:
        with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(data) as reader:
            content = reader.read(size)
    except zstandard.ZstdError as error:
        raise InputError(f"{path}: the Zstandard data is damaged ({error})") from error
    if len(content) != size:
        raise InputError(f"{path}: the file is cut off: wanted {size} bytes, found {len(content)}")
    return bytes(content)


def _positions(raw: ByteArray, fractional_bits: int) -> FloatArray:
    """(N, 9) bytes, three little-endian signed 24-bit fixed-point numbers, to (N, 3)."""
    low, middle, high = (raw[:, i::3].astype(np.int32) for i in range(3))
    fixed = low | middle << 8 | high << 16
    fixed -= (fixed >> 23) << 24
    return (fixed / np.float64(1 << fractional_bits)).astype(np.float32)


def _rotations(raw: ByteArray) -> FloatArray:
    """(N, 3) or (N, 4) bytes, stored xyzw, to (N, 4) wxyz."""
    if raw.shape[1] == 3:
        xyz = raw / np.float32(127.5) - np.float32(1)
        w = np.sqrt(np.maximum(0, 1 - (xyz * xyz).sum(axis=1, keepdims=True)))
        return np.concatenate([w, xyz], axis=1)
    words = np.ascontiguousarray(raw).view("<u4")[:, 0]
    largest = (words >> 30).astype(np.int64)
    fields = np.stack([words >> shift & 0x3FF for shift in (20, 10, 0)], axis=1)
    # 9 bits of size and a sign each, of the three parts that are not the largest
    small = (fields & 0x1FF) / np.float32(511) * np.float32(np.sqrt(0.5))
    small = np.where(fields >> 9, -small, small).astype(np.float32)
    quats = np.empty((len(raw), 4), dtype=np.float32)
    np.put_along_axis(quats, OTHER_PARTS[largest], small, axis=1)
    rest = np.sqrt(np.maximum(0, 1 - (small * small).sum(axis=1)))
    np.put_along_axis(quats, largest[:, None], rest[:, None], axis=1)
    return quats[:, [3, 0, 1, 2]]
