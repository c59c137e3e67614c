"""Victims: loaded once, chosen in order, problems kept as one sentence beside the victim."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from app.victim_desk import VictimDesk
from scene.errors import InputError


def _victim(name: str, labels: tuple[str, ...] = ()):
    return SimpleNamespace(info=SimpleNamespace(name=name, kind="detector", labels=labels))


def _desk(**problems: str) -> tuple[VictimDesk, list[str]]:
    calls: list[str] = []

    def load(spec: str, label: str):
        calls.append(spec)
        if spec in problems:
            raise InputError(problems[spec])
        return _victim(spec, ("stop sign", "car"))

    return VictimDesk("stop sign", load), calls


def test_a_victim_is_loaded_once_however_often_it_is_chosen():
    desk, calls = _desk()
    for _ in range(2):
        desk.choose("a")
        desk.load("a")
        desk.leave_out("a")
    desk.choose("b")
    desk.choose("a")
    assert desk.chosen == ("b", "a")
    for slot in desk.slots():
        assert slot.load().info.name == slot.name
    assert calls == ["a", "b"]


def test_slots_load_the_victim_they_name_and_ask_for_the_class():
    desk, _ = _desk()
    for name in ("a", "b", "c"):
        desk.choose(name)
    slots = desk.slots()
    assert [slot.load().info.name for slot in slots] == ["a", "b", "c"]
    assert {slot.label for slot in slots} == {"stop sign"}


def test_a_problem_stays_beside_the_victim_until_it_loads():
    desk, _ = _desk(bad="bad: wanted an ONNX file, found a song")
    with pytest.raises(InputError):
        desk.load("bad")
    row = next(row for row in desk.rows() if row.name == "bad")
    assert row.state == "bad: wanted an ONNX file, found a song"
    assert not row.chosen and not row.loading


def test_the_roster_is_listed_without_its_forms():
    names = [row.name for row in VictimDesk("stop sign").rows()]
    assert names[:3] == ["demo-detector", "demo-classifier", "demo-grounder"]
    assert "onnx" not in names and "paligemma" not in names


def test_a_class_that_a_closed_victim_does_not_know_is_refused():
    desk, _ = _desk()
    desk.choose("a")
    desk.load("a")
    with pytest.raises(InputError, match="zebra"):
        desk.set_label("zebra")
    assert desk.label == "stop sign"
    desk.set_label("car")
    assert desk.slots()[0].label == "car"
