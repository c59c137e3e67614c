from __future__ import annotations

import io
import json

import numpy as np
import pytest
from PIL import Image
from test_cells import CELLS, NOTHING, RIGHT, SEEN, UNSEEN, criterion, table

from envelope.cells import MEASURES, ScoreTable
from envelope.condition import Condition
from envelope.figure_data import (
    HOLDS,
    RATES,
    WHISKER_STEP,
    WORKS,
    band_runs,
    curve_of,
    describe,
    grid_of,
    place_on,
    whisker_places,
)
from envelope.figures import curves, heat_map
from envelope.figures_png import curves_png, heat_map_png
from envelope.rows import Row, Score, View
from envelope.sweep import SweepPlan, all_axes
from scene.errors import InputError

PLAN = SweepPlan({"azimuth_deg": (0, 15, 30, 45, 60)})
CELLS5 = {**CELLS, 60.0: {"clean": [RIGHT] * 3}}


def the_table():
    return table(CELLS5, lambda azimuth, _: UNSEEN if azimuth == 60 else SEEN)


CROSSED = SweepPlan({"radius": (1.0, 2.0, 3.0), "azimuth_deg": (0, 15, 30)})


def crossed_table() -> ScoreTable:
    """The same answers at radius 1 and 2; at radius 3 one condition alone is scored."""
    rows, views = [], {}
    for radius in (1.0, 2.0, 3.0):
        for azimuth, kinds in CELLS.items():
            if radius == 3.0 and azimuth:
                continue
            for kind, answers in kinds.items():
                for variant, answer in enumerate(answers):
                    nominal = Condition(azimuth_deg=azimuth, radius=radius, variant=variant)
                    view = View(f"{radius}|{azimuth}|{variant}", "geo", nominal, nominal, SEEN)
                    views[view.view_id] = view
                    score = Score(view.view_id, kind, "det", "h", "person", "", answer)
                    rows.append(Row(view, score))
    return ScoreTable(rows, views, criterion)


def test_heat_map_holds_the_cells() -> None:
    figure = heat_map(the_table(), PLAN, "det", "casr", current=Condition(22.5))
    cells = figure.data[0]
    # by hand: 0: 2 of 3; 15: no gray survivor; 30: 1 of 2; 45: unscored; 60: unobservable
    assert list(cells.z[0]) == [pytest.approx(2 / 3), None, 0.5, None, None]
    assert list(cells.text[0]) == [".67", "", ".50", "", ""]
    hover = cells.hovertext[0]
    assert "2 of 3 samples" in hover[0]
    assert "undefined" in hover[1]
    assert "not scored yet" in hover[3]
    assert "not observable: only 3 % of the target visible" in hover[4]
    # hatched at column 4 only: all x between 3.5 and 4.5
    path = figure.layout.shapes[0].path
    xs = [
        float(p.split(",")[0].strip("ML"))
        for p in path.replace("L", " L").replace("M", " M").split()
    ]
    assert 3.5 <= min(xs) < max(xs) <= 4.5
    marks = {trace.mode: trace for trace in figure.data[1:]}
    assert list(marks["text"].x) == [1]
    assert list(marks["markers"].x) == [1.5]  # between 15 and 30
    assert len(figure.to_json()) < 6000
    assert figure.layout.template.to_plotly_json() == {}


def test_two_axes_lie_the_right_way_round() -> None:
    plan = SweepPlan({"radius": (1.0, 2.0, 3.0), "azimuth_deg": (0, 15)})
    grid = grid_of(the_table(), plan, "det", "asr")
    assert (len(grid.rows), len(grid.rows[0])) == (2, 3)
    assert grid.rows[1][0].condition == Condition(azimuth_deg=15, radius=1.0)
    figure = heat_map(the_table(), plan, "det", "asr")
    assert figure.data[0].z[1][0] == 1.0
    assert figure.data[0].z[0][1] is None
    assert figure.layout.xaxis.title.text.startswith("radius")


def test_gain_is_drawn_from_minus_one() -> None:
    figure = heat_map(the_table(), PLAN, "det", "gain")
    assert (figure.data[0].zmin, figure.data[0].zmax) == (-1, 1)


