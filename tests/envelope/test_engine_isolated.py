"""A victim in its own process: a death costs one picture, and nobody else anything."""

from __future__ import annotations

import gc
import os
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from envelope_fakes import ColorDetector, ColorGrounder, Stuck, slot, small_stage
from isolated_fakes import (
    changing,
    changing_settings,
    deadly,
    dies_loading,
    grounder,
    refuses,
    slow_again,
)

from envelope.condition import Condition
from envelope.engine.isolated import (
    IsolatedVictim,
    VictimDied,
    load_for_scoring,
)
from envelope.engine.jobs import ServiceSettings, VictimSlot
from envelope.engine.local import ScoringService
from envelope.outcome import Criterion, judge
from envelope.store import ScoreStore
from envelope.sweep import SweepPlan
from envelope.victims.protocols import Detector, takes_prompt
from envelope.victims.registry import load_victim
from scene.errors import InputError

PLAN = SweepPlan({"radius": (0.8, 1.0)}, variants=1)


def picture(color: tuple[int, int, int] | None = None) -> np.ndarray:
    """A red board left of the middle; something colored in it."""
    image = np.full((1, 90, 160, 3), 120, np.uint8)
    image[0, 20:60, 30:80] = (220, 20, 20)
    if color:
        image[0, 30:50, 45:65] = color
    return image


BLUE = (20, 20, 220)


def test_answers_are_those_of_the_victim_itself() -> None:
    alone, isolated = ColorDetector("deadly kill"), IsolatedVictim(partial(deadly, "kill"))
    assert isinstance(isolated, Detector)
    assert not takes_prompt(isolated)
    assert isolated.info == alone.info
    assert isolated.pid not in (None, os.getpid())
    (ours,), (theirs,) = isolated.predict(picture()), alone.predict(picture())
    assert ours.xyxy.tolist() == theirs.xyxy.tolist() == [[30, 20, 80, 60]]
    words = IsolatedVictim(grounder)
    assert takes_prompt(words)
    assert words.prompt_for("red board") == "detect red board"
    assert words.predict(picture(), "detect red board")[0].box == (30, 20, 80, 60)


def test_a_death_is_told_and_the_next_call_works() -> None:
    victim = IsolatedVictim(partial(deadly, "kill"))
    first = victim.pid
    with pytest.raises(VictimDied, match="its process ended: killed, perhaps for want of memory"):
        victim.predict(picture(BLUE))
    assert len(victim.predict(picture())) == 1
    assert victim.pid != first
    leaver = IsolatedVictim(partial(deadly, "exit"))
    with pytest.raises(VictimDied, match="its process ended with code 3"):
        leaver.predict(picture(BLUE))


def test_it_is_not_started_again_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envelope.engine.isolated.MAX_DEATHS", 3)
    victim = IsolatedVictim(partial(deadly, "exit"))
    for _ in range(3):
        with pytest.raises(VictimDied, match="code 3"):
            victim.predict(picture(BLUE))
    with pytest.raises(VictimDied, match="ended 3 times in a row, so it is not started again"):
        victim.predict(picture())


def test_trouble_of_loading() -> None:
    with pytest.raises(InputError, match="run X to get it"):
        IsolatedVictim(refuses)
    with pytest.raises(VictimDied, match="code 7"):
        IsolatedVictim(dies_loading)


def test_changed_weights_are_not_mixed_in(tmp_path: Path) -> None:
    file = tmp_path / "hash"
    file.write_text("one")
    victim = IsolatedVictim(partial(changing, str(file)))
    with pytest.raises(VictimDied):
        victim.predict(picture(BLUE))
    file.write_text("two")
    with pytest.raises(InputError, match="weights have changed while it was in use"):
        victim.predict(picture())


def test_changed_settings_are_not_mixed_in(tmp_path: Path) -> None:
    file = tmp_path / "settings"
    file.write_text("one")
    victim = IsolatedVictim(partial(changing_settings, str(file)))
    with pytest.raises(VictimDied):
        victim.predict(picture(BLUE))
    file.write_text("two")
    for _ in range(2):
        with pytest.raises(InputError, match="settings have changed while it was in use"):
            victim.predict(picture())


