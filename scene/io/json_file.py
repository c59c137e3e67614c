"""JSON from strangers, bounded."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from scene.errors import InputError

_MAX_BYTES = 64 << 20


def read_json(path: Path) -> Any:
    """A JSON file of at most 64 MB. Raises InputError."""
    try:
        size = path.stat().st_size
        content = path.read_bytes() if size <= _MAX_BYTES else b""
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    if size > _MAX_BYTES:
        raise InputError(f"{path}: larger than {_MAX_BYTES >> 20} MB, not read as JSON")
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: wanted a JSON file, found {error}") from error


def read_json_object(path: Path) -> dict[str, Any]:
    """A JSON file whose top level is an object. Raises InputError."""
    fields = read_json(path)
    if not isinstance(fields, dict):
        raise InputError(f"{path}: wanted a JSON object, found {type(fields).__name__}")
    return fields


def finite_number(value: Any) -> float | None:
    """A JSON number as a float; None for anything else, booleans, NaN, infinity and beyond."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
