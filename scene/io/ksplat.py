"""GaussianSplats3D's .ksplat: sections of fixed-size rows; positions relative to bucket centres.

A header of 4096 bytes, one of 1024 bytes per section, then each section: the lengths of its
partly filled buckets, the bucket centres, and the rows. A row is centre, linear scales, rotation
wxyz, sRGB + opacity bytes and harmonics to degree 2. Level 0 is float32 throughout; levels 1 and 2
hold 16-bit positions and half floats; level 2's harmonics are bytes over the file's own range.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scene.errors import InputError
from scene.gaussians import SH_C0, Gaussians, Rows
from scene.io.loaded import LoadedGaussians
from scene.io.ply import BLOCK_ROWS

FloatArray = NDArray[np.float32]

HEADER_BYTES = 4096
SECTION_BYTES = 1024
# version major, minor; sections; Gaussians; level; range of level 2's harmonics
_HEADER = struct.Struct("<BB2xI8xIH14xff")
# Gaussians, room for; bucket capacity, count, edge length, bytes; position levels; size; full and
# partly filled buckets; SH degree
_SECTION = struct.Struct("<IIIIfHxxIIIIH")
_REST_COUNT = (0, 9, 24)
_POSITION_LEVELS = 32767
_DEFAULT_SH_LIMIT = 1.5
_THINNEST = np.float32(2.0**-25)
"""Half of the smallest half float."""


@dataclass(frozen=True)
class _Header:
    sections: int
    count: int
    level: int
    sh_low: float
    sh_high: float


@dataclass(frozen=True)
class _Section:
    count: int
    room: int
    bucket_capacity: int
    bucket_count: int
    block_size: float
    bucket_bytes: int
    levels: int
    full_buckets: int
    partial_buckets: int
    sh_degree: int

    def row(self, level: int) -> np.dtype:
        """One stored Gaussian."""
        number, position, harmonic = (("<f4", "<f4", "<f4"), ("<f2", "<u2", "<f2"),
                                      ("<f2", "<u2", "u1"))[level]  # fmt: skip
        rest = ("rest", harmonic, _REST_COUNT[self.sh_degree])
        return np.dtype([("center", position, 3), ("scale", number, 3), ("rotation", number, 4),
                         ("rgba", "u1", 4), rest])  # fmt: skip

    @property
    def buckets_size(self) -> int:
        """Bytes before the rows."""
        return self.bucket_bytes * self.bucket_count + 4 * self.partial_buckets


def is_ksplat(path: Path) -> bool:
    """By name: the format has no mark beyond its version bytes 0, 1."""
    return path.suffix.lower() == ".ksplat"


def load_ksplat(path: str | Path) -> LoadedGaussians:
    """Read .ksplat, compression levels 0 to 2, SH degree 0 to 2. Raises InputError."""
    path = Path(path)
    data = path.read_bytes()
    header = _read_header(path, data)
    offset = HEADER_BYTES + SECTION_BYTES * header.sections
    sections = []
    for i in range(header.sections):
        section = _read_section(path, data, i, header.level)
        end = offset + section.buckets_size + section.room * section.row(header.level).itemsize
        if end > len(data):
            raise InputError(
                f"{path}: the file is cut off: section {i} ends at byte {end}, the file at "
                f"{len(data)}"
            )
        if section.count:
            sections.append((offset, section))
        offset = end
    total = sum(section.count for _, section in sections)
    if total != header.count or total == 0:
        raise InputError(
            f"{path}: its header says {header.count} Gaussians, its sections hold {total}"
        )
    coefficients = 1 + max(_REST_COUNT[section.sh_degree] for _, section in sections) // 3
    blocks = (
        block
        for offset, section in sections
        for block in _blocks(path, data, offset, section, header, coefficients)
    )
    try:
        gaussians, dropped = Gaussians.gathered(total, coefficients, blocks)
    except InputError as error:
        if str(path) in str(error):
            raise
        raise InputError(f"{path}: {error}") from error
    return LoadedGaussians(gaussians, f"ksplat level {header.level}", dropped)


def _read_header(path: Path, data: bytes) -> _Header:
    if len(data) < HEADER_BYTES:
        raise InputError(f"{path}: the file is cut off in its .ksplat header")
    major, minor, sections, count, level, low, high = _HEADER.unpack_from(data)
    if (major, minor) != (0, 1):
        raise InputError(f"{path}: .ksplat version {major}.{minor} is not read (0.1 is)")
    if level > 2:
        raise InputError(f"{path}: wanted .ksplat compression level 0, 1 or 2, found {level}")
    if not 0 < sections <= (len(data) - HEADER_BYTES) // SECTION_BYTES:
        raise InputError(
            f"{path}: the file is cut off or damaged: {sections} section headers cannot be in "
            f"{len(data)} bytes"
        )
    # zeros mean that the writer had no harmonics to measure
    low, high = low or -_DEFAULT_SH_LIMIT, high or _DEFAULT_SH_LIMIT
    if not (np.isfinite([low, high]).all() and low <= high):
        raise InputError(f"{path}: wanted a range of harmonics, found {low:g} to {high:g}")
    return _Header(sections, count, level, low, high)


def _read_section(path: Path, data: bytes, index: int, level: int) -> _Section:
    fields = _SECTION.unpack_from(data, HEADER_BYTES + SECTION_BYTES * index)
    count, room, capacity, buckets, block, size, levels, _, full, partial, degree = fields
    where = f"{path}: .ksplat section {index}"
    if degree >= len(_REST_COUNT):
        raise InputError(f"{where}: wanted SH degree 0, 1 or 2, found {degree}")
    if count > room:
        raise InputError(f"{where}: {count} Gaussians do not fit in its room for {room}")
    if level and (size != 12 or not np.isfinite(block) or buckets != full + partial):
        raise InputError(f"{where}: its table of buckets is damaged")
    return _Section(count, room, capacity, buckets, block, size, levels or _POSITION_LEVELS, full,
                    partial, degree)  # fmt: skip


def _blocks(
    path: Path, data: bytes, offset: int, section: _Section, header: _Header, coefficients: int
) -> Iterator[Rows]:
    """The rows of one section; harmonics that it lacks are zero."""
    rows = np.frombuffer(
        data, section.row(header.level), section.count, offset + section.buckets_size
    )
    if header.level:
        ends, centers = _buckets(path, data, offset, section)
    for first in range(0, section.count, BLOCK_ROWS):
        block = rows[first : first + BLOCK_ROWS]
        means = block["center"].astype(np.float32)
        scales = block["scale"].astype(np.float32)
        if header.level:
            step = section.block_size / 2 / section.levels
            means = (means - np.float32(section.levels)) * np.float32(step)
            numbers = np.arange(first, first + len(block))
            means += centers[np.searchsorted(ends, numbers, side="right")]
            # thinner than a half float can say, not absent: such a Gaussian is a disc
            scales[scales == 0] = _THINNEST
        rgba = block["rgba"] / np.float32(255)
        sh = np.zeros((len(block), coefficients, 3), dtype=np.float32)
        sh[:, 0] = (rgba[:, :3] - np.float32(0.5)) / np.float32(SH_C0)
        _put_rest(sh, block["rest"].astype(np.float32), header)
        yield Rows(means, block["rotation"].astype(np.float32), scales, rgba[:, 3], sh)


def _put_rest(sh: FloatArray, rest: FloatArray, header: _Header) -> None:
    """Each degree by itself: all of red's coefficients, then green's, then blue's."""
    if header.level == 2:
        rest = rest / np.float32(255) * np.float32(header.sh_high - header.sh_low)
        rest += np.float32(header.sh_low)
    if rest.shape[1] >= 9:
        sh[:, 1:4] = rest[:, 0:9].reshape(-1, 3, 3).transpose(0, 2, 1)
    if rest.shape[1] >= 24:
        sh[:, 4:9] = rest[:, 9:24].reshape(-1, 3, 5).transpose(0, 2, 1)


def _buckets(
    path: Path, data: bytes, offset: int, section: _Section
) -> tuple[NDArray[np.int64], FloatArray]:
    """(B,) the row after each bucket's last, and (B, 3) its centre; full buckets come first."""
    lengths = np.frombuffer(data, "<u4", section.partial_buckets, offset).astype(np.int64)
    full = np.full(section.full_buckets, section.bucket_capacity, dtype=np.int64)
    ends = np.cumsum(np.concatenate([full, lengths]))
    if len(ends) == 0 or ends[-1] < section.count:
        raise InputError(
            f"{path}: the buckets hold {int(ends[-1]) if len(ends) else 0} Gaussians, its section "
            f"header says {section.count}"
        )
    centers = np.frombuffer(
        data, "<f4", 3 * section.bucket_count, offset + 4 * section.partial_buckets
    ).reshape(-1, 3)
    return ends, centers
