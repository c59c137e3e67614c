"""Two runs: compared where they may be, refused by name where not; and what can be taken away."""

from __future__ import annotations

import csv
import io
import json
import shutil
import sqlite3
import sys
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from app.comparing import compare, difference_map, differing_settings
from app.embedding import EmbedOrder
from app.export import FORMS, export
from app.scoring import SweepChoice
from app.session import Session
from app.victim_desk import VictimDesk
from envelope.condition import Condition
from envelope.run import RUN_FILE, SCORES, open_run
from patching.patch import Patch
from scene.errors import InputError

SIGN = [0.0, 3.0, 2.0]
VICTIM = "red-finder"


@pytest.fixture(scope="module")
def swept(scene_file, tmp_path_factory):
    """A run folder: 3 azimuths x 2 variants, all kinds."""
    from viewer_fakes import load_red_finder

    session = Session.open(scene_file, tmp_path_factory.mktemp("compare") / "runs")
    session.victims = VictimDesk("stop sign", load_red_finder)
    session.victims.choose(VICTIM)
    colors = np.random.default_rng(3).random((8, 8, 3)).repeat(4, 0).repeat(4, 1)
    session.gallery.add(Patch.from_rgb(colors, "squares"))
    session.patchwork.choose("squares")
    session.patchwork.place_at(SIGN, 0.5, 0.0)
    session.embed(EmbedOrder(iterations=4, figures=False))
    session.scoring.start(SweepChoice({"azimuth_deg": 3}, 2).plan())
    assert session.scoring.service.wait(60)
    folder = session.scoring.run.folder
    session.close()
    return folder


@pytest.fixture
def pair(swept, tmp_path):
    """The run and a copy of it beside it, both as folders."""
    first, second = swept.parent / f"{swept.name}-a", swept.parent / f"{swept.name}-b"
    for folder in (first, second):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(swept, folder)
    yield first, second
    for folder in (first, second):
        shutil.rmtree(folder)


def _found_nowhere(folder, azimuth: float, kind: str) -> int:
    """Empty the answers of one condition and kind; how many there were."""
    with sqlite3.connect(folder / SCORES) as db:
        views = [
            row[0]
            for row in db.execute("SELECT view_id FROM views WHERE azimuth_deg = ?", (azimuth,))
        ]
        marks = ",".join("?" * len(views))
        done = db.execute(
            "UPDATE scores SET boxes = '[]', confident_box = NULL, confidence = NULL, "
            "confident_iou = NULL, placed_box = NULL, placed_confidence = NULL, "
            f"placed_iou = NULL, status = 'empty' WHERE kind = ? AND view_id IN ({marks})",
            (kind, *views),
        )
        return done.rowcount


def _edited(folder, before: str, after: str, section: str = "") -> None:
    path = folder / RUN_FILE
    head, marker, text = (
        path.read_text().partition(section) if section else ("", "", path.read_text())
    )
    assert before in text
    path.write_text(head + marker + text.replace(before, after, 1))


def test_a_run_minus_its_copy_is_zero_and_says_what_that_rests_on(pair):
    first, second = (open_run(folder, read_only=True) for folder in pair)
    found = compare(first, second, VICTIM, "asr")
    assert found.overall.value == 0.0
    assert (found.overall.denominator, found.overall.conditions) == (6, 3)
    assert found.overall.low < 0 < found.overall.high
    assert [cell.value for cell in found.cells.values()] == [0.0, 0.0, 0.0]
    assert "3 of 3 conditions are scored in both" in found.text()


def test_both_runs_are_read_by_the_first_ones_gamma_for_the_victim(pair):
    second = open_run(pair[1])
    strict = tuple(replace(c, gamma=1.0) for c in second.settings.victims)  # no box is sure enough
    second.update(replace(second.settings, victims=strict))
    second.close()
    first, second = (open_run(folder, read_only=True) for folder in pair)
    assert second.table().rate(VICTIM, "accuracy", "clean").value == 0.0
    assert first.table().rate(VICTIM, "accuracy", "clean").value > 0
    assert compare(first, second, VICTIM, "asr").overall.value == 0.0
    assert compare(second, first, VICTIM, "asr").overall.value == 0.0


