"""The street corner's buildings: rows of shops, and plainer blocks further away."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scene.worlds.backdrop import WALL_COLORS, distant_block, hills, tree_line
from scene.worlds.facades import Building, FacadeLook, shop_building
from scene.worlds.ground import EAST_FRONT, FAR, KERB, NORTH_FRONT, SOUTH, WEST_FRONT
from scene.worlds.patterns import bricks, plaster, roof_tiles, stone_blocks
from scene.worlds.settings import StreetSettings, shop_looks
from scene.worlds.surfaces import Color, Material, Surface

_TRIMS: tuple[Color, ...] = ((0.80, 0.77, 0.70), (0.74, 0.71, 0.66), (0.84, 0.82, 0.78))
_BRICK_COLORS: tuple[Color, ...] = ((0.56, 0.30, 0.22), (0.62, 0.40, 0.30), (0.50, 0.36, 0.30))
_PLASTER_COLORS: tuple[Color, ...] = (
    (0.84, 0.78, 0.64),
    (0.70, 0.75, 0.74),
    (0.83, 0.70, 0.60),
    (0.78, 0.79, 0.74),
)


_CORNER_DEPTH = 4.0


def street_buildings(settings: StreetSettings) -> tuple[list[Surface], list[Surface]]:
    """Opaque surfaces and shop window panes of all buildings, and what lies beyond them."""
    rng = np.random.default_rng([37, settings.seed])
    near = Building()
    lengths = rng.uniform(8.5, 11.5, 5)
    x = -0.5 * lengths.sum() + rng.uniform(-2, 2)
    for i, length in enumerate(lengths):
        row = shop_building(f"north {i}", length, _look(rng, i, shops=2 if length > 9.5 else 1))
        near.add(row.moved((x, NORTH_FRONT, KERB), 0))
        x += length
    # each corner house turns its corner with a windowed wall without shops
    for name, front, start, length, turn, look in (
        ("east", EAST_FRONT, 0.0, 13.0, -90, _look(rng, 1, shops=2)),
        ("west", WEST_FRONT, -13.5, 14.0, 90, _look(rng, 0, shops=2)),
    ):
        main = shop_building(name, length, look, _CORNER_DEPTH, ("+y", "+z"))
        near.add(main.moved((front, start, KERB), turn))
        plain = replace(look, shops=(), roof=None)
        corner = shop_building(f"{name} corner", _CORNER_DEPTH, plain, 0.1, ())
        side = shop_building(f"{name} side", 11.0, _look(rng, 2, shops=2))
        if name == "east":
            near.add(corner.moved((front + _CORNER_DEPTH, 0, KERB), 180))
            near.add(side.moved((front + _CORNER_DEPTH + 11.0, 0, KERB), 180))
        else:
            near.add(corner.moved((front, 0.5, KERB), 180))
            near.add(side.moved((front - _CORNER_DEPTH, 0.5, KERB), 180))
    surfaces = near.surfaces + _far_blocks(rng, lengths.sum() / 2)
    return surfaces, near.panes


def _look(rng: np.random.Generator, index: int, shops: int) -> FacadeLook:
    kind = (index + int(rng.integers(3))) % 3
    seed = int(rng.integers(1000))
    if kind == 0:
        wall = Material(bricks(20, _BRICK_COLORS[int(rng.integers(len(_BRICK_COLORS)))]), 1.2)
    elif kind == 1:
        color = _PLASTER_COLORS[int(rng.integers(len(_PLASTER_COLORS)))]
        wall = Material(plaster(21, color), 3.0)
    else:
        wall = Material(stone_blocks(22, (0.72, 0.67, 0.58)), 2.4)
    return FacadeLook(
        wall=wall,
        trim=_TRIMS[int(rng.integers(len(_TRIMS)))],
        storeys=int(rng.integers(1, 4)),
        shops=shop_looks(rng, shops),
        bay=rng.uniform(2.7, 3.4),
        seed=seed,
        roof=Material(roof_tiles(23), 2.0) if rng.random() < 0.5 else None,
    )


def _far_blocks(rng: np.random.Generator, row_end: float) -> list[Surface]:
    """Blocks down all three streets, trees where they end, hills around."""
    parts: list[Surface] = []

    def block(name: str, x0: float, x1: float, y0: float, y1: float) -> None:
        height = rng.uniform(7, 14)
        center = ((x0 + x1) / 2, (y0 + y1) / 2, height / 2)
        kind = int(rng.integers(len(WALL_COLORS)))
        parts.extend(distant_block(name, center, (x1 - x0, y1 - y0, height), kind))

    for side in (-1, 1):
        edge = row_end - 1.5
        for i, step in enumerate(rng.uniform(11, 16, 4)):
            a, b = sorted((side * edge, side * (edge + step)))
            block(f"far north {side}{i}", a, b, NORTH_FRONT + 0.4, NORTH_FRONT + 12)
            edge += step
        edge = 24.8 if side > 0 else 26.2
        for i, step in enumerate(rng.uniform(12, 17, 4)):
            a, b = sorted((side * edge, side * (edge + step)))
            block(f"far south {side}{i}", a, b, -12, -0.4)
            edge += step
        end = side * (FAR - 3)
        parts += tree_line(f"end {side}", (end, 0, 3.5), (end, 16, 3.5), 5, 3.0, 600 + side)
    for i, (y0, y1) in enumerate(((-27, -13.6), (-41, -27.5), (-58, -42))):
        block(f"far east {i}", EAST_FRONT + 0.3, EAST_FRONT + 11, y0, y1)
        block(f"far west {i}", WEST_FRONT - 11, WEST_FRONT - 0.3, y0, y1)
    parts += tree_line("south end", (WEST_FRONT, SOUTH, 3.5), (EAST_FRONT, SOUTH, 3.5), 6, 3.2, 610)
    parts.append(hills())
    return parts
