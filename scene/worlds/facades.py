"""Walls with real openings: windows set back in their reveals, shops with rooms behind glass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image, ImageDraw

from scene.worlds.interiors import room_behind
from scene.worlds.lettering import as_bytes, as_picture, shop_board
from scene.worlds.patterns import flat, painted, scaled, stripes
from scene.worlds.surfaces import Color, Material, Surface, box, grid, placed, quad
from scene.worlds.textures import Texture

DoubleArray = NDArray[np.float64]
Rect = tuple[float, float, float, float]
"""x0, z0, x1, z1 in a wall's own plane, metres from its lower left corner."""


@dataclass(frozen=True)
class ShopLook:
    """One shop: its name, colors, and whether it has an awning."""

    name: str
    ground: Color
    ink: Color
    frame: Color
    awning: tuple[Color, Color] | None = None
    goods: str = "books"
    seed: int = 0


@dataclass(frozen=True, eq=False)
class FacadeLook:
    """Upper walls' material, trim color, storeys above the ground floor, shops along the front.

    roof: material of a pitched roof with chimneys; None: flat.
    """

    wall: Material
    trim: Color
    storeys: int
    shops: tuple[ShopLook, ...]
    bay: float = 3.2
    seed: int = 0
    roof: Material | None = None


@dataclass
class Building:
    """Parts of a building as they are collected."""

    surfaces: list[Surface] = field(default_factory=list)
    panes: list[Surface] = field(default_factory=list)

    def moved(self, offset: ArrayLike, yaw_deg: float) -> Building:
        """Turned about its own origin, then set down at `offset`."""
        return Building(placed(self.surfaces, offset, yaw_deg), placed(self.panes, offset, yaw_deg))

    def add(self, other: Building) -> None:
        """Take over another building's parts."""
        self.surfaces += other.surfaces
        self.panes += other.panes


GROUND_FLOOR = 3.6
STOREY = 3.0


def shop_building(
    name: str,
    length: float,
    look: FacadeLook,
    depth: float = 8.0,
    body: Sequence[str] = ("+x", "-x", "+y", "+z"),
) -> Building:
    """A row house whose front lies in y = 0 from x = 0 to `length`, seen from -y.

    body: which other faces it has; shops reach 3.4 m into it. Without shops the ground floor is a
    plain wall.
    """
    building = Building()
    width = length / max(1, len(look.shops))
    for i, shop in enumerate(look.shops):
        building.add(shop_front(f"{name} shop {i}", i * width, width, shop, look.wall))
    building.add(_upper_wall(name, length, look))
    height = GROUND_FLOOR + look.storeys * STOREY
    trim = Material(painted(look.trim, 61), 1.0)
    building.surfaces += box(
        name + " cornice", (length / 2, -0.10, height + 0.12), (length, 0.5, 0.34), trim, cell=1.5
    )
    middle = (length / 2, depth / 2 + 0.01, height / 2)
    if look.roof is not None:
        building.surfaces += _pitched_roof(name, length, depth, height + 0.28, look.roof)
    # a little narrower than its front, so that no two walls share a plane
    size = (length - 0.06, depth, height)
    building.surfaces += box(name + " body", middle, size, look.wall, body, 1.5)
    if not look.shops:
        building.surfaces.append(
            wall_with_openings(
                name + " ground floor", (0, 0, 0), (length, GROUND_FLOOR), [], look.wall
            )
        )
    return building


def _pitched_roof(
    name: str, length: float, depth: float, base: float, tiles: Material
) -> list[Surface]:
    """Two slopes, two gables, a chimney at either end."""
    rise, middle = 0.42 * depth, depth / 2
    eaves = -0.28
    brick = Material(painted((0.50, 0.34, 0.28), 54, 0.3), None)
    slope = (0, middle - eaves, rise)
    parts = [
        quad(name + " roof", (0, eaves, base), (length, 0, 0), slope, tiles, 1.5),
        quad(name + " roof back", (length, depth - eaves, base), (-length, 0, 0),
             (0, eaves - middle, rise), tiles, 3),
    ]  # fmt: skip
    for label, x, order in (("west", 0.05, 1), ("east", length - 0.05, -1)):
        ends = np.array([[x, depth, base], [x, 0, base]])[::order]
        ridge = np.array([[x, middle, base + rise - 0.05]] * 2)
        parts.append(grid(f"{name} gable {label}", np.stack([ends, ridge]), brick))
    for x in (0.7, length - 0.7):
        foot = (x, middle, base + rise + 0.2)
        parts += box(f"{name} chimney {x:.1f}", foot, (0.6, 0.9, 1.4), brick, cell=2)
    return parts


