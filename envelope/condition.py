"""A viewing condition: nine numbers about the anchor camera, and the camera that they mean."""

from __future__ import annotations

import hashlib
import math
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scene.camera import Camera
from scene.errors import InputError

POLE_LIMIT_DEG = 5.0
"""The view direction stays at least this far from straight up and straight down (method.md 4)."""
_SAME_ELEVATION_DEG = 0.01


@dataclass(frozen=True)
class Axis:
    """One of the nine numbers, as sliders, sweeps and figures need it.

    name: the field of `Condition`. positive: what a larger value means to the user.
    anchor: the value that reproduces the anchor. low, high: slider range. grid: default sweep.
    log: spaced by ratio. step: one comfortable step, the unit in which conditions are compared
    (a ratio on log axes). jitter: standard deviation of the noise variants (relative on log axes).
    """

    name: str
    unit: str
    positive: str
    anchor: float
    low: float
    high: float
    grid: tuple[float, ...]
    step: float
    jitter: float
    log: bool = False

    def steps(self, value: float) -> float:
        """Signed distance of `value` from zero (or from 1 on log axes) in comfortable steps."""
        return math.log(value) / math.log(self.step) if self.log else value / self.step


def spaced(low: float, high: float, count: int, log: bool, anchor: float) -> tuple[float, ...]:
    """`count` values from low to high, even (by ratio on log axes) and through `anchor`.

    When low < anchor < high the anchor is one of the values, so that every sweep holds the anchor
    cell; the steps are shared out to its two sides in proportion and are even on either side.
    """
    if count < 1:
        raise InputError(f"axis: wanted at least one value, found a count of {count}")
    if not (math.isfinite(low) and math.isfinite(high) and low <= high and (low > 0 or not log)):
        raise InputError(f"axis: wanted low <= high (both > 0 on log axes), found {low:g}:{high:g}")
    if count == 1:
        return (anchor if low <= anchor <= high else low,)

    def forward(x: float) -> float:
        return math.log(x) if log else x

    def run(a: float, b: float, steps: int) -> list[float]:
        values = [a + (b - a) * i / steps for i in range(steps + 1)]
        return [math.exp(v) if log else v for v in values]

    a, b, middle = forward(low), forward(high), forward(anchor)
    if not a < middle < b or count < 3:
        values = run(a, b, count - 1)
    else:
        below = min(count - 2, max(1, round((count - 1) * (middle - a) / (b - a))))
        values = run(a, middle, below) + run(middle, b, count - 1 - below)[1:]
        values[below] = anchor
    values[0], values[-1] = low, high
    return tuple(float(f"{v:.6g}") for v in values)


def _angle(
    name: str, positive: str, limit: float, grid: int, reach: float, step: float = 15.0
) -> Axis:
    values = spaced(-reach, reach, grid, False, 0.0)
    return Axis(name, "deg", positive, 0.0, -limit, limit, values, step, 1.0)


def _ratio(
    name: str, positive: str, low: float, high: float, reach: tuple[float, float], jitter: float
) -> Axis:
    values = spaced(reach[0], reach[1], 7, True, 1.0)
    return Axis(name, "x anchor", positive, 1.0, low, high, values, 1.25, jitter, log=True)


def _shift(name: str, positive: str) -> Axis:
    grid = spaced(-0.3, 0.3, 7, False, 0.0)
    return Axis(name, "of picture", positive, 0.0, -0.3, 0.3, grid, 0.1, 0.01)


AXES: dict[str, Axis] = {
    axis.name: axis
    for axis in (
        _angle("azimuth_deg", "camera moves to its right around the pivot", 90, 9, 60),
        _angle("elevation_deg", "camera moves up around the pivot", 45, 7, 45),
        _ratio("radius", "farther", 0.4, 4.0, (0.6, 2.5), 0.02),
        _angle("yaw_deg", "looks right", 30, 7, 30, 10.0),
        _angle("pitch_deg", "looks up", 30, 7, 30, 10.0),
        _angle("roll_deg", "camera turns clockwise", 45, 7, 45),
        _ratio("focal", "zooms in", 0.5, 2.0, (0.5, 2.0), 0.01),
        _shift("shift_x", "content moves right"),
        _shift("shift_y", "content moves down"),
    )
}
"""The nine axes in the order of `Condition`'s fields."""


