from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from envelope_fakes import ColorDetector, ColorGrounder, slot
from test_sweep_end_to_end import make_run

from envelope.condition import Condition
from envelope.engine.local import ScoringService
from envelope.observe import Observation
from envelope.outcome import Answer, Box, Criterion, iou
from envelope.report import _COLUMNS, _csv_row, rows_csv, write_csv, write_json, write_report
from envelope.run import Reading, Run
from envelope.store import Row, Score, View
from envelope.summary import summarize, summary_text
from envelope.sweep import SweepPlan
from envelope.victims.protocols import Grounding
from scene.errors import InputError

SCRIPT = '</script><script>alert(1)</script> = 2, "quoted"\nline'


class Rude(ColorGrounder):
    """Answers with markup."""

    def predict(self, images, prompt):  # type: ignore[no-untyped-def]
        return [Grounding(SCRIPT, None, "malformed") for _ in images]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    made = make_run(tmp_path_factory.mktemp("report"))
    made.update(replace(made.settings, sweep=SweepPlan({"azimuth_deg": (-40, 0, 40)}, variants=2)))
    rude = Rude("rude </td><b>")
    service = ScoringService(made.stage(threads=1), [slot(ColorDetector()), slot(rude)], made.store)
    service.start(made.settings.sweep)  # type: ignore[arg-type]
    assert service.wait(240)
    service.close()
    yield made
    made.close()


def test_report_needs_no_network_and_inlines_plotly_once(run: Run, tmp_path: Path) -> None:
    write_report(run, tmp_path)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert text.count("plotly.js v") == 1
    ours = re.sub(r"<script>/\*\*.*?</script>", "", text, count=1, flags=re.S)
    assert not re.search(r"(src|href)\s*=\s*['\"]", ours)
    assert text.count("Plotly.newPlot('plot-") == 6
    assert len({*re.findall(r'id="(plot-\d+)"', ours)}) == 6
    assert "Wilson" in text or "bootstrap" in text
    assert "omissions on gray: 6 malformed" in text


def test_victims_words_are_never_markup(run: Run, tmp_path: Path) -> None:
    write_report(run, tmp_path)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert "rude </td><b>" not in text.replace("\\u003c", "<").split("<script>", 2)[0]
    assert "rude &lt;/td&gt;" in text


def test_csv_has_every_row_and_raw_text(run: Run, tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(rows_csv(run))))
    assert len(rows) == 3 * 2 * 4 * 2
    rude = [r for r in rows if r["victim"].startswith("rude")]
    assert {r["raw_text"] for r in rude} == {SCRIPT}
    assert {(r["status"], r["mode"], r["omission"], r["success"]) for r in rude} == {
        ("malformed", "omission", "malformed", "1")
    }
    clean = [r for r in rows if r["victim"] == "colors" and r["kind"] == "clean"]
    assert {r["success"] for r in clean} == {"0"}
    assert all(float(r["iou"]) > 0.8 for r in clean)
    assert {r["azimuth_deg"] for r in clean} == {"-40.0", "0.0", "40.0"}
    jittered = [r for r in clean if r["variant"] == "1"]
    assert all(r["actual_azimuth_deg"] != r["azimuth_deg"] for r in jittered)
    write_csv(run, tmp_path / "rows.csv")
    assert (tmp_path / "rows.csv").read_text(encoding="utf-8").count("\n") >= len(rows)


def test_thresholds_are_read_again_not_scored_again(run: Run) -> None:
    tight = Reading("red board", tau=1.0)
    assert summarize(run)["victims"]["colors"]["right"]["clean"]["value"] == 1.0
    found = summarize(run, reading=tight)["victims"]["colors"]["right"]["clean"]["value"]
    assert found < 1.0
    # the adversarial answers have confidence 0.1: under gamma 0.05 they are right
    low = summarize(run, reading=Reading("red board", gamma=0.05))["victims"]["colors"]
    assert low["kinds"]["adversarial"]["asr"]["value"] == 0.0


def test_json_and_pngs(run: Run, tmp_path: Path) -> None:
    facts = summarize(run)
    write_json(facts, tmp_path / "summary.json")
    assert json.loads((tmp_path / "summary.json").read_text()) == json.loads(json.dumps(facts))
    written = write_report(run, tmp_path / "out")
    assert [p.name for p in written[:3]] == ["report.html", "scores.csv", "summary.json"]
    # per victim: ASR, cASR and one curve
    assert len(written) == 3 + 2 * 3
    assert {p.name for p in (tmp_path / "out").iterdir()} == {p.name for p in written}
    assert all(path.stat().st_size > 3000 for path in written)


def test_summary_text_says_what_it_rests_on(run: Run) -> None:
    text = summary_text(summarize(run))
    assert "colors (detector" in text
    # three conditions of two variants: the clean render is right everywhere
    assert re.search(r"right on clean +1\.00 \[", text)
    assert "6/6 samples, 3 conditions" in text
    assert "not ranked" in text
    # malformed and refused answers count as omissions, and are told apart from empty ones
    assert "omissions on adversarial: 6 malformed" in text
    assert "omissions on adversarial: 6 empty" not in text
    assert "\x1b" not in text and "<" not in text.replace("rude </td><b>", "")


def test_nothing_swept_is_one_sentence(run: Run) -> None:
    bare = replace(run.settings, sweep=None)
    before, run.settings = run.settings, bare
    try:
        with pytest.raises(InputError, match="nothing was swept"):
            summarize(run)
    finally:
        run.settings = before


def test_csv_gives_the_box_that_was_judged() -> None:
    """Vanishing is judged by the best placed box, which need not be the most confident."""
    truth, placed, elsewhere = (10.0, 20, 50, 100), (12.0, 20, 50, 100), (200.0, 20, 260, 100)
    answer = Answer("detector", "ok", (Box(elsewhere, 0.9), Box(placed, 0.6)))
    view = View("v", "geo", Condition(), Condition(), Observation(3000, 3200, truth, 300))
    row = Row(view, Score("v", "clean", "det", "h", "person", "", answer))
    for task, box, right in (("vanishing", placed, 1), ("localization", elsewhere, 0)):
        line = _csv_row(row, Criterion(task, "person"))  # type: ignore[arg-type]
        found = dict(zip(_COLUMNS, line, strict=True))
        written = [float(found[f"box_{name}"]) for name in ("x0", "y0", "x1", "y1")]
        assert written == list(box) and int(found["right"]) == right
        assert float(found["iou"]) == pytest.approx(iou([written], truth)[0], abs=1e-4)
