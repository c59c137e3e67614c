"""Groups of a summary that share all their cells are not compared with one another."""

from __future__ import annotations

from envelope.cells import ScoreTable
from envelope.summary import _drop, ends
from envelope.sweep import SweepPlan


def test_a_grid_that_is_all_around_its_anchor_has_no_ends_of_its_own() -> None:
    plan = SweepPlan({"azimuth_deg": (-40.0, 0.0, 40.0), "radius": (0.8, 1.0, 1.6)})
    near = plan.near_anchor()
    assert len(near) == 9
    table = ScoreTable({}, {}, lambda name, kind: None, plan.cells(), 1)  # type: ignore[arg-type,return-value]
    for cells in ends(plan).values():
        assert cells and _drop(table, "any", near, cells) == {}


def test_an_end_lies_beyond_the_anchor() -> None:
    """The frontal cells of a one-sided sweep were called oblique, near ones far."""
    plan = SweepPlan({"azimuth_deg": (0.0, 30.0, 60.0), "radius": (0.5, 0.75, 1.0)})
    found = ends(plan)
    assert found["far"] == ()
    assert {c.azimuth_deg for c in found["oblique"]} == {60.0} and len(found["oblique"]) == 3
    assert found["far_or_oblique"] == found["oblique"]
    left = SweepPlan({"azimuth_deg": (-60.0, -30.0), "radius": (1.0, 2.0)})
    assert {c.azimuth_deg for c in ends(left)["oblique"]} == {-60.0}
    assert {c.radius for c in ends(left)["far"]} == {2.0}
