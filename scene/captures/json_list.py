"""A gzipped JSON list of objects, read one object at a time: bounded memory, bombs refused."""

from __future__ import annotations

import codecs
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scene.errors import InputError

_CHUNK_BYTES = 1 << 20
_MAX_ENTRY_BYTES = 4 << 20
_MAX_BYTES = 4 << 30
_MAX_ENTRIES = 2_000_000
# Annotations of numbers and paths shrink by a factor of 3 to 10.
_MAX_RATIO = 100
_GAP = re.compile(r"[ \t\r\n,]*")


def read_json_list(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a gzipped JSON list (.jgz). Raises InputError, a wrong checksum at the end."""
    decoder = json.JSONDecoder()
    buffer, position, entries = "", 0, 0
    started = ended = False
    for text in _text(path):
        buffer, position = buffer[position:] + text, 0
        # the text is read to its end, since the checksum is there
        while not ended:
            position = _gap(buffer, position)
            if position == len(buffer):
                break
            if not started:
                if buffer[position] != "[":
                    raise InputError(f"{path}: wanted a list of annotations")
                position, started = position + 1, True
                continue
            if buffer[position] == "]":
                ended = True
                break
            try:
                entry, position = decoder.raw_decode(buffer, position)
            except RecursionError as error:
                raise InputError(f"{path}: is nested too deep for annotations") from error
            except json.JSONDecodeError as error:
                if len(buffer) - position > _MAX_ENTRY_BYTES:
                    raise InputError(f"{path}: wanted JSON annotations, found {error}") from error
                break
            if not isinstance(entry, dict):
                raise InputError(f"{path}: wanted a list of objects, found {entry!r:.60}")
            entries += 1
            if entries > _MAX_ENTRIES:
                raise InputError(f"{path}: lists more than {_MAX_ENTRIES} annotations")
            yield entry
        if ended:
            position = len(buffer)
    if not ended:
        raise InputError(f"{path}: the list of annotations is cut off or is no JSON")


def _gap(text: str, position: int) -> int:
    """Past spaces and commas."""
    found = _GAP.match(text, position)
    return found.end() if found else position


def _text(path: Path) -> Iterator[str]:
    """The file's text in pieces."""
    inflater = zlib.decompressobj(wbits=31)
    decoder = codecs.getincrementaldecoder("utf-8")()
    total = 0
    try:
        size = path.stat().st_size
        limit = min(_MAX_BYTES, _MAX_RATIO * size + _CHUNK_BYTES)
        with path.open("rb") as file:
            while not inflater.eof:
                packed = inflater.unconsumed_tail or file.read(_CHUNK_BYTES)
                if not packed:
                    raise InputError(f"{path}: the gzip data is cut off")
                piece = inflater.decompress(packed, _CHUNK_BYTES)
                total += len(piece)
                if total > limit:
                    raise InputError(
                        f"{path}: unpacks to far more than annotations do; it is not read on"
                    )
                yield decoder.decode(piece)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except zlib.error as error:
        raise InputError(f"{path}: the gzip data is damaged ({error})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: holds bytes that are not text") from error
