"""Views that a person wants to come back to: conditions with names, one small file per scene."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from envelope.condition import AXES, Condition
from scene.errors import InputError
from scene.io.atomic import atomic_write
from scene.io.json_file import read_json_object

FORMAT = "advscene-views"
VERSION = 1
MOST_VIEWS = 500


@dataclass(frozen=True)
class SavedView:
    """A name and the sliders' nine numbers."""

    name: str
    condition: Condition


class SavedViews:
    """The views of one scene, kept in `path`.

    problem: why the file that is there cannot be read; it is then left alone and nothing is saved.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.views: tuple[SavedView, ...] = ()
        self.problem = ""
        self._at = -1
        if path.is_file():
            try:
                self.views = _read(path)
            except InputError as error:
                self.problem = str(error)

    def names(self) -> tuple[str, ...]:
        """In order, each once."""
        return tuple(view.name for view in self.views)

    def add(self, condition: Condition, name: str = "") -> SavedView:
        """Keep a view, at the end; the name is made from the numbers when none is given."""
        if len(self.views) >= MOST_VIEWS:
            raise InputError(f"there are {MOST_VIEWS} saved views already; remove some first")
        wanted = " ".join(name.split())[:60] or name_of(condition)
        taken, free, number = set(self.names()), wanted, 1
        while free in taken:
            number += 1
            free = f"{wanted} ({number})"
        view = SavedView(free, condition.nominal())
        self._keep((*self.views, view))
        self._at = len(self.views) - 1
        return view

    def remove(self, name: str) -> None:
        """Forget a view."""
        left = tuple(view for view in self.views if view.name != name)
        if len(left) == len(self.views):
            raise InputError("choose one of the saved views to remove")
        self._keep(left)
        self._at = min(self._at, len(left) - 1)

    def get(self, name: str) -> SavedView:
        """A view by name; `step` goes on from it."""
        for index, view in enumerate(self.views):
            if view.name == name:
                self._at = index
                return view
        raise InputError(f"there is no saved view {name!r}")

    def step(self, by: int) -> SavedView:
        """The next (1) or previous (-1) view, round and round. Raises InputError without any."""
        if not self.views:
            raise InputError(self.problem or "no view is saved yet; press 'Save this view' first")
        start = -1 if self._at < 0 and by > 0 else max(self._at, 0)
        self._at = (start + by) % len(self.views)
        return self.views[self._at]

    def _keep(self, views: tuple[SavedView, ...]) -> None:
        if self.problem:
            raise InputError(self.problem)
        fields = {
            "format": FORMAT,
            "version": VERSION,
            "views": [{"name": v.name, "condition": v.condition.to_dict()} for v in views],
        }
        with atomic_write(self.path) as file:
            file.write(json.dumps(fields, indent=1).encode())
        self.views = views


def name_of(condition: Condition, digits: int = 6) -> str:
    """`azimuth 30, radius 1.5`: the numbers that are not the anchor's, to so many digits."""
    moved = [
        f"{name.removesuffix('_deg')} {getattr(condition, name):.{digits}g}"
        for name, axis in AXES.items()
        if getattr(condition, name) != axis.anchor
    ]
    return ", ".join(moved) or "anchor"


def _read(path: Path) -> tuple[SavedView, ...]:
    fields = read_json_object(path)
    if fields.get("format") != FORMAT or fields.get("version") != VERSION:
        raise InputError(f"{path}: wanted saved views ({FORMAT} {VERSION}), found another file")
    try:
        return tuple(
            SavedView(str(row["name"]), Condition.from_dict(row["condition"]).nominal())
            for row in list(fields["views"])[:MOST_VIEWS]
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: a saved view is damaged: {error}") from error
