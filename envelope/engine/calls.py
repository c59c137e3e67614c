"""A call with a time limit.

Python cannot stop a thread, so a call that runs out of time is abandoned with its thread, and the
next call gets a new one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class Caller:
    """One daemon thread that works off calls in order."""

    def __init__(self, name: str) -> None:
        self._tasks: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def call(self, function: Callable[[], T], timeout_s: float) -> T:
        """The function's result; TimeoutError when it takes longer, else whatever it raises."""
        future: Future[T] = Future()
        self._tasks.put((function, future))
        return future.result(timeout_s)

    def close(self) -> None:
        """Let the thread end after the call that it is in."""
        self._tasks.put(None)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            function, future = task
            try:
                future.set_result(function())
            except BaseException as error:  # handed on to the caller, whatever it is
                future.set_exception(error)
