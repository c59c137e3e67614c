"""Scores views in this process: one thread draws, one thread per victim asks.

Every picture is drawn once for all victims and every truth computed once per camera. The view
that the user looks at comes first; the sweep's views follow by distance from it. Rows are written
as they arrive, so that stopping, crashing and resuming lose and repeat nothing.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from envelope.condition import ANCHOR, Condition
from envelope.engine.drawing import Drawer
from envelope.engine.jobs import (
    Item,
    Progress,
    ScoredView,
    ServiceSettings,
    SweepState,
    VictimSlot,
    ViewJob,
)
from envelope.engine.queue import SweepQueue
from envelope.engine.worker import VictimWorker
from envelope.stage import Picture, Stage
from envelope.store import Score, ScoreStore, View, digest
from envelope.sweep import DEFAULT_KINDS, SweepPlan
from scene.errors import InputError

logger = logging.getLogger(__name__)


class ScoringService:
    """Background scoring of one stage by some victims into one store.

    Use: `look_at` for the user's view, `start` / `pause` / `resume` / `stop` for a sweep,
    `progress` and `scored_view` for what has come of it, `close` at the end. All methods may be
    called from any thread and return at once, except `wait`, `score_now` and `close`.
    """

    def __init__(
        self,
        stage: Stage,
        slots: Sequence[VictimSlot],
        store: ScoreStore,
        kinds: Sequence[str] | None = None,
        settings: ServiceSettings | None = None,
        on_change: Callable[[], None] | None = None,
    ) -> None:
        """kinds: what `look_at` draws and scores; default all four that the stage has.

        on_change: called from a worker thread after anything new; must be quick.
        """
        names = [slot.name for slot in slots]
        if len(set(names)) != len(names):
            raise InputError(f"victims: wanted distinct names, found {', '.join(names)}")
        self.stage = stage
        self.store = store
        self.settings = settings or ServiceSettings()
        self.lock = threading.Condition(threading.RLock())
        self.kinds = tuple(kinds or (k for k in DEFAULT_KINDS if k in stage.kinds))
        stage.check_kinds(self.kinds)
        self._on_change = on_change
        self._workers = {slot.name: VictimWorker(slot, self) for slot in slots}
        self._hashes: dict[tuple[str, str], str] = {}
        self._closed = False
        self._asked: ViewJob | None = None
        self._current: ViewJob | None = None
        self._focus: Condition = ANCHOR
        self._sweep = SweepQueue()
        self._message = ""
        self._drawer = Drawer(self)
        if store.geometry() != stage.geometry:
            store.set_geometry(stage.geometry)
        self._drawer.start()
        for worker in self._workers.values():
            worker.start()

    def look_at(self, condition: Condition) -> None:
        """Draw and score this view before anything else; an earlier one not begun is dropped."""
        key, actual, camera = self.stage.place(condition)
        job = ViewJob(key, condition, actual, camera, "view", self.kinds)
        with self.lock:
            self._asked = job
            self._focus = condition.nominal()
            self._sweep.sort(self._focus)
            self.lock.notify_all()

    def scored_view(self) -> ScoredView | None:
        """The newest view that was looked at and has begun to be drawn, as far as it is."""
        with self.lock:
            return None if self._current is None else ScoredView.of(self._current)

    def score_now(self, condition: Condition, timeout_s: float = 300.0) -> ScoredView:
        """Look at a view and wait until it is scored."""
        self.look_at(condition)
        wanted = condition.key, condition.variant
        until = time.monotonic() + timeout_s
        with self.lock:
            while time.monotonic() < until:
                job = self._current
                if job and (job.nominal.key, job.nominal.variant) == wanted and job.complete:
                    return ScoredView.of(job)
                self.lock.wait(max(0.0, min(0.5, until - time.monotonic())))
        raise TimeoutError(f"the view was not scored within {timeout_s:g} s")

    def start(self, plan: SweepPlan, retry_errors: bool = False) -> None:
        """Begin a sweep, or go on with it: what is stored already is not scored again.

        retry_errors: ask again where a victim failed before.
        """
        self.stage.check_kinds(plan.kinds)
        done = self.store.done(with_errors=not retry_errors)
        known = self.store.views(self.stage.geometry)
        with self.lock:
            self._drop_sweep_items()
            self._sweep = SweepQueue(plan, self.stage.geometry, done)
            self._sweep.unobservable = {k for k, v in known.items() if not v.observation.observable}
            self._sweep.turn("running")
            self._sweep.sort(self._focus)
            self.lock.notify_all()
        self._tell()

    def pause(self) -> None:
        """Score nothing more of the sweep for now; the user's view is still scored."""
        self._set_state("running", "paused")

    def resume(self) -> None:
        """Go on after `pause`."""
        self._set_state("paused", "running")

    def stop(self) -> None:
        """End the sweep. Rows stay; `start` with the same plan goes on where it ended."""
        with self.lock:
            if self._sweep.state in ("running", "paused"):
                self._sweep.turn("stopped")
                self._sweep.clear()
                self._drop_sweep_items()
                self.lock.notify_all()
        self._tell()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the sweep to end (finished or stopped); False when the time ran out first."""
        until = None if timeout_s is None else time.monotonic() + timeout_s
        with self.lock:
            while self._sweep.state in ("running", "paused"):
                left = 0.5 if until is None else until - time.monotonic()
                if left <= 0:
                    return False
                self.lock.wait(min(0.5, left))
        return True

    def progress(self) -> Progress:
        """How far the sweep is, and what the victims are doing."""
        with self.lock:
            victims = {name: worker.progress for name, worker in self._workers.items()}
            failed = [name for name, victim in victims.items() if victim.state == "failed"]
            snapshot = self._sweep.progress(list(self._workers), failed, self._hashes)
            trouble = next((v.message for v in victims.values() if v.message), "")
            return replace(
                snapshot,
                errors=sum(v.errors for v in victims.values()),
                renders=self.stage.renders,
                victims=victims,
                message=self._message or trouble,
            )

    def close(self, timeout_s: float = 10.0) -> None:
        """End all threads; answers that are being given are still stored."""
        with self.lock:
            self._closed = True
            self.lock.notify_all()
        self._drawer.join(timeout_s)
        for worker in self._workers.values():
            worker.join(timeout_s)

    def closed(self) -> bool:
        """Whether the service ends."""
        return self._closed

    def urgent(self, item: Item) -> bool | None:
        """True for the user's view, None for a view that the user has left, else False."""
        if item.job.origin == "sweep":
            return False
        return True if item.job is self._current else None

    def hushed(self) -> bool:
        """Whether the sweep waits: it is paused, or the user's view is under way."""
        return self._sweep.state == "paused" or self._user_waits()

    def _user_waits(self) -> bool:
        job = self._asked or self._current
        if job is None or job.complete:
            return False
        due = not job.drawn or any(self._workers[n].state != "loading" for n, _ in job.waiting)
        return due and time.perf_counter() - job.asked < self.settings.hush_s

    def note_settings(self, worker: VictimWorker) -> None:
        """Store what the loaded victim's answers depend on, per render kind."""
        name = worker.slot.name
        for kind in self.stage.kinds:
            fields = {"picture": self.stage.picture_fields(kind), **worker.settings_fields()}
            found = digest([name, fields])
            self.store.add_settings(found, name, kind, {**fields, **worker.about()})
            self._hashes[name, kind] = found

    def victim_ready(self, name: str) -> None:
        """Go on with the victim, or give its share of the work up."""
        worker = self._workers[name]
        with self.lock:
            job = self._current
            if worker.state == "ready" and job is not None:
                self._fill_from_store(job, name)
                worker.inbox = [i for i in worker.inbox if (name, i.kind) in i.job.waiting]
            if worker.state == "failed":
                items, worker.inbox = worker.inbox, []
                for item in items:
                    self._settle(item.job, name, item.kind)
            self.lock.notify_all()
        self._tell()

    def settings_hash(self, name: str, kind: str) -> str:
        """Hash of everything that can change this victim's answers to this kind."""
        return self._hashes[name, kind]

    def deliver(self, name: str, answered: list[tuple[Item, Score]]) -> None:
        """Store answers, then make them visible."""
        for job in {id(item.job): item.job for item, _ in answered}.values():
            assert job.view is not None
            scores = [score for item, score in answered if item.job is job]
            try:
                self.store.add_scores(scores, job.view)
            except sqlite3.Error as error:
                self.cannot_store(error)
                return
        with self.lock:
            for item, score in answered:
                item.job.scores[name, item.kind] = score
                self._sweep.done.add(score.key)
                self._sweep.fresh += item.job.origin == "sweep"
                self._settle(item.job, name, item.kind)
            self.lock.notify_all()
        self._tell()

    def next_job(self) -> ViewJob | None:
        """The user's view, else the sweep's next; waits for one. None when the service closes."""
        with self.lock:
            while not self._closed:
                if self._asked is not None:
                    return self._take_asked()
                if (job := self._next_of_sweep()) is not None:
                    return job
                self.lock.wait(0.2 if self._sweep.state == "running" else None)
        return None

    def _take_asked(self) -> ViewJob:
        assert self._asked is not None
        self._current, self._asked = self._asked, None
        return self._current

    def _next_of_sweep(self) -> ViewJob | None:
        todo = self._sweep
        ready = all(worker.state != "loading" for worker in self._workers.values())
        if todo.state != "running" or not ready or self.hushed():
            return None
        job = todo.take(self.settings.memory_mb * 1e6, self._live(), self._hashes, self.stage.place)
        if job is None:
            self._finish_if_done()
        return job

    def interrupting(self) -> ViewJob | None:
        """The user's view if there is a new one; waits while the last one is being scored."""
        with self.lock:
            while not self._closed:
                if self._asked is not None:
                    return self._take_asked()
                if not self._user_waits():
                    break
                self.lock.wait(0.1)
        return None

    def begun(self, job: ViewJob, view: View) -> bool:
        """The view's truth is stored: expect answers, or skip what is never counted."""
        with self.lock:
            job.view = view
            if job.origin == "view":
                self._expect_answers(job)
        if not (wanted := job.origin == "view" or view.observation.observable):
            self._skip(job)
        return wanted

    def hand_out(self, job: ViewJob, kind: str, picture: Picture, ms: float) -> None:
        """Put a picture into the inboxes of the victims that are to see it."""
        with self.lock:
            job.pictures[kind] = picture
            job.seconds = time.perf_counter() - job.asked
            for name, worker in self._workers.items():
                if (name, kind) in job.waiting and worker.state != "failed":
                    worker.inbox.append(Item(job, kind, picture, ms))
                else:
                    self._settle(job, name, kind)
            self.lock.notify_all()
        if job.origin == "view":
            self._tell()

    def give_up(self, job: ViewJob, words: str) -> None:
        """A view that cannot be drawn: nobody waits for it."""
        with self.lock:
            job.error = self._message = words
            job.waiting.clear()
            self._sweep.failed.add(job.key)
            self._release(job)

    def finish(self, job: ViewJob) -> None:
        """Nothing of the view is left to draw."""
        with self.lock:
            job.drawn = True
            job.seconds = time.perf_counter() - job.asked
            self.lock.notify_all()
        self._tell()

    def _expect_answers(self, job: ViewJob) -> None:
        """Fill in what is stored already; wait for the rest.

        A victim that is still loading is waited for: its weights may have changed since.
        """
        job.waiting.update((name, kind) for name in self._workers for kind in job.kinds)
        for name in self._workers:
            self._fill_from_store(job, name)

    def _fill_from_store(self, job: ViewJob, name: str) -> None:
        """Take a loaded victim's answers under its settings of now from the store."""
        for score in self.store.scores(job.key, all_settings=True):
            current = self._hashes.get((score.victim, score.kind)) == score.settings_hash
            if score.victim == name and current and score.answer.status != "error":
                if (name, score.kind) in job.waiting:
                    job.scores[name, score.kind] = score
                    self._settle(job, name, score.kind)

    def _skip(self, job: ViewJob) -> None:
        """An unobservable view is never counted, so no victim is asked."""
        with self.lock:
            self._sweep.unobservable.add(job.key)
            job.waiting.clear()
            self._release(job)
            self.lock.notify_all()
        self._tell()

    def _settle(self, job: ViewJob, name: str, kind: str) -> None:
        """Nothing more is to come from this victim about this picture."""
        job.waiting.discard((name, kind))
        job.seconds = time.perf_counter() - job.asked
        if not job.waiting:
            self._release(job)

    def _release(self, job: ViewJob) -> None:
        if job.origin == "sweep":
            self._sweep.release(job)
            self._finish_if_done()

    def _finish_if_done(self) -> None:
        sweep = self._sweep
        if sweep.state == "running" and sweep.exhausted:
            sweep.turn("finished")
            self.lock.notify_all()

    def _drop_sweep_items(self) -> None:
        for worker in self._workers.values():
            worker.inbox = [item for item in worker.inbox if item.job.origin != "sweep"]
        self._sweep.under_way.clear()

    def _set_state(self, old: SweepState, new: SweepState) -> None:
        with self.lock:
            if self._sweep.state == old:
                self._sweep.turn(new)
                self.lock.notify_all()
        self._tell()

    def _live(self) -> list[str]:
        return [name for name, worker in self._workers.items() if worker.state == "ready"]

    def cannot_store(self, error: sqlite3.Error) -> None:
        """A full disk or a lost folder: stop, so that no work is done for nothing."""
        logger.error("%s: scores cannot be written: %s", self.store.path, error)
        with self.lock:
            self._message = f"scores cannot be written to {self.store.path}: {error}"
        self.stop()

    def _tell(self) -> None:
        if self._on_change is None:
            return
        try:
            self._on_change()
        except Exception:  # the listener's trouble must not end scoring
            logger.exception("the listener of the scoring service failed")