@dataclass(frozen=True)
class Condition:
    """theta of method.md section 4; the default is the anchor itself.

    Angles in degrees, radius and focal as multiples of the anchor, shifts as fractions of the
    picture. variant: 0 is the exact condition, 1.. are its noise variants (see `jittered`).
    """

    azimuth_deg: float = 0.0
    elevation_deg: float = 0.0
    radius: float = 1.0
    yaw_deg: float = 0.0
    pitch_deg: float = 0.0
    roll_deg: float = 0.0
    focal: float = 1.0
    shift_x: float = 0.0
    shift_y: float = 0.0
    variant: int = 0

    def __post_init__(self) -> None:
        for name, axis in AXES.items():
            value = float(getattr(self, name))
            if not math.isfinite(value) or (axis.log and value <= 0):
                wanted = "a number > 0" if axis.log else "a finite number"
                raise InputError(f"condition {name}: wanted {wanted}, found {value}")
            # six significant decimals are the identity of a condition; + 0.0 turns -0.0 into 0.0
            object.__setattr__(self, name, round(value, 6) + 0.0)
        if self.variant < 0:
            raise InputError(f"condition variant: wanted 0 or more, found {self.variant}")
        object.__setattr__(self, "variant", int(self.variant))

    @property
    def values(self) -> tuple[float, ...]:
        """The nine numbers in the order of `AXES`."""
        return tuple(getattr(self, name) for name in AXES)

    @cached_property
    def key(self) -> str:
        """Text that is equal exactly for equal nine numbers (the variant is not part of it)."""
        return ",".join(f"{value:.6f}" for value in self.values)

    def nominal(self) -> Condition:
        """The same nine numbers as variant 0."""
        return replace(self, variant=0)

    def with_values(self, **values: float) -> Condition:
        """A copy with some of the nine numbers replaced; InputError for an unknown name."""
        for name in values:
            if name not in AXES:
                raise InputError(f"axis {name}: wanted one of {', '.join(AXES)}")
        changed: dict[str, Any] = dict(values)
        return replace(self, **changed)

    def to_dict(self) -> dict[str, float]:
        """The nine numbers and the variant by name."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Condition:
        """Inverse of `to_dict`; absent fields take the anchor's value, unknown ones are refused."""
        unknown = set(fields) - {*AXES, "variant"}
        if unknown:
            raise InputError(
                f"condition: unknown {', '.join(sorted(unknown))}; wanted {', '.join(AXES)}"
            )
        return cls(**fields)


ANCHOR = Condition()


def condition_distance(a: Condition, b: Condition) -> float:
    """Euclidean distance of two conditions in comfortable steps of each axis (`Axis.step`)."""
    squares = (
        (axis.steps(x) - axis.steps(y)) ** 2
        for axis, x, y in zip(AXES.values(), a.values, b.values, strict=True)
    )
    return math.sqrt(sum(squares))


def jittered(condition: Condition, variant: int, run_seed: int) -> Condition:
    """Noise variant `variant` of a nominal condition; variant 0 is the condition itself.

    Angles move by sd 1 degree, radius by 2 %, focal by 1 %, shifts by 0.01 of the picture. The
    noise depends on the run seed, the nominal numbers and the variant alone, so that all render
    kinds and victims of a condition see the same camera (measures are paired).
    """
    if variant == 0:
        return condition.nominal()
    text = f"{int(run_seed)}|{condition.key}|{int(variant)}"
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big")
    noise = np.random.Generator(np.random.PCG64(seed)).standard_normal(len(AXES))
    moved: dict[str, float] = {}
    for axis, value, z in zip(AXES.values(), condition.values, noise.tolist(), strict=True):
        amount = axis.jitter * z
        moved[axis.name] = value * math.exp(amount) if axis.log else value + amount
    return Condition(**moved, variant=variant)


