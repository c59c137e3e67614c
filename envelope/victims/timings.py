"""How long victims took for a picture on this machine, kept between runs.

A hint for people (what a sweep will take), never part of a score. The file may vanish at any time.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path

from envelope.victims.roster import cache_folder
from scene.errors import InputError
from scene.io.atomic import atomic_write
from scene.io.json_file import finite_number, read_json_object

_LOCK = threading.Lock()


def timings_file() -> Path:
    """Where they are kept."""
    return cache_folder() / "victim-seconds.json"


def known_seconds() -> dict[str, float]:
    """Seconds per picture by spec, of victims that have been asked on this machine."""
    try:
        fields = read_json_object(timings_file())
    except InputError:
        return {}
    numbers = {spec: finite_number(value) for spec, value in fields.items()}
    return {spec: number for spec, number in numbers.items() if number is not None and number > 0}


def note_seconds(spec: str, seconds: float) -> None:
    """Keep what a victim took for a picture; a folder that cannot be written is no trouble."""
    with _LOCK:
        known = known_seconds() | {spec: round(seconds, 4)}
        try:
            with atomic_write(timings_file()) as file:
                file.write(json.dumps(known, indent=1, sort_keys=True).encode())
        except (InputError, OSError):
            return
