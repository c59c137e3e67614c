"""Which victims are there, loaded and chosen; loading happens when one is first chosen."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os.path import expanduser
from typing import TYPE_CHECKING

from scene.errors import InputError

if TYPE_CHECKING:
    from envelope.engine.jobs import VictimSlot
    from envelope.settings import VictimChoice
    from envelope.victims.protocols import Victim
    from envelope.victims.registry import Listed

PROMPT_OPTION = "prompt"
PROMPTS = ("native", "p1", "p2", "p3")
"""Variants of a grounding model's prompt: its own, and three paraphrases."""

Loader = Callable[[str, str], "Victim"]


@dataclass(frozen=True)
class VictimRow:
    """One line of the Victims tab.

    spec: what loads it. name: short, for people. state: one sentence. available: whether it can be
    chosen. licence: of the weights. command: what installs or fetches it, "" when it is here.
    seconds: a picture took on this machine when it was last asked, None before. prompts: variants
    of its prompt that can be chosen.
    """

    spec: str
    name: str
    kind: str
    state: str
    chosen: bool
    loading: bool
    available: bool
    licence: str = ""
    command: str = ""
    seconds: float | None = None
    prompts: tuple[str, ...] = ()


class VictimDesk:
    """Loads each victim once and keeps the order in which they were chosen.

    Safe to use from several threads; only `load` and the slots' own loading take long.
    on_change: called, from loading threads, when one begins or ends to load; must be quick.
    """

    def __init__(self, label: str, loader: Loader | None = None) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self.label = label
        self._loader = loader or _load
        self._lock = threading.Lock()
        self._loading_one = threading.Lock()
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
        """Let `spec` take part; it is loaded when scoring begins.

        Raises InputError where another one that takes part goes by the same name in the rows.
        """
        with self._lock:
            if spec not in self._chosen:
                self._chosen = [*self._beside(spec), spec]

    def may_choose(self, spec: str) -> None:
        """Raise what `choose` would, before anything is loaded."""
        with self._lock:
            self._beside(spec)

    def _beside(self, spec: str) -> list[str]:
        """The chosen ones that stay when `spec` takes part. Raises InputError on a namesake."""
        same, name = row_head(spec), self._name_of(spec)
        # the same model under another prompt would go by the same name in the rows
        others = [other for other in self._chosen if row_head(other) != same]
        for other in others:
            if self._name_of(other) == name:
                raise InputError(
                    f"{other} is scored under the name {name} already; leave it out first, "
                    f"since scores are told apart by name"
                )
        return others

    def _name_of(self, spec: str) -> str:
        """What the rows call it: its run may have given it a name of its own."""
        from envelope.settings import short_name

        choice = self._choices.get(spec)
        return choice.name if choice is not None else short_name(spec)

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
            if (victim := self._loaded.get(spec)) is not None:
                return victim
            self._loading.add(spec)
            self._problems.pop(spec, None)
        self.on_change()
        try:
            victim = self._load_in_turn(spec)
        except InputError as error:
            with self._lock:
                self._problems[spec] = str(error)
            raise
        finally:
            with self._lock:
                self._loading.discard(spec)
            self.on_change()
        return victim

    def _load_in_turn(self, spec: str) -> Victim:
        """One at a time: whole packages are imported here, and some fail when two threads do."""
        with self._loading_one:
            with self._lock:
                if (victim := self._loaded.get(spec)) is not None:
                    return victim
            victim = self._loader(spec, self.label)
            with self._lock:
                self._loaded[spec] = victim
            return victim

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
        """The roster with its states, then what was added by path or options."""
        from envelope.victims.registry import list_victims

        with self._lock:
            loaded, chosen = dict(self._loaded), list(self._chosen)
            loading, problems = set(self._loading), dict(self._problems)
        roster = {e.name: e for e in list_victims() if not e.needs_location}
        # a mistyped path is told when it fails to load; nothing could be done with a line for it
        added = dict.fromkeys([*chosen, *loaded, *loading])
        rows = []
        for spec in dict.fromkeys([*roster, *added]):
            entry = roster.get(spec)
            victim = loaded.get(spec)
            kind = victim.info.kind if victim else entry.kind if entry else "detector"
            if spec in loading:
                state = "loading…"
            elif spec in problems:
                state = problems[spec]
            elif spec in chosen:
                state = f"{kind}, scoring"
            elif victim is not None:
                state = f"{kind}, left out"
            else:
                state = f"{kind}, {entry.now.status}" if entry else kind
            known = _About.of(spec, victim, entry)
            rows.append(
                VictimRow(
                    spec, row_name(spec), kind, state, spec in chosen, spec in loading,
                    victim is not None or spec in chosen or (entry is not None and entry.ready),
                    known.licence, known.command, known.seconds, known.prompts,
                )
            )  # fmt: skip
        return rows

    def loaded(self, spec: str) -> Victim | None:
        """The victim, if it is loaded."""
        with self._lock:
            return self._loaded.get(spec)


