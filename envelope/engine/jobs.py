"""The values that the scoring engine passes around."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from envelope.condition import Condition
from envelope.observe import Observation
from envelope.stage import Picture
from envelope.store import Score, View
from envelope.victims.protocols import Victim
from scene.camera import Camera

SweepState = Literal["idle", "running", "paused", "finished", "stopped"]
VictimState = Literal["loading", "ready", "failed"]


@dataclass(frozen=True)
class VictimSlot:
    """A victim that a service shall score with.

    name: how rows call it. load: makes it (slow, called once in the background).
    label: the class it is asked for. prompt: for grounders; None: the model's native one.
    """

    name: str
    load: Callable[[], Victim]
    label: str
    prompt: str | None = None


@dataclass(frozen=True)
class ServiceSettings:
    """How the engine works; nothing here changes a number.

    call_timeout_s: limit of one victim call. tries: calls before an error is written.
    max_batch: pictures per call. batch_ms: calls are kept about this short, so that a new view
    need not wait long. memory_mb: pictures that may wait for victims. hush_s: for how long at
    most a sweep waits for the view that the user looks at.
    """

    call_timeout_s: float = 120.0
    tries: int = 3
    max_batch: int = 8
    batch_ms: float = 120.0
    memory_mb: float = 400.0
    hush_s: float = 2.0


@dataclass(eq=False)
class ViewJob:
    """A view under way. Guarded by the service's lock, except `camera` and what names it."""

    key: str
    nominal: Condition
    actual: Condition
    camera: Camera
    origin: Literal["sweep", "view"]
    kinds: tuple[str, ...]
    order: int = 0
    view: View | None = None
    pictures: dict[str, Picture] = field(default_factory=dict)
    waiting: set[tuple[str, str]] = field(default_factory=set)
    scores: dict[tuple[str, str], Score] = field(default_factory=dict)
    drawn: bool = False
    error: str = ""
    asked: float = field(default_factory=time.perf_counter)
    seconds: float = 0.0

    @property
    def complete(self) -> bool:
        """All pictures drawn and no answer outstanding."""
        return bool(self.error) or (self.drawn and not self.waiting)

    @property
    def picture_bytes(self) -> int:
        """Size of all its pictures, drawn or not."""
        return self.camera.width * self.camera.height * 3 * len(self.kinds)


class Item(NamedTuple):
    """One picture for one victim."""

    job: ViewJob
    kind: str
    picture: Picture
    render_ms: float


@dataclass(frozen=True, eq=False)
class ScoredView:
    """The view that the user looks at, as far as it is drawn and scored.

    pictures: kind -> (H, W, 3) uint8. scores: (victim, kind) -> score. seconds: from asking to
    the newest part. error: why it could not be drawn.
    """

    condition: Condition
    camera: Camera
    observation: Observation | None
    pictures: Mapping[str, Picture]
    scores: Mapping[tuple[str, str], Score]
    complete: bool
    seconds: float
    error: str = ""

    @classmethod
    def of(cls, job: ViewJob) -> ScoredView:
        """A job as it stands; the service's lock must be held."""
        return cls(
            condition=job.nominal,
            camera=job.camera,
            observation=None if job.view is None else job.view.observation,
            pictures=dict(job.pictures),
            scores=dict(job.scores),
            complete=job.complete,
            seconds=job.seconds,
            error=job.error,
        )


@dataclass(frozen=True)
class VictimProgress:
    """One victim of a service. calls, pictures: forward passes and pictures in them.

    usage: what its calls cost, in words; "" for a victim that runs here.
    """

    state: VictimState
    message: str = ""
    calls: int = 0
    pictures: int = 0
    picture_ms: float | None = None
    errors: int = 0
    usage: str = ""


@dataclass(frozen=True)
class Progress:
    """A sweep under way, counted in scores.

    skipped: belong to unobservable views, or to victims that did not load. left: not scored yet.
    renders: pictures drawn since the service began. message: the newest trouble, if any.
    """

    state: SweepState
    total: int = 0
    done: int = 0
    skipped: int = 0
    errors: int = 0
    views: int = 0
    views_done: int = 0
    renders: int = 0
    elapsed_s: float = 0.0
    left_s: float | None = None
    victims: Mapping[str, VictimProgress] = field(default_factory=dict)
    message: str = ""

    @property
    def left(self) -> int:
        """Scores still to come."""
        return max(0, self.total - self.done - self.skipped)
