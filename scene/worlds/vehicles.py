"""A parked car: a lofted body, a glazed cabin, wheels, lights, mirrors, number plates."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from scene.worlds.lettering import as_picture, number_plate
from scene.worlds.patterns import flat, painted
from scene.worlds.surfaces import Color, Material, Surface, ball, box, cylinder, disc, grid, quad
from scene.worlds.textures import Texture

DoubleArray = NDArray[np.float64]


@dataclass(frozen=True)
class CarLook:
    """Paint, number plate and whether the tail is a hatchback's."""

    paint: Color = (0.13, 0.27, 0.48)
    plate: str = "AD 2047"
    hatchback: bool = True


LENGTH, WIDTH = 4.15, 1.76
_WHEELS_X = (-1.28, 1.27)
_WHEEL_RADIUS = 0.31

# x of each station, height of the body's upper edge there, half width, height of its lower edge
_BODY = np.array(
    [
        [-2.07, 0.62, 0.58, 0.42],
        [-2.03, 0.80, 0.74, 0.30],
        [-1.85, 0.90, 0.83, 0.22],
        [-1.30, 0.93, 0.87, 0.20],
        [-0.40, 0.92, 0.88, 0.20],
        [0.50, 0.91, 0.88, 0.20],
        [1.00, 0.90, 0.87, 0.20],
        [1.50, 0.82, 0.85, 0.20],
        [1.85, 0.74, 0.80, 0.22],
        [2.02, 0.62, 0.70, 0.28],
        [2.08, 0.50, 0.54, 0.38],
    ]
)


def parked_car(name: str, look: CarLook) -> list[Surface]:
    """A car on its wheels, front towards +x, centred on the origin of the ground plane."""
    paint = Material(painted(look.paint, 41, 0.08), None, gloss=0.9)
    side = Material(_side_texture(look.paint), None, gloss=0.9)
    parts = [*_body(name, side), *_cabin(name, look, paint)]
    for i, x in enumerate(_WHEELS_X):
        for y_sign in (-1, 1):
            parts += _wheel(f"{name} wheel {i}{y_sign}", x, y_sign)
    parts += _lights(name) + _trim(name, look, paint)
    return parts


def _body(name: str, material: Material) -> list[Surface]:
    """The lower body: a loft of rounded sections, painted by projection from the side."""
    stations = np.linspace(-2.07, 2.08, 41)
    top, half, low = (np.interp(stations, _BODY[:, 0], _BODY[:, i]) for i in (1, 2, 3))
    angle = np.radians(np.linspace(-62, 242, 33))
    # a superellipse section: flat flanks, rounded shoulders
    across = np.sign(np.cos(angle)) * np.abs(np.cos(angle)) ** 0.42
    upward = np.sign(np.sin(angle)) * np.abs(np.sin(angle)) ** 0.55
    middle, rise = (top + low) / 2, (top - low) / 2
    points = np.empty((len(stations), len(angle), 3))
    points[..., 0] = stations[:, None]
    points[..., 1] = half[:, None] * across
    points[..., 2] = middle[:, None] + rise[:, None] * upward
    sheet = grid(name + " body", points[:, ::-1], material)
    uv = np.stack([(sheet.vertices[:, 0] + 2.1) / 4.2, sheet.vertices[:, 2] / 1.05], axis=1)
    body = Surface(sheet.name, sheet.vertices, sheet.faces, uv, sheet.normals, material)
    return [body, *_end_caps(name, points, material)]


def _end_caps(name: str, points: DoubleArray, material: Material) -> list[Surface]:
    caps = []
    for label, ring, order in (("rear", points[0], 1), ("nose", points[-1], -1)):
        middle = ring.mean(axis=0)
        corner = np.arange(len(ring) - 1)
        faces = np.stack([np.zeros_like(corner), corner + 1, corner + 2], axis=1)[:, ::1]
        vertices = np.concatenate([[middle], ring])
        faces = faces if order < 0 else faces[:, ::-1]
        normals = np.broadcast_to(np.array([-order, 0, 0.0]), vertices.shape).copy()
        uv = np.stack([(vertices[:, 0] + 2.1) / 4.2, vertices[:, 2] / 1.05], axis=1)
        caps.append(Surface(f"{name} {label}", vertices, faces, uv, normals, material))
    return caps


