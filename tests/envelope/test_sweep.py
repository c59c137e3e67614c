from __future__ import annotations

import pytest

from envelope.condition import AXES, Condition
from envelope.sweep import SweepPlan, all_axes, axis_name, parse_axes
from scene.errors import InputError

DEMO = SweepPlan({"azimuth_deg": AXES["azimuth_deg"].grid, "radius": AXES["radius"].grid})


def test_grid_counts() -> None:
    assert len(DEMO.cells()) == 63
    assert len(DEMO.views()) == 189
    assert DEMO.pictures == 63 * 3 * 4
    assert DEMO.cells()[0] == Condition(azimuth_deg=-60, radius=0.6)
    assert DEMO.cells()[1] == Condition(azimuth_deg=-60, radius=0.774597)


def test_base_holds_the_other_axes() -> None:
    plan = SweepPlan({"yaw_deg": (-5, 5)}, base=Condition(azimuth_deg=30, variant=2), variants=1)
    assert plan.views() == [Condition(30, yaw_deg=-5), Condition(30, yaw_deg=5)]


def test_one_at_a_time_shares_the_base_cell() -> None:
    plan = all_axes()
    # nine default grids, each through the anchor: 9 + 8 * 7 values, the anchor counted once
    assert len(plan.cells()) == 9 + 8 * 7 - 8
    moved = [
        sum(a != b for a, b in zip(c.values, Condition().values, strict=True)) for c in plan.cells()
    ]
    assert max(moved) == 1
    assert moved.count(0) == 1


def test_nearest_first_starts_at_the_view_and_goes_outwards() -> None:
    order = DEMO.nearest_first(Condition(azimuth_deg=29, radius=1.02))
    assert order[0] == Condition(azimuth_deg=30, radius=1)
    assert [c.variant for c in order[:3]] == [0, 1, 2]
    assert order[-1].nominal() in (Condition(-60, radius=2.5), Condition(-60, radius=0.6))


def test_nine_cells_around_the_anchor() -> None:
    near = DEMO.near_anchor()
    assert len(near) == 9
    assert {c.azimuth_deg for c in near} == {-15, 0, 15}
    assert {c.radius for c in near} == {0.774597, 1.0, 1.25743}


def test_far_and_oblique_ends() -> None:
    assert {c.radius for c in DEMO.at_end("radius", both=False)} == {2.5}
    assert len(DEMO.at_end("radius", both=False)) == 9
    assert {c.azimuth_deg for c in DEMO.at_end("azimuth_deg", both=True)} == {-60, 60}
    assert len(DEMO.at_end("azimuth_deg", both=True)) == 14
    assert DEMO.at_end("roll_deg", both=True) == ()


def test_round_trip() -> None:
    plan = SweepPlan({"roll_deg": (0, 10), "focal": (0.5, 1)}, Condition(3), 2, ("clean", "gray"))
    assert SweepPlan.from_dict(plan.to_dict()) == plan
    assert SweepPlan.from_dict(all_axes().to_dict()) == all_axes()


def test_estimate_by_hand() -> None:
    plan = SweepPlan({"yaw_deg": (0, 10)}, variants=5)  # 10 views, 40 pictures per victim
    # renders 10 x (3 + 2) x 20 ms = 1 s; victims 40 x 50 ms + 40 x 100 ms = 6 s; two cores: 3.5 s,
    # but the slower victim alone takes 4 s
    assert plan.seconds([50, 100], render_ms=20, cores=2) == pytest.approx(4.0)
    assert plan.seconds([50, 60], render_ms=20, cores=2) == pytest.approx((1 + 4.4) / 2)
    assert plan.seconds([], render_ms=20, cores=1) == pytest.approx(1.0)


def test_parse_axes() -> None:
    found = parse_axes(["azimuth", "radius=0.25:4:5"])
    assert found == {"azimuth_deg": AXES["azimuth_deg"].grid, "radius": (0.25, 0.5, 1, 2, 4)}
    assert parse_axes(["yaw_deg=-10,0,2.5"]) == {"yaw_deg": (-10, 0, 2.5)}
    assert axis_name("shift_x") == "shift_x"


@pytest.mark.parametrize(
    "text", ["azimut", "yaw=1:2", "yaw=a,b", "radius=0:2:3", "yaw=2:1:3", "yaw=0:1:0"]
)
def test_parse_refuses(text: str) -> None:
    with pytest.raises(InputError):
        parse_axes([text])


@pytest.mark.parametrize(
    "fields",
    [
        {"axes": {}},
        {"axes": {"yaw_deg": ()}},
        {"axes": {"yaw_deg": (1, 1)}},
        {"axes": {"yaw": (1, 2)}},
        {"axes": {"yaw_deg": (1,), "radius": (1,), "focal": (1,)}},
        {"axes": {"yaw_deg": (1,)}, "variants": 0},
        {"axes": {"yaw_deg": (1,)}, "kinds": ("grey",)},
        {"axes": {"radius": (0.0,)}},
    ],
)
def test_plan_refuses(fields: dict) -> None:
    with pytest.raises(InputError):
        SweepPlan(**fields)
