from __future__ import annotations

from collections.abc import Callable

import pytest

from envelope.cells import Cell, ScoreTable
from envelope.condition import Condition
from envelope.figure_data import describe
from envelope.metrics import Rate
from envelope.observe import Observation
from envelope.outcome import Answer, Box, Criterion, failed_answer
from envelope.region import Extent, extent_along, nearest, region_of
from envelope.store import Row, Score, View
from scene.errors import InputError

TRUTH, PATCH = (10.0, 20.0, 50.0, 100.0), (20.0, 40.0, 40.0, 60.0)
SEEN = Observation(3000, 3200, TRUTH, 300, PATCH)
HIDDEN = Observation(3000, 3200, TRUTH, 4, None)
UNSEEN = Observation(100, 3200, TRUTH, 0, None)

RIGHT = Answer("detector", "ok", (Box(TRUTH, 0.9),))
NOTHING = Answer("detector", "empty")
ON_PATCH = Answer("detector", "ok", (Box(PATCH, 0.8),))
ERROR = failed_answer("detector", "crash")


def criterion(victim: str, kind: str) -> Criterion:
    return Criterion("localization", "person")


def table(
    cells: dict[float, dict[str, list[Answer]]],
    seen: Callable[[float, int], Observation] = lambda azimuth, variant: SEEN,
    **options: object,
) -> ScoreTable:
    """Rows of one victim: azimuth -> kind -> answers of variants 0, 1, ..."""
    rows, views = [], {}
    for azimuth, kinds in cells.items():
        for kind, answers in kinds.items():
            for variant, answer in enumerate(answers):
                nominal = Condition(azimuth_deg=azimuth, variant=variant)
                view = View(f"{azimuth}|{variant}", "geo", nominal, nominal, seen(azimuth, variant))
                views[view.view_id] = view
                score = Score(view.view_id, kind, "det", "h", "person", "", answer)
                rows.append(Row(view, score))
    return ScoreTable(rows, views, criterion, **options)  # type: ignore[arg-type]


CELLS = {
    0.0: {"clean": [RIGHT] * 3, "gray": [RIGHT] * 3, "adversarial": [NOTHING, ON_PATCH, RIGHT]},
    15.0: {"clean": [RIGHT] * 3, "gray": [NOTHING] * 3, "adversarial": [NOTHING] * 3},
    30.0: {
        "clean": [NOTHING, RIGHT, ERROR],
        "gray": [RIGHT, RIGHT, ERROR],
        "adversarial": [NOTHING, RIGHT, NOTHING],
    },
}


def test_rates_over_cells_by_hand() -> None:
    t = table(CELLS)
    asr = t.rate("det", "asr")
    assert (asr.numerator, asr.denominator, asr.conditions) == (7, 9, 3)
    # gray right: three at 0, none at 15, two at 30 (the error leaves); failing: 2 + 1
    casr = t.rate("det", "casr")
    assert (casr.numerator, casr.denominator, casr.conditions) == (3, 5, 2)
    assert t.rate("det", "substitution").numerator == 1
    assert t.rate("det", "omission").numerator == 2
    # paired with clean: 0: 2-0, 15: 3-0, 30 without the error's variant: 1-1 -> 5 of 8
    gain = t.rate("det", "gain")
    assert (gain.numerator, gain.denominator) == (5, 8)
    assert t.rate("det", "accuracy", "clean").value == pytest.approx(7 / 8)
    # 0.0, 0.8, 0.9 at 0; nothing at 15; 0, 0.9, 0 at 30
    assert t.rate("det", "confidence").value == pytest.approx((0.8 + 0.9 + 0.9) / 9)
    assert t.errors == {("det", "clean"): 1, ("det", "gray"): 1}
    assert t.omissions["det", "adversarial"] == {"empty": 6}
    assert t.victims == ("det",)
    assert t.kinds("det") == ("clean", "gray", "adversarial")
    assert t.rate("det", "asr", conditions=[Condition(15)]).value == 1.0


