"""Finds a victim by its spec.

Specs: NAME, NAME:LOCATION, NAME:LOCATION?option=value&option=value, and MODULE:FACTORY for a
person's own model. The names are in the tables that `TABLES` lists.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from functools import cache
from urllib.parse import parse_qsl

from envelope.victims.names import find_class
from envelope.victims.protocols import Kind, Victim
from envelope.victims.roster import Entry, Request, State
from envelope.victims.roster_files import USER_MODEL
from envelope.victims.spec_text import shown_option, shown_spec
from envelope.victims.user_model import is_user_spec
from scene.errors import InputError

TABLES = (
    "roster_demo",
    "roster_files",
    "roster_ultralytics",
    "roster_vlm",
    "roster_hub",
    "roster_api",
)
"""Modules of this package that define `ENTRIES`, in the order in which victims are listed."""


@dataclass(frozen=True)
class Listed:
    """One line of the roster as it stands now.

    seconds: that it took for a picture on this machine when it was last asked, None before.
    """

    entry: Entry
    now: State
    seconds: float | None = None

    @property
    def name(self) -> str:
        """What is chosen: the entry's name."""
        return self.entry.name

    @property
    def kind(self) -> Kind:
        """Which protocol it follows."""
        return self.entry.kind

    @property
    def licence(self) -> str:
        """Of the weights."""
        return self.entry.licence

    @property
    def spec(self) -> str:
        """How a person writes it: `demo-detector`, `onnx:FILE`."""
        if not self.entry.takes:
            return self.entry.name
        location = f":{self.entry.takes}"
        return self.entry.name + (f"[{location}]" if self.entry.optional else location)

    @property
    def needs_location(self) -> bool:
        """Whether the name alone loads nothing (`onnx:FILE`)."""
        return bool(self.entry.takes) and not self.entry.optional

    @property
    def ready(self) -> bool:
        """Whether the name alone can be loaded now."""
        return self.now.status == "ready" and not self.needs_location

    @property
    def state(self) -> str:
        """'ready', or what to do, in a few words."""
        if self.now.status == "ready" and self.needs_location:
            return f"give a path: {self.spec}"
        return str(self.now)

    @property
    def command(self) -> str:
        """What installs or fetches it; "" when nothing is to be done."""
        return self.now.hint


def list_victims() -> list[Listed]:
    """All that can be chosen by name, with its state; nothing heavy is imported."""
    from envelope.victims.timings import known_seconds

    seconds = known_seconds()
    return [Listed(entry, entry.state(), seconds.get(name)) for name, entry in _entries().items()]


def find_entry(spec: str) -> Entry | None:
    """The roster's entry that a spec belongs to, if any."""
    return _entries().get(spec.partition("?")[0].partition(":")[0])


def load_victim(spec: str, label: str | None = None, threads: int = 1) -> Victim:
    """Load the victim that `spec` names.

    label: the class that will be asked for; a closed-vocabulary victim that does not know it is
    refused here, with near names, instead of silently never finding it.
    threads: CPU threads that one prediction may use.
    """
    entry, head, location, options = _find(spec)
    victim = entry.load(Request(spec, head, location, options, label, threads))
    if label is not None and victim.info.labels:
        find_class(label, victim.info.labels, _shown(spec, entry))
    return victim


def check_victim(spec: str) -> None:
    """Refuse, before anything is loaded or stored, a name that no victim can have. InputError."""
    _find(spec)


def _find(spec: str) -> tuple[Entry, str, str, dict[str, str]]:
    """(entry, name before the colon, path after it, options) of a spec that is right so far."""
    name, _, query = spec.partition("?")
    head, _, location = name.partition(":")
    entry = find_entry(spec)
    options = dict(parse_qsl(query, keep_blank_values=True))
    if entry is None and is_user_spec(name):
        entry = replace(USER_MODEL, options=tuple(options))
    if entry is None:
        names = ", ".join(listed.spec for listed in list_victims())
        raise InputError(f"there is no victim {shown(spec)!r}; the victims are: {names}")
    _check(spec, entry, location, options)
    entry.check(Request(spec, head, location, options))
    return entry, head, location, options


def _check(spec: str, entry: Entry, location: str, options: dict[str, str]) -> None:
    """Refuse what the entry cannot take, and what is not there yet, without repeating secrets."""
    told = _shown(spec, entry)
    unknown = sorted(set(options) - set(entry.options))
    if unknown:
        known = f"it takes: {', '.join(entry.options)}" if entry.options else "it takes none"
        raise InputError(f"victim {told!r}: unknown option {shown_option(unknown[0])!r}; {known}")
    if location and not entry.takes:
        raise InputError(f"victim {told!r}: {entry.name} takes no path; write {entry.name}")
    if not location and entry.takes and not entry.optional:
        raise InputError(
            f"victim {told!r}: wanted a path after the colon, as in {entry.name}:{entry.takes}"
        )
    now = entry.state()
    if now.status == "needs install":
        raise InputError(f"victim {told!r} needs packages that are not installed: {now.hint}")
    if now.status == "needs file" and not location:
        raise InputError(f"victim {told!r} has no weights here; get them with: {now.hint}")


def shown(spec: str) -> str:
    """The spec without what is secret in it: for all that people see, and for logs."""
    entry = find_entry(spec)
    if entry is None and is_user_spec(spec.partition("?")[0]):
        entry = USER_MODEL
    return shown_spec(spec, ()) if entry is None else _shown(spec, entry)


def _shown(spec: str, entry: Entry) -> str:
    return shown_spec(spec, None if entry.name == USER_MODEL.name else entry.options)


@cache
def _entries() -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for table in TABLES:
        for entry in importlib.import_module(f"envelope.victims.{table}").ENTRIES:
            if entry.name in found:
                raise ValueError(f"two victims are called {entry.name!r}; see {table}")
            found[entry.name] = entry
    return found
