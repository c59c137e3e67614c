"""`advscene victim list` and `advscene victim probe`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from app.cli import main
from envelope.victims.timings import known_seconds, note_seconds, timings_file


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from scene.render.cpu.cache import cache_root

    monkeypatch.setenv("NUMBA_CACHE_DIR", str(cache_root()))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    note_seconds("demo-detector", 0.25)
    main(["victim", "list", "--json"])
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    demo, yolo = rows["demo-detector"], rows["yolov8n"]
    assert (demo["state"], demo["ready"], demo["seconds_per_picture"]) == ("ready", True, 0.25)
    assert yolo["licence"].startswith("AGPL-3.0")
    assert yolo["state"] in ("needs file", "needs install")
    assert "yolov8n.pt" in yolo["command"] or "pip install" in yolo["command"]
    assert yolo["input_size"] == [640, 640]
    assert rows["onnx"]["ready"] is False
    assert rows["demo-grounder"]["convention"] == "y0 x0 y1 x1 over 1024"
    assert all(set(row) == set(demo) for row in rows.values())


def test_list_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    main(["victim", "list"])
    lines = capsys.readouterr().out.splitlines()
    assert any(
        line.split()[:4] == ["demo-detector", "detector", "ready", "Apache-2.0"] for line in lines
    )
    assert any("get it: curl" in line or "get it: pip install" in line for line in lines)


def test_probe_lands_and_keeps_its_time(capsys: pytest.CaptureFixture[str]) -> None:
    main(["victim", "probe", "demo-detector"])
    text = capsys.readouterr().out
    assert text.startswith("demo-detector: lands in 5 of 5 pictures")
    assert len([line for line in text.splitlines() if "  IoU 0." in line]) == 5
    assert known_seconds()["demo-detector"] > 0


def test_probe_of_a_wrong_model_says_what_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A person's own model that answers y0 x0 y1 x1."""
    (tmp_path / "swapped_model.py").write_text(_SWAPPED)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["victim", "probe", "swapped_model:make", "--json"])
    assert ended.value.code == 1
    report = json.loads(capsys.readouterr().out)
    assert report["fit"]["convention"] == "yxyx pixels of the picture, x and y swapped"
    assert report["lands"] is False


_SWAPPED = """
import numpy as np
from dataclasses import replace
from envelope.victims.registry import load_victim

class Swapped:
    def __init__(self):
        self.inner = load_victim("demo-detector")
        self.info = replace(self.inner.info, name="swapped")
    def predict(self, images):
        return [replace(d, xyxy=d.xyxy[:, [1, 0, 3, 2]]) for d in self.inner.predict(images)]

def make():
    return Swapped()
"""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "there is no victim 'nothing'"),
        (["demo-detector", "--label", "stop sing"], "near names: stop sign"),
        (["demo-detector", "--picture", "x.png"], "wants --box x0 y0 x1 y1 and --label"),
        (["demo-detector", "--box", "1", "2", "3", "4"], "--box belongs to --picture"),
    ],
)
def test_bad_input(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["victim", "probe", *arguments])
    assert ended.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_persons_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from PIL import Image

    from envelope.victims.probe_pictures import sign_pictures

    own = sign_pictures()[4]
    Image.fromarray(np.ascontiguousarray(own.rgb)).save(tmp_path / "own.png")
    box = [f"{value:g}" for value in own.box]
    main(["victim", "probe", "demo-detector", "--picture", str(tmp_path / "own.png"),
          "--box", *box, "--label", "stop sign"])  # fmt: skip
    assert "lands in 5 of 5" in capsys.readouterr().out


def test_timings_survive_damage() -> None:
    assert known_seconds() == {}
    timings_file().parent.mkdir(parents=True)
    timings_file().write_text('{"a": 0.5, "b": "x", "c": -1, "d": NaN}')
    assert known_seconds() == {"a": 0.5}
    timings_file().write_text("{")
    assert known_seconds() == {}
    note_seconds("e", 1.23456)
    assert known_seconds() == {"e": 1.2346}


def test_one_slow_call_does_not_change_what_a_victim_takes() -> None:
    for seconds in (0.1, 0.9, 0.12):
        note_seconds("a", seconds)
    assert known_seconds() == {"a": 0.12}
    for _ in range(5):
        note_seconds("a", 0.5)
    assert known_seconds() == {"a": 0.5}  # of 0.1, 0.9, 0.12 and five times 0.5
    for _ in range(9):
        note_seconds("a", 0.2)
    assert known_seconds() == {"a": 0.2}
