"""TFRecord files without TensorFlow: the records, one at a time, their checksums verified."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from scene.captures.crc32c import masked_crc32c
from scene.errors import InputError

_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")
_HEADER_BYTES = _LENGTH.size + _CRC.size
_MAX_RECORD_BYTES = 256 << 20
_MAX_RECORDS = 20_000


def is_tfrecord(path: Path) -> bool:
    """Whether a file begins with a record's length and its checksum."""
    try:
        with path.open("rb") as file:
            start = file.read(_HEADER_BYTES)
    except OSError:
        return False
    return len(start) == _HEADER_BYTES and _checked_length(start) is not None


def read_records(path: Path) -> Iterator[tuple[int, bytes]]:
    """(offset of the data in the file, data) of each record. Raises InputError."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            for number in range(_MAX_RECORDS):
                start = file.read(_HEADER_BYTES)
                if not start:
                    return
                source = f"{path}: record {number}"
                length = _checked_length(start)
                if length is None:
                    raise InputError(f"{source}: its length is damaged (checksum) or cut off")
                offset = file.tell()
                if length > _MAX_RECORD_BYTES:
                    raise InputError(
                        f"{source}: is said to hold {length} bytes; more than "
                        f"{_MAX_RECORD_BYTES >> 20} MB is not read"
                    )
                if offset + length + _CRC.size > size:
                    raise InputError(f"{source}: the file is cut off")
                data, crc = file.read(length), file.read(_CRC.size)
                if masked_crc32c(data) != _CRC.unpack(crc)[0]:
                    raise InputError(f"{source}: its data is damaged (checksum)")
                yield offset, data
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    raise InputError(f"{path}: holds more than {_MAX_RECORDS} records")


def _checked_length(start: bytes) -> int | None:
    if len(start) < _HEADER_BYTES:
        return None
    stored = _CRC.unpack_from(start, _LENGTH.size)[0]
    length = start[: _LENGTH.size]
    return _LENGTH.unpack(length)[0] if masked_crc32c(length) == stored else None
