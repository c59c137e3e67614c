"""What the roster says of a model before anything of it is loaded.

A family adds its models in a module of its own, `roster_NAME.py`, that defines `ENTRIES`: a tuple
of `Entry`. Such a module imports nothing heavy; its loaders do. The module's name goes into
`registry.TABLES`.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from envelope.victims.protocols import Kind, Victim
from scene.errors import InputError

Status = Literal["ready", "needs install", "needs file"]


@dataclass(frozen=True)
class State:
    """Whether a victim can be loaded now. hint: the command or the file that it needs, if not."""

    status: Status
    hint: str = ""

    def __str__(self) -> str:
        return self.status if not self.hint else f"{self.status}: {self.hint}"


READY = State("ready")


@dataclass(frozen=True)
class Request:
    """What a loader is told.

    spec: as the user wrote it; the victim's `info.name`. name: of the entry. location: what
    follows the colon, "" without one. options: from behind the question mark; only those that the
    entry takes. label: the class that will be asked for, if it is known. threads: CPU threads that
    one prediction may use.
    """

    spec: str
    name: str
    location: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    label: str | None = None
    threads: int = 1


Loader = Callable[[Request], Victim]


Check = Callable[[Request], None]
"""Raises InputError when what a request asks for is wrong; quick, loads nothing."""


def nothing_to_check(request: Request) -> None:
    """For entries whose options only loading can judge."""


def ready() -> State:
    """For what needs nothing."""
    return READY


@dataclass(frozen=True)
class Entry:
    """A model that can be chosen by name, or a form such as `onnx:FILE`.

    name: what stands before the colon. kind: the protocol it follows. licence: of the weights.
    load: makes it; imports heavy packages inside. state: looks, quickly and without importing
    them, whether it can be loaded. check: refuses a spec before it is loaded or stored in a run.
    takes: what is written after the colon, "" when nothing is; optional: it may be left out.
    options: names allowed behind the question mark. extra: of `pip install`, "" for none.
    input_size: (width, height) pixels, None when the file decides. threshold: conventional least
    confidence, None for grounders and classifiers. convention: how its boxes are written and
    `evidence`: how that is known. white_box: whether patches can be made against it.
    source: where the weights come from. in_process: trusted to score in our own process; all
    others get one of their own.
    """

    name: str
    kind: Kind
    licence: str
    load: Loader
    state: Callable[[], State] = ready
    check: Check = nothing_to_check
    takes: str = ""
    optional: bool = False
    options: tuple[str, ...] = ()
    extra: str = ""
    input_size: tuple[int, int] | None = None
    threshold: float | None = None
    convention: str = ""
    evidence: str = ""
    source: str = ""
    white_box: bool = False
    in_process: bool = False


def install_command(extra: str) -> str:
    """How the packages of one of our extras are installed."""
    return f"pip install 'advscene-inspector[{extra}]'"


def needs_packages(extra: str, *modules: str) -> State:
    """READY when all modules are installed; nothing is imported."""
    if all(importlib.util.find_spec(module) is not None for module in modules):
        return READY
    return State("needs install", install_command(extra))


def cache_folder() -> Path:
    """Our folder among the user's caches."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "advscene"


def weight_folders() -> tuple[Path, ...]:
    """Where weights' files are looked for by name; ADVSCENE_WEIGHTS goes first."""
    given = os.environ.get("ADVSCENE_WEIGHTS")
    first = (Path(given),) if given else ()
    return (*first, cache_folder() / "weights", Path.cwd() / "weights", Path.cwd())


def find_weights(file_name: str) -> Path | None:
    """A weights' file of that name in one of the folders, if it is there."""
    for folder in weight_folders():
        if (folder / file_name).is_file():
            return folder / file_name
    return None


def number_option(request: Request, name: str, default: float, low: float, high: float) -> float:
    """A number from behind the question mark, in low..high. Raises InputError."""
    text = request.options.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        raise InputError(
            f"victim {request.spec!r}: {name} wants a number in {low:g}..{high:g}, found {text!r}"
        )
    return value