def test_one_axis_at_a_time_is_one_row_per_axis() -> None:
    plan = all_axes()
    figure = heat_map(the_table(), plan, "det", "asr", current=Condition())
    assert len(figure.data[0].z) == 9
    assert figure.data[0].z[0][4] == pytest.approx(2 / 3)  # azimuth 0
    assert figure.data[0].z[0][5] == 1.0  # azimuth 15
    assert list(figure.layout.yaxis.ticktext)[:2] == ["azimuth", "elevation"]


def test_curves_pool_the_other_axis() -> None:
    plan = SweepPlan({"azimuth_deg": (0, 15, 30), "radius": (1.0, 2.0)})
    points = curve_of(the_table(), plan, "det", "asr", "radius")
    # radius 1 pools three cells: 7 of 9; nothing is scored at radius 2
    assert (points[0].rate.numerator, points[0].rate.denominator, points[0].rate.conditions) == (
        7,
        9,
        3,
    )
    assert points[0].rate.low is not None
    assert points[1].rate.value is None
    figure = curves(the_table(), plan, "det", "asr", ("adversarial", "clean"), "radius")
    lines = {t.name: t for t in figure.data if t.name}
    assert list(lines["adversarial"].y) == [pytest.approx(7 / 9)]
    assert "3 conditions" in lines["adversarial"].hovertext[0]
    assert figure.layout.xaxis.type == "log"
    with pytest.raises(InputError, match="swept axes"):
        curve_of(the_table(), plan, "det", "asr", "yaw_deg")


def test_a_curve_of_single_cells_has_no_band() -> None:
    figure = curves(the_table(), PLAN, "det", "asr", ("adversarial",))
    assert [t.mode for t in figure.data] == ["lines+markers"]
    assert list(figure.data[0].y) == [pytest.approx(2 / 3), 1.0, pytest.approx(2 / 3)]


def test_place_on_a_grid() -> None:
    assert place_on((-10, 0, 30), "azimuth_deg", 15) == 1.5
    assert place_on((-10, 0, 30), "azimuth_deg", 45) == 2.5
    assert place_on((-10, 0, 30), "azimuth_deg", -45) == -0.5
    assert place_on((1.0, 4.0), "radius", 2.0) == pytest.approx(0.5)  # by ratio
    assert place_on((30, 0), "azimuth_deg", 15) == 0.5
    assert place_on((30, 0), "azimuth_deg", 45) == -0.5


def test_hover_says_where() -> None:
    cell = the_table().cell(Condition(azimuth_deg=-30, radius=0.6), "det", "asr")
    assert describe(cell, "asr")[0] == "azimuth -30°, radius 0.6"
    assert describe(the_table().cell(Condition(), "det", "asr"), "asr")[0] == "the anchor"


def test_pngs_show_the_same_states() -> None:
    picture = np.asarray(
        Image.open(
            io.BytesIO(heat_map_png(the_table(), PLAN, "det", "casr", current=Condition(15)))
        ).convert("RGB")
    ).astype(int)
    assert picture.shape[1] > picture.shape[0]
    # the ring's pink, and the hatching's gray
    pink = (abs(picture - [232, 65, 140]).sum(axis=2) < 30).sum()
    assert pink > 100
    blank = Image.open(io.BytesIO(curves_png(the_table(), PLAN, "nobody")))
    assert blank.size[0] > 300


def test_figures_are_plain_json() -> None:
    assert json.loads(heat_map(table({0.0: {"adversarial": [NOTHING]}}), PLAN, "det").to_json())


@pytest.mark.parametrize(
    ("banded", "bands"),
    [(("adversarial", "clean"), 2), (("adversarial",), 1), ((), 0), (("overlay",), 0)],
)
def test_only_the_wanted_kinds_carry_a_band(banded, bands) -> None:
    kinds = ("adversarial", "clean")
    figure = curves(crossed_table(), CROSSED, "det", "asr", kinds, "radius", banded=banded)
    filled = [trace for trace in figure.data if trace.fill == "toself"]
    assert len(filled) == bands
    assert sum(trace.mode == "lines+markers" for trace in figure.data) == 2


def test_bands_are_the_patchs_alone_unless_asked_for() -> None:
    figure = curves(crossed_table(), CROSSED, "det", "asr", ("clean", "adversarial"), "radius")
    banded = [trace.legendgroup for trace in figure.data if trace.fill == "toself"]
    assert banded == ["adversarial"]


