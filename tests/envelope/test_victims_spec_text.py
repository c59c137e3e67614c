"""What of a spec may be shown: no sentence, log line or store repeats a password or a key."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelope.settings import VictimChoice
from envelope.victims.registry import check_victim, load_victim, shown
from envelope.victims.spec_text import HIDDEN, shown_option, shown_spec
from envelope.victims.timings import known_seconds, note_seconds
from scene.errors import InputError

KEY = "sk-very-secret-123"


@pytest.mark.parametrize(
    ("spec", "known", "shown"),
    [
        ("demo-detector", (), "demo-detector"),
        ("onnx:/a@b/c.onnx?preset=yolox", ("preset",), "onnx:/a@b/c.onnx?preset=yolox"),
        ("onnx:c.onnx?preset=yolox&k=1", ("preset",), f"onnx:c.onnx?preset=yolox&k={HIDDEN}"),
        ("api:http://h/v1?model=m&key=MY_KEY", ("model", "key"), f"api:http://h/v1?model=m&key={HIDDEN}"),
        (f"api:http://me:{KEY}@h/v1?model=m", ("model",), f"api:{HIDDEN}"),
        (f"api:http://me:p?{KEY}@h/v1?model=m", ("model",), f"api:{HIDDEN}"),
        (f"me:{KEY}@127.0.0.1/v1", (), f"me:{HIDDEN}"),
        (f"m@x:{KEY}", (), HIDDEN),
        (f"demo-detector?{KEY}", (), f"demo-detector?{HIDDEN}"),
        # a person's own options: only those named like secrets
        (f"mine:make?tokens=4&api_key={KEY}&hf-token=x&size=2", None,
         f"mine:make?tokens=4&api_key={HIDDEN}&hf-token={HIDDEN}&size=2"),
    ],
)  # fmt: skip
def test_what_is_shown(spec: str, known: tuple[str, ...] | None, shown: str) -> None:
    assert shown_spec(spec, known) == shown


def test_the_roster_tells_which_options_are_shown() -> None:
    assert (
        shown(f"onnx:a.onnx?preset=yolox&token={KEY}") == f"onnx:a.onnx?preset=yolox&token={HIDDEN}"
    )
    assert shown(f"mine:make?size=2&token={KEY}") == f"mine:make?size=2&token={HIDDEN}"
    assert shown(f"no-such?size={KEY}") == f"no-such?size={HIDDEN}"
    assert shown(f"api:http://me:{KEY}@h/v1?model=m") == f"api:{HIDDEN}"


def test_an_options_name_that_is_none_is_hidden() -> None:
    assert shown_option("iou") == "iou"
    assert shown_option(KEY) == HIDDEN


@pytest.mark.parametrize(
    "spec",
    [
        f"demo-detector?api_key={KEY}",
        f"demo-detector:{KEY}@x",
        f"demo-detector?{KEY}",
        f"onnx:/no/file.onnx?key={KEY}",
        f"api:http://127.0.0.1:1/v1?model=m&api_key={KEY}",
        f"api:http://127.0.0.1:1/v1?model=m&key={KEY}",
        f"api:http://me:{KEY}@127.0.0.1:1/v1?model=m",
        f"api:http://me:{KEY}@127.0.0.1:1/v1?model=m&unknown=1",
        f"api:http://me:a?b={KEY}@127.0.0.1:1/v1?model=m",
        f"http://me:{KEY}@127.0.0.1:1/v1?model=m",
        f"http://127.0.0.1:1/v1?model=m&key={KEY}",
        f"me:{KEY}@127.0.0.1/v1",
        f"nowhere_at_all:make?token={KEY}",
        f"/no/such/file.py:make?password={KEY}",
    ],
)
def test_no_sentence_repeats_a_secret(spec: str, caplog: pytest.LogCaptureFixture) -> None:
    """Nor the log; and a run never stores a spec that holds one: it is refused before."""
    caplog.set_level(logging.DEBUG)
    with pytest.raises(InputError) as caught:
        load_victim(spec, "stop sign")
    told = str(caught.value) + caplog.text
    assert KEY not in told
    assert "very-secret" not in told
    assert "\n" not in str(caught.value)
    if not spec.endswith((f"token={KEY}", f"password={KEY}")):  # own code: known when it runs
        with pytest.raises(InputError):
            check_victim(spec)


def test_a_key_of_capitals_alone_is_not_taken_for_a_variables_name() -> None:
    with pytest.raises(InputError) as caught:
        load_victim("api:http://127.0.0.1:1/v1?model=m&key=AKIAIOSFODNN7EXAMPLE")
    assert "AKIA" not in str(caught.value)


def test_ones_own_model_carries_no_secret_in_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_timings: None
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "with_secret.py").write_text(
        "from envelope.victims.registry import load_victim\n"
        "def make(token, size='2'):\n"
        f"    assert token == {KEY!r}\n"
        "    return load_victim('demo-detector')\n"
    )
    spec = f"with_secret:make?token={KEY}&size=3"
    victim = load_victim(spec, "stop sign")
    assert victim.info.name == f"with_secret:make?token={HIDDEN}&size=3"
    with pytest.raises(InputError) as caught:
        load_victim(spec, "stop sing")
    assert KEY not in str(caught.value)
    assert KEY not in VictimChoice(spec).name
    note_seconds(spec, 0.5)
    assert known_seconds() == {"with_secret:make": 0.5}


@given(st.text(max_size=40))
def test_any_text_can_be_shown(text: str) -> None:
    for known in ((), ("a",), None):
        assert isinstance(shown_spec(text, known), str)
    assert shown_spec(text, ()) == text or HIDDEN in shown_spec(text, ())
