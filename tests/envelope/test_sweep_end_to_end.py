"""A wall, a red board and a blue patch: from plan to rates, on the real renderer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from envelope_fakes import (
    Broken,
    ColorClassifier,
    ColorDetector,
    ColorGrounder,
    Stuck,
    slot,
    small_adversarial,
    small_stage,
)

from envelope.condition import Condition, condition_camera
from envelope.engine.jobs import ServiceSettings, VictimSlot
from envelope.engine.local import ScoringService
from envelope.observe import Observation
from envelope.run import Reading, Run, RunSettings, VictimChoice, create_run, open_run
from envelope.stage import Stage, StageSettings
from envelope.store import ScoreStore
from envelope.summary import summarize
from envelope.sweep import SweepPlan
from envelope.victims import timings
from envelope.victims.protocols import Detections
from scene.errors import InputError
from scene.scene import load_scene, save_scene

PLAN = SweepPlan({"azimuth_deg": (-60, -30, 0, 30, 60), "radius": (0.6, 1.0, 2.0)}, variants=2)


@pytest.fixture(scope="module")
def stage() -> Stage:
    return small_stage()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ScoreStore]:
    opened = ScoreStore(tmp_path / "scores.sqlite")
    yield opened
    opened.close()


def swept(service: ScoringService, plan: SweepPlan = PLAN, timeout_s: float = 240) -> None:
    service.start(plan)
    assert service.wait(timeout_s)


def test_truth_of_the_anchor_view(stage: Stage) -> None:
    key, actual, camera = stage.place(Condition())
    assert np.array_equal(camera.camera_from_world, stage.camera_at_anchor.camera_from_world)
    seen = stage.observe(key, Condition(), actual, camera, stage.clean(camera)).observation
    # the board reaches from -1 to 1 at 5.5 before the camera, focal 150 / 2 / tan(22.5) = 181
    half = 181.07 / 5.5
    assert seen.box is not None
    np.testing.assert_allclose(seen.box, [100 - half, 75 - half, 100 + half, 75 + half], atol=1.6)
    assert seen.visible_px == pytest.approx((2 * half) ** 2, rel=0.06)
    assert seen.silhouette_px == pytest.approx(seen.visible_px, rel=0.02)
    # the patch is 0.8 wide at 5.48
    assert seen.patch_px == pytest.approx((0.8 * 181.07 / 5.48) ** 2, rel=0.1)
    assert seen.incidence_deg == pytest.approx(0, abs=1e-3)
    assert seen.observable
    assert not seen.extrapolated
    assert not seen.patch_hidden


def test_observability_and_tags(stage: Stage) -> None:
    def seen(condition: Condition) -> Observation:
        key, actual, camera = stage.place(condition)
        return stage.observe(key, condition, actual, camera, stage.clean(camera)).observation

    away = seen(Condition(yaw_deg=30, focal=2.0))
    assert (away.observable, away.unobservable_because) == (False, "target not in view")
    tiny = seen(Condition(radius=14.0))
    assert tiny.unobservable_because.endswith("px high")
    part = seen(Condition(shift_x=0.6))
    assert part.unobservable_because.startswith("only")
    assert 0 < part.visible_share < 0.25
    assert seen(Condition(azimuth_deg=60)).extrapolated
    assert seen(Condition(azimuth_deg=60)).incidence_deg == pytest.approx(60, abs=0.01)
    behind = seen(Condition(azimuth_deg=120))
    assert behind.patch_hidden
    assert behind.footprint is None


def test_sweep_scores_everything_once_and_draws_once_for_all_victims(
    stage: Stage, store: ScoreStore
) -> None:
    victims = [ColorDetector(), ColorGrounder(), ColorClassifier()]
    service = ScoringService(stage, [slot(v) for v in victims], store)
    before = stage.renders
    swept(service)
    progress = service.progress()
    service.close()
    views = 15 * 2
    assert store.counts() == {"views": views, "scores": views * 4 * 3, "errors": 0}
    # clean, gray and adversarial are drawn once per camera; the overlay is pasted
    assert stage.renders - before == views * 3
    assert sum(victims[0].batches) == views * 4
    assert (progress.state, progress.done, progress.left) == ("finished", views * 12, 0)
    assert progress.views_done == views
    assert {v.state for v in progress.victims.values()} == {"ready"}


def test_resume_repeats_nothing_and_a_wider_plan_adds_only_what_is_new(
    stage: Stage, store: ScoreStore
) -> None:
    first = ColorDetector()
    service = ScoringService(stage, [slot(first)], store)
    swept(service)
    service.close()
    second = ColorDetector()
    service = ScoringService(stage, [slot(second)], store)
    before = stage.renders
    swept(service)
    assert (second.batches, stage.renders - before) == ([], 0)
    # 15 cells with a third variant: 15 more views
    swept(service, replace(PLAN, variants=3))
    assert sum(second.batches) == 15 * 4
    service.close()
    assert store.counts()["scores"] == 45 * 4


def test_other_weights_score_again_and_are_not_mixed(stage: Stage, store: ScoreStore) -> None:
    for weights in ("a", "b"):
        victim = ColorDetector()
        victim.info = replace(victim.info, weights_hash=weights)
        service = ScoringService(stage, [slot(victim)], store)
        swept(service, SweepPlan({"radius": (1.0,)}, variants=1))
        service.close()
    assert len(store.scores()) == 4
    assert len(store.scores(all_settings=True)) == 8


def test_unobservable_views_are_not_scored(stage: Stage, store: ScoreStore) -> None:
    victim = ColorDetector()
    service = ScoringService(stage, [slot(victim)], store)
    swept(service, SweepPlan({"yaw_deg": (0, 30)}, Condition(focal=2.0), variants=1))
    progress = service.progress()
    service.close()
    assert sum(victim.batches) == 4
    assert (progress.done, progress.skipped, progress.left) == (4, 4, 0)
    assert store.counts()["views"] == 2


def test_the_view_that_is_looked_at_comes_first(stage: Stage, store: ScoreStore) -> None:
    victim = ColorDetector(delay_s=0.01)
    service = ScoringService(stage, [slot(victim)], store)
    service.start(PLAN)
    time.sleep(0.3)
    here = Condition(azimuth_deg=7.3, radius=1.3)
    view = service.score_now(here, timeout_s=120)
    assert service.progress().state == "running"
    assert view.complete
    assert view.condition == here
    assert set(view.pictures) == {"clean", "gray", "adversarial", "overlay"}
    assert set(view.scores) == {("colors", kind) for kind in view.pictures}
    assert view.observation is not None and view.observation.observable
    assert 0 < view.seconds < 60
    # looking again reads the stored answers
    asked = sum(victim.batches)
    again = service.score_now(here)
    assert again.scores == view.scores
    service.pause()
    time.sleep(1.0)
    paused_at = sum(victim.batches)
    service.score_now(Condition(3))
    time.sleep(0.3)
    assert sum(victim.batches) == paused_at + 4  # the user's view alone
    assert asked <= paused_at
    service.resume()
    assert service.wait(240)
    service.close()
    assert len([s for s in store.scores() if s.origin == "sweep"]) == 30 * 4


def test_cells_nearest_to_the_view_are_scored_first(stage: Stage, store: ScoreStore) -> None:
    victim = ColorDetector()
    service = ScoringService(stage, [slot(victim)], store)
    service.score_now(Condition(azimuth_deg=58, radius=1.9))
    swept(service)
    service.close()
    order = [store.view(s.view_id).nominal for s in store.scores() if s.origin == "sweep"]  # type: ignore[union-attr]
    assert order[0] == Condition(azimuth_deg=60, radius=2.0)
    assert (order[-1].azimuth_deg, order[-1].radius) == (-60, 0.6)


def test_stop_and_start_again(stage: Stage, store: ScoreStore) -> None:
    victim = ColorDetector(delay_s=0.02)
    service = ScoringService(stage, [slot(victim)], store)
    service.start(PLAN)
    while store.counts()["scores"] < 8:
        time.sleep(0.01)
    service.stop()
    assert service.wait(60)
    assert service.progress().state == "stopped"
    time.sleep(1.0)
    part = store.counts()["scores"]
    assert part < 120
    swept(service)
    service.close()
    assert sum(victim.batches) == 120
    assert store.counts()["scores"] == 120


def test_a_crashing_victim_leaves_the_others_alone(stage: Stage, store: ScoreStore) -> None:
    def dark(call: int, images: np.ndarray) -> bool:
        return True

    broken, good = Broken("broken", dark), ColorDetector()
    missing = VictimSlot(
        "missing", lambda: (_ for _ in ()).throw(InputError("run X to get it")), "red board"
    )
    service = ScoringService(stage, [slot(broken), slot(good), missing], store)
    swept(service, SweepPlan({"radius": (0.8, 1.0)}, variants=1))
    progress = service.progress()
    service.close()
    rows = store.scores()
    assert {(s.victim, s.answer.status) for s in rows} == {("broken", "error"), ("colors", "ok")}
    assert {s.answer.error for s in rows if s.victim == "broken"} == {"RuntimeError: out of ideas"}
    assert {s.tries for s in rows if s.victim == "broken"} == {3}
    assert progress.victims["missing"].state == "failed"
    assert progress.victims["missing"].message == "run X to get it"
    assert progress.state == "finished"
    assert progress.left == 0
    # errors are asked again only on request
    assert len(store.done()) == 16
    assert len(store.done(with_errors=False)) == 8


def test_a_crash_now_and_then_is_retried(stage: Stage, store: ScoreStore) -> None:
    flaky = Broken("flaky", lambda call, images: call % 2 == 1)
    service = ScoringService(stage, [slot(flaky)], store)
    swept(service, SweepPlan({"radius": (0.8, 1.0)}, variants=1))
    service.close()
    assert {s.answer.status for s in store.scores()} == {"ok"}
    assert max(s.tries for s in store.scores()) == 2


def test_a_victims_time_is_a_median_of_seven_calls(stage: Stage, store: ScoreStore) -> None:
    """Of calls 3 to 9: two slow first ones, and two on a busy machine, do not count."""

    class Uneven(ColorDetector):
        def predict(self, images: np.ndarray) -> list[Detections]:
            time.sleep(0.3 if len(self.batches) + 1 in (1, 2, 3, 6) else 0.02)
            return super().predict(images)

    victim = Uneven("demo-detector")
    service = ScoringService(stage, [slot(victim)], store, settings=ServiceSettings(max_batch=1))
    swept(service, SweepPlan({"radius": (0.8, 1.0, 1.2)}, variants=1))
    service.close()
    assert len(victim.batches) == 12
    assert len(json.loads(timings.timings_file().read_text())["demo-detector"]) == 7
    assert 0.02 < timings.known_seconds()["demo-detector"] < 0.2


def test_errors_are_asked_again_on_request(stage: Stage, store: ScoreStore) -> None:
    plan = SweepPlan({"radius": (1.0,)}, variants=1)
    victim = Broken("moody", lambda call, images: call <= 12)
    service = ScoringService(stage, [slot(victim)], store)
    swept(service, plan)
    assert store.counts() == {"views": 1, "scores": 4, "errors": 4}
    swept(service, plan)
    assert victim.calls == 12
    service.start(plan, retry_errors=True)
    assert service.wait(240)
    service.close()
    assert store.counts() == {"views": 1, "scores": 4, "errors": 0}


def test_a_call_that_hangs_is_given_up(stage: Stage, store: ScoreStore) -> None:
    stuck, good = Stuck("stuck", times=3), ColorDetector()
    settings = ServiceSettings(call_timeout_s=0.2)
    service = ScoringService(stage, [slot(stuck), slot(good)], store, settings=settings)
    swept(service, SweepPlan({"radius": (1.0,)}, variants=1))
    service.close()
    stuck.release.set()
    found = [s for s in store.scores() if s.victim == "stuck"]
    errors = [s for s in found if s.answer.status == "error"]
    assert len(found) == 4
    assert [s.answer.error for s in errors] == ["TimeoutError: no answer within 0.2 s"]
    assert all(s.answer.status == "ok" for s in store.scores() if s.victim == "colors")


def make_run(folder: Path) -> Run:
    """A run folder over a saved small scene; the color victims are not in the registry."""
    adversarial, target, patch = small_adversarial()
    save_scene(adversarial.scene, folder / "small.ply")
    scene = load_scene(folder / "small.ply")
    settings = RunSettings(
        StageSettings(up=scene.up, long_side=200, seed=4),
        Reading("red board"),
        (VictimChoice("colors"), VictimChoice("words")),
        PLAN,
    )
    made = replace(adversarial, scene=scene)
    return create_run(folder / "run", made, folder / "small.ply", settings, patch, target, "test")


def test_run_summary_by_hand(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    service = ScoringService(
        run.stage(threads=1), [slot(ColorDetector()), slot(ColorGrounder())], run.store
    )
    swept(service)
    service.close()
    facts = summarize(run)
    run.close()
    assert facts["views"] == {
        "planned": 30, "drawn": 30, "observable": 30, "patch_hidden": facts["views"]["patch_hidden"],
        "extrapolated": facts["views"]["extrapolated"],
    }  # fmt: skip
    for name in ("colors", "words"):
        victim = facts["victims"][name]
        assert victim["right"]["clean"]["value"] == 1.0
        assert victim["right"]["gray"]["value"] == 1.0
        # the blue patch fills 16 % of the board head-on: the victim fails there
        assert victim["near_anchor"]["cells"] == 9
        assert victim["near_anchor"]["casr"]["value"] == 1.0
        casr, asr = victim["kinds"]["adversarial"]["casr"], victim["kinds"]["adversarial"]["asr"]
        assert casr["numerator"] == asr["numerator"]
        modes = victim["kinds"]["adversarial"]["modes"]
        assert sum(m["numerator"] for m in modes.values()) == casr["numerator"]
        assert len(victim["cells"]) == 15
        assert victim["regions"]["asr"]["extent"]["azimuth_deg"]["low"] <= 0
    assert facts["victims"]["words"]["kinds"]["adversarial"]["omissions"].keys() == {"empty"}
    assert facts["victims"]["colors"]["ends"]["far"]["cells"] == 5
    assert facts["victims"]["colors"]["ends"]["oblique"]["cells"] == 6
    both = facts["victims"]["colors"]["ends"]["far_or_oblique"]
    assert both["cells"] == 9
    # the nine cells around the anchor reach out to radius 2 here: only the oblique ones are left
    assert both["casr_drop"]["conditions"] == 9 + 6


CHILD = """
import sys
sys.path.insert(0, {tests!r})
from envelope_fakes import ColorDetector, slot
from envelope.engine.local import ScoringService
from envelope.run import open_run
run = open_run(sys.argv[1])
service = ScoringService(run.stage(threads=1), [slot(ColorDetector(delay_s=0.03))], run.store)
service.start(run.settings.sweep)
service.wait()
"""


def test_kill_9_in_mid_sweep_and_resume(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    root, here = Path(__file__).resolve().parents[2], Path(__file__).parent
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD.format(tests=str(here)), str(run.folder)],
        cwd=root, env={**os.environ, "PYTHONPATH": str(root)},
    )  # fmt: skip
    until = time.time() + 240
    while run.store.counts()["scores"] < 20 and time.time() < until and child.poll() is None:
        time.sleep(0.02)
    child.send_signal(signal.SIGKILL)
    child.wait()
    kept = run.store.counts()["scores"]
    assert 20 <= kept < 120
    old = {s.key: s for s in run.store.scores()}
    again = open_run(run.folder)
    victim = ColorDetector()
    service = ScoringService(again.stage(threads=1), [slot(victim)], again.store)
    swept(service)
    service.close()
    assert sum(victim.batches) == 120 - kept
    assert again.store.counts()["scores"] == 120
    assert {s.key: s for s in again.store.scores() if s.key in old} == old
    again.close()
    run.close()


def test_condition_camera_is_what_was_scored(stage: Stage, store: ScoreStore) -> None:
    service = ScoringService(stage, [slot(ColorDetector())], store)
    view = service.score_now(Condition(20, 10, 1.2, roll_deg=5, variant=2))
    service.close()
    stored = next(iter(store.views().values()))
    assert stored.nominal == Condition(20, 10, 1.2, roll_deg=5, variant=2)
    assert stored.actual.azimuth_deg != 20
    camera = condition_camera(stored.actual, stage.camera_at_anchor, stage.pivot, (0, 1, 0))
    np.testing.assert_array_equal(camera.camera_from_world, view.camera.camera_from_world)
