"""The thread that draws views: the user's first, the sweep's step by step in between."""

from __future__ import annotations

import logging
import sqlite3
import threading
from typing import Protocol

from envelope.engine.jobs import ViewJob
from envelope.stage import CleanRender, Picture, Stage
from envelope.store import ScoreStore, View

logger = logging.getLogger(__name__)


class Gallery(Protocol):
    """What a drawer needs of the service. No method is called with the service's lock held."""

    stage: Stage
    store: ScoreStore

    def next_job(self) -> ViewJob | None:
        """The view to draw next; waits for one. None when the service closes."""
        ...

    def interrupting(self) -> ViewJob | None:
        """The user's view if it must be drawn now; waits while one of theirs is being scored."""
        ...

    def begun(self, job: ViewJob, view: View) -> bool:
        """The view's truth is stored; whether its kinds are to be drawn."""
        ...

    def hand_out(self, job: ViewJob, kind: str, picture: Picture, ms: float) -> None:
        """One kind is drawn, for the victims."""
        ...

    def give_up(self, job: ViewJob, words: str) -> None:
        """The view cannot be drawn."""
        ...

    def cannot_store(self, error: sqlite3.Error) -> None:
        """The store takes nothing."""
        ...

    def finish(self, job: ViewJob) -> None:
        """All that is to be drawn of a view is drawn."""
        ...


class Drawer:
    """Draws what the service gives it, in a thread of its own."""

    def __init__(self, desk: Gallery) -> None:
        self._desk = desk
        self._thread = threading.Thread(target=self._work, name="draw views", daemon=True)

    def start(self) -> None:
        """Begin to draw."""
        self._thread.start()

    def join(self, timeout_s: float) -> None:
        """Wait for the thread to end."""
        self._thread.join(timeout_s)

    def _work(self) -> None:
        from patching.warm import warm_kernels

        warm_kernels()  # while the victims load
        while (job := self._desk.next_job()) is not None:
            self._draw(job)

    def _draw(self, job: ViewJob) -> None:
        """Draw a view step by step; the user's view cuts in between the steps of a sweep's."""
        desk = self._desk
        try:
            clean = desk.stage.clean(job.camera)
            self._let_user_in(job)
            view = desk.stage.observe(job.key, job.nominal, job.actual, job.camera, clean)
            desk.store.add_view(view)
            if not desk.begun(job, view):
                return
            for kind in job.kinds:
                self._draw_kind(job, kind, clean)
        except sqlite3.Error as error:
            desk.cannot_store(error)
        except Exception as error:  # one view that cannot be drawn must not end the service
            logger.exception("view %s could not be drawn", job.nominal)
            desk.give_up(job, f"{type(error).__name__}: {error}")
        desk.finish(job)

    def _draw_kind(self, job: ViewJob, kind: str, clean: CleanRender) -> None:
        self._let_user_in(job)
        picture, ms = self._desk.stage.draw(kind, job.camera, clean)
        self._desk.hand_out(job, kind, picture, ms)

    def _let_user_in(self, job: ViewJob) -> None:
        if job.origin == "sweep":
            while (asked := self._desk.interrupting()) is not None:
                self._draw(asked)
