"""Slow work outside the callbacks: latest-wins slot, command queue, one worker, cancelable jobs.

Viser runs callbacks on 32 threads that overlap and finish out of order. So callbacks only post:
slider values to a `LatestSlot` (an old value that nobody looked at yet is worth nothing), clicks
and commands to a queue that drops none. One worker thread takes both, commands first.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from scene.errors import InputError

log = logging.getLogger(__name__)

T = TypeVar("T")
Command = Callable[[], None]
ErrorSink = Callable[[str], None]


class LatestSlot(Generic[T]):
    """Holds at most one value: a new one replaces what was not taken yet."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._value: T | None = None
        self._filled = False

    def put(self, value: T) -> None:
        """Leave a value, forgetting an older one."""
        with self._lock:
            self._value, self._filled = value, True

    def take(self) -> tuple[bool, T | None]:
        """(True, value) and empty the slot, or (False, None)."""
        with self._lock:
            found, value = self._filled, self._value
            self._value, self._filled = None, False
            return found, value


class Worker(Generic[T]):
    """One thread that runs queued commands in order and then the newest slot value.

    on_latest: called with the newest value of `post_latest`. on_error: where a command's error
    goes when `post` named no place of its own; one sentence.
    """

    def __init__(self, on_latest: Callable[[T], None], on_error: ErrorSink) -> None:
        self._on_latest = on_latest
        self._on_error = on_error
        self._slot: LatestSlot[T] = LatestSlot()
        self._commands: deque[tuple[Command, ErrorSink]] = deque()
        self._wake = threading.Condition()
        self._stopping = False
        self._busy = False
        self._thread = threading.Thread(target=self._run, name="viewer-worker", daemon=True)
        self._thread.start()

    def post(self, command: Command, on_error: ErrorSink | None = None) -> None:
        """Queue a command; none is dropped and they run in the order they came."""
        with self._wake:
            self._commands.append((command, on_error or self._on_error))
            self._wake.notify_all()

    def post_latest(self, value: T) -> None:
        """Leave a value for `on_latest`; only the newest one is handled."""
        with self._wake:
            self._slot.put(value)
            self._wake.notify_all()

    def stop(self) -> None:
        """Finish what is queued, then end the thread."""
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=5)

    def wait_idle(self, timeout_s: float = 10) -> bool:
        """Wait until nothing is queued or running; False when that took too long."""
        with self._wake:
            return self._wake.wait_for(self._is_idle, timeout_s)

    def _is_idle(self) -> bool:
        return not self._busy and not self._commands and not self._slot._filled

    def _run(self) -> None:
        while True:
            with self._wake:
                self._busy = False
                self._wake.notify_all()
                self._wake.wait_for(lambda: self._commands or self._slot._filled or self._stopping)
                if self._commands:
                    command, on_error = self._commands.popleft()
                else:
                    found, value = self._slot.take()
                    if not found:
                        return
                    command, on_error = self._latest_command(value), self._on_error
                self._busy = True
            run_guarded(command, on_error)

    def _latest_command(self, value: T | None) -> Command:
        return lambda: self._on_latest(value)  # type: ignore[arg-type]


def run_guarded(command: Command, on_error: ErrorSink) -> None:
    """Run `command`; an error becomes one sentence in `on_error` and the thread lives on.

    This is the outermost frame of a viewer thread, the one place where any error is caught: the
    page shows it and the log keeps the traceback of what is not a user's mistake.
    """
    try:
        command()
    except InputError as error:
        on_error(str(error))
    except Exception as error:
        log.exception("a command of the viewer failed")
        on_error(f"This did not work ({type(error).__name__}: {one_line(str(error))}).")


def one_line(text: str, limit: int = 300) -> str:
    """`text` on one line, cut to `limit` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


@dataclass(frozen=True)
class Progress:
    """How far a job is. fraction: 0 to 1. text: what it is doing, one line."""

    fraction: float
    text: str


class Job:
    """A long piece of work on its own thread that can be asked to stop.

    work(job): calls `job.report(...)` now and then and looks at `job.cancelled`.
    on_progress, on_error, on_end: called from the job's thread.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[Job], None],
        on_progress: Callable[[Progress], None],
        on_error: ErrorSink,
        on_end: Command,
    ) -> None:
        self.name = name
        self._work = work
        self._on_progress = on_progress
        self._on_error = on_error
        self._on_end = on_end
        self._cancel = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"job-{name}", daemon=True)

    def start(self) -> Job:
        """Begin, and return the job itself."""
        self._thread.start()
        return self

    @property
    def cancelled(self) -> bool:
        """Whether somebody asked to stop."""
        return self._cancel.is_set()

    @property
    def running(self) -> bool:
        """Whether the thread is still at work."""
        return self._thread.is_alive()

    def cancel(self) -> None:
        """Ask the work to stop at its next look."""
        self._cancel.set()

    def report(self, fraction: float, text: str) -> None:
        """Tell the page how far the work is."""
        self._on_progress(Progress(min(max(fraction, 0.0), 1.0), text))

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for the end."""
        self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            run_guarded(lambda: self._work(self), self._on_error)
        finally:
            self._on_end()


class JobDesk:
    """At most one long job at a time, because jobs share the two or so CPU cores with scoring."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._job: Job | None = None

    def start(self, job: Job) -> Job:
        """Start `job`, or raise InputError naming the one that is running."""
        with self._lock:
            if self._job is not None and self._job.running:
                raise InputError(
                    f"{self._job.name} is still running; stop it or wait before {job.name}"
                )
            self._job = job
            return job.start()

    @property
    def current(self) -> Job | None:
        """The running job, if any."""
        with self._lock:
            return self._job if self._job is not None and self._job.running else None

    def cancel(self) -> None:
        """Ask the running job, if any, to stop."""
        if (job := self.current) is not None:
            job.cancel()
