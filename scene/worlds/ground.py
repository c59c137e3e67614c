"""The ground of the street corner: two roads, pavements, kerbs, markings."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scene.worlds.patterns import asphalt, painted, paving
from scene.worlds.surfaces import Material, Surface, disc, grid, quad

DoubleArray = NDArray[np.float64]

SIDE_ROAD = (-8.4, -0.9)
"""x range of the side road, which runs along y up to the main road."""
MAIN_ROAD = (3.0, 11.0)
"""y range of the main road, which runs along x."""
KERB = 0.13
"""Height of the pavements above the roads, metres."""
CORNER_RADIUS = 1.2
"""Of the pavements' corners, metres; a whole number of slabs."""
FAR = 90.0
"""How far the main road goes either way, metres."""
SOUTH = -70.0
"""Where the side road ends."""
NORTH_FRONT, EAST_FRONT, WEST_FRONT = 13.6, 9.6, -11.0
"""Building lines: north of the main road (y), east and west of the side road (x)."""


@dataclass(frozen=True)
class GroundLook:
    """Which asphalt and which slabs."""

    asphalt_seed: int = 1
    paving_seed: int = 9
    slab_m: float = 0.6


def street_ground(look: GroundLook) -> list[Surface]:
    """All ground surfaces. The sign's foot is at the origin, on the south-east pavement."""
    road = Material(asphalt(look.asphalt_seed), 4.0)
    slabs = Material(paving(look.paving_seed), 4 * look.slab_m)
    meadow = Material(painted((0.36, 0.42, 0.24), 58), 40.0)
    west, east = SIDE_ROAD
    south, north = MAIN_ROAD
    west_width, east_width, r = west - WEST_FRONT, EAST_FRONT - east, CORNER_RADIUS
    parts = [
        # the road is split so that its vertices are dense only where the cameras are
        _flat("side road", (west, -14, 0), (east - west, 14 + south), road, 0.4),
        _flat("side road south", (west, SOUTH, 0), (east - west, -14 - SOUTH), road, 2.5),
        _flat("main road", (-14, south, 0), (26, north - south), road, 0.45),
        _flat("main road west", (-FAR, south, 0), (FAR - 14, north - south), road, 2.5),
        _flat("main road east", (12, south, 0), (FAR - 12, north - south), road, 2.5),
        _flat("pavement east", (east + r, -14, KERB), (east_width - r, 14 + south), slabs, 0.3),
        _flat("pavement east edge", (east, -14, KERB), (r, 14 + south - r), slabs, 0.3),
        _rounded("pavement east round", (east + r, south - r), 90, slabs),
        _flat("corner east", (east, south - r, 0), (r, r), road),
        _flat("pavement east south", (east, SOUTH, KERB), (EAST_FRONT - east, -14 - SOUTH), slabs),
        _flat("pavement corner east", (EAST_FRONT, 0, KERB), (FAR - EAST_FRONT, south), slabs, 1.0),
        _flat("pavement west", (WEST_FRONT, -14, KERB), (west_width - r, 14 + south), slabs, 0.5),
        _flat("pavement west edge", (west - r, -14, KERB), (r, 14 + south - r), slabs, 0.5),
        _rounded("pavement west round", (west - r, south - r), 0, slabs),
        _flat("corner west", (west - r, south - r, 0), (r, r), road),
        _flat("pavement west south", (WEST_FRONT, SOUTH, KERB), (west_width, -14 - SOUTH), slabs),
        _flat("pavement corner west", (-FAR, 0, KERB), (FAR + WEST_FRONT, south), slabs, 1.0),
        _flat("pavement north", (-18, north, KERB), (36, NORTH_FRONT - north), slabs, 0.5),
        _flat("pavement north west", (-FAR, north, KERB), (FAR - 18, NORTH_FRONT - north), slabs),
        _flat("pavement north east", (18, north, KERB), (FAR - 18, NORTH_FRONT - north), slabs),
        _flat("meadow", (-400, -400, -0.06), (800, 800), meadow, 40),
    ]  # fmt: skip
    return parts + _kerbs() + _markings()


def _flat(
    name: str,
    corner: tuple[float, float, float],
    size: tuple[float, float],
    material: Material,
    cell: float = 2.0,
) -> Surface:
    return quad(name, corner, (size[0], 0, 0), (0, size[1], 0), material, cell)


