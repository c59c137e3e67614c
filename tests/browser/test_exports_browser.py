"""Every export is pressed in a browser; what it saves opens, and its numbers are the store's."""

from __future__ import annotations

import csv
import io
import zipfile

import numpy as np
import pytest
from browser_tools import MARKS, choose, embedded_session, new_page, tab, text_of, until
from PIL import Image

from app.scoring import SweepChoice
from app.viewer import serve
from envelope.condition import AXES, Condition

pytestmark = MARKS
VICTIM = "red-finder"


@pytest.fixture(scope="module")
def viewer(tmp_path_factory):
    """A served run of 3 x 2 cells with two noise variants each."""
    session = embedded_session(tmp_path_factory.mktemp("exports"))
    session.scoring.start(SweepChoice({"azimuth_deg": 3, "radius": 2}, 2).plan())
    assert session.scoring.service.wait(120)
    shown = serve(session, port=18420, display_budget=1000, block=False)
    yield shown
    shown.stop()


@pytest.fixture(scope="module")
def run(viewer):
    return viewer.session.scoring.run


@pytest.fixture(scope="module")
def saved(browser, viewer, tmp_path_factory):
    """Form -> the file that the browser saved after the button was pressed."""
    page = new_page(browser, viewer)
    folder = tmp_path_factory.mktemp("saved")
    files = {}
    tab(page, "Runs")
    for form in ("CSV rows", "Parquet rows", "PLY, patch embedded", "PNG figures (zip)", "HTML"):
        choose(page, "As", form)
        with page.expect_download() as download:
            page.get_by_role("button", name="Export", exact=True).click()
        files[form] = folder / download.value.suggested_filename
        download.value.save_as(files[form])
        until(lambda form=form: f"{files[form].name} (" in text_of(page, "Written"))
        until(lambda: viewer.desk.current is None)
    assert page.errors == []
    page.close()
    return files


@pytest.fixture(scope="module")
def stored(run):
    """(nominal numbers, variant, kind, victim) -> the stored row."""
    rows = run.store.rows(run.store.views(run.store.geometry()))
    return {
        (r.view.nominal.nominal().values, r.view.nominal.variant, r.score.kind, r.score.victim): r
        for r in rows
    }


def _key(line) -> tuple:
    condition = Condition(**{name: float(line[name]) for name in AXES})
    return condition.values, int(line["variant"]), line["kind"], line["victim"]


def test_the_csv_holds_every_row_of_the_store(saved, stored, run):
    lines = list(csv.DictReader(io.StringIO(saved["CSV rows"].read_text())))
    found = {_key(line): line for line in lines}
    assert len(found) == len(lines) and set(found) == set(stored)
    assert len([key for key in found if key[2] == "adversarial"]) >= 12
    for key, line in found.items():
        answer, seen = stored[key].score.answer, stored[key].view.observation
        boxes = [box for box in answer.boxes if box.confidence is not None]
        if boxes:
            best = max(boxes, key=lambda box: box.confidence)
            assert float(line["confidence"]) == pytest.approx(best.confidence, abs=1e-9)
            assert float(line["box_x1"]) == pytest.approx(best.xyxy[2], abs=0.006)
        assert float(line["truth_y0"]) == pytest.approx(seen.box[1], abs=0.006)
        assert line["status"] == answer.status
    # and the rate that the page shows can be counted from the file alone
    plan = run.settings.sweep
    cells = {cell.values for cell in plan.cells()}
    counted = [
        int(line["success"])
        for key, line in found.items()
        if key[0] in cells and key[1] < plan.variants and key[2] == "adversarial"
        and line["observable"] == "1" and line["success"]
    ]  # fmt: skip
    rate = run.table(plan).rate(VICTIM, "asr")
    assert (sum(counted), len(counted)) == (rate.numerator, rate.denominator)
    assert len(counted) == 12


def test_the_parquet_holds_the_same_numbers_typed(saved):
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(io.BytesIO(saved["Parquet rows"].read_bytes()))
    lines = list(csv.DictReader(io.StringIO(saved["CSV rows"].read_text())))
    assert table.num_rows == len(lines) and table.column_names == list(lines[0])
    for name in table.column_names:
        for value, text in zip(
            table.column(name).to_pylist(), [x[name] for x in lines], strict=True
        ):
            if isinstance(value, str):
                assert value == text
            elif value is None:
                assert text == ""
            else:
                assert value == pytest.approx(float(text), abs=1e-12)


def test_the_ply_is_the_scene_with_the_patch(saved, run):
    from scene.io.load import load_gaussians

    written = run.adversarial.gaussians("adversarial")
    read = load_gaussians(saved["PLY, patch embedded"]).gaussians
    assert len(read) == len(written) > len(run.adversarial.gaussians("clean"))
    assert np.allclose(read.means, written.means, atol=1e-6)
    assert np.allclose(read.opacities, written.opacities, atol=1e-5)
    assert np.allclose(read.sh, written.sh, atol=1e-6)


def test_the_zip_holds_the_figures_of_the_stored_rows(saved, run):
    from envelope.figures_png import curves_png, heat_map_png

    plan = run.settings.sweep
    table = run.table(plan)
    wanted = {
        f"{VICTIM}-asr.png": heat_map_png(table, plan, VICTIM, "asr"),
        f"{VICTIM}-casr.png": heat_map_png(table, plan, VICTIM, "casr"),
        f"{VICTIM}-curve-azimuth_deg.png": curves_png(table, plan, VICTIM, axis="azimuth_deg"),
        f"{VICTIM}-curve-radius.png": curves_png(table, plan, VICTIM, axis="radius"),
    }
    with zipfile.ZipFile(saved["PNG figures (zip)"]) as archive:
        assert set(archive.namelist()) == set(wanted)
        for name, content in wanted.items():
            shown = np.asarray(Image.open(io.BytesIO(archive.read(name))).convert("RGB"))
            again = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))
            assert shown.shape == again.shape and (shown == again).all(), name


def test_the_report_states_the_stored_rates(saved, run, browser):
    page = browser.new_page()
    page.goto(saved["HTML"].as_uri())
    line = page.get_by_role("row").filter(has_text="ASR, adversarial").first
    rate = run.table(run.settings.sweep).rate(VICTIM, "asr")
    words = line.get_by_role("cell").all_inner_texts()
    assert words[1] == f"{rate.value:.3f}"
    assert words[3] == f"{rate.numerator:g}/{rate.denominator}" and words[4] == "6"
    assert page.locator(".js-plotly-plot").count() == 4
    page.close()