def wall_with_openings(
    name: str,
    origin: ArrayLike,
    size: tuple[float, float],
    openings: Sequence[Rect],
    material: Material,
    cell: float = 0.8,
) -> Surface:
    """One wall in a plane y = const, seen from -y, without the openings' area."""
    length, height = size
    xs = _subdivided([0, length, *(r[0] for r in openings), *(r[2] for r in openings)], cell)
    zs = _subdivided([0, height, *(r[1] for r in openings), *(r[3] for r in openings)], cell)
    x, z = np.meshgrid(xs, zs)
    vertices = np.stack([x, np.zeros_like(x), z], axis=-1).reshape(-1, 3) + np.asarray(origin)
    middle_x, middle_z = np.meshgrid((xs[1:] + xs[:-1]) / 2, (zs[1:] + zs[:-1]) / 2)
    solid = np.ones(middle_x.shape, bool)
    for x0, z0, x1, z1 in openings:
        solid &= ~((middle_x > x0) & (middle_x < x1) & (middle_z > z0) & (middle_z < z1))
    row, column = np.nonzero(solid)
    first = row * len(xs) + column
    above = first + len(xs)
    faces = np.concatenate(
        [np.stack([first, first + 1, above + 1], 1), np.stack([first, above + 1, above], 1)]
    )
    tile = material.tile_m or max(size)
    uv = np.stack([x.ravel(), z.ravel()], axis=1) / tile
    normals = np.broadcast_to(np.array([0, -1.0, 0]), vertices.shape).copy()
    return Surface(name, vertices, faces, uv, normals, material)


def _subdivided(edges: Sequence[float], cell: float) -> DoubleArray:
    """Sorted unique edges with further ones so that no gap exceeds `cell`."""
    unique = np.unique(np.round(edges, 6))
    parts = [unique]
    for low, high in pairwise(unique):
        steps = int(np.ceil((high - low) / cell))
        parts.append(np.linspace(low, high, steps + 1)[1:-1])
    return np.unique(np.round(np.concatenate(parts), 6))


def reveal(name: str, rect: Rect, depth: float, material: Material, y: float = 0) -> list[Surface]:
    """The four inner faces of an opening, from the wall's plane to `depth` behind it."""
    x0, z0, x1, z1 = rect
    w, h = x1 - x0, z1 - z0
    return [
        quad(name + " left", (x0, y, z0), (0, depth, 0), (0, 0, h), material, 2),
        quad(name + " right", (x1, y + depth, z0), (0, -depth, 0), (0, 0, h), material, 2),
        quad(name + " sill", (x0, y, z0), (w, 0, 0), (0, depth, 0), material, 2),
        quad(name + " head", (x0, y + depth, z1), (w, 0, 0), (0, -depth, 0), material, 2),
    ]


def _upper_wall(name: str, length: float, look: FacadeLook) -> Building:
    """Storeys of regular windows above the shops."""
    count = max(1, round(length / look.bay))
    bay = length / count
    rng = np.random.default_rng(look.seed)
    rects = [
        ((i + 0.5) * bay - 0.6, s * STOREY + 0.75, (i + 0.5) * bay + 0.6, s * STOREY + 2.35)
        for i in range(count)
        for s in range(look.storeys)
    ]
    building = Building()
    height = look.storeys * STOREY
    building.surfaces.append(
        wall_with_openings(name + " wall", (0, 0, GROUND_FLOOR), (length, height), rects, look.wall)
    )
    for i, (x0, z0, x1, z1) in enumerate(rects):
        rect = (x0, z0 + GROUND_FLOOR, x1, z1 + GROUND_FLOOR)
        building.surfaces += _window(f"{name} window {i}", rect, look.trim, int(rng.integers(6)))
    return building


def _window(name: str, rect: Rect, trim: Color, kind: int) -> list[Surface]:
    x0, z0, x1, z1 = rect
    stone = Material(painted(trim, 62), 1.0)
    glazing = Material(window_texture(kind), None, gloss=1.0)
    parts = reveal(name, rect, 0.16, stone)
    parts.append(
        quad(name + " glass", (x0, 0.16, z0), (x1 - x0, 0, 0), (0, 0, z1 - z0), glazing, 2)
    )
    ledge = ((x0 + x1) / 2, -0.04, z0 - 0.06)
    parts += box(
        name + " ledge", ledge, (x1 - x0 + 0.3, 0.16, 0.10), stone, ("+x", "-x", "-y", "+z"), 2
    )
    lintel = ((x0 + x1) / 2, -0.02, z1 + 0.12)
    parts += box(
        name + " lintel", lintel, (x1 - x0 + 0.24, 0.08, 0.22), stone, ("+x", "-x", "-y", "-z"), 2
    )
    return parts