def condition_camera(
    condition: Condition, anchor: Camera, pivot: ArrayLike, up: ArrayLike
) -> Camera:
    """The camera of a condition.

    anchor: the anchor camera, already at the run's render size. pivot: (3,) the point t in world
    units that orbit and radius turn about. up: (3,) the scene's signed up axis, any length.

    Order (method.md section 4): orbit by azimuth, then elevation, and scale by radius, rigidly
    about the pivot; then yaw, pitch, roll in the camera's own frame; then the intrinsics. Steps
    that do nothing are skipped, so that the anchor comes back bit for bit.
    """
    t = np.asarray(pivot, dtype=np.float64)
    axis_up = np.asarray(up, dtype=np.float64)
    if t.shape != (3,) or axis_up.shape != (3,) or not np.linalg.norm(axis_up) > 0:
        raise ValueError(f"pivot and up: wanted (3,) and up != 0, found {t.shape}, {axis_up}")
    pose = _turned(_orbited(condition, anchor, t, axis_up / np.linalg.norm(axis_up)), condition)
    K = np.array(anchor.K)
    if condition.focal != 1.0:
        K[[0, 1], [0, 1]] *= condition.focal
    K[0, 2] += condition.shift_x * anchor.width
    K[1, 2] += condition.shift_y * anchor.height
    return replace(anchor, camera_from_world=pose, K=K)


def effective_elevation_deg(condition: Condition, anchor: Camera, up: ArrayLike) -> float:
    """The elevation that `condition_camera` applies: the asked one, held off the poles.

    The angle between the view direction and `up` stays within 5 to 175 degrees. An anchor that is
    itself nearer to a pole may only move away from it.
    """
    axis_up = np.asarray(up, dtype=np.float64)
    cosine = float(anchor.forward @ axis_up / np.linalg.norm(axis_up))
    from_up = math.degrees(math.acos(min(1.0, max(-1.0, cosine))))
    lowest = min(from_up, POLE_LIMIT_DEG) - from_up
    highest = max(from_up, 180.0 - POLE_LIMIT_DEG) - from_up
    return min(max(condition.elevation_deg, lowest), highest)


def held_elevation_deg(condition: Condition, anchor: Camera, up: ArrayLike) -> float | None:
    """The elevation applied instead of the asked one, where these differ by over 0.01 degrees."""
    applied = effective_elevation_deg(condition, anchor, up)
    return applied if abs(applied - condition.elevation_deg) > _SAME_ELEVATION_DEG else None


def _orbited(
    condition: Condition, anchor: Camera, t: NDArray[np.float64], up: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(4, 4) camera_from_world after azimuth, elevation and radius."""
    elevation_deg = effective_elevation_deg(condition, anchor, up)
    if condition.azimuth_deg == 0 and elevation_deg == 0 and condition.radius == 1:
        return np.array(anchor.camera_from_world)
    turn = _rotation(up, condition.azimuth_deg)
    if elevation_deg != 0:
        side = np.cross(turn @ anchor.forward, up)
        if np.linalg.norm(side) < 1e-9:  # looking straight along `up`: the picture's own right
            side = turn @ anchor.right
        turn = _rotation(side / np.linalg.norm(side), -elevation_deg) @ turn
    rotation = anchor.camera_from_world[:3, :3] @ turn.T
    center = t + condition.radius * (turn @ (anchor.center - t))
    pose = np.eye(4)
    pose[:3, :3] = rotation
    pose[:3, 3] = -rotation @ center
    return pose


def _turned(pose: NDArray[np.float64], condition: Condition) -> NDArray[np.float64]:
    """(4, 4) camera_from_world after yaw, pitch and roll about the camera's own centre."""
    if condition.yaw_deg == 0 and condition.pitch_deg == 0 and condition.roll_deg == 0:
        return pose
    x, y, z = np.eye(3)
    turn = (
        _rotation(y, condition.yaw_deg)
        @ _rotation(x, condition.pitch_deg)
        @ _rotation(z, condition.roll_deg)
    )
    turned = np.array(pose)
    turned[:3] = turn.T @ pose[:3]
    return turned


def _rotation(axis: NDArray[np.float64], angle_deg: float) -> NDArray[np.float64]:
    """(3, 3) right-handed rotation about a unit axis (Rodrigues); exactly the identity at 0."""
    if angle_deg == 0:
        return np.eye(3)
    angle = math.radians(angle_deg)
    x, y, z = axis
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    result: NDArray[np.float64] = (
        np.eye(3) + math.sin(angle) * cross + (1 - math.cos(angle)) * (cross @ cross)
    )
    return result
