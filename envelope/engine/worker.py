"""One victim's thread: takes pictures, most urgent first, asks the victim, hands answers on."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from envelope.engine.calls import Caller
from envelope.engine.isolated import IsolatedVictim
from envelope.engine.jobs import Item, ServiceSettings, VictimProgress, VictimSlot, VictimState
from envelope.outcome import Answer, failed_answer, read_answer
from envelope.store import Score
from envelope.victims.protocols import (
    OwnLimit,
    PicturesFailed,
    Prediction,
    Victim,
    ask,
    takes_prompt,
)
from envelope.victims.registry import find_entry
from envelope.victims.timings import note_seconds
from scene.errors import InputError

logger = logging.getLogger(__name__)

T = TypeVar("T")

_NOTED_CALLS = range(3, 10)
"""Whose times are kept, for a median: the first ones compile and allocate."""

_LOAD_CALLS = 10
"""Limit of loading a victim, the first time and again, in limits of one call."""

# transformers and torchvision fill their lazy modules on first use and do not lock them
_LOADING = threading.Lock()


class Desk(Protocol):
    """What a worker needs of the service; `lock` guards inboxes and jobs."""

    lock: threading.Condition
    settings: ServiceSettings

    def closed(self) -> bool:
        """Whether the service ends. Called with the lock held."""
        ...

    def urgent(self, item: Item) -> bool | None:
        """True: score at once. False: when nothing is urgent. None: drop it. Lock held."""
        ...

    def hushed(self) -> bool:
        """Whether work that is not urgent shall wait. Lock held."""
        ...

    def note_settings(self, worker: VictimWorker) -> None:
        """Store what the loaded victim's answers depend on."""
        ...

    def victim_ready(self, name: str) -> None:
        """The victim is loaded, or has failed to load."""
        ...

    def settings_hash(self, name: str, kind: str) -> str:
        """Of the loaded victim and a render kind."""
        ...

    def deliver(self, name: str, answered: list[tuple[Item, Score]]) -> None:
        """Store the scores and tell everybody."""
        ...


