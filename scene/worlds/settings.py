"""Everything that can vary from one street to the next, drawn from a seed."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from scene.worlds.facades import ShopLook
from scene.worlds.ground import GroundLook
from scene.worlds.interiors import GOODS_KINDS
from scene.worlds.light import Daylight
from scene.worlds.patterns import scaled
from scene.worlds.surfaces import Color
from scene.worlds.vehicles import CarLook

SHOP_NAMES = (
    "BAKERY", "BOOKS & TEA", "HARDWARE", "FLORIST", "CYCLES", "PHARMACY", "CAFE LUMEN", "RECORDS",
    "TOYS", "SHOES", "GREENGROCER", "OPTICIAN", "TAILOR", "CHEESE", "LAMPS", "PAPER & INK",
)  # fmt: skip

SHOP_GOODS = {
    "BAKERY": "loaves", "BOOKS & TEA": "books", "PHARMACY": "bottles", "TAILOR": "clothes",
    "FLORIST": "pots", "SHOES": "clothes", "CHEESE": "loaves", "CAFE LUMEN": "pictures",
    "PAPER & INK": "books", "GREENGROCER": "bottles",
}  # fmt: skip

BOARD_COLORS: tuple[tuple[Color, Color], ...] = (
    ((0.13, 0.22, 0.20), (0.90, 0.82, 0.58)),
    ((0.30, 0.11, 0.13), (0.93, 0.87, 0.72)),
    ((0.12, 0.17, 0.30), (0.90, 0.90, 0.86)),
    ((0.86, 0.82, 0.72), (0.22, 0.18, 0.15)),
    ((0.16, 0.16, 0.17), (0.88, 0.74, 0.44)),
    ((0.24, 0.36, 0.30), (0.94, 0.92, 0.84)),
)
AWNINGS: tuple[tuple[Color, Color], ...] = (
    ((0.22, 0.38, 0.30), (0.88, 0.86, 0.78)),
    ((0.24, 0.32, 0.48), (0.88, 0.87, 0.82)),
    ((0.70, 0.56, 0.28), (0.90, 0.86, 0.76)),
)
CAR_PAINTS: tuple[Color, ...] = (
    (0.13, 0.27, 0.48),
    (0.74, 0.75, 0.76),
    (0.30, 0.34, 0.30),
    (0.55, 0.52, 0.46),
    (0.82, 0.82, 0.80),
    (0.16, 0.17, 0.19),
    (0.36, 0.12, 0.14),
)
LEAF_COLORS: tuple[Color, ...] = (
    (0.36, 0.47, 0.20),
    (0.30, 0.44, 0.21),
    (0.46, 0.50, 0.22),
    (0.56, 0.42, 0.18),
)


@dataclass(frozen=True)
class SignPose:
    """The stop sign: size and wear, height of its centre, how crooked it stands (degrees)."""

    width: float = 0.75
    wear: float = 0.15
    height: float = 2.1
    yaw_deg: float = 0.0
    tilt_deg: float = 0.0
    roll_deg: float = 0.0
    gloss: float = 0.4


@dataclass(frozen=True)
class OtherSign:
    """A sign that is not a stop sign: label, foot (x, y) on a pavement, height, yaw, width."""

    label: str
    foot: tuple[float, float]
    height: float
    yaw_deg: float
    width: float
    wear: float


@dataclass(frozen=True)
class StreetSettings:
    """One street corner. `StreetSettings()` is the demo; `random_settings` draws others."""

    seed: int = 0
    daylight: Daylight = field(default_factory=Daylight)
    sign: SignPose = field(default_factory=SignPose)
    other_signs: tuple[OtherSign, ...] = ()
    ground: GroundLook = field(default_factory=GroundLook)
    cars: tuple[CarLook, ...] = (
        CarLook((0.13, 0.27, 0.48), "AD 2047", True),
        CarLook((0.74, 0.75, 0.76), "VC 118", False),
        CarLook((0.36, 0.12, 0.14), "SC 3305", True),
        CarLook((0.30, 0.34, 0.30), "EN 90", True),
        CarLook((0.16, 0.17, 0.19), "IS 4471", False),
    )
    leaf_color: Color = LEAF_COLORS[0]
    trees: int = 4
    furniture: tuple[str, ...] = ("hydrant", "bin", "bench", "letter box", "planter", "bollards")
    bake_rays: int = 96
    bake_bounces: int = 2


def shop_looks(rng: np.random.Generator, count: int) -> tuple[ShopLook, ...]:
    """Shops with different names; about half have an awning."""
    names = rng.permutation(len(SHOP_NAMES))
    looks = []
    for i in range(count):
        ground, ink = BOARD_COLORS[int(rng.integers(len(BOARD_COLORS)))]
        awning = AWNINGS[int(rng.integers(len(AWNINGS)))] if rng.random() < 0.45 else None
        frame = scaled(ground, 0.8, 0.08)
        name = SHOP_NAMES[names[i % len(names)]]
        goods = SHOP_GOODS.get(name, GOODS_KINDS[int(rng.integers(len(GOODS_KINDS)))])
        looks.append(ShopLook(name, ground, ink, frame, awning, goods, int(rng.integers(1000))))
    return tuple(looks)


def random_settings(seed: int) -> StreetSettings:
    """Another street corner: a pure function of the seed. Cheaper light than the demo's."""
    rng = np.random.default_rng([23, seed])
    paints = rng.permutation(len(CAR_PAINTS))
    cars = tuple(
        CarLook(CAR_PAINTS[paints[i]], f"AD {rng.integers(1000, 9999)}", bool(rng.random() < 0.5))
        for i in range(5)
    )
    every = ("hydrant", "bin", "bench", "letter box", "planter", "bollards")
    return StreetSettings(
        seed=seed,
        daylight=_random_daylight(rng),
        sign=_random_sign(rng),
        other_signs=_random_other_signs(rng),
        ground=GroundLook(int(rng.integers(1, 5)), int(rng.integers(9, 13)), rng.uniform(0.4, 0.8)),
        cars=cars,
        leaf_color=LEAF_COLORS[int(rng.integers(len(LEAF_COLORS)))],
        trees=int(rng.integers(2, 6)),
        furniture=tuple(thing for thing in every if rng.random() < 0.75),
        bake_rays=24,
        bake_bounces=2,
    )