def test_the_process_ends_with_the_victim() -> None:
    victim = IsolatedVictim(grounder)
    pid = victim.pid
    assert pid is not None
    del victim
    gc.collect()
    until = time.monotonic() + 10
    while time.monotonic() < until:
        try:
            if os.waitpid(pid, os.WNOHANG) != (0, 0):
                break
        except ChildProcessError:
            break
        time.sleep(0.05)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_only_foreign_victims_get_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert type(load_for_scoring("demo-detector", "stop sign")) is type(
        load_victim("demo-detector")
    )
    (tmp_path / "iso_model.py").write_text(
        "import numpy as np\n"
        "from envelope.victims.protocols import Detections, VictimInfo\n"
        "class Model:\n"
        "    info = VictimInfo('m', 'detector', '', '', (8, 8), 0.5, '', ('stop sign',))\n"
        "    def predict(self, images):\n"
        "        return [Detections(np.zeros((0, 4)), np.zeros(0), ())] * len(images)\n"
    )
    monkeypatch.chdir(tmp_path)
    foreign = load_for_scoring("iso_model:Model", "stop sign")
    assert isinstance(foreign, IsolatedVictim)
    assert foreign.info.name == "iso_model:Model"
    assert [len(a) for a in foreign.predict(picture())] == [0]
    with pytest.raises(InputError, match="near names: stop sign"):
        load_for_scoring("iso_model:Model", "stop sing")


def isolated_slot(how: str) -> VictimSlot:
    return VictimSlot(f"deadly {how}", lambda: IsolatedVictim(partial(deadly, how)), "red board")


@pytest.fixture
def store(tmp_path: Path):
    opened = ScoreStore(tmp_path / "scores.sqlite")
    yield opened
    opened.close()


@pytest.mark.parametrize("how", ["kill", "memory"])
def test_a_sweep_survives_it(store: ScoreStore, how: str) -> None:
    """The blue patch kills the victim: two error rows, everything else scored, nothing counted."""
    good = ColorDetector()
    service = ScoringService(small_stage(), [isolated_slot(how), slot(good)], store)
    service.start(PLAN)
    assert service.wait(120)
    progress = service.progress()
    service.close()
    rows = store.scores()
    status = {(s.victim, s.kind, s.answer.status) for s in rows}
    bad = f"deadly {how}"
    blue = {"adversarial", "overlay"}
    assert {kind for victim, kind, s in status if victim == bad and s == "error"} <= blue
    assert {(bad, "clean", "ok"), (bad, "gray", "ok")} <= status
    assert all(s == "ok" for victim, _, s in status if victim == "colors")
    errors = [s for s in rows if s.answer.status == "error"]
    assert errors
    wanted = "process ended" if how == "kill" else "MemoryError"
    assert all(wanted in s.answer.error for s in errors)
    assert {s.tries for s in errors} == {3}
    assert progress.state == "finished"
    criterion = Criterion("localization", "red board")
    assert all(judge(s.answer, criterion, (0, 0, 9, 9), None).success is None for s in errors)


def test_a_hanging_process_is_ended(store: ScoreStore) -> None:
    """Its time limit ends the process, so that no thread and no memory stays behind."""
    settings = ServiceSettings(call_timeout_s=4.0, tries=1)
    processes = []

    def load() -> IsolatedVictim:
        victim = IsolatedVictim(partial(deadly, "hang"))
        processes.append(victim._process)
        return victim

    hanging = VictimSlot("deadly hang", load, "red board")
    service = ScoringService(small_stage(), [hanging], store, settings=settings)
    plan = SweepPlan({"radius": (1.0,)}, variants=1, kinds=("clean", "adversarial"))
    service.start(plan)
    assert service.wait(60)
    service.close()
    status = {s.kind: s.answer for s in store.scores()}
    assert status["clean"].status == "ok"
    assert status["adversarial"].error == "TimeoutError: no answer within 4 s"
    until = time.monotonic() + 10
    while processes[0].is_alive() and time.monotonic() < until:  # another thread may reap it
        time.sleep(0.1)
    assert not processes[0].is_alive()


def test_loading_again_is_no_part_of_a_call(store: ScoreStore, tmp_path: Path) -> None:
    """It has the limit of loading, and is in nobody's milliseconds."""
    settings = ServiceSettings(call_timeout_s=2.5, tries=1, max_batch=1)
    load = partial(IsolatedVictim, partial(slow_again, str(tmp_path / "loaded")))
    service = ScoringService(
        small_stage(), [VictimSlot("deadly kill", load, "red board")], store, settings=settings
    )
    service.start(SweepPlan({"radius": (1.0,)}, variants=1, kinds=("clean", "adversarial")))
    assert service.wait(60)  # the adversarial picture has ended the process
    assert not (tmp_path / "loaded.again").exists()
    seen = service.score_now(Condition(radius=0.8), 60)
    service.close()
    assert (tmp_path / "loaded.again").exists()
    clean, adversarial = (seen.scores["deadly kill", kind] for kind in ("clean", "adversarial"))
    assert clean.answer.status == "ok"
    assert clean.predict_ms is not None
    assert clean.predict_ms < 1500
    assert "VictimDied: its process ended: killed" in adversarial.answer.error
    assert adversarial.predict_ms is None


