from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from envelope.condition import Condition, jittered
from envelope.observe import Observation
from envelope.outcome import Answer, Box, failed_answer
from envelope.store import Score, ScoreStore, View, digest, view_id
from scene.errors import InputError

SEEN = Observation(
    500, 800, (10.0, 20.0, 50.0, 100.0), 40, (20.0, 40.0, 40.0, 60.0), 12.5, 1.1, 7.0
)


def view(azimuth_deg: float = 0.0, variant: int = 0) -> View:
    nominal = Condition(azimuth_deg=azimuth_deg)
    actual = jittered(nominal, variant, 3)
    nominal = Condition(azimuth_deg=azimuth_deg, variant=variant)
    return View(view_id("geo", nominal, variant), "geo", nominal, actual, SEEN)


def score(
    v: View, kind: str = "clean", victim: str = "det", answer: Answer | None = None, h: str = "h1"
) -> Score:
    good = Answer("detector", "ok", (Box((10, 20, 50, 90), 0.1 + 0.2), Box((0, 0, 5, 5), 0.07)))
    return Score(v.view_id, kind, victim, h, "person", "", answer or good, "sweep", 1, 24.5, 40.25)


def test_everything_comes_back_exactly(tmp_path: Path) -> None:
    v = view(15, 2)
    raw = 'a "quoted" \u0442\u0435\u043a\u0441\u0442 <loc0001>\n'
    grounded = Answer("grounder", "malformed", (), (), raw, ("truncated",))
    classified = Answer("classifier", "ok", (), (("stop sign", 0.7), ("car", 0.2)))
    wanted = [score(v), score(v, "gray", "vlm", grounded), score(v, "gray", "cls", classified)]
    with_file = ScoreStore(tmp_path / "scores.sqlite")
    with_file.add_view(v)
    with_file.add_scores(wanted, v)
    with_file.close()
    again = ScoreStore(tmp_path / "scores.sqlite", read_only=True)
    assert again.scores() == wanted
    assert again.views() == {v.view_id: v}
    assert again.view(v.view_id) == v
    assert again.view("nothing") is None
    assert [row.view for row in again.rows(again.views("geo"))] == [v] * 3
    assert again.views("other geometry") == {}
    # 0.1 + 0.2 keeps its last bit: a rounded confidence could cross gamma
    assert again.scores()[0].answer.boxes[0].confidence == 0.1 + 0.2


def test_box_facts_are_columns(tmp_path: Path) -> None:
    store = ScoreStore(tmp_path / "s.sqlite")
    v = view()
    two = Answer("detector", "ok", (Box((200, 0, 240, 80), 0.9), Box((10, 20, 50, 60), 0.2)))
    store.add_view(v)
    store.add_scores([score(v, answer=two)], v)
    db = sqlite3.connect(tmp_path / "s.sqlite")
    found = db.execute(
        "SELECT confidence, confident_iou, placed_box, placed_confidence, placed_iou FROM scores"
    ).fetchone()
    assert found == (0.9, 0.0, "[10, 20, 50, 60]", 0.2, 0.5)
    assert db.execute("SELECT azimuth_deg, variant, observable FROM views").fetchone() == (0, 0, 1)
    assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_writing_again_repeats_nothing_and_only_errors_are_replaced(tmp_path: Path) -> None:
    store = ScoreStore(tmp_path / "s.sqlite")
    v = view()
    store.add_view(v)
    store.add_view(v)
    store.add_scores([score(v), score(v, "gray", answer=failed_answer("detector", "crash"))], v)
    empty = Answer("detector", "empty")
    store.add_scores([score(v, answer=empty), score(v, "gray", answer=empty)], v)
    found = {s.kind: s.answer.status for s in store.scores()}
    assert found == {"clean": "ok", "gray": "empty"}
    # an error does not overwrite an answer
    store.add_scores([score(v, answer=failed_answer("detector", "late"))], v)
    assert {s.kind: s.answer.status for s in store.scores()} == found
    assert store.counts() == {"views": 1, "scores": 2, "errors": 0}


def test_done_with_and_without_errors(tmp_path: Path) -> None:
    store = ScoreStore(tmp_path / "s.sqlite")
    v = view()
    store.add_view(v)
    store.add_scores([score(v), score(v, "gray", answer=failed_answer("detector", "x"))], v)
    assert store.done() == {(v.view_id, "clean", "det", "h1"), (v.view_id, "gray", "det", "h1")}
    assert store.done(with_errors=False) == {(v.view_id, "clean", "det", "h1")}


def test_scores_of_older_settings_are_kept_but_not_mixed_in(tmp_path: Path) -> None:
    store = ScoreStore(tmp_path / "s.sqlite")
    v = view()
    store.add_view(v)
    store.add_settings("h1", "det", "clean", {"weights": "a"})
    store.add_settings("h2", "det", "clean", {"weights": "b"})
    store.add_scores([score(v, h="h1"), score(v, h="h2")], v)
    assert [s.settings_hash for s in store.scores()] == ["h2"]
    assert len(store.scores(all_settings=True)) == 2
    store.add_settings("h1", "det", "clean", {"weights": "a"})  # back to the first
    assert [s.settings_hash for s in store.scores()] == ["h1"]
    assert store.settings() == {"h1": {"weights": "a"}, "h2": {"weights": "b"}}
    # what no answer depends on, such as the conventional threshold, is that of the last time
    store.add_settings("h1", "det", "clean", {"weights": "a", "threshold": 0.3})
    assert store.settings()["h1"]["threshold"] == 0.3