@lru_cache(maxsize=16)
def _side_texture(paint: Color) -> Texture:
    """Flank seen from the side, 4.2 x 1.05 m: sills, wheel arches, door lines, handles."""
    w, h = 1024, 256
    color = tuple(round(255 * c) for c in paint)
    dark = tuple(round(120 * c) for c in paint)
    image = Image.new("RGB", (w, h), color)
    draw = ImageDraw.Draw(image)

    def x(metres: float) -> float:
        return (metres + 2.1) / 4.2 * w

    def z(metres: float) -> float:
        return h - metres / 1.05 * h

    draw.rectangle((0, z(0.30), w, h), fill=(38, 38, 40))
    for wheel in _WHEELS_X:
        r = 0.385
        draw.ellipse((x(wheel - r), z(0.33 + r), x(wheel + r), z(0.33 - r)), fill=(16, 16, 17))
    for edge in (-0.98, -0.02, 0.95):
        draw.line((x(edge), z(0.93), x(edge), z(0.32)), fill=dark, width=3)
    draw.line((x(-0.98), z(0.32), x(0.95), z(0.32)), fill=dark, width=3)
    draw.line((x(-1.9), z(0.70), x(1.75), z(0.66)), fill=dark, width=2)
    for handle in (-0.80, 0.14):
        draw.rectangle((x(handle), z(0.79), x(handle + 0.17), z(0.755)), fill=dark)
    return Texture.from_srgb(as_picture(image))


def _cabin(name: str, look: CarLook, paint: Material) -> list[Surface]:
    """Greenhouse: a rounded roof over windscreen, rear window and tilted side windows."""
    belt, roof = 0.90, 1.43
    rear_low, rear_top = (-1.95, -1.45) if look.hatchback else (-1.45, -0.90)
    front_low, front_top = 1.05, 0.30
    wide, narrow = 0.82, 0.61
    low = _four_corners(front_low, rear_low, wide, belt)
    top = _four_corners(front_top, rear_top, narrow, roof)
    glass = Material(_cabin_texture(look.paint, 0.0), None, gloss=1.0)
    flank = Material(_cabin_texture(look.paint, 0.5), None, gloss=1.0)
    walls = (
        ("screen", "fr", "fl", glass),
        ("tail", "rl", "rr", glass),
        ("left", "fl", "rl", flank),
        ("right", "rr", "fr", flank),
    )
    parts = []
    for label, a, b, material in walls:
        corners = np.array([[low[a], low[b]], [top[a], top[b]]])
        parts.append(grid(f"{name} {label}", _bulged(corners, 0.05), material))
    corners = np.array([[top["rr"], top["fr"]], [top["rl"], top["fl"]]])
    parts.append(grid(name + " roof", _bulged(corners, 0.07), paint))
    return parts


def _four_corners(
    front: float, rear: float, half_width: float, height: float
) -> dict[str, tuple[float, float, float]]:
    """Corners by front or rear, left or right."""
    return {
        "fl": (front, half_width, height),
        "fr": (front, -half_width, height),
        "rl": (rear, half_width, height),
        "rr": (rear, -half_width, height),
    }


def _bulged(corners: DoubleArray, bulge: float, steps: int = 9) -> DoubleArray:
    """Bilinear (2, 2, 3) patch, its middle pushed outwards; edges stay."""
    t = np.linspace(0, 1, steps)
    v, u = t[:, None, None], t[None, :, None]
    flat_patch = (1 - v) * ((1 - u) * corners[0, 0] + u * corners[0, 1]) + v * (
        (1 - u) * corners[1, 0] + u * corners[1, 1]
    )
    normal = np.cross(corners[0, 1] - corners[0, 0], corners[1, 0] - corners[0, 0])
    normal /= np.linalg.norm(normal)
    bulged: DoubleArray = flat_patch + 16 * bulge * (u * (1 - u) * v * (1 - v)) * normal
    return bulged


