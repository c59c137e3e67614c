"""JSON from strangers: bounded, and always an object."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from scene.errors import InputError

_MAX_BYTES = 64 << 20


def read_json_object(path: Path) -> dict[str, Any]:
    """A JSON file whose top level is an object. Raises InputError."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise InputError(f"{path}: larger than {_MAX_BYTES >> 20} MB, not read as JSON")
        fields = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: wanted a JSON file, found {error}") from error
    if not isinstance(fields, dict):
        raise InputError(f"{path}: wanted a JSON object, found {type(fields).__name__}")
    return fields
