from __future__ import annotations

import math

import numpy as np
import pytest

from envelope.condition import (
    ANCHOR,
    AXES,
    Condition,
    condition_camera,
    condition_distance,
    effective_elevation_deg,
    jittered,
    spaced,
)
from scene.camera import Camera
from scene.errors import InputError

UP = (0.0, 1.0, 0.0)
PIVOT = np.array([0.0, 0.0, 0.0])
RNG = np.random.default_rng(7)


def front(width: int = 640, height: int = 480) -> Camera:
    """At z = +4, looking at the origin along -z: right is +x, down is -y."""
    return Camera.look_at([0, 0, 4], [0, 0, 0], UP, width, height, 50.0)


def tilted() -> Camera:
    """No axis of it is an axis of the world; a principal point off the centre; not square."""
    camera = Camera.look_at([1.3, 2.1, -3.7], [0.4, 0.2, 0.3], [0.1, 1, 0.2], 517, 389, 41.0)
    K = camera.K.copy()
    K[0, 2] += 13.7
    K[1, 1] *= 1.07
    return Camera(camera.camera_from_world, K, 517, 389)


def pixel(condition: Condition, point: list[float], camera: Camera | None = None) -> np.ndarray:
    return condition_camera(condition, camera or front(), PIVOT, UP).project([point])[0][0]


@pytest.mark.parametrize("camera", [front(), tilted()], ids=["front", "tilted"])
@pytest.mark.parametrize("pivot", [(0, 0, 0), (0.1, -2.3, 5.0)])
def test_anchor_is_reproduced_bit_for_bit(camera: Camera, pivot: tuple[float, ...]) -> None:
    again = condition_camera(ANCHOR, camera, pivot, (0.3, 0.9, -0.2))
    assert np.array_equal(again.camera_from_world, camera.camera_from_world)
    assert np.array_equal(again.K, camera.K)
    assert (again.width, again.height) == (camera.width, camera.height)


def test_azimuth_moves_the_camera_to_its_right() -> None:
    camera = condition_camera(Condition(azimuth_deg=30), front(), PIVOT, UP)
    np.testing.assert_allclose(
        camera.center, [4 * math.sin(math.pi / 6), 0, 4 * math.cos(math.pi / 6)]
    )
    # a point in FRONT of the pivot (towards the anchor camera) drifts left in the picture
    assert pixel(Condition(azimuth_deg=30), [0, 0, 1])[0] < 320 - 50
    np.testing.assert_allclose(pixel(Condition(azimuth_deg=30), [0, 0, 0]), [320, 240], atol=1e-9)


def test_elevation_moves_the_camera_up() -> None:
    camera = condition_camera(Condition(elevation_deg=30), front(), PIVOT, UP)
    np.testing.assert_allclose(camera.center, [0, 2, 4 * math.cos(math.pi / 6)], atol=1e-12)
    # seen from above, a point in front of the pivot is lower in the picture (larger y)
    assert pixel(Condition(elevation_deg=30), [0, 0, 1])[1] > 240 + 50
    np.testing.assert_allclose(pixel(Condition(elevation_deg=30), [0, 0, 0]), [320, 240], atol=1e-9)


def test_radius_is_a_multiple_of_the_anchor_distance() -> None:
    camera = condition_camera(Condition(radius=2.5), front(), PIVOT, UP)
    np.testing.assert_allclose(camera.center, [0, 0, 10])
    near = pixel(Condition(), [1, 0, 0])[0] - 320
    assert pixel(Condition(radius=2), [1, 0, 0])[0] - 320 == pytest.approx(near / 2)


def test_yaw_looks_right() -> None:
    # turning the gaze right moves the content left
    focal = front().K[0, 0]
    x, y = pixel(Condition(yaw_deg=10), [0, 0, 0])
    assert x == pytest.approx(320 - focal * math.tan(math.radians(10)))
    assert y == pytest.approx(240)


def test_pitch_looks_up() -> None:
    focal = front().K[1, 1]
    x, y = pixel(Condition(pitch_deg=10), [0, 0, 0])
    assert x == pytest.approx(320)
    assert y == pytest.approx(240 + focal * math.tan(math.radians(10)))