@dataclass(frozen=True)
class _About:
    """What is known of a victim whether it is loaded or not."""

    licence: str
    command: str
    seconds: float | None
    prompts: tuple[str, ...]

    @classmethod
    def of(cls, spec: str, victim: Victim | None, listed: Listed | None) -> _About:
        from envelope.victims.registry import find_entry
        from envelope.victims.timings import known_seconds

        entry = listed.entry if listed else find_entry(spec)
        licence = entry.licence if entry else ""
        seconds = listed.seconds if listed else known_seconds().get(spec.partition("?")[0])
        if victim is not None:
            licence = victim.info.licence or licence
            seconds = victim.info.seconds_per_picture or seconds
        prompts = PROMPTS if entry is not None and PROMPT_OPTION in entry.options else ()
        return cls(licence, listed.command if listed else "", seconds, prompts)


@dataclass(frozen=True)
class Form:
    """A way to name a model by path: `onnx:FILE`. takes: what the path is. options: allowed."""

    name: str
    takes: str
    options: tuple[str, ...]
    licence: str
    state: str

    def spec(self, location: str, options: str) -> str:
        """What loads it. Raises InputError without a path."""
        location, options = expanduser(location.strip()), options.strip().lstrip("?")
        if not location:
            wanted = self.takes.partition("?")[0]
            raise InputError(f"{self.name}: wanted a path ({wanted}), found an empty field")
        # a name in capitals stands for what the person writes itself: my_models:make_detector
        head = location if self.name.isupper() else f"{self.name}:{location}"
        # a path that was pasted with its options may be given more of them
        return head + (f"{'&' if '?' in location else '?'}{options}" if options else "")


def forms() -> list[Form]:
    """The ways to name a model by path, as the registry lists them."""
    from envelope.victims.registry import list_victims

    return [
        Form(row.name, row.entry.takes, row.entry.options, row.licence, row.now.status)
        for row in list_victims()
        if row.entry.takes
    ]


def with_prompt(spec: str, prompt: str) -> str:
    """The spec that loads the same model with another variant of its prompt."""
    head, _, query = spec.partition("?")
    kept = [part for part in query.split("&") if part and not part.startswith(f"{PROMPT_OPTION}=")]
    if prompt != PROMPTS[0]:
        kept.append(f"{PROMPT_OPTION}={prompt}")
    return head + (f"?{'&'.join(kept)}" if kept else "")


def row_head(spec: str) -> str:
    """What two specs of one model under different prompts have in common."""
    return with_prompt(spec, PROMPTS[0])


def row_name(spec: str) -> str:
    """Short, and with the prompt's variant where it is not the native one."""
    from envelope.settings import short_name

    prompt = dict(part.partition("=")[::2] for part in spec.partition("?")[2].split("&"))
    variant = prompt.get(PROMPT_OPTION, PROMPTS[0])
    return short_name(spec) + ("" if variant == PROMPTS[0] else f" ({variant})")


def _load(spec: str, label: str) -> Victim:
    from envelope.engine.isolated import load_for_scoring

    return load_for_scoring(spec, label)
