"""PLY as a container: the header, and elements as named columns. Knows nothing of Gaussians."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from scene.errors import InputError

_TYPES = {
    "char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1",
    "short": "i2", "int16": "i2", "ushort": "u2", "uint16": "u2",
    "int": "i4", "int32": "i4", "uint": "u4", "uint32": "u4",
    "float": "f4", "float32": "f4", "double": "f8", "float64": "f8",
}  # fmt: skip
_BYTE_ORDERS = {"binary_little_endian": "<", "binary_big_endian": ">", "ascii": "="}
_MAX_HEADER_BYTES = 1 << 16
_HEADER_END = re.compile(rb"[\r\n]end_header(\r\n|[\r\n]|$)")
_ASCII_BLOCK_ROWS = 4096


@dataclass(frozen=True)
class PlyElement:
    """One element of the header. `types` are numpy codes without byte order; "list" for lists."""

    name: str
    count: int
    properties: tuple[str, ...]
    types: tuple[str, ...]

    @property
    def has_lists(self) -> bool:
        """Whether rows have no fixed size."""
        return "list" in self.types


@dataclass(frozen=True)
class PlyHeader:
    """The header of a PLY file. data_offset: bytes before the first row."""

    path: Path
    encoding: str
    elements: tuple[PlyElement, ...]
    comments: tuple[str, ...]
    data_offset: int

    def element(self, name: str) -> PlyElement | None:
        """The element called `name`, or None."""
        return next((e for e in self.elements if e.name == name), None)

    def dtype(self, element: PlyElement) -> np.dtype:
        """The numpy type of one binary row, unpadded."""
        order = _BYTE_ORDERS[self.encoding]
        return np.dtype(
            [(n, order + t) for n, t in zip(element.properties, element.types, strict=True)]
        )


def read_ply_header(path: Path) -> PlyHeader:
    """Parse the header of a PLY file. Raises InputError."""
    with path.open("rb") as file:
        start = file.read(_MAX_HEADER_BYTES)
    if not start.startswith(b"ply"):
        raise InputError(f"{path}: wanted a PLY file, but it does not begin with 'ply'")
    end = _HEADER_END.search(start)
    if end is None or end.end() == _MAX_HEADER_BYTES:
        raise InputError(
            f"{path}: the PLY header has no end_header; the file is cut off or damaged"
        )
    # comments may hold people's names
    lines = re.split(r"[\r\n]+", start[: end.start()].decode("utf-8", errors="replace"))
    encoding, elements, comments = _parse_lines(path, lines)
    return PlyHeader(path, encoding, elements, comments, end.end())


def _parse_lines(
    path: Path, lines: list[str]
) -> tuple[str, tuple[PlyElement, ...], tuple[str, ...]]:
    encoding = ""
    comments: list[str] = []
    counts: list[tuple[str, int]] = []
    properties: list[list[tuple[str, str]]] = []
    for line in lines[1:]:
        match line.split():
            case []:
                continue
            case ["comment" | "obj_info", *words]:
                comments.append(" ".join(words))
            case ["format", name, _] if name in _BYTE_ORDERS:
                encoding = name
            case ["element", name, digits] if digits.isdecimal() and len(digits) < 19:
                counts.append((name, int(digits)))
                properties.append([])
            case ["property", "list", _, _, name] if counts:
                properties[-1].append((name, "list"))
            case ["property", kind, name] if counts and kind in _TYPES:
                properties[-1].append((name, _TYPES[kind]))
            case _:
                raise InputError(f"{path}: cannot read the PLY header line {line[:80]!r}")
    if not encoding:
        raise InputError(f"{path}: the PLY header has no format line")
    elements = []
    for (element, count), columns in zip(counts, properties, strict=True):
        names = tuple(n for n, _ in columns)
        if len(set(names)) != len(names):
            raise InputError(f"{path}: PLY element {element} names a property twice")
        elements.append(PlyElement(element, count, names, tuple(t for _, t in columns)))
    return encoding, tuple(elements), tuple(comments)


def read_ply_elements(header: PlyHeader, names: tuple[str, ...]) -> dict[str, NDArray]:
    """The rows of the named elements as structured arrays, keyed by element name.

    Checks the counts against the file's size before it allocates. Raises InputError.
    """
    rows = {}
    for name in names:
        blocks = list(iter_ply_rows(header, name, max(1, _element(header, name).count)))
        rows[name] = blocks[0] if blocks else np.empty(0, header.dtype(_element(header, name)))
    return rows


def iter_ply_rows(header: PlyHeader, name: str, block_rows: int) -> Iterator[NDArray]:
    """The rows of one element as structured arrays of `block_rows` rows, the last one shorter.

    Checks the counts against the file's size before it allocates. Raises InputError.
    """
    element = _element(header, name)
    before = [e for e in header.elements[: header.elements.index(element)] if e.count]
    skipped = [] if header.encoding == "ascii" else before
    for each in (*skipped, element):
        if each.has_lists:
            raise InputError(
                f"{header.path}: PLY element {each.name} holds lists of varying length, which "
                f"no Gaussian file has before its vertices"
            )
    _check_size(header, (*before, element))
    return _rows(header, element, before, block_rows)


def _rows(
    header: PlyHeader, element: PlyElement, before: list[PlyElement], block_rows: int
) -> Iterator[NDArray]:
    with header.path.open("rb") as file:
        file.seek(header.data_offset)
        if header.encoding == "ascii":
            skipped = sum(each.count for each in before)
            next(islice(file, skipped, skipped), None)
        else:
            file.seek(sum(each.count * header.dtype(each).itemsize for each in before), 1)
        for first in range(0, element.count, block_rows):
            count = min(block_rows, element.count - first)
            if header.encoding == "ascii":
                yield _read_ascii(header, element, file, first, count)
            else:
                yield np.fromfile(file, header.dtype(element), count)


def _element(header: PlyHeader, name: str) -> PlyElement:
    element = header.element(name)
    if element is None:
        raise InputError(f"{header.path}: the PLY file has no {name} element")
    return element


def _check_size(header: PlyHeader, elements: tuple[PlyElement, ...]) -> None:
    available = header.path.stat().st_size - header.data_offset
    if header.encoding == "ascii":
        # a value and its separator take two bytes at least; the last line may lack its end
        needed = sum(e.count * 2 * len(e.properties) for e in elements) - 1
    else:
        needed = sum(e.count * header.dtype(e).itemsize for e in elements)
    if available < needed:
        raise InputError(
            f"{header.path}: the file is cut off: its header announces {needed} bytes of rows, "
            f"found {max(available, 0)}"
        )


def _read_ascii(
    header: PlyHeader, element: PlyElement, file: BinaryIO, first: int, rows: int
) -> NDArray:
    table = np.empty(rows, header.dtype(element))
    for start in range(0, rows, _ASCII_BLOCK_ROWS):
        wanted = min(_ASCII_BLOCK_ROWS, rows - start)
        lines = list(islice(file, wanted))
        block = _parse_ascii(header.path, element, lines, first + start, wanted)
        for column, name in enumerate(element.properties):
            table[name][start : start + wanted] = block[:, column]
    return table


def _parse_ascii(
    path: Path, element: PlyElement, lines: list[bytes], first: int, expected: int
) -> NDArray[np.float64]:
    words = [line.split() for line in lines]
    wanted = len(element.properties)
    bad = next((i for i, w in enumerate(words) if len(w) != wanted), None)
    if bad is not None:
        raise InputError(
            f"{path}: {element.name} row {first + bad}: wanted {wanted} numbers, found "
            f"{len(words[bad])}"
        )
    if len(words) < expected:
        raise InputError(
            f"{path}: the file is cut off: its header announces {element.count} rows of "
            f"{element.name}, found {first + len(words)}"
        )
    try:
        return np.array(words, dtype=np.float64).reshape(len(words), wanted)
    except ValueError as error:
        raise InputError(
            f"{path}: {element.name} rows from {first}: wanted numbers ({error})"
        ) from error