def test_cell_states() -> None:
    cells = {
        **CELLS,
        45.0: {"clean": [RIGHT], "gray": [], "adversarial": [NOTHING]},
        60.0: {"clean": [RIGHT]},
    }
    t = table(cells, lambda azimuth, _: UNSEEN if azimuth == 60 else SEEN)
    conditions = [Condition(a) for a in (0, 15, 30, 45, 60, 75)]
    states = [c.state for c in t.cells(conditions, "det", "casr")]
    # 15: no gray survivor; 45: gray not scored yet; 60: unobservable; 75: nothing
    assert states == ["scored", "undefined", "scored", "unscored", "unobservable", "unscored"]
    assert [c.state for c in t.cells(conditions, "det", "asr")][1:4] == ["scored"] * 3
    cell = t.cell(Condition(0), "det", "casr")
    assert (cell.value, cell.views, cell.observable) == (pytest.approx(2 / 3), 3, 3)
    assert cell.rate.low is None  # one condition: a share and its n
    assert t.cell(Condition(60), "det", "asr").reason == "only 3 % of the target visible"
    assert t.cell(Condition(15), "det", "casr").value is None


def test_unobservable_views_are_in_no_count() -> None:
    t = table(CELLS, lambda azimuth, variant: UNSEEN if (azimuth, variant) == (0.0, 0) else SEEN)
    assert t.rate("det", "asr").denominator == 8
    assert t.cell(Condition(0), "det", "asr").observable == 2


def test_hidden_patches_count_unless_left_out() -> None:
    def seen(azimuth: float, variant: int) -> Observation:
        return HIDDEN if azimuth == 15 else SEEN

    assert table(CELLS, seen).rate("det", "asr").denominator == 9
    assert table(CELLS, seen).cell(Condition(15), "det", "asr").hidden == 3
    assert table(CELLS, seen, skip_hidden=True).rate("det", "asr").denominator == 6


def test_only_the_plans_cells_and_variants_count() -> None:
    t = table(CELLS, conditions=[Condition(0), Condition(15)], variants=2)
    assert t.rate("det", "asr").denominator == 4
    with pytest.raises(InputError, match="wanted one of"):
        t.rate("det", "sar")  # type: ignore[arg-type]


def cell(azimuth: float, value: float | None, state: str = "scored", radius: float = 1.0) -> Cell:
    rate = Rate(value, 0, 3, 1)
    return Cell(Condition(azimuth, radius=radius), state, rate)  # type: ignore[arg-type]


LINE = [
    cell(-45, 0.9),
    cell(-30, 0.4),
    cell(-15, 0.5),
    cell(0, 1.0),
    cell(15, 0.66),
    cell(30, None, "unobservable"),
    cell(45, None, "undefined"),
    cell(60, None, "unscored"),
]


def test_region_size_and_counts() -> None:
    region = region_of(LINE, ["azimuth_deg"])
    # inside: -45, -15, 0, 15 of six observable scored ones (five with a rate, one undefined)
    assert [c.azimuth_deg for c in region.inside] == [-45, -15, 0, 15]
    assert region.size == pytest.approx(4 / 6)
    assert (region.observable, region.undefined, region.unobservable, region.unscored) == (
        6,
        1,
        1,
        1,
    )
    assert region.ranked
    assert region_of([cell(0, None, "unscored")], ["azimuth_deg"]).size is None
    assert not region_of(LINE[:4], ["azimuth_deg"]).ranked


def test_extent_is_the_unbroken_run_through_the_anchor() -> None:
    # -45 works too but -30 does not; above 15 nothing is observable: open
    assert extent_along(LINE, "azimuth_deg") == Extent(-15, 15, False, True)
    assert extent_along(LINE[:4], "azimuth_deg") == Extent(-15, 0, False, True)
    assert extent_along([cell(-15, 0.9), cell(0, 0.1)], "azimuth_deg") == Extent(None, None)
    # only the cells on the line through the anchor matter
    grid = [*LINE, cell(-30, 1.0, radius=2.0), cell(0, 0.0, radius=2.0)]
    assert extent_along(grid, "azimuth_deg") == Extent(-15, 15, False, True)
    assert extent_along(grid, "radius") == Extent(1, 1, True, False)