def test_roll_turns_the_camera_clockwise() -> None:
    # a camera turned clockwise sees the content turn anticlockwise: right of centre goes up
    before = pixel(Condition(), [1, 0, 0]) - [320, 240]
    after = pixel(Condition(roll_deg=90), [1, 0, 0]) - [320, 240]
    np.testing.assert_allclose(after, [0, -before[0]], atol=1e-9)


def test_focal_zooms_in() -> None:
    before = pixel(Condition(), [1, 1, 0]) - [320, 240]
    np.testing.assert_allclose(pixel(Condition(focal=2), [1, 1, 0]) - [320, 240], 2 * before)


def test_shift_moves_the_content_right_and_down() -> None:
    moved = pixel(Condition(shift_x=0.1, shift_y=-0.2), [1, 1, 0]) - pixel(Condition(), [1, 1, 0])
    np.testing.assert_allclose(moved, [64, -96])


def test_order_orbit_then_orientation_then_intrinsics() -> None:
    """Against a second, independent composition with scipy's rotations."""
    from scipy.spatial.transform import Rotation

    anchor, pivot, up = tilted(), np.array([0.3, -0.2, 0.9]), np.array([0.2, 2.0, -0.1])
    c = Condition(33, -21, 1.7, 11, -7, 19, 1.3, 0.05, -0.08)
    unit = up / np.linalg.norm(up)
    azimuth = Rotation.from_rotvec(np.radians(33) * unit)
    side = np.cross(azimuth.apply(np.array(anchor.forward)), unit)
    orbit = Rotation.from_rotvec(np.radians(21) * side / np.linalg.norm(side)) * azimuth
    center = pivot + 1.7 * orbit.apply(anchor.center - pivot)
    world_from_camera = (
        orbit
        * Rotation.from_matrix(anchor.camera_from_world[:3, :3].T)
        * Rotation.from_euler("YXZ", [11, -7, 19], degrees=True)
    ).as_matrix()
    found = condition_camera(c, anchor, pivot, up)
    np.testing.assert_allclose(found.center, center, atol=1e-12)
    np.testing.assert_allclose(found.camera_from_world[:3, :3].T, world_from_camera, atol=1e-12)
    assert found.K[0, 0] == pytest.approx(1.3 * anchor.K[0, 0])
    assert found.K[1, 1] == pytest.approx(1.3 * anchor.K[1, 1])
    assert found.K[0, 2] == pytest.approx(anchor.K[0, 2] + 0.05 * 517)
    assert found.K[1, 2] == pytest.approx(anchor.K[1, 2] - 0.08 * 389)


def test_orbit_is_rigid_about_the_pivot() -> None:
    pivot = np.array([0.4, 0.1, 0.2])
    before = tilted().project([pivot])
    after = condition_camera(Condition(50, 20), tilted(), pivot, UP).project([pivot])
    np.testing.assert_allclose(after[0], before[0])
    np.testing.assert_allclose(after[1], before[1])


def test_elevation_stops_five_degrees_from_the_pole() -> None:
    camera = condition_camera(Condition(elevation_deg=89), front(), PIVOT, UP)
    np.testing.assert_allclose(
        camera.center, [0, 4 * math.sin(math.radians(85)), 4 * math.cos(math.radians(85))]
    )
    assert effective_elevation_deg(Condition(elevation_deg=-120), front(), UP) == pytest.approx(-85)
    # an anchor 30 degrees above: 55 more degrees up, 115 down
    above = Camera.look_at([0, 2, 4 * math.cos(math.pi / 6)], [0, 0, 0], UP, 64, 48, 50)
    assert effective_elevation_deg(Condition(elevation_deg=90), above, UP) == pytest.approx(55)
    assert effective_elevation_deg(Condition(elevation_deg=-150), above, UP) == pytest.approx(-115)


def test_an_anchor_at_the_pole_is_kept_and_may_only_leave_it() -> None:
    down = Camera.look_at([0, 4, 0], [0, 0, 0], [0, 0, -1], 64, 48, 50)
    still = condition_camera(Condition(elevation_deg=10), down, PIVOT, UP)
    assert np.array_equal(still.camera_from_world, down.camera_from_world)
    assert effective_elevation_deg(Condition(elevation_deg=-10), down, UP) == pytest.approx(-10)
    lower = condition_camera(Condition(elevation_deg=-10), down, PIVOT, UP)
    assert lower.center[1] == pytest.approx(4 * math.cos(math.radians(10)))