@lru_cache(maxsize=32)
def _cabin_texture(paint: Color, pillar: float) -> Texture:
    """Dark glass in a painted frame; pillar: where a middle post stands (0: none)."""
    w, h = 256, 128
    color = tuple(round(255 * c) for c in paint)
    image = Image.new("RGB", (w, h), color)
    draw = ImageDraw.Draw(image)
    glass = (28, 33, 38)
    draw.rounded_rectangle((12, 10, w - 13, h - 8), radius=14, fill=glass)
    draw.rectangle((30, h - 40, w - 30, h - 9), fill=(20, 23, 27))
    if pillar:
        draw.rectangle((w * pillar - 6, 0, w * pillar + 6, h), fill=(18, 18, 20))
    return Texture.from_srgb(as_picture(image))


def _wheel(name: str, x: float, y_sign: int) -> list[Surface]:
    """Tyre and rim; the outer face lies just outside the flank."""
    rubber = Material(painted((0.10, 0.10, 0.105), 42, 0.2), None)
    rim = Material(_rim_texture(), None, gloss=0.5)
    outer = y_sign * (WIDTH / 2 + 0.015)
    base = (x, min(outer, outer - y_sign * 0.2), _WHEEL_RADIUS)
    center = np.array([x, outer, _WHEEL_RADIUS])
    rim_center = center + np.array([0, y_sign * 0.004, 0])
    right = np.array([-y_sign * 1.0, 0, 0])  # right x up points outwards
    return [
        cylinder(name + " tread", base, _WHEEL_RADIUS, 0.2, rubber, axis="y", sides=32),
        disc(name + " face", center, right, (0, 0, 1), _WHEEL_RADIUS, rubber, 32),
        disc(name + " rim", rim_center, right, (0, 0, 1), 0.22, rim, 32),
    ]


@lru_cache(maxsize=1)
def _rim_texture() -> Texture:
    n = 128
    image = Image.new("RGB", (n, n), (30, 30, 32))
    draw = ImageDraw.Draw(image)
    draw.ellipse((2, 2, n - 3, n - 3), fill=(168, 170, 174))
    draw.ellipse((14, 14, n - 15, n - 15), fill=(40, 41, 44))
    for k in range(5):
        a = 2 * np.pi * k / 5 + 0.3
        tip = (n / 2 + 52 * np.cos(a), n / 2 + 52 * np.sin(a))
        draw.line((n / 2, n / 2, *tip), fill=(172, 174, 178), width=15)
    draw.ellipse((n / 2 - 14, n / 2 - 14, n / 2 + 14, n / 2 + 14), fill=(150, 152, 156))
    return Texture.from_srgb(as_picture(image))


def _lights(name: str) -> list[Surface]:
    clear = Material(flat((0.86, 0.88, 0.90)), None, gloss=1.0)
    red = Material(flat((0.60, 0.05, 0.05)), None, gloss=1.0)
    parts = []
    for y in (-0.60, 0.60):
        parts.append(ball(f"{name} lamp {y}", (1.93, y, 0.62), (0.13, 0.17, 0.075), clear, rings=8))
        parts.append(
            ball(f"{name} tail lamp {y}", (-1.96, y * 1.08, 0.74), (0.10, 0.12, 0.10), red, rings=8)
        )
    return parts


def _trim(name: str, look: CarLook, paint: Material) -> list[Surface]:
    black = Material(flat((0.07, 0.07, 0.075)), None)
    plate = Material(Texture.from_srgb(number_plate(look.plate)), None)
    parts = [
        ball(f"{name} mirror {y}", (0.82, y, 0.98), (0.07, 0.11, 0.075), paint, rings=8)
        for y in (-0.94, 0.94)
    ]
    parts += box(name + " grille", (2.03, 0, 0.47), (0.12, 0.9, 0.14), black)
    parts += box(
        name + " chassis", (0, 0, 0.26), (3.9, 1.5, 0.16), black, ("+x", "-x", "+y", "-y", "-z")
    )
    parts.append(quad(name + " plate", (2.10, -0.26, 0.34), (0, 0.52, 0), (0, 0, 0.115), plate, 1))
    parts.append(
        quad(name + " rear plate", (-2.09, 0.26, 0.50), (0, -0.52, 0), (0, 0, 0.115), plate, 1)
    )
    return parts