def test_ids_depend_on_what_they_should() -> None:
    base = view_id("geo", Condition(15), 1)
    assert base == view_id("geo", Condition(15.0, variant=1), 1)
    others = {
        view_id("geo2", Condition(15), 1),
        view_id("geo", Condition(15), 2),
        view_id("geo", Condition(16), 1),
    }
    assert base not in others
    assert len(others) == 3
    assert digest({"a": 1, "b": [2]}) == digest({"b": [2], "a": 1})


def test_not_a_score_file(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a database, but long enough to look like one" * 50)
    with pytest.raises(InputError, match="wanted a score file"):
        ScoreStore(tmp_path / "text")
    with pytest.raises(InputError, match="no such score file"):
        ScoreStore(tmp_path / "absent", read_only=True)
    assert not (tmp_path / "absent").exists()
    (tmp_path / "empty").touch()
    with pytest.raises(InputError, match="score file"):
        ScoreStore(tmp_path / "empty", read_only=True)


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    ScoreStore(tmp_path / "s.sqlite").close()
    db = sqlite3.connect(tmp_path / "s.sqlite")
    db.execute("UPDATE meta SET value = '99'")
    db.commit()
    with pytest.raises(InputError, match="found 99"):
        ScoreStore(tmp_path / "s.sqlite")


def test_read_only_writes_nothing(tmp_path: Path) -> None:
    ScoreStore(tmp_path / "s.sqlite").close()
    store = ScoreStore(tmp_path / "s.sqlite", read_only=True)
    with pytest.raises(InputError, match="read-only"):
        store.add_view(view())
    assert [path.name for path in tmp_path.iterdir()] == ["s.sqlite"]  # no log is left beside it


def test_readers_see_whole_transactions_while_another_writes(tmp_path: Path) -> None:
    store = ScoreStore(tmp_path / "s.sqlite")
    reader = ScoreStore(tmp_path / "s.sqlite", read_only=True)
    seen: list[int] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            seen.append(len(reader.scores()))

    thread = threading.Thread(target=read)
    thread.start()
    for i in range(60):
        v = view(i / 10)
        store.add_view(v)
        store.add_scores([score(v, kind) for kind in ("clean", "gray", "adversarial")], v)
    stop.set()
    thread.join()
    assert all(n % 3 == 0 for n in seen)
    assert len(reader.scores()) == 180


WRITER = """
import sys
sys.path.insert(0, {tests!r})
from test_store import score, view
from envelope.store import ScoreStore
store = ScoreStore(sys.argv[1])
for i in range(int(sys.argv[2]), int(sys.argv[3])):
    v = view(i / 100)
    store.add_view(v)
    store.add_scores([score(v, kind) for kind in ("clean", "gray")], v)
    print(i, flush=True)
"""


def _writer(path: Path, start: int, stop: int) -> subprocess.Popen[str]:
    code = WRITER.format(tests=str(Path(__file__).parent))
    root = Path(__file__).resolve().parents[2]
    return subprocess.Popen(
        [sys.executable, "-c", code, str(path), str(start), str(stop)],
        stdout=subprocess.PIPE, text=True, cwd=root, env={**os.environ, "PYTHONPATH": str(root)},
    )  # fmt: skip


def test_two_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    # overlapping halves: 0..149 and 100..249
    writers = [_writer(path, 0, 150), _writer(path, 100, 250)]
    for writer in writers:
        writer.communicate(timeout=240)
        assert writer.returncode == 0
    assert ScoreStore(path).counts() == {"views": 250, "scores": 500, "errors": 0}


def test_kill_9_loses_nothing_committed(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    writer = _writer(path, 0, 100000)
    assert writer.stdout is not None
    said = 0
    while said < 40:
        said = int(writer.stdout.readline())
    writer.send_signal(signal.SIGKILL)
    rest = [int(line) for line in writer.stdout.read().split("\n")[:-1]]
    writer.wait()
    last = rest[-1] if rest else said
    store = ScoreStore(path)
    counts = store.counts()
    assert counts["scores"] >= 2 * (last + 1)
    assert counts["scores"] % 2 == 0
    v = view(0.0)
    store.add_scores([score(v)], v)
    assert store.counts() == counts


def test_what_was_read_before_is_kept_up_to_date(tmp_path: Path) -> None:
    writer, reader = ScoreStore(tmp_path / "s.sqlite"), ScoreStore(tmp_path / "s.sqlite")
    first, second = view(1), view(2)
    writer.add_view(first)
    writer.add_scores(
        [score(first), score(first, "gray", answer=failed_answer("detector", "x"))], first
    )
    assert [s.answer.status for s in reader.scores()] == ["ok", "error"]
    # an error that became an answer, and a new row, come through; order stays
    writer.add_scores([score(first, "gray", answer=Answer("detector", "empty"))], first)
    writer.add_view(second)
    writer.add_scores([score(second)], second)
    assert [(s.kind, s.answer.status) for s in reader.scores()] == [
        ("clean", "ok"), ("gray", "empty"), ("clean", "ok"),
    ]  # fmt: skip
    assert list(reader.views()) == [first.view_id, second.view_id]
    assert reader.scores() == writer.scores()