def test_variants_are_seeded_by_run_condition_and_variant() -> None:
    c = Condition(azimuth_deg=15, radius=2.0)
    assert jittered(c, 0, 5) == c
    assert jittered(c, 1, 5) == jittered(c, 1, 5)
    assert jittered(c, 1, 5).variant == 1
    different = {jittered(c, v, s).key for v in (1, 2) for s in (5, 6)}
    different |= {jittered(Condition(azimuth_deg=15, radius=2.001), 1, 5).key}
    assert len(different) == 5
    # fixed for all time: a changed generator would silently change every resumed run
    np.testing.assert_allclose(jittered(c, 1, 5).values[:3], JITTER_15_2_SEED5, atol=1e-6)


JITTER_15_2_SEED5 = (15.895505, -0.408356, 2.012457)


def test_jitter_has_the_stated_spread() -> None:
    drawn = np.array([jittered(Condition(radius=2), 1, seed).values for seed in range(4000)])
    spread = drawn.std(axis=0)
    # 4000 draws: the standard error of an sd is 1.1 %
    wanted = [1, 1, 2 * 0.02, 1, 1, 1, 0.01, 0.01, 0.01]
    np.testing.assert_allclose(spread, wanted, rtol=0.05)
    np.testing.assert_allclose(drawn.mean(axis=0), [0, 0, 2, 0, 0, 0, 1, 0, 0], atol=0.06)


def test_condition_identity_and_validation() -> None:
    assert Condition(azimuth_deg=-0.0).key == ANCHOR.key
    assert Condition(radius=1.0000000001) == ANCHOR
    assert Condition.from_dict(Condition(3, 4, variant=2).to_dict()) == Condition(3, 4, variant=2)
    for bad in ({"radius": 0.0}, {"focal": -1.0}, {"yaw_deg": math.nan}, {"variant": -1}):
        with pytest.raises(InputError):
            Condition(**bad)
    with pytest.raises(InputError, match="azimuth_deg"):
        Condition.from_dict({"azimut": 3})
    with pytest.raises(InputError, match="azimuth_deg"):
        ANCHOR.with_values(azimut=3.0)


def test_axes_are_the_nine_fields_in_order_with_methods_ranges() -> None:
    assert tuple(AXES) == tuple(ANCHOR.to_dict())[:9]
    assert AXES["azimuth_deg"].grid == (-60, -45, -30, -15, 0, 15, 30, 45, 60)
    assert (AXES["radius"].low, AXES["radius"].high, AXES["radius"].log) == (0.4, 4.0, True)
    assert (AXES["shift_y"].low, AXES["shift_y"].high) == (-0.3, 0.3)
    for axis in AXES.values():
        assert axis.anchor in axis.grid
        assert axis.low <= axis.grid[0] < axis.grid[-1] <= axis.high


@pytest.mark.parametrize(
    ("args", "wanted"),
    [
        ((-60, 60, 5, False, 0), (-60, -30, 0, 30, 60)),
        ((-30, 60, 4, False, 0), (-30, 0, 30, 60)),
        ((0.25, 4, 5, True, 1), (0.25, 0.5, 1, 2, 4)),
        ((10, 30, 3, False, 0), (10, 20, 30)),  # the anchor is outside
        ((-1, 30, 3, False, 0), (-1, 0, 30)),  # held in, though lopsided
        ((-30, 60, 2, False, 0), (-30, 60)),
        ((-30, 60, 1, False, 0), (0,)),
    ],
)
def test_spaced(args: tuple[float, float, int, bool, float], wanted: tuple[float, ...]) -> None:
    assert spaced(*args) == pytest.approx(wanted)


@pytest.mark.parametrize("args", [(1, 0, 3, False, 0), (0, 2, 3, True, 1), (0, 1, 0, False, 0)])
def test_spaced_refuses(args: tuple[float, float, int, bool, float]) -> None:
    with pytest.raises(InputError):
        spaced(*args)


def test_distance_is_in_steps() -> None:
    # 15 degrees of azimuth are one step, a radius of 1.25^2 two
    assert condition_distance(ANCHOR, Condition(azimuth_deg=15)) == pytest.approx(1)
    assert condition_distance(ANCHOR, Condition(radius=1.5625)) == pytest.approx(2)
    assert condition_distance(Condition(30, radius=1.5625), ANCHOR) == pytest.approx(math.sqrt(8))