@lru_cache(maxsize=8)
def window_texture(kind: int) -> Texture:
    """A sash window: white frame, dim room, curtains or a blind."""
    w, h = 192, 256
    rng = np.random.default_rng(200 + kind)
    shade = rng.uniform(0.10, 0.17)
    image = Image.new("RGB", (w, h), as_bytes((shade, shade * 1.08, shade * 1.2)))
    draw = ImageDraw.Draw(image)
    cloth = ((0.82, 0.80, 0.74), (0.70, 0.72, 0.75), (0.78, 0.70, 0.58))[kind % 3]
    if kind in (0, 3, 4):  # curtains at the sides
        side = int(w * rng.uniform(0.16, 0.28))
        for x in range(0, side, 6):
            fold = 0.75 + 0.25 * np.cos(x * 0.55)
            tone = as_bytes(scaled(cloth, fold))
            draw.rectangle((x, 0, x + 6, h), fill=tone)
            draw.rectangle((w - x - 6, 0, w - x, h), fill=tone)
    if kind in (1, 4, 5):  # a blind drawn part of the way down
        draw.rectangle((0, 0, w, int(h * rng.uniform(0.2, 0.6))), fill=as_bytes(cloth))
    white = (226, 224, 218)
    draw.rectangle((0, 0, w - 1, h - 1), outline=white, width=11)
    draw.rectangle((0, h // 2 - 5, w, h // 2 + 5), fill=white)
    draw.rectangle((w // 2 - 4, 0, w // 2 + 4, h), fill=white)
    return Texture.from_srgb(as_picture(image))


def shop_front(name: str, left: float, width: float, look: ShopLook, wall: Material) -> Building:
    """Ground floor of one shop: pilasters, stall riser, display windows, door, name board."""
    building = Building()
    frame = Material(painted(look.frame, 63, 0.15), 1.0, gloss=0.3)
    door_width, pier = 1.15, 0.35
    glass_right = width - pier - door_width
    display = (pier, 0.55, glass_right - 0.08, 2.75)
    door = (glass_right, 0.06, width - pier, 2.55)
    board = (0.0, 2.95, width, 3.6)
    front = wall_with_openings(
        name + " front", (left, 0, 0), (width, GROUND_FLOOR), [display, door, board], wall
    )
    riser = wall_with_openings(
        name + " riser", (left + pier, -0.03, 0.0), (glass_right - pier, 0.55), [], frame
    )
    building.surfaces += [front, riser]
    for part, rect in (("display", display), ("door", door)):
        shifted = (rect[0] + left, rect[1], rect[2] + left, rect[3])
        building.surfaces += reveal(f"{name} {part}", shifted, 0.14, frame)
        building.surfaces += _bars(f"{name} {part}", shifted, frame, part == "door")
        pane_at, w, h = (shifted[0], 0.12, shifted[1]), rect[2] - rect[0], rect[3] - rect[1]
        building.panes.append(quad(f"{name} {part} pane", pane_at, (w, 0, 0), (0, 0, h), frame, 9))
    building.surfaces += room_behind(name, left + pier, width - 2 * pier, look.seed, look.goods)
    building.surfaces += _name_board(name, left, width, look)
    if look.awning is not None:
        building.surfaces += _awning(name, left + 0.2, width - 0.4, look.awning)
    return building


def _bars(name: str, rect: Rect, material: Material, door: bool) -> list[Surface]:
    """Frame bars before the glass: an outer frame, uprights, and a door's middle rail."""
    x0, z0, x1, z1 = rect
    thick = 0.09 if door else 0.06
    middle_x, middle_z = (x0 + x1) / 2, (z0 + z1) / 2
    bars = [
        ((x0 + thick / 2, middle_z), (thick, z1 - z0)),
        ((x1 - thick / 2, middle_z), (thick, z1 - z0)),
        ((middle_x, z0 + thick / 2), (x1 - x0, thick)),
        ((middle_x, z1 - thick / 2), (x1 - x0, thick)),
    ]
    if door:
        bars.append(((middle_x, z0 + 0.35), (x1 - x0, 0.6)))
    else:
        bars.append(((middle_x, z1 - 0.5), (x1 - x0, 0.05)))
        bars += [((x, middle_z), (0.05, z1 - z0)) for x in np.linspace(x0, x1, 3)[1:-1]]
    parts: list[Surface] = []
    for i, ((x, z), (w, h)) in enumerate(bars):
        parts += box(
            f"{name} bar {i}",
            (x, 0.10, z),
            (w, 0.06, h),
            material,
            ("+x", "-x", "-y", "+z", "-z"),
            3,
        )
    return parts


def _name_board(name: str, left: float, width: float, look: ShopLook) -> list[Surface]:
    board = Material(
        Texture.from_srgb(shop_board(look.name, look.ground, look.ink)), None, gloss=0.2
    )
    edge = Material(flat(scaled(look.ground, 0.7)), None)
    return box(
        name + " board",
        (left + width / 2, -0.06, 3.27),
        (width - 0.1, 0.16, 0.66),
        edge,
        ("+x", "-x", "-y", "+z", "-z"),
        1.0,
        {"-y": board},
    )


def _awning(name: str, left: float, width: float, colors: tuple[Color, Color]) -> list[Surface]:
    cloth = Material(stripes(colors[0], colors[1], max(4, round(width / 0.8))), None)
    drop, reach, top = 0.55, 1.15, 2.98
    return [
        quad(
            name + " awning",
            (left, -reach, top - drop),
            (width, 0, 0),
            (0, reach, drop),
            cloth,
            0.6,
        ),
        quad(
            name + " valance",
            (left, -reach, top - drop - 0.2),
            (width, 0, 0),
            (0, 0, 0.2),
            cloth,
            1,
        ),
    ]