def _rounded(
    name: str, center: tuple[float, float], start_deg: float, material: Material
) -> Surface:
    """A quarter disc of pavement that rounds a corner."""
    angle = np.radians(np.linspace(start_deg, start_deg + 90, 10))
    radius = np.linspace(1e-3, CORNER_RADIUS, 5)[:, None]
    x, y = center[0] + radius * np.cos(angle), center[1] + radius * np.sin(angle)
    points = np.stack([x, y, np.full_like(x, KERB)], axis=-1)[:, ::-1]
    sheet = grid(name, points, material)
    tile = material.tile_m or 1.0
    uv = (sheet.vertices[:, :2] - (SIDE_ROAD[1], -14.0)) / tile
    return replace(sheet, uv=uv, normals=np.broadcast_to((0.0, 0, 1.0), sheet.normals.shape).copy())


def _kerbs() -> list[Surface]:
    """Kerb stones: a pale top strip and the face towards the road."""
    west, east = SIDE_ROAD
    south, north = MAIN_ROAD
    r = CORNER_RADIUS
    arc = np.radians(np.linspace(0, 90, 10))
    turn_east = np.stack([east + r - r * np.sin(arc), south - r + r * np.cos(arc)], axis=1)
    turn_west = np.stack([west - r + r * np.cos(arc), south - r + r * np.sin(arc)], axis=1)
    # the road lies on the RIGHT hand of each path
    paths = {
        "east": np.vstack(
            [_line((FAR, south), turn_east[0]), turn_east, _line(turn_east[-1], (east, SOUTH))]
        ),
        "west": np.vstack(
            [_line((west, SOUTH), turn_west[0]), turn_west, _line(turn_west[-1], (-FAR, south))]
        ),
        "north": _line((-FAR, north), (FAR, north)),
    }
    return [sheet for name, path in paths.items() for sheet in _kerb(name, path)]


def _line(start: ArrayLike, end: ArrayLike) -> DoubleArray:
    start, end = np.asarray(start, float), np.asarray(end, float)
    steps = max(2, int(np.linalg.norm(end - start) / 1.5))
    line: DoubleArray = start + np.linspace(0, 1, steps + 1)[:, None] * (end - start)
    return line


def _kerb(name: str, path: DoubleArray) -> list[Surface]:
    """Face and top of a kerb along (n, 2) points."""
    stone = Material(painted((0.64, 0.63, 0.61), 59, 0.25), 1.5)
    keep = np.concatenate([[True], np.linalg.norm(np.diff(path, axis=0), axis=1) > 1e-6])
    path = path[keep]
    along = np.gradient(path, axis=0)
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    inner = path + 0.15 * np.stack([-along[:, 1], along[:, 0]], axis=1)
    top = KERB + 0.004

    def at(points: DoubleArray, z: float) -> DoubleArray:
        return np.column_stack([points, np.full(len(points), z)])

    return [
        grid(f"kerb {name}", np.stack([at(path, 0), at(path, top)]), stone),
        grid(f"kerb top {name}", np.stack([at(path, top), at(inner, top)]), stone),
    ]


def _markings() -> list[Surface]:
    """Stop line, zebra crossing, centre dashes, parking line, a manhole."""
    white = Material(painted((0.84, 0.84, 0.82), 18, 0.28), 2.0)
    iron = Material(painted((0.24, 0.23, 0.22), 19, 0.3), None)
    west, east = SIDE_ROAD
    middle, z = (west + east) / 2, 0.004
    parts = [_flat("stop line", (middle + 0.1, -1.0, z), (east - middle - 0.4, 0.4), white, 1)]
    for i, x in enumerate(np.arange(west + 0.45, east - 0.5, 1.0)):
        parts.append(_flat(f"zebra {i}", (x, 0.1, z), (0.5, 2.2), white, 1))
    for i, y in enumerate(np.arange(-58.0, -2.5, 3.2)):
        parts.append(_flat(f"dash {i}", (middle - 0.06, y, z), (0.12, 1.6), white, 1))
    for i, x in enumerate(np.arange(-60.0, 60.0, 4.0)):
        parts.append(_flat(f"main dash {i}", (x, 6.9, z), (2.0, 0.12), white, 1))
    parts.append(_flat("parking line", (-60, 8.85, z), (120, 0.10), white, 4))
    parts.append(disc("manhole", (-3.1, -3.4, z), (1, 0, 0), (0, 1, 0), 0.31, iron, 28))
    return parts