@pytest.mark.parametrize(("measure", "of_all"), [("asr", 6), ("gain", 12), ("confidence", 12)])
def test_a_condition_that_fails_in_one_run_only_is_the_difference(pair, measure, of_all):
    sides = list(pair)
    before = [open_run(folder, read_only=True) for folder in sides]
    anchor = Condition()
    was = before[0].table().rate(VICTIM, measure, "adversarial", [anchor])
    assert _found_nowhere(sides[1], 0.0, "adversarial") == 2
    found = compare(*(open_run(folder, read_only=True) for folder in sides), VICTIM, measure)
    after = {"asr": 1.0, "gain": 1.0, "confidence": 0.0}[measure]
    cell = found.cells[anchor.key]
    assert cell.value == pytest.approx(was.value - after)
    assert sum(abs(c.value) for c in found.cells.values()) == pytest.approx(abs(cell.value))
    # over all: 2 of 6 samples changed
    assert found.overall.value == pytest.approx((was.value - after) / 3)
    assert found.overall.denominator == of_all
    assert found.overall.low <= found.overall.value <= found.overall.high
    text = difference_map(found, "#444").to_json()
    figure = json.loads(text)["data"][0]
    assert figure["z"][0][1] == pytest.approx(cell.value)
    assert figure["z"][0][0] == 0 and "2 samples" in figure["hovertext"][0][1]


def test_conditional_rates_and_failure_modes_are_compared_among_gray_survivors(pair):
    first, second = pair
    base = open_run(first, read_only=True).table()
    survivors = sum(sample.right for sample in base.samples(VICTIM, "gray"))
    assert survivors == 6
    assert _found_nowhere(second, 0.0, "adversarial") == 2
    runs = [open_run(folder, read_only=True) for folder in pair]
    fails = [sum(s.success for s in run.table().samples(VICTIM, "adversarial")) for run in runs]
    assert fails[1] > fails[0]
    casr = compare(*runs, VICTIM, "casr").overall
    assert casr.value == pytest.approx((fails[0] - fails[1]) / 6)
    omission = compare(*runs, VICTIM, "omission").overall
    others = [compare(*runs, VICTIM, m).overall.value for m in ("substitution", "displacement")]
    assert omission.value + sum(others) == pytest.approx(casr.value)


@pytest.mark.parametrize(
    ("section", "before", "after", "words"),
    [
        ("[conditions]", "seed = 0", "seed = 7", "seed"),
        ("[render]", "long_side = 640", "long_side = 320", "long_side"),
        ("[reading]", 'label = "stop sign"', 'label = "car"', "class"),
        ("[scene]", 'sha256 = "', 'sha256 = "0', "scene"),
    ],
)
def test_runs_that_were_made_otherwise_are_refused_by_name(pair, section, before, after, words):
    _edited(pair[1], before, after, section)
    first, second = (open_run(folder, read_only=True) for folder in pair)
    with pytest.raises(InputError, match=f"differ in.*{words}"):
        compare(first, second, VICTIM, "asr")


def test_thresholds_may_differ_and_another_prompt_may_not(pair):
    _edited(pair[1], "tau = 0.5", "tau = 0.9")
    first, second = (open_run(folder, read_only=True) for folder in pair)
    assert differing_settings(first, second, VICTIM) == []
    assert compare(first, second, VICTIM, "asr").overall.value == 0.0
    with sqlite3.connect(pair[1] / SCORES) as db:
        for key, fields in db.execute("SELECT hash, fields FROM settings").fetchall():
            changed = {**json.loads(fields), "prompt": "where is it"}
            db.execute("UPDATE settings SET fields = ? WHERE hash = ?", (json.dumps(changed), key))
    with pytest.raises(InputError, match="prompt"):
        compare(first, open_run(pair[1], read_only=True), VICTIM, "asr")


def test_every_export_is_a_whole_file_with_the_same_rows(pair):
    run = open_run(pair[0])
    made = {form: export(run, form) for form in FORMS}
    for form, file in made.items():
        assert (
            file.path.parent == run.folder / "exports" and file.path.stat().st_size == file.size
        ), form
    assert sorted(p.name for p in (run.folder / "exports").iterdir()) == sorted(
        f.path.name for f in made.values()
    )
    rows = list(csv.DictReader(io.StringIO(made["CSV rows"].path.read_text())))
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(made["Parquet rows"].path)
    assert table.num_rows == len(rows) == 24
    assert table.column_names == list(rows[0])
    assert table["azimuth_deg"].to_pylist() == [float(row["azimuth_deg"]) for row in rows]
    assert table["success"].to_pylist() == [
        int(r["success"]) if r["success"] else None for r in rows
    ]
    assert table["victim"].to_pylist() == [VICTIM] * 24
    with zipfile.ZipFile(made["PNG figures (zip)"].path) as archive:
        assert archive.testzip() is None and len(archive.namelist()) == 3
    from scene.io.load import load_gaussians

    ply = load_gaussians(made["PLY, patch embedded"].path).gaussians
    assert len(ply) == len(run.adversarial.gaussians("adversarial"))
    assert b"Plotly.newPlot" in made["HTML report"].path.read_bytes()
    run.close()


def test_without_pyarrow_the_sentence_says_how_to_get_it_and_nothing_is_written(pair, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    run = open_run(pair[0])
    with pytest.raises(InputError, match=r"pip install 'advscene-inspector\[waymo\]'"):
        export(run, "Parquet rows")
    assert not (run.folder / "exports").exists()
    run.close()
