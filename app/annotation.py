"""A list of scenes to go through one by one, with done marks and a placement for each.

The list is a text file (a path a line, # begins a comment) or JSON (a list of paths, or
`{"scenes": [...]}`), paths relative to it. It is never written; what was done is kept beside it in
`NAME.progress.json`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from scene.errors import InputError
from scene.io.atomic import atomic_write
from scene.io.json_file import read_json, read_json_object

FORMAT = "advscene-annotation-progress"
VERSION = 1
MOST_SCENES = 10_000
MOST_BYTES = 8 << 20


class AnnotationList:
    """The scenes, which of them are done, and where a patch was placed in each."""

    def __init__(self, path: Path) -> None:
        """Raises InputError when the list cannot be read or names no scene."""
        self.path = path
        self.scenes = _read_list(path)
        self._progress: dict[str, dict[str, Any]] = _read_progress(self.progress_path)
        self.index = self._first_undone()

    @property
    def progress_path(self) -> Path:
        """Where done marks and placements are kept."""
        return self.path.with_name(f"{self.path.name}.progress.json")

    @property
    def scene(self) -> Path:
        """The scene at hand."""
        return self.path.parent / self.scenes[self.index]

    def step(self, by: int) -> Path:
        """Go `by` scenes on or back, not past the ends."""
        to = min(max(self.index + by, 0), len(self.scenes) - 1)
        if to == self.index:
            raise InputError(f"this is the {'last' if by > 0 else 'first'} scene of the list")
        self.index = to
        return self.scene

    def go_to(self, index: int) -> Path:
        """Go to a scene by its place in the list."""
        self.index = min(max(index, 0), len(self.scenes) - 1)
        return self.scene

    @property
    def done(self) -> bool:
        """Whether the scene at hand is marked done."""
        return bool(self._entry(self.index).get("done"))

    def mark(self, done: bool) -> None:
        """Mark the scene at hand."""
        self._change(done=done)

    @property
    def placement(self) -> bytes | None:
        """The placement file of the scene at hand, as `Patchwork.placement_file` gave it."""
        placed = self._entry(self.index).get("placement")
        return None if placed is None else json.dumps(placed).encode()

    def keep_placement(self, content: bytes) -> None:
        """Keep a placement file for the scene at hand."""
        self._change(placement=json.loads(content))

    def labels(self) -> tuple[str, ...]:
        """A line for each scene: number, done mark, file name."""
        width = len(str(len(self.scenes)))
        return tuple(
            f"{i + 1:>{width}} {'✓' if self._entry(i).get('done') else '·'} {Path(name).name}"
            for i, name in enumerate(self.scenes)
        )

    def text(self) -> str:
        """How far one is."""
        through = sum(bool(self._entry(i).get("done")) for i in range(len(self.scenes)))
        mark = "done" if self.done else "not done"
        return f"{self.index + 1} of {len(self.scenes)}, {mark}; {through} done in all"

    def _entry(self, index: int) -> dict[str, Any]:
        return self._progress.get(self.scenes[index], {})

    def _first_undone(self) -> int:
        undone = (i for i in range(len(self.scenes)) if not self._entry(i).get("done"))
        return next(undone, 0)

    def _change(self, **fields: Any) -> None:
        name = self.scenes[self.index]
        progress = {**self._progress, name: {**self._progress.get(name, {}), **fields}}
        about = {"format": FORMAT, "version": VERSION, "scenes": progress}
        with atomic_write(self.progress_path) as file:
            file.write(json.dumps(about, indent=1).encode())
        self._progress = progress


def _read_list(path: Path) -> tuple[str, ...]:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{path}: too large for a list of scenes")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: wanted a text or JSON file, found other bytes") from error
    if text.lstrip().startswith(("[", "{")):
        found = read_json(path)
        rows = found.get("scenes") if isinstance(found, dict) else found
        if not isinstance(rows, list) or not all(isinstance(row, str) for row in rows):
            raise InputError(f"{path}: wanted a JSON list of paths, alone or under 'scenes'")
    else:
        rows = [line.partition("#")[0].strip() for line in text.splitlines()]
    scenes = tuple(dict.fromkeys(row for row in rows if row))
    if not scenes:
        raise InputError(f"{path}: names no scene; write one path a line")
    if len(scenes) > MOST_SCENES:
        raise InputError(f"{path}: names {len(scenes)} scenes, at most {MOST_SCENES} are taken")
    return scenes


def _read_progress(path: Path) -> dict[str, dict[str, Any]]:
    if not path.is_file():
        return {}
    fields = read_json_object(path)
    scenes = fields.get("scenes")
    if fields.get("format") != FORMAT or not isinstance(scenes, dict):
        raise InputError(f"{path}: wanted the marks of an annotation list, found another file")
    return {str(k): v for k, v in scenes.items() if isinstance(v, dict)}
