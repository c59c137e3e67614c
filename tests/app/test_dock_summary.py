"""The Envelope dock's words: counts, interval, caution and settings beside every number."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from app.panels.common import Notice, plain_name
from app.panels.envelope import details, headline, pooled
from app.panels.victim_view import VictimViewPanel, answers_text, describe_view, legend
from app.summary import Summary, settings_text, summarize_sweep, victim_troubles
from app.views import Said, ViewScores
from envelope.cells import ScoreTable
from envelope.condition import Condition
from envelope.metrics import Rate
from envelope.outcome import Criterion
from envelope.sweep import SweepPlan


class _Table:
    """Rates by hand: 9 conditions of 3 samples; the victim fails on 20 of 27 without a patch."""

    def __init__(self) -> None:
        self.errors = {("v", "clean"): 2, ("v", "gray"): 1, ("other", "clean"): 5}

    def rate(self, victim, measure, kind="adversarial"):
        assert victim == "v"
        if measure == "accuracy":
            assert kind in ("clean", "gray")
            return Rate(7 / 27, 7, 27, 9, 0.1, 0.5, "cluster bootstrap, 95 %")
        if measure == "casr":
            return Rate(None, 0, 0, 0)
        return Rate(2 / 3, 18, 27, 9, 0.41, 0.88, "cluster bootstrap, 95 %")


STATES = ["works"] * 6 + ["holds"] * 3 + ["unobservable"] * 2 + ["unscored"]


def _summary() -> Summary:
    table: ScoreTable = _Table()  # type: ignore[assignment]
    return summarize_sweep(table, "v", "ASR", "asr", STATES)


def test_the_rate_comes_with_interval_counts_and_what_is_scored():
    found = _summary()
    assert found.value == "ASR 0.67 [0.41, 0.88]"
    assert found.basis == "(18/27 samples, 9 conditions; cluster bootstrap, 95 %)"
    assert found.lines[0] == (
        "9 of 12 conditions scored, 2 not observable, nearest to the anchor first; "
        "ASR at least 1/2 in 6"
    )
    assert "cASR undefined (0/0 samples, 0 conditions)" in found.lines
    assert "fails without the patch: on clean 0.74 (20/27), on gray 0.74 (20/27)" in found.lines
    # the other victim's five errors are not this one's
    assert "3 answers were errors and are in no count" in found.lines


def test_a_caution_stands_above_the_map_with_the_number_that_it_is_about():
    found = _summary()
    assert found.caution.startswith("caution: right on only 0.26 of clean")
    above = headline(found)
    for words in (found.value, found.basis, found.lines[0], found.caution):
        assert words in above
    assert found.caution not in details(found)


def test_nothing_scored_is_said_without_a_rate():
    table: ScoreTable = _Table()  # type: ignore[assignment]
    found = summarize_sweep(table, "v", "ASR", "asr", ["unscored"] * 4)
    assert found.value == "not scored yet" and not found.basis
    assert found.lines[0] == "0 of 4 conditions scored, 0 not observable"


@pytest.mark.parametrize(
    ("answers", "criterion", "words"),
    [
        ("detector", Criterion("localization", "stop sign", 0.4, 0.6), "gamma 0.4, tau 0.6, "),
        ("grounder", Criterion("localization", "stop sign", 0.4, 0.6), "sign, tau 0.6, "),
        ("classifier", Criterion("untargeted", "stop sign"), "untargeted of stop sign, 5 var"),
    ],
)
def test_settings_say_how_answers_were_read_and_where_other_axes_stand(answers, criterion, words):
    plan = SweepPlan({"radius": (1.0, 2.0)}, Condition(elevation_deg=10), 5)
    stage = SimpleNamespace(
        camera_at_anchor=SimpleNamespace(width=640, height=360), settings=SimpleNamespace(seed=7)
    )
    text = settings_text(criterion, answers, plan, stage)
    assert words in text
    assert text.endswith("5 variants, seed 7, 640x360 px, at elevation 10")
    assert ("gamma" in text) == (answers == "detector")


def test_curves_say_what_a_point_pools():
    text = pooled(Summary("x", settings="tau 0.5"), "azimuth °", ("azimuth °", "radius ×"))
    assert "each point pools all values of radius ×" in text and "tau 0.5" in text
    assert "pools" not in pooled(Summary("x"), "azimuth °", ())


def test_a_victim_that_does_not_answer_is_named_with_its_reason():
    text = victim_troubles(
        {
            "a": ("loading", ""),
            "b": ("ready", ""),
            "c": ("failed", "c: no weights: run this"),
            "d": ("failed", ""),
            "e": ("ready", "timed out twice"),
        }
    )
    assert text.splitlines() == [
        "a is loading: its scores come later",
        "c does not score: no weights: run this",
        "d does not score: it could not be loaded",
        "e: timed out twice",
    ]


def test_names_in_the_legend_can_mean_nothing_in_html():
    evil = '<img src=x onerror="alert(1)">'
    assert plain_name(evil) == "_img src_x onerror__alert_1___"
    shown = legend(("demo-detector", evil))
    assert "1: demo-detector" in shown and "<img" not in shown and 'onerror="' not in shown
    assert len(plain_name("n" * 99)) == 30


def test_a_view_without_an_answer_was_drawn_not_scored():
    condition = Condition(azimuth_deg=-30)
    assert describe_view(ViewScores(condition, seconds=0.5)) == "observable, drawn in 0.50 s"
    said = {("v", "clean"): Said("found it", success=False)}
    scored = ViewScores(condition, said=said, seconds=0.5)
    assert describe_view(scored) == "observable, scored in 0.50 s"
    assert answers_text(scored, ("w", "v")).splitlines()[0] == "2: v"


def test_the_answers_of_the_victim_whose_envelope_is_shown_come_first():
    said = {(name, "clean"): Said(f"{name} found it", success=False) for name in ("u", "v", "w")}
    scores = ViewScores(Condition(), said=said)
    heads = answers_text(scores, ("u", "v", "w"), "w").splitlines()[::2]
    assert heads == ["3: w", "1: u", "2: v"]
    assert answers_text(scores, ("u", "v", "w"), "gone").startswith("1: u\n  clean: u found it")


def test_a_problem_is_announced_where_its_panel_may_be_scrolled_away():
    gui = SimpleNamespace(
        add_text=lambda label, value, **_: SimpleNamespace(value=value, visible=False)
    )
    heard: list[str] = []
    notice = Notice(gui, announce=heard.append)
    notice.say("no weights")
    assert heard == ["no weights"] and notice._field.visible
    notice.clear()
    assert not notice._field.visible and heard == ["no weights"]


class _Gui:
    """Elements as viser makes them, as far as a panel assigns to them."""

    def __getattr__(self, name):
        def add(*values, **options):
            fields = {"value": values[-1], "content": values[0], "image": values[0]}
            return SimpleNamespace(**fields, visible=options.get("visible", True))

        return add


def test_pictures_of_another_view_are_never_shown_under_the_new_ones_name():
    """While a view is drawn the last pictures stay; the line above them said the new condition."""
    camera = SimpleNamespace(width=64, height=48)
    readings = SimpleNamespace(victims=lambda: ("v",), shown_victim=lambda: "v")
    session = SimpleNamespace(anchor_camera=camera, readings=readings)
    panel = VictimViewPanel(_Gui(), session)
    old, new = Condition(azimuth_deg=-30), Condition(azimuth_deg=20)
    picture = {"clean": np.zeros((48, 64, 3), np.uint8)}
    panel.refresh(ViewScores(new))
    assert "<b>azimuth 20</b>: drawing…<" in panel._where.content
    panel.refresh(ViewScores(old, picture))
    assert "<b>azimuth -30</b>: observable" in panel._where.content
    panel.refresh(ViewScores(new))
    assert "<b>azimuth 20</b>: drawing…; below still azimuth -30" in panel._where.content
    panel.refresh(ViewScores(new, error="no <b>memory</b>"))
    assert "not drawn; below still azimuth -30" in panel._where.content
    assert "memory" not in panel._where.content and panel.notice._field.visible
    assert panel.notice._field.value == "azimuth 20 could not be drawn: no <b>memory</b>"
    panel.refresh(ViewScores(new, picture))
    assert "<b>azimuth 20</b>: observable" in panel._where.content
    assert not panel.notice._field.visible
