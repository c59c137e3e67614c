"""The dock's numbers in words, and when they are read again."""

from __future__ import annotations

from types import SimpleNamespace

from app.readings import Readings
from app.summary import summarize_sweep
from envelope.cells import ScoreTable
from envelope.condition import Condition
from envelope.observe import Observation
from envelope.outcome import Answer, Criterion
from envelope.store import Row, Score, ScoreStore, View
from envelope.sweep import SweepPlan

ANCHOR = Condition()
SEEN = Observation(3000, 3200, (10.0, 20.0, 50.0, 100.0), 300, (20.0, 40.0, 40.0, 60.0))
VIEW = View("v", "geo", ANCHOR, ANCHOR, SEEN)


def _score(answer: Answer, kind: str = "adversarial", settings: str = "old") -> Score:
    return Score("v", kind, "victim", settings, "person", "", answer)


def test_a_targeted_attack_that_fails_is_no_proof_that_the_victim_was_right():
    bus = Answer("classifier", "ok", top=(("bus", 0.9),))
    rows = [Row(VIEW, _score(bus, kind)) for kind in ("clean", "gray", "adversarial")]
    criterion = Criterion("targeted", "person", target_label="car")
    table = ScoreTable(rows, {"v": VIEW}, lambda victim, kind: criterion)
    found = summarize_sweep(table, "victim", "ASR", "asr", ["holds"])
    assert "fails without the patch: on clean 1.00 (1/1), on gray 1.00 (1/1)" in found.lines
    assert "right on only 0.00 of clean renders" in found.caution


def test_a_sweep_that_is_not_through_says_where_it_began():
    nothing = Row(VIEW, _score(Answer("detector", "empty")))
    table = ScoreTable([nothing], {"v": VIEW}, lambda *_: Criterion("localization", "person"))
    part = summarize_sweep(table, "victim", "ASR", "asr", ["works", "unscored"])
    assert part.lines[0].startswith(
        "1 of 2 conditions scored, 0 not observable, nearest to the anchor first"
    )
    whole = summarize_sweep(table, "victim", "ASR", "asr", ["works", "unobservable"])
    assert "nearest" not in whole.text


def test_rates_of_a_victims_old_weights_go_when_it_comes_back_with_others(tmp_path):
    store = ScoreStore(tmp_path / "s.sqlite")
    store.add_view(VIEW)
    store.add_settings("old", "victim", "adversarial", {})
    store.add_scores([_score(Answer("detector", "empty"))], VIEW)
    readings = Readings()
    readings.attach(
        SimpleNamespace(
            plan=SweepPlan({"azimuth_deg": (0.0,)}, variants=1),
            store=store,
            stage=SimpleNamespace(geometry="geo"),
            run=SimpleNamespace(criterion=lambda *_: Criterion("localization", "person")),
        )
    )
    assert readings.table().rate("victim", "asr").denominator == 1
    store.add_settings("new", "victim", "adversarial", {})
    assert readings.table().rate("victim", "asr").denominator == 0
    store.close()