def test_stored_answers_are_not_asked_for_again(store: ScoreStore) -> None:
    """The same thing again is read from the store; another prompt or label is another thing."""
    first = ColorGrounder()
    service = ScoringService(small_stage(), [slot(first)], store)
    service.start(PLAN)
    assert service.wait(60)
    service.close()
    asked = sum(first.batches)
    assert asked == 8

    again = ColorGrounder()
    service = ScoringService(small_stage(), [slot(again)], store)
    service.start(PLAN)
    assert service.wait(60)
    seen = service.score_now(Condition(radius=0.8), 60)
    assert {score.answer.status for score in seen.scores.values()} == {"ok", "empty"}
    service.close()
    assert sum(again.batches) == 0
    assert len(store.scores(all_settings=True)) == 8


def test_other_stages_and_settings_have_other_keys(store: ScoreStore) -> None:
    """What can change an answer changes the key: background, size, weights, label, prompt."""
    hashes = {}
    plan = SweepPlan({"radius": (1.0,)}, variants=1, kinds=("clean",))

    def score(name: str, stage_settings: dict, victim: ColorDetector, label: str = "red board"):
        one = VictimSlot(victim.info.name, lambda: victim, label)
        service = ScoringService(small_stage(**stage_settings), [one], store)
        service.start(plan)
        assert service.wait(60)
        hashes[name] = (store.geometry(), service.settings_hash(victim.info.name, "clean"))
        service.close()

    other = ColorDetector()
    other.info = type(other.info)(**{**vars(other.info), "weights_hash": "other weights"})
    nms = ColorDetector()
    nms.info = type(nms.info)(**{**vars(nms.info), "settings": {"nms_iou": 0.3}})
    score("plain", {}, ColorDetector())
    score("again", {}, ColorDetector())
    score("weights", {}, other)
    score("settings", {}, nms)
    score("label", {}, ColorDetector(), "wall")
    score("background", {"background": (0.0, 0.0, 1.0)}, ColorDetector())
    score("size", {"long_side": 160}, ColorDetector())
    score("seed", {"seed": 9}, ColorDetector())
    assert hashes.pop("again") == hashes["plain"]
    assert len(set(hashes.values())) == len(hashes)


def test_a_fault_of_the_engine_stops_one_victim_only(
    store: ScoreStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty, good = ColorDetector("faulty"), ColorDetector()
    service = ScoringService(small_stage(), [slot(faulty), slot(good)], store)
    worker = service._workers["faulty"]
    monkeypatch.setattr(worker, "_row", lambda *_: 1 / 0)
    service.start(PLAN)
    assert service.wait(60)
    progress = service.progress()
    service.close()
    assert progress.victims["faulty"].state == "failed"
    assert "ZeroDivisionError" in progress.victims["faulty"].message
    assert len([s for s in store.scores() if s.victim == "colors"]) == 8


def test_a_stuck_thread_leaves_the_others_their_turn(store: ScoreStore) -> None:
    stuck, good = Stuck("stuck", times=1), ColorDetector()
    service = ScoringService(small_stage(), [slot(stuck), slot(good)], store)
    service.start(PLAN)
    until = time.monotonic() + 30
    while sum(good.batches) < 8 and time.monotonic() < until:
        time.sleep(0.02)
    assert sum(good.batches) == 8
    service.stop()
    stuck.release.set()
    service.close()


def test_a_loading_victim_shows_no_answers_of_older_weights(store: ScoreStore) -> None:
    """The view is looked at while the victim loads; stored rows are of other weights."""
    old = ColorDetector()
    service = ScoringService(small_stage(), [slot(old)], store)
    service.score_now(Condition(), 60)
    service.close()

    for weights, calls in (("other weights", 4), ("weights of colors", 0)):
        new = ColorDetector()
        new.info = type(new.info)(**{**vars(new.info), "weights_hash": weights})
        go = threading.Event()

        def load(new: ColorDetector = new, go: threading.Event = go) -> ColorDetector:
            go.wait(30)
            return new

        service = ScoringService(small_stage(), [VictimSlot("colors", load, "red board")], store)
        service.look_at(Condition())
        until = time.monotonic() + 30
        while (seen := service.scored_view()) is None or len(seen.pictures) < 4:
            assert time.monotonic() < until
            time.sleep(0.02)
        assert not seen.scores
        assert not seen.complete
        go.set()
        while not service.scored_view().complete:  # type: ignore[union-attr]
            assert time.monotonic() < until
            time.sleep(0.02)
        answered = service.scored_view()
        service.close()
        assert sum(new.batches) == calls  # the same weights are answered from the store
        assert answered is not None
        assert len(answered.scores) == 4
        hashes = {score.settings_hash for score in answered.scores.values()}
        current = {service.settings_hash("colors", kind) for kind in answered.pictures}
        assert hashes == current