def test_a_band_ends_before_a_point_without_an_interval() -> None:
    """It shrank to nothing at a value with one condition, as if that were certainty."""
    figure = curves(crossed_table(), CROSSED, "det", "asr", ("adversarial",), "radius")
    band, line = figure.data
    points = curve_of(crossed_table(), CROSSED, "det", "asr", "radius")
    assert points[2].rate.conditions == 1 and points[2].rate.low is None
    assert list(band.x) == [1, 2, 2, 1]
    low, high = points[0].rate.low, points[0].rate.high
    assert list(band.y) == [high, points[1].rate.high, points[1].rate.low, low] and low < high
    assert list(line.x) == [1, 2, 3]
    # the only value with an interval: a stroke, since a band needs two
    alone = curves(the_table(), SweepPlan({"radius": (1.0, 2.0), "azimuth_deg": (0, 15, 30)}), "det",
                   "asr", ("adversarial",), "radius")  # fmt: skip
    stroke = next(trace for trace in alone.data if trace.mode == "lines")
    assert list(stroke.x) == [1, 1, None] and stroke.y[0] < stroke.y[1]
    assert [[p.value for p in run] for run in band_runs([*points, *points])] == [[1, 2], [1, 2]]


def test_rates_have_the_domes_colors() -> None:
    assert RATES[0] == "#{:02x}{:02x}{:02x}".format(*HOLDS)
    assert RATES[-1] == "#{:02x}{:02x}{:02x}".format(*WORKS)
    scales = {m: heat_map(the_table(), PLAN, "det", m).data[0].colorscale for m in MEASURES}
    for measure in ("asr", "casr", "omission", "substitution", "displacement"):
        assert [color for _, color in scales[measure]] == list(RATES)
    assert scales["gain"] != scales["asr"] != scales["confidence"]
    picture = np.array(Image.open(io.BytesIO(heat_map_png(the_table(), PLAN, "det", "asr"))))
    assert (abs(picture[..., :3].astype(int) - WORKS).sum(axis=2) < 6).sum() > 1000


def test_kinds_without_a_band_carry_whiskers_of_their_own_intervals() -> None:
    kinds = ("adversarial", "gray", "clean")
    figure = curves(crossed_table(), CROSSED, "det", "asr", kinds, "radius")
    whiskers = {t.legendgroup: t for t in figure.data if t.mode == "lines"}
    assert set(whiskers) == {"gray", "clean"}  # the patch's own kind has the band
    for kind in ("gray", "clean"):
        points = curve_of(crossed_table(), CROSSED, "det", "asr", "radius", kind)
        rate = points[0].rate
        assert list(whiskers[kind].y)[:3] == [rate.low, rate.high, None]
        assert len(whiskers[kind].y) == 6  # none at radius 3
        assert rate.low < rate.high
    # beside the value 1 of a logarithmic axis, by the same ratio on either side
    left, right = whiskers["gray"].x[0], whiskers["clean"].x[0]
    assert left < 1 < right < 1.02 and left * right == pytest.approx(1)


def test_whiskers_stand_beside_their_values() -> None:
    places = [whisker_places((-30, 60), "azimuth_deg", i, 3, (-30, 60)) for i in range(3)]
    step = 90 * WHISKER_STEP
    assert places[1] == [-30, 60]
    assert places[0] == pytest.approx([-30 - step, 60 - step])
    assert places[2] == pytest.approx([-30 + step, 60 + step])


def test_the_png_draws_the_other_kinds_intervals_too() -> None:
    """A clean kind whose interval is wide: its green stands well above and below its line."""
    plan = SweepPlan({"radius": (1.0, 2.0), "azimuth_deg": (0, 15, 30)})
    png = curves_png(the_table(), plan, "det", "asr", ("adversarial", "clean"), "radius")
    picture = np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)
    green = (picture[..., 1] > picture[..., 0] + 40) & (picture[..., 1] > picture[..., 2] + 20)
    tall = green.sum(axis=0).max()
    rate = curve_of(the_table(), plan, "det", "asr", "radius", "clean")[0].rate
    assert tall > 0.5 * (rate.high - rate.low) * 0.7 * picture.shape[0]
