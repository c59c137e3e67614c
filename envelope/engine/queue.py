"""The views of a sweep that are still to be scored, nearest first, and what has been scored."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from envelope.condition import ANCHOR, AXES, Condition
from envelope.engine.jobs import Progress, SweepState, ViewJob
from envelope.store import ScoreKey, view_id
from envelope.sweep import SweepPlan
from scene.camera import Camera

Hashes = Mapping[tuple[str, str], str]
"""(victim, kind) -> settings hash."""

Place = Callable[[Condition], tuple[str, Condition, Camera]]
"""View id, actual condition and camera of a nominal condition."""


class SweepQueue:
    """State of the sweep under way; guarded by the service's lock."""

    def __init__(
        self, plan: SweepPlan | None = None, geometry: str = "", done: set[ScoreKey] | None = None
    ) -> None:
        """geometry: the stage's hash. done: what is stored already.

        fresh counts the scores that came in since the sweep began.
        """
        self.state: SweepState = "idle"
        self.kinds = plan.kinds if plan else ()
        self.views = plan.views() if plan else []
        self.ids = {view: view_id(geometry, view, view.variant) for view in self.views}
        self.done = done or set()
        self.unobservable: set[str] = set()
        self.failed: set[str] = set()
        self.under_way: list[ViewJob] = []
        self._steps = np.array([_steps(view) for view in self.views]).reshape(-1, len(AXES))
        self._variants = np.array([view.variant for view in self.views], dtype=int)
        self._queue = list(range(len(self.views)))
        self.fresh = 0
        self._order = 0
        self._ran_s = 0.0
        self._running_since: float | None = None
        self.sort(ANCHOR)

    def sort(self, focus: Condition) -> None:
        """Cells nearest to `focus` first, each cell's exact variant before its noise."""
        if not self._queue:
            return
        left = np.array(self._queue)
        distances = np.linalg.norm(self._steps[left] - _steps(focus), axis=1).round(9)
        self._queue = left[np.lexsort((left, self._variants[left], distances))].tolist()

    def pop(self) -> Condition | None:
        """The next view; None when there is none left."""
        return self.views[self._queue.pop(0)] if self._queue else None

    def take(
        self, budget: float, victims: Sequence[str], hashes: Hashes, place: Place
    ) -> ViewJob | None:
        """The next view that lacks scores, now under way; None for none, or for want of memory.

        budget: bytes of pictures that may wait for victims. place: as `Stage.place`.
        """
        while self.bytes_under_way() < budget and (nominal := self.pop()) is not None:
            missing = self.missing(nominal, victims, hashes)
            if not missing:
                continue
            key, actual, camera = place(nominal)
            kinds = tuple(k for k in self.kinds if any(kind == k for _, kind in missing))
            job = ViewJob(key, nominal, actual, camera, "sweep", kinds, order=self.next_order())
            job.waiting = missing
            self.under_way.append(job)
            return job
        return None

    def clear(self) -> None:
        """Forget what is left."""
        self._queue.clear()

    @property
    def exhausted(self) -> bool:
        """Nothing left and nothing under way."""
        return not self._queue and not self.under_way

    def next_order(self) -> int:
        """Ascending numbers, by which victims sort their inboxes."""
        self._order += 1
        return self._order

    def missing(
        self, view: Condition, victims: Sequence[str], hashes: Hashes
    ) -> set[tuple[str, str]]:
        """(victim, kind) pairs of a view that are not scored yet."""
        key = self.ids[view]
        if key in self.unobservable:
            return set()
        return {
            (name, kind)
            for name in victims
            for kind in self.kinds
            if (key, kind, name, hashes[name, kind]) not in self.done
        }

    def bytes_under_way(self) -> int:
        """Memory of the pictures that wait for victims."""
        return sum(job.picture_bytes for job in self.under_way)

    def release(self, job: ViewJob) -> None:
        """Forget a view that is through."""
        if job in self.under_way:
            self.under_way.remove(job)

    def turn(self, state: SweepState) -> None:
        """Go over to another state; only the time in "running" counts as elapsed."""
        self._ran_s = self.elapsed_s
        self._running_since = time.perf_counter() if state == "running" else None
        self.state = state

    @property
    def elapsed_s(self) -> float:
        """Seconds spent running."""
        since = self._running_since
        return self._ran_s + (0.0 if since is None else time.perf_counter() - since)

    def progress(self, names: Sequence[str], failed: Sequence[str], hashes: Hashes) -> Progress:
        """Counts over the plan. failed: victims that did not load."""
        each = len(names) * len(self.kinds)
        done = skipped = views_done = 0
        for view in self.views:
            key = self.ids[view]
            given_up = key in self.unobservable or key in self.failed
            scored = sum(
                (key, kind, name, hashes.get((name, kind), "")) in self.done
                for name in names
                for kind in self.kinds
            )
            left_out = each - scored if given_up else len(failed) * len(self.kinds)
            done, skipped = done + scored, skipped + left_out
            views_done += scored + left_out >= each
        total = len(self.views) * each
        return Progress(
            state=self.state,
            total=total,
            done=done,
            skipped=skipped,
            views=len(self.views),
            views_done=views_done,
            elapsed_s=self.elapsed_s,
            left_s=self._left_s(total - done - skipped),
        )

    def _left_s(self, left: int) -> float | None:
        if self.state != "running" or self.fresh == 0:
            return None
        return self.elapsed_s / self.fresh * left


def _steps(view: Condition) -> list[float]:
    return [axis.steps(value) for axis, value in zip(AXES.values(), view.values, strict=True)]
