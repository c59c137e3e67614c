"""A sweep waits for the view that the user looks at, but not for ever and not for who loads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from envelope_fakes import ColorDetector, slot, small_stage

from envelope.condition import Condition
from envelope.engine.jobs import ServiceSettings, VictimSlot
from envelope.engine.local import ScoringService
from envelope.stage import Stage
from envelope.store import ScoreStore
from envelope.sweep import SweepPlan
from envelope.victims.protocols import Detections

PLAN = SweepPlan({"azimuth_deg": (-30, 0, 30)}, variants=2)
HERE = Condition(azimuth_deg=7)


class Gated(ColorDetector):
    """Answers once its gate is open."""

    def __init__(self) -> None:
        super().__init__("gated")
        self.gate = threading.Event()

    def predict(self, images: np.ndarray) -> list[Detections]:
        assert self.gate.wait(60)
        return super().predict(images)


@pytest.fixture(scope="module")
def stage() -> Stage:
    return small_stage()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ScoreStore]:
    opened = ScoreStore(tmp_path / "scores.sqlite")
    yield opened
    opened.close()


def _until(true: Callable[[], bool], timeout_s: float = 60) -> None:
    end = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def _drawn(service: ScoringService) -> bool:
    view = service.scored_view()
    return view is not None and len(view.pictures) == 4


def test_drawing_waits_for_the_users_view(stage: Stage, store: ScoreStore) -> None:
    victim = Gated()
    service = ScoringService(stage, [slot(victim)], store, settings=ServiceSettings(hush_s=60))
    service.look_at(HERE)
    _until(lambda: _drawn(service))
    before = stage.renders
    service.start(PLAN)
    time.sleep(0.5)
    assert stage.renders == before and service.hushed()
    victim.gate.set()
    assert service.wait(60)  # far less than hush_s: the answers end the pause
    service.close()
    assert store.counts()["scores"] == 4 + 6 * 4


def test_a_slow_victim_stalls_drawing_once_and_no_longer_than_said(
    stage: Stage, store: ScoreStore
) -> None:
    victim = Gated()
    service = ScoringService(stage, [slot(victim)], store, settings=ServiceSettings(hush_s=1.0))
    _until(lambda: service.progress().victims["gated"].state == "ready")
    asked = time.perf_counter()
    service.look_at(HERE)
    _until(lambda: _drawn(service))
    before = stage.renders
    service.start(PLAN)
    _until(lambda: stage.renders > before)
    assert time.perf_counter() - asked >= 1.0
    # the view stays unanswered, and all of the sweep is drawn without another pause
    _until(lambda: stage.renders == before + 6 * 3, 0.9 + 6 * 1.0)
    assert service.scored_view() is not None and not service.scored_view().scores  # type: ignore[union-attr]
    assert not service.hushed()
    victim.gate.set()
    assert service.wait(60)
    service.close()


def test_nobody_waits_for_a_victim_that_loads(
    stage: Stage, store: ScoreStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("envelope.engine.worker._LOADING", nullcontext())  # both load at once
    ready, late, loaded = ColorDetector("ready"), ColorDetector("late"), threading.Event()

    def load() -> ColorDetector:
        assert loaded.wait(60)
        return late

    slots = [slot(ready), VictimSlot("late", load, "red board")]
    service = ScoringService(stage, slots, store, settings=ServiceSettings(hush_s=60))
    _until(lambda: service.progress().victims["ready"].state == "ready")
    service.look_at(HERE)
    _until(lambda: len(service.scored_view().scores) == 4 if service.scored_view() else False)  # type: ignore[union-attr]
    _until(lambda: not service.hushed(), 10)
    assert not service.scored_view().complete  # type: ignore[union-attr]
    service.start(PLAN)
    loaded.set()
    assert service.wait(60)
    _until(lambda: service.scored_view().complete, 10)  # type: ignore[union-attr]
    service.close()
    assert store.counts()["scores"] == 2 * (4 + 6 * 4)
