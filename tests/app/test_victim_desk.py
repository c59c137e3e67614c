"""Victims: loaded once, chosen in order, problems kept as one sentence beside the victim."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from viewer_fakes import load_red_finder

from app.actions.victims import probe_text
from app.panels.victims import form_text, labelled
from app.victim_desk import VictimDesk, forms, row_name, with_prompt
from envelope.settings import VictimChoice
from scene.errors import InputError


def _victim(name: str, labels: tuple[str, ...] = ()):
    info = SimpleNamespace(
        name=name, kind="detector", labels=labels, licence="", seconds_per_picture=None
    )
    return SimpleNamespace(info=info)


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


def test_victims_are_loaded_one_at_a_time_and_each_once():
    at_work, most, calls = [0], [0], []

    def load(spec: str, label: str):
        at_work[0] += 1
        most[0] = max(most[0], at_work[0])
        calls.append(spec)
        time.sleep(0.05)
        at_work[0] -= 1
        return _victim(spec)

    desk = VictimDesk("stop sign", load)
    threads = [threading.Thread(target=desk.load, args=(name,)) for name in "aabbc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] and sorted(calls) == ["a", "b", "c"]


def test_slots_load_the_victim_they_name_and_ask_for_the_class():
    desk, _ = _desk()
    for name in ("a", "b", "c"):
        desk.choose(name)
    slots = desk.slots()
    assert [slot.load().info.name for slot in slots] == ["a", "b", "c"]
    assert {slot.label for slot in slots} == {"stop sign"}


def test_a_problem_stays_beside_the_victim_until_it_loads():
    desk, _ = _desk(yolov8n="yolov8n: wanted its weights, found a song")
    with pytest.raises(InputError):
        desk.load("yolov8n")
    row = next(row for row in desk.rows() if row.name == "yolov8n")
    assert row.state == "yolov8n: wanted its weights, found a song"
    assert not row.chosen and not row.loading


def test_a_path_that_did_not_load_is_no_victim_to_choose_from():
    spec = "onnx:/nowhere/x.onnx"
    desk, _ = _desk(**{spec: "there is no file /nowhere/x.onnx"})
    before = [row.spec for row in desk.rows()]
    with pytest.raises(InputError):
        desk.load(spec)
    assert [row.spec for row in desk.rows()] == before
    desk.choose(spec)  # as a run does whose weights have gone
    lost = next(row for row in desk.rows() if row.spec == spec)
    assert lost.chosen and lost.state == "there is no file /nowhere/x.onnx"


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


@pytest.mark.parametrize(
    ("spec", "prompt", "wanted"),
    [
        ("qwen", "p1", "qwen?prompt=p1"),
        ("qwen?prompt=p1", "p2", "qwen?prompt=p2"),
        ("qwen:/a b?side=448&prompt=p3", "native", "qwen:/a b?side=448"),
        ("qwen", "native", "qwen"),
    ],
)
def test_a_prompt_is_chosen_in_the_spec(spec, prompt, wanted):
    assert with_prompt(spec, prompt) == wanted
    assert row_name(wanted).endswith(f"({prompt})") is (prompt != "native")


def test_one_model_scores_under_one_prompt_at_a_time():
    desk, _ = _desk()
    for spec in ("a", "qwen", "qwen?prompt=p1"):
        desk.choose(spec)
    assert desk.chosen == ("a", "qwen?prompt=p1")
    assert [choice.name for choice in desk.choices()] == ["a", "qwen"]


def test_a_namesake_is_refused_and_the_chosen_ones_stay():
    """Two of one name were both kept, and every later change was then refused."""
    desk, calls = _desk()
    desk.choose("a")
    desk.choose("onnx:/m/net.onnx")
    for spec in ("onnx:/m/net.onnx?preset=yolox", "onnx:/other/net.onnx"):
        for refuse in (desk.may_choose, desk.choose):
            with pytest.raises(InputError, match=r"onnx:/m/net\.onnx is scored under the name net"):
                refuse(spec)
    assert desk.chosen == ("a", "onnx:/m/net.onnx") and calls == []
    desk.may_choose("onnx:/m/net.onnx")
    desk.leave_out("onnx:/m/net.onnx")
    desk.choose("onnx:/other/net.onnx")
    assert [choice.name for choice in desk.choices()] == ["a", "net"]


def test_a_name_that_a_run_gave_counts_not_the_one_of_the_path():
    desk, _ = _desk()
    desk.take([VictimChoice("onnx:/m/net.onnx", name="ours")], "stop sign")
    desk.choose("onnx:/other/net.onnx")
    assert [choice.name for choice in desk.choices()] == ["ours", "net"]
    with pytest.raises(InputError, match="under the name ours"):
        desk.choose("ours")


def test_the_pace_of_a_model_by_path_is_known_once_it_was_asked(monkeypatch):
    monkeypatch.setattr(
        "envelope.victims.timings.known_seconds", lambda: {"onnx:/m/net.onnx": 0.061}
    )
    desk, _ = _desk()
    desk.load("onnx:/m/net.onnx?preset=yolox")
    assert next(row for row in desk.rows() if row.name == "net").seconds == 0.061


def test_rows_say_licence_command_and_prompts_of_what_is_not_here():
    rows = {row.name: row for row in VictimDesk("stop sign").rows()}
    demo = rows["demo-detector"]
    assert demo.available and demo.licence == "Apache-2.0" and demo.command == ""
    absent = [row for row in rows.values() if not row.available]
    assert absent and all(row.command and row.licence for row in absent)
    grounders = [row for row in absent if row.kind == "grounder"]
    assert grounders and all("p3" in row.prompts for row in grounders)


def test_models_are_named_by_path_as_the_registry_lists_them():
    known = {form.name: form for form in forms()}
    assert known["onnx"].spec(" /m/a.onnx ", "?preset=yolox") == "onnx:/m/a.onnx?preset=yolox"
    assert "preset" in form_text(known["onnx"])
    home = known["onnx"].spec("~/a.onnx", "")
    assert home.endswith("/a.onnx") and "~" not in home
    own = next(form for form in known.values() if form.name.isupper())
    assert own.spec("my_models:make", "") == "my_models:make"
    assert known["onnx"].spec("/m/a.onnx?preset=yolox", "iou=0.5") == (
        "onnx:/m/a.onnx?preset=yolox&iou=0.5"
    )
    with pytest.raises(InputError, match=r"^onnx: wanted a path \(FILE\), found an empty field$"):
        known["onnx"].spec("  ", "")


def test_menu_lines_are_distinct():
    rows = VictimDesk("stop sign").rows()
    twin = replace(rows[0], spec=f"onnx:/elsewhere/{rows[0].name}.onnx")
    assert len(labelled([*rows, twin])) == len(rows) + 1


def test_namesakes_in_different_states_are_told_apart():
    """One that scores and one left out differed by their sign only."""
    row = VictimDesk("stop sign").rows()[0]
    plain = replace(row, spec="onnx:/m/net.onnx", name="net", chosen=True)
    other = replace(row, spec="onnx:/m/net.onnx?preset=yolox", name="net", chosen=False)
    assert list(labelled([plain, other, row])) == [
        "● net (no options)", "○ net?preset=yolox", f"○ {row.name}",
    ]  # fmt: skip
    twin = replace(other, spec="onnx:/other/net.onnx?preset=yolox")
    assert list(labelled([other, twin])) == [f"○ {other.spec}", f"○ {twin.spec}"]


def test_what_a_model_said_in_a_probe_is_cut_to_a_line():
    look = SimpleNamespace(place="top left", overlap=0.914, said="<img onerror=x>\n" * 40)
    report = SimpleNamespace(verdict="it lands", seconds=0.0123, looks=(look,))
    text = probe_text(report)
    assert text.splitlines()[:2] == ["it lands", "0.0123 s a picture"]
    assert len(text.splitlines()) == 3 and "IoU 0.91" in text and len(text) < 200


def test_a_load_is_told_when_it_begins_and_when_it_ends_either_way():
    """A tab that was only drawn anew at the end never said "loading"."""
    seen: list[tuple[str, str]] = []

    def load(spec, label):
        if spec == "yolov8n":
            raise InputError("no weights")
        return load_red_finder(spec, label)

    desk = VictimDesk("stop sign", load)

    def now() -> None:
        rows = {row.spec: row for row in desk.rows()}
        seen.extend((spec, rows[spec].state) for spec in specs if spec in rows)

    desk.on_change = now
    specs = ["red-finder"]
    desk.load("red-finder")
    assert seen == [("red-finder", "loading…"), ("red-finder", "detector, left out")]
    seen.clear()
    specs = ["yolov8n"]
    with pytest.raises(InputError):
        desk.load("yolov8n")
    assert ("yolov8n", "loading…") in seen and seen[-1] == ("yolov8n", "no weights")