def _random_daylight(rng: np.random.Generator) -> Daylight:
    strength = rng.uniform(0.8, 1.15)
    warmth = rng.uniform(0.0, 1.0)
    sun = np.array([3.6, 3.2 - 0.25 * warmth, 2.8 - 0.8 * warmth]) * strength
    overcast = 0.0 if rng.random() < 0.55 else rng.uniform(0.3, 1.0)
    return Daylight(
        sun_azimuth_deg=rng.uniform(-180, 180),
        sun_elevation_deg=rng.uniform(18, 65),
        sun=(sun[0], sun[1], sun[2]),
        overcast=overcast,
        clouds=rng.uniform(0, 0.9),
        cloud_seed=int(rng.integers(80, 90)),
        haze_m=rng.uniform(150, 600),
    )


def _random_sign(rng: np.random.Generator) -> SignPose:
    crooked = rng.random() < 0.4
    return SignPose(
        width=rng.uniform(0.60, 0.92),
        wear=rng.uniform(0.0, 0.9) ** 1.5,
        height=rng.uniform(1.8, 2.6),
        yaw_deg=rng.normal(0, 10),
        tilt_deg=rng.normal(0, 4) if crooked else 0.0,
        roll_deg=rng.normal(0, 6) if crooked else 0.0,
        gloss=rng.uniform(0.0, 0.8),
    )


def _random_other_signs(rng: np.random.Generator) -> tuple[OtherSign, ...]:
    labels = ("yield sign", "speed limit sign", "no entry sign", "parking sign", "crossing sign")
    spots = [
        (2.6, 1.6),
        (4.8, -0.4),
        (-9.0, -3.0),
        (-9.2, 1.8),
        (-3.0, 11.6),
        (3.5, 11.6),
        (7.5, -2.6),
    ]
    chosen = rng.permutation(len(spots))[: int(rng.integers(2, 5))]
    signs = []
    for spot in chosen:
        x, y = spots[spot]
        signs.append(
            OtherSign(
                label=labels[int(rng.integers(len(labels)))],
                foot=(x + rng.uniform(-0.4, 0.4), y + rng.uniform(-0.2, 0.2)),
                height=rng.uniform(1.9, 2.7),
                yaw_deg=rng.normal(0, 25),
                width=rng.uniform(0.5, 0.8),
                wear=rng.uniform(0, 0.8),
            )
        )
    return tuple(signs)