class VictimWorker:
    """A slot's thread, inbox and counters."""

    def __init__(self, slot: VictimSlot, desk: Desk) -> None:
        self.slot = slot
        self.inbox: list[Item] = []
        self.victim: Victim | None = None
        self.state: VictimState = "loading"
        self.message = ""
        self.calls = 0
        self.pictures = 0
        self.errors = 0
        self.picture_ms: float | None = None
        self._desk = desk
        self._caller = Caller(f"victim {slot.name}")
        self._thread = threading.Thread(target=self._work, name=f"score {slot.name}", daemon=True)

    @property
    def progress(self) -> VictimProgress:
        """A snapshot of the counters."""
        usage = getattr(self.victim, "usage", None)
        return VictimProgress(
            self.state, self.message, self.calls, self.pictures, self.picture_ms, self.errors,
            "" if usage is None else str(usage),
        )  # fmt: skip

    @property
    def prompt(self) -> str:
        """What a victim that takes words is asked; "" for the others."""
        victim = self.victim
        if victim is None or not takes_prompt(victim):
            return ""
        return self.slot.prompt or victim.prompt_for(self.slot.label)

    def settings_fields(self) -> dict[str, Any]:
        """Everything of the loaded victim that can change its answers."""
        victim = self.victim
        assert victim is not None
        info = victim.info
        fields = {
            "kind": info.kind,
            "weights": info.weights_hash,
            "input_size": list(info.input_size),
            "settings": dict(info.settings),
        }
        return {"victim": fields, "label": self.slot.label, "prompt": self.prompt}

    def about(self) -> dict[str, Any]:
        """What is worth keeping beside them but changes no answer."""
        victim = self.victim
        assert victim is not None
        info = victim.info
        return {
            "spec": info.name,
            "licence": info.licence,
            "source": info.source,
            "threshold": info.threshold,
        }

    def start(self) -> None:
        """Load the victim and begin to work."""
        self._thread.start()

    def join(self, timeout_s: float) -> None:
        """Wait for the thread to end."""
        self._thread.join(timeout_s)
        self._caller.close()

    def _work(self) -> None:
        problem = self._load()
        with self._desk.lock:
            self.message = problem
            self.state = "failed" if problem else "ready"
        self._desk.victim_ready(self.slot.name)
        if problem:
            return
        while batch := self._take():
            try:
                self._desk.deliver(self.slot.name, self._score(batch))
            except Exception as error:  # a fault of ours: this victim stops, nothing waits for it
                logger.exception("%s stopped scoring", self.slot.name)
                with self._desk.lock:
                    self.message, self.state = _in_words(error), "failed"
                    self.inbox = [*batch, *self.inbox]
                self._desk.victim_ready(self.slot.name)
                return

    def _load(self) -> str:
        """Load the victim and make its settings known; what went wrong, or ""."""

        def load() -> Victim:
            with _LOADING:
                return self.slot.load()

        try:
            self.victim = self._caller.call(load, _LOAD_CALLS * self._desk.settings.call_timeout_s)
            self._desk.note_settings(self)
        except InputError as error:
            return str(error)
        except Exception as error:  # whatever a foreign model raises stops this victim alone
            logger.exception("%s did not load", self.slot.name)
            return _in_words(error)
        return ""

    def _take(self) -> list[Item]:
        """The next pictures to score together; empty when the service closes."""
        desk = self._desk
        with desk.lock:
            while not desk.closed():
                urgent = self._sorted_inbox()
                batch = urgent or ([] if desk.hushed() else list(self.inbox))
                batch = batch[: self._batch_size()]
                if batch:
                    self.inbox = [item for item in self.inbox if item not in batch]
                    return batch
                desk.lock.wait(0.2 if self.inbox else None)
        return []

    def _sorted_inbox(self) -> list[Item]:
        """Drop what is superseded, sort the rest; the urgent items."""
        wanted = [(self._desk.urgent(item), item) for item in self.inbox]
        kept = [(urgent, item) for urgent, item in wanted if urgent is not None]
        kept.sort(key=lambda pair: (not pair[0], pair[1].job.order))
        self.inbox = [item for _, item in kept]
        return [item for urgent, item in kept if urgent]

    def _batch_size(self) -> int:
        settings = self._desk.settings
        if self.picture_ms is None:
            return 1
        together = getattr(self.victim, "concurrency", 1)  # asked at the same time: no longer wait
        fitting = int(settings.batch_ms / max(self.picture_ms, 0.1))
        return max(1, min(settings.max_batch, max(fitting, together)))

    def _score(self, batch: list[Item]) -> list[tuple[Item, Score]]:
        """Ask about a batch; pictures of a failed batch are asked again one by one."""
        try:
            answers, share_ms = self._ask(batch)
        except Exception as error:  # a foreign model may raise anything; it becomes an error row
            logger.warning("%s failed on %d pictures: %s", self.slot.name, len(batch), error)
            return [self._retry(item, _in_words(error)) for item in batch]
        if all(answer.status != "error" for answer in answers):
            old = self.picture_ms
            self.picture_ms = share_ms if old is None else 0.7 * old + 0.3 * share_ms
            if self.calls in _NOTED_CALLS:
                self._note_time(share_ms / 1000)
        return [
            (item, self._row(item, answer, 1, share_ms))
            for item, answer in zip(batch, answers, strict=True)
        ]

    def _note_time(self, seconds: float) -> None:
        """Keep the time of a picture, for the estimate before the next sweep."""
        victim = self.victim
        if victim is not None and find_entry(victim.info.name) is not None:
            note_seconds(victim.info.name, seconds)

    def _retry(self, item: Item, problem: str) -> tuple[Item, Score]:
        for tries in range(2, self._desk.settings.tries + 1):
            try:
                (answer,), ms = self._ask([item])
            except Exception as error:  # as above
                problem = _in_words(error)
                continue
            return item, self._row(item, answer, tries, ms)
        return item, self._row(item, self._failed(problem), self._desk.settings.tries, None)

    def _failed(self, problem: str) -> Answer:
        """Count and word a picture that gets no answer."""
        self.errors += 1
        self.message = problem
        assert self.victim is not None
        return failed_answer(self.victim.info.kind, problem)

    def _ask(self, batch: list[Item]) -> tuple[list[Answer], float]:
        """The answers, and milliseconds per picture without what loading a process again took.

        A picture that the victim itself gave up after its own tries is answered by an error.
        """
        victim, limit = self.victim, self._desk.settings.call_timeout_s
        assert victim is not None
        images = np.stack([item.picture for item in batch])
        if isinstance(victim, IsolatedVictim):
            self._called(victim.ensure_started, _LOAD_CALLS * limit)
        if isinstance(victim, OwnLimit):
            limit = victim.call_limit_s(len(batch))
        self.calls += 1
        self.pictures += len(batch)
        start = time.perf_counter()
        predictions: Sequence[Prediction | Exception]
        try:
            predictions = self._called(
                lambda: ask(victim, images, self.slot.label, self.slot.prompt), limit
            )
        except PicturesFailed as error:
            predictions = error.answers
        ms = (time.perf_counter() - start) * 1000 / len(batch)
        if len(predictions) != len(batch):
            raise ValueError(f"{len(predictions)} answers to {len(batch)} pictures")
        words = not victim.info.labels
        answers = [
            self._failed(_in_words(found))
            if isinstance(found, Exception)
            else read_answer(found, self.slot.label, open_vocabulary=words)
            for found in predictions
        ]
        return answers, ms

    def _called(self, work: Callable[[], T], limit_s: float) -> T:
        """Work of the victim within a time limit, beyond which it is abandoned."""
        try:
            return self._caller.call(work, limit_s)
        except TimeoutError as error:
            self._caller.close()
            self._caller = Caller(f"victim {self.slot.name}")
            if isinstance(self.victim, IsolatedVictim):
                self.victim.interrupt()
            raise TimeoutError(f"no answer within {limit_s:g} s") from error

    def _row(self, item: Item, answer: Answer, tries: int, ms: float | None) -> Score:
        return Score(
            view_id=item.job.key,
            kind=item.kind,
            victim=self.slot.name,
            settings_hash=self._desk.settings_hash(self.slot.name, item.kind),
            label=self.slot.label,
            prompt=self.prompt,
            answer=answer,
            origin=item.job.origin,
            tries=tries,
            render_ms=item.render_ms,
            predict_ms=None if answer.status == "error" else ms,
        )


def _in_words(error: BaseException) -> str:
    """One line: the kind of error and its first line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__
