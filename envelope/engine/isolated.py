"""A victim in a process of its own: whatever kills it, kills only it.

The process is started again for the next call, so that one picture that brings a model down costs
that picture alone. A call that takes too long is really ended, by ending the process.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import threading
import weakref
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from envelope.victims.protocols import Images, Victim, VictimInfo, takes_prompt
from envelope.victims.registry import find_entry, load_victim
from scene.errors import InputError

logger = logging.getLogger(__name__)

MAX_DEATHS = 10
"""Deaths in a row, without an answer between them, after which a victim is not started again.
A picture that kills it costs three, so that a few of them in a row are borne."""

Loader = Callable[[], Victim]
"""Makes the victim in its process; must be picklable (a function, or a `partial` of one)."""


class VictimDied(RuntimeError):
    """The victim's process ended during a call."""


class IsolatedVictim:
    """Follows whichever protocol the victim in the process follows."""

    def __init__(self, load: Loader) -> None:
        """Start the process and wait until the victim is loaded. Raises InputError."""
        self._load = load
        self._lock = threading.Lock()
        self._process: Any = None
        self._pipe: Connection | None = None
        self._deaths = 0
        self._prompts: dict[str, str] = {}
        self._end: Callable[[], None] = _nothing
        with self._lock:
            self.info, prompted = self._start()
        if prompted:
            self.prompt_for = self._prompt_for

    def predict(self, images: Images, *prompt: Any) -> list[Any]:
        """images: (B, H, W, 3) uint8 RGB -> B answers. Raises VictimDied, or what it raised."""
        found: list[Any] = self._call("predict", images, *prompt)
        return found

    def _prompt_for(self, label: str) -> str:
        if label not in self._prompts:
            self._prompts[label] = self._call("prompt_for", label)
        return self._prompts[label]

    def ensure_started(self) -> None:
        """Load the victim again if its process has ended, so that the next call does not have to.

        Raises VictimDied or InputError.
        """
        with self._lock:
            if self._pipe is None:
                self._restart()

    def interrupt(self) -> None:
        """End the process now; a call under way raises VictimDied. Callable from any thread."""
        self._end()

    @property
    def pid(self) -> int | None:
        """Of the process, None while there is none."""
        return None if self._process is None else self._process.pid

    def _call(self, name: str, *arguments: Any) -> Any:
        with self._lock:
            if self._pipe is None:
                self._restart()
            assert self._pipe is not None
            try:
                self._pipe.send((name, arguments))
                kind, value = self._pipe.recv()
            except (EOFError, OSError) as error:
                raise self._died() from error
        if kind == "answer":
            self._deaths = 0
            return value
        raise _error(kind, value)

    def _restart(self) -> None:
        if self._deaths >= MAX_DEATHS:
            raise VictimDied(
                f"its process ended {self._deaths} times in a row, so it is not started again"
            )
        logger.warning("%s: its process is started again", self.info.name)
        info, _ = self._start()
        changed = "weights" if info.weights_hash != self.info.weights_hash else "settings"
        if changed == "weights" or dict(info.settings) != dict(self.info.settings):
            self._end()
            self._pipe, self._process = None, None
            raise InputError(
                f"victim {self.info.name!r}: its {changed} have changed while it was in use; begin "
                f"the sweep again"
            )

    def _start(self) -> tuple[VictimInfo, bool]:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(self._load, theirs), daemon=True)
        process.start()
        theirs.close()
        self._process, self._pipe = process, ours
        finalizer = weakref.finalize(self, _kill, process)
        self._end = finalizer
        try:
            kind, value = ours.recv()
        except (EOFError, OSError) as error:
            raise self._died() from error
        if kind != "answer":
            self._end()
            self._pipe = None
            raise _error(kind, value)
        described, prompted = value
        return VictimInfo(**described), prompted

    def _died(self) -> VictimDied:
        """Note the death and say how it came about."""
        process = self._process
        process.join(5)
        code = process.exitcode
        self._end()
        self._pipe, self._process = None, None
        self._deaths += 1
        if code is not None and code < 0:
            name = signal.Signals(-code).name
            why = "killed, perhaps for want of memory" if name == "SIGKILL" else f"by {name}"
            return VictimDied(f"its process ended: {why}")
        return VictimDied(f"its process ended with code {code}")


def load_for_scoring(spec: str, label: str | None = None, threads: int = 1) -> Victim:
    """The victim that `spec` names, in a process of its own unless the roster trusts it.

    White-box use needs `registry.load_victim` instead: no gradient crosses processes.
    """
    entry = find_entry(spec)
    if entry is not None and entry.in_process:
        return load_victim(spec, label, threads)
    victim: Victim = IsolatedVictim(partial(load_victim, spec, label, threads))
    return victim


def _error(kind: str, value: Any) -> Exception:
    if kind == "input":
        return InputError(value)
    name, text = value
    return RuntimeError(f"{name}: {text}" if text else name)


def _kill(process: Any) -> None:
    with contextlib.suppress(ValueError, OSError):
        process.kill()


def _nothing() -> None:
    """Before the first process."""


def _serve(load: Loader, pipe: Connection) -> None:
    """The process: load, then answer calls until the other end is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    os.dup2(2, 1)  # what models print must not mix with the parent's results
    _volunteer_for_the_oom_killer()
    victim: Victim | None = None

    def loaded() -> tuple[dict[str, Any], bool]:
        nonlocal victim
        victim = load()
        info = {field.name: getattr(victim.info, field.name) for field in fields(VictimInfo)}
        return {**info, "settings": dict(victim.info.settings)}, takes_prompt(victim)

    _answer(pipe, loaded)
    while victim is not None:
        try:
            name, arguments = pipe.recv()
        except (EOFError, OSError):
            return
        method = getattr(victim, name)
        _answer(pipe, partial(method, *arguments))


def _answer(pipe: Connection, work: Callable[[], Any]) -> None:
    try:
        result = ("answer", work())
    except InputError as error:
        result = ("input", str(error))
    except Exception as error:  # whatever a foreign model raises is told to the parent
        logger.exception("a victim failed")
        lines = str(error).strip().splitlines()
        result = ("error", (type(error).__name__, lines[0][:300] if lines else ""))
    with contextlib.suppress(OSError):
        pipe.send(result)


def _volunteer_for_the_oom_killer() -> None:
    """Linux: where memory runs out, this process goes before the page and the renders."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("500")
