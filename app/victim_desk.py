"""Which victims are there, loaded and chosen; loading happens when one is first chosen."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scene.errors import InputError

if TYPE_CHECKING:
    from envelope.engine.jobs import VictimSlot
    from envelope.settings import VictimChoice
    from envelope.victims.protocols import Victim

Loader = Callable[[str, str], "Victim"]


@dataclass(frozen=True)
class VictimRow:
    """One line of the Victims tab.

    spec: what loads it. name: short, for people. state: one sentence. available: whether it can be
    chosen.
    """

    spec: str
    name: str
    kind: str
    state: str
    chosen: bool
    loading: bool
    available: bool


class VictimDesk:
    """Loads each victim once and keeps the order in which they were chosen.

    Safe to use from several threads; only `load` and the slots' own loading take long.
    """

    def __init__(self, label: str, loader: Loader | None = None) -> None:
        self.label = label
        self._loader = loader or _load
        self._lock = threading.Lock()
        self._loaded: dict[str, Victim] = {}
        self._chosen: list[str] = []
        self._loading: set[str] = set()
        self._problems: dict[str, str] = {}
        self._choices: dict[str, VictimChoice] = {}

    @property
    def chosen(self) -> tuple[str, ...]:
        """Specs of the victims that take part, in the order of their choice."""
        with self._lock:
            return tuple(self._chosen)

    def choose(self, spec: str) -> None:
        """Let `spec` take part; it is loaded when scoring begins."""
        with self._lock:
            if spec not in self._chosen:
                self._chosen.append(spec)

    def leave_out(self, spec: str) -> None:
        """Score without it from now on; it stays loaded."""
        with self._lock:
            self._chosen = [name for name in self._chosen if name != spec]

    def choose_ready(self, specs: Sequence[str]) -> None:
        """Let those of `specs` take part that can be loaded now."""
        from envelope.victims.registry import list_victims

        ready = {entry.name for entry in list_victims() if entry.ready}
        for spec in specs:
            if spec in ready:
                self.choose(spec)

    def take(self, choices: Sequence[VictimChoice], label: str) -> None:
        """Take the victims and the class of a run."""
        with self._lock:
            self.label = label
            self._chosen = [choice.spec for choice in choices]
            self._choices = {choice.spec: choice for choice in choices}

    def choices(self) -> tuple[VictimChoice, ...]:
        """The chosen victims as a run keeps them."""
        from envelope.settings import VictimChoice

        return tuple(self._choices.get(spec) or VictimChoice(spec) for spec in self.chosen)

    def slots(self) -> list[VictimSlot]:
        """What a scoring service needs to know of the chosen victims."""
        from envelope.engine.jobs import VictimSlot

        return [
            VictimSlot(choice.name, self._later(choice.spec), self.label, choice.prompt)
            for choice in self.choices()
        ]

    def _later(self, spec: str) -> Callable[[], Victim]:
        return lambda: self.load(spec)

    def load(self, spec: str) -> Victim:
        """The victim `spec`, loaded now if it was not yet. Raises InputError with one sentence."""
        with self._lock:
            victim = self._loaded.get(spec)
            if victim is not None:
                return victim
            self._loading.add(spec)
            self._problems.pop(spec, None)
        try:
            victim = self._loader(spec, self.label)
        except InputError as error:
            with self._lock:
                self._problems[spec] = str(error)
            raise
        finally:
            with self._lock:
                self._loading.discard(spec)
        with self._lock:
            return self._loaded.setdefault(spec, victim)

    def set_label(self, label: str) -> None:
        """Ask for another class. Raises InputError when a chosen victim does not know it."""
        from envelope.victims.names import find_class

        with self._lock:
            loaded = [(spec, self._loaded[spec]) for spec in self._chosen if spec in self._loaded]
        for spec, victim in loaded:
            if victim.info.labels:
                find_class(label, victim.info.labels, spec)
        self.label = label

    def rows(self) -> list[VictimRow]:
        """The roster with its states, then what was added by file."""
        from envelope.settings import short_name
        from envelope.victims.registry import list_victims

        with self._lock:
            loaded, chosen = dict(self._loaded), list(self._chosen)
            loading, problems = set(self._loading), dict(self._problems)
        roster = {e.name: e for e in list_victims() if not _needs_path(e.state)}
        added = dict.fromkeys([*chosen, *loaded, *problems])
        rows = []
        for name in dict.fromkeys([*roster, *added]):
            entry = roster.get(name)
            kind = loaded[name].info.kind if name in loaded else entry.kind if entry else "detector"
            if name in loading:
                state = "loading…"
            elif name in problems:
                state = problems[name]
            elif name in chosen:
                state = f"{kind}, scoring"
            else:
                state = f"{kind}, left out" if name in loaded else entry.state if entry else ""
            available = name in loaded or name in chosen or (entry is not None and entry.ready)
            rows.append(
                VictimRow(
                    name, short_name(name), kind, state, name in chosen, name in loading, available
                )
            )
        return rows


def _needs_path(state: str) -> bool:
    """Roster lines that are a form, not a model: `onnx:PATH`, `paligemma:FOLDER`."""
    return state.startswith("give a ")


def _load(spec: str, label: str) -> Victim:
    from envelope.engine.isolated import load_for_scoring

    return load_for_scoring(spec, label)
