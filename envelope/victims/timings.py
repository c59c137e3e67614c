"""How long victims took for a picture on this machine, kept between runs.

The last few times of each are kept and their median is told: one call on a busy machine may take
several times what the others do. A hint for people (what a sweep will take), never part of a
score. The file may vanish at any time.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from statistics import median

from envelope.victims.roster import cache_folder
from scene.errors import InputError
from scene.io.atomic import atomic_write
from scene.io.json_file import finite_number, read_json_object

KEPT = 21
"""Times kept of each victim: of the last three runs, which note seven calls each."""

_LOCK = threading.Lock()


def timings_file() -> Path:
    """Where they are kept."""
    return cache_folder() / "victim-seconds.json"


def known_seconds() -> dict[str, float]:
    """Medians of seconds per picture, by spec without options, of victims asked on this machine."""
    return {spec: round(median(times), 4) for spec, times in _times().items()}


def note_seconds(spec: str, seconds: float) -> None:
    """Keep what a victim took for a picture; a folder that cannot be written is no trouble.

    It is kept under the spec without its options, which the roster and estimates look for.
    """
    spec = spec.partition("?")[0]
    with _LOCK:
        times = _times()
        times[spec] = [*times.get(spec, []), round(seconds, 4)][-KEPT:]
        try:
            with atomic_write(timings_file()) as file:
                file.write(json.dumps(times, indent=1, sort_keys=True).encode())
        except (InputError, OSError):
            return


def _times() -> dict[str, list[float]]:
    """The kept times by spec, oldest first; what is damaged is left out."""
    try:
        fields = read_json_object(timings_file())
    except InputError:
        return {}
    found = {}
    for spec, value in fields.items():
        numbers = [finite_number(each) for each in (value if isinstance(value, list) else [value])]
        if times := [number for number in numbers if number is not None and number > 0]:
            found[spec] = times
    return found