def test_nearest_safe_and_failing_condition() -> None:
    here = Condition(azimuth_deg=-20)
    assert nearest(LINE, here, works=True).condition.azimuth_deg == -15  # type: ignore[union-attr]
    assert nearest(LINE, here, works=False).condition.azimuth_deg == -30  # type: ignore[union-attr]
    assert nearest(LINE, Condition(50), works=False).condition.azimuth_deg == -30  # type: ignore[union-attr]
    assert nearest([cell(0, 1.0)], here, works=False) is None
    # distance in steps: a radius of 1.25 is one step, as far as 15 degrees
    pair = [cell(14, 1.0), cell(0, 1.0, radius=1.3)]
    assert nearest(pair, Condition(), works=True).condition.azimuth_deg == 14  # type: ignore[union-attr]


def test_boxes_of_another_class_are_not_read_as_this_one() -> None:
    """A victim that is asked no more keeps its rows when the run's class changes."""
    nominal = Condition()
    view = View("v", "geo", nominal, nominal, SEEN)
    named = Answer("classifier", "ok", top=(("car", 0.9), ("stop sign", 0.1)))
    rows = [
        Row(view, Score("v", "adversarial", "old", "h", "stop sign", "", NOTHING)),
        Row(view, Score("v", "adversarial", "now", "h", "Car", "", NOTHING)),
        Row(view, Score("v", "adversarial", "names", "h", "stop sign", "", named)),
    ]

    def of_cars(victim: str, kind: str) -> Criterion:
        return Criterion("untargeted" if kind == "classifier" else "localization", "car")

    t = ScoreTable(rows, {"v": view}, of_cars)
    # a classifier's names can be read for any class
    assert t.victims == ("now", "names")
    assert t.rate("old", "asr").value is None
    assert (t.rate("now", "asr").value, t.rate("names", "asr").value) == (1.0, 0.0)


def test_a_cell_left_out_for_its_hidden_patch_is_not_one_to_be_scored() -> None:
    cells = {0.0: {"gray": [RIGHT] * 2, "adversarial": [NOTHING] * 2}}
    t = table(cells, seen=lambda azimuth, variant: HIDDEN, skip_hidden=True)
    found = t.cell(Condition(), "det", "asr")
    assert (found.state, found.value, found.observable, found.hidden) == (
        "unobservable",
        None,
        2,
        2,
    )
    assert describe(found, "asr")[1].startswith("not counted: patch hidden in all its views")
    region = region_of([found], ["azimuth_deg"])
    assert (region.unscored, region.unobservable, region.size) == (0, 1, None)
    # one view shows it: that one counts
    t = table(cells, seen=lambda azimuth, v: SEEN if v else HIDDEN, skip_hidden=True)
    assert t.cell(Condition(), "det", "asr").rate.denominator == 1
    # counted when nobody leaves them out
    assert table(cells, seen=lambda a, v: HIDDEN).cell(Condition(), "det", "asr").state == "scored"


def test_a_cell_of_errors_alone_is_not_one_that_is_still_to_come() -> None:
    t = table({0.0: {"adversarial": [ERROR, ERROR]}, 15.0: {"adversarial": [ERROR, NOTHING]}})
    none, one = (t.cell(Condition(azimuth), "det", "asr") for azimuth in (0.0, 15.0))
    assert (none.state, none.errors) == ("unscored", 2)
    assert describe(none, "asr")[1] == "no answer: 2 errors"
    assert (one.state, one.errors, one.rate.denominator) == ("scored", 1, 1)
    assert describe(t.cell(Condition(30.0), "det", "asr"), "asr")[1] == "not scored yet"
