"""Small things on a pavement: hydrant, bins, bench, lamp posts, bollards, letter box, planter."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from scene.worlds.patterns import painted, planks
from scene.worlds.plants import bush
from scene.worlds.surfaces import Color, Material, Surface, ball, box, cylinder, disc, placed


def hydrant(name: str, foot: ArrayLike, color: Color = (0.72, 0.16, 0.10)) -> list[Surface]:
    """A fire hydrant, 0.75 m."""
    paint = Material(painted(color, 24, 0.25), None, gloss=0.4)
    metal = Material(painted((0.55, 0.55, 0.54), 27, 0.3), None, gloss=0.4)
    parts = [
        cylinder(name + " flange", (0, 0, 0), 0.16, 0.05, paint, sides=20),
        disc(name + " flange top", (0, 0, 0.05), (1, 0, 0), (0, 1, 0), 0.16, paint, 20),
        cylinder(name + " barrel", (0, 0, 0.05), 0.105, 0.42, paint, 0.10, sides=20),
        cylinder(name + " collar", (0, 0, 0.47), 0.135, 0.05, paint, sides=20),
        disc(name + " collar top", (0, 0, 0.52), (1, 0, 0), (0, 1, 0), 0.135, paint, 20),
        ball(name + " dome", (0, 0, 0.52), (0.115, 0.115, 0.14), paint, rings=10),
        cylinder(name + " nut", (0, 0, 0.64), 0.03, 0.08, metal, sides=10),
        cylinder(name + " outlets", (-0.19, 0, 0.36), 0.055, 0.38, metal, axis="x", sides=14),
        cylinder(name + " hose", (0, -0.20, 0.34), 0.07, 0.12, metal, axis="y", sides=14),
        disc(name + " cap", (0, -0.20, 0.34), (1, 0, 0), (0, 0, 1), 0.07, metal, 14),
        disc(name + " cap w", (-0.19, 0, 0.36), (0, -1, 0), (0, 0, 1), 0.055, metal, 14),
        disc(name + " cap e", (0.19, 0, 0.36), (0, 1, 0), (0, 0, 1), 0.055, metal, 14),
    ]
    return placed(parts, foot)


def litter_bin(name: str, foot: ArrayLike, color: Color = (0.13, 0.27, 0.20)) -> list[Surface]:
    """A round litter bin with a hood, 1 m."""
    paint = Material(painted(color, 25, 0.3), None, gloss=0.3)
    dark = Material(painted((0.06, 0.06, 0.06), 26, 0.2), None)
    steel = Material(painted((0.50, 0.51, 0.52), 27, 0.3), None, gloss=0.4)
    parts = [
        cylinder(name + " drum", (0, 0, 0.04), 0.25, 0.68, paint, 0.27, sides=28),
        cylinder(name + " band", (0, 0, 0.62), 0.274, 0.05, steel, sides=28),
        cylinder(name + " mouth", (0, 0, 0.72), 0.21, 0.16, dark, sides=20),
        cylinder(name + " hood", (0, 0, 0.86), 0.28, 0.07, paint, 0.20, sides=28),
        disc(name + " lid", (0, 0, 0.93), (1, 0, 0), (0, 1, 0), 0.20, paint, 28),
    ]
    return placed(parts, foot)


def bench(name: str, foot: ArrayLike, yaw_deg: float = 0) -> list[Surface]:
    """A wooden bench, 1.6 m; sitters look towards -y."""
    wood = Material(planks(28, (0.50, 0.34, 0.20), 2), 0.5)
    iron = Material(painted((0.12, 0.13, 0.13), 29, 0.2), None)
    parts: list[Surface] = []
    every = ("+x", "-x", "+y", "-y", "+z", "-z")
    for i, y in enumerate((-0.18, -0.04, 0.10)):
        parts += box(f"{name} seat {i}", (0, y, 0.44), (1.6, 0.11, 0.035), wood, every, 0.8)
    for i, (y, z) in enumerate(((0.21, 0.62), (0.25, 0.77))):
        parts += box(f"{name} back {i}", (0, y, z), (1.6, 0.03, 0.11), wood, every, 0.8)
    for x in (-0.65, 0.65):
        parts += box(f"{name} leg {x}", (x, -0.02, 0.22), (0.06, 0.42, 0.42), iron, every, 1)
        parts += box(f"{name} arm {x}", (x, 0.23, 0.6), (0.05, 0.04, 0.5), iron, every, 1)
    return placed(parts, foot, yaw_deg)


def lamp_post(name: str, foot: ArrayLike, height: float = 4.6, yaw_deg: float = 0) -> list[Surface]:
    """A street lamp whose arm reaches towards -y."""
    iron = Material(painted((0.16, 0.19, 0.19), 30, 0.2), None, gloss=0.4)
    glow = Material(painted((0.88, 0.87, 0.80), 33, 0.05), None, gloss=0.4)
    parts = [
        cylinder(name + " base", (0, 0, 0), 0.10, 0.7, iron, 0.085, sides=16),
        cylinder(name + " post", (0, 0, 0.7), 0.06, height - 0.7, iron, 0.045, sides=16),
        cylinder(name + " arm", (0, -0.9, height - 0.02), 0.03, 0.95, iron, axis="y", sides=10),
        ball(name + " head", (0, -1.0, height - 0.03), (0.13, 0.32, 0.075), iron, rings=10),
        ball(name + " glass", (0, -1.0, height - 0.07), (0.11, 0.26, 0.06), glow, rings=8),
    ]
    return placed(parts, foot, yaw_deg)


def bollard(name: str, foot: ArrayLike) -> list[Surface]:
    """A dark iron bollard with a pale band, 0.9 m."""
    iron = Material(painted((0.11, 0.12, 0.13), 34, 0.2), None, gloss=0.4)
    band = Material(painted((0.80, 0.80, 0.76), 35, 0.2), None)
    parts = [
        cylinder(name + " post", (0, 0, 0), 0.065, 0.84, iron, sides=16),
        cylinder(name + " band", (0, 0, 0.66), 0.068, 0.08, band, sides=16),
        ball(name + " knob", (0, 0, 0.84), (0.075, 0.075, 0.07), iron, rings=8),
    ]
    return placed(parts, foot)


def letter_box(
    name: str, foot: ArrayLike, yaw_deg: float = 0, color: Color = (0.08, 0.20, 0.44)
) -> list[Surface]:
    """A street letter box on legs with a rounded top, 1.25 m; its flap faces -y."""
    paint = Material(painted(color, 36, 0.2), None, gloss=0.5)
    dark = Material(painted((0.05, 0.06, 0.08), 37, 0.1), None)
    pale = Material(painted((0.85, 0.85, 0.82), 38, 0.1), None)
    parts = box(
        name + " body", (0, 0, 0.62), (0.5, 0.46, 0.8), paint, ("+x", "-x", "+y", "-y", "-z")
    )
    parts.append(_half_round(name + " top", 1.02, 0.25, 0.46, paint))
    for x in (-0.2, 0.2):
        for y in (-0.18, 0.18):
            parts += box(f"{name} leg {x}{y}", (x, y, 0.11), (0.05, 0.05, 0.22), paint)
    parts += box(name + " flap", (0, -0.235, 0.96), (0.36, 0.02, 0.07), dark, ("-y", "+z", "-z"))
    parts += box(name + " label", (0, -0.233, 0.66), (0.26, 0.01, 0.22), pale, ("-y",))
    return placed(parts, foot, yaw_deg)


def _half_round(name: str, z: float, radius: float, depth: float, material: Material) -> Surface:
    """A lying half cylinder along y with its two end faces, as one sheet."""
    from scene.worlds.surfaces import grid

    angle = np.linspace(0, np.pi, 17)
    arc = np.stack([radius * np.cos(angle), np.zeros(17), z + radius * 0.8 * np.sin(angle)], axis=1)
    middle = np.broadcast_to(np.array([0, 0, z]), arc.shape)
    front, back = np.array([0, -depth / 2, 0]), np.array([0, depth / 2, 0])
    rows = [middle + front, arc + front, arc + front, arc + back, arc + back, middle + back]
    return grid(name, np.stack(rows)[:, ::-1], material)


def planter(
    name: str, foot: ArrayLike, size: tuple[float, float, float], seed: int
) -> list[Surface]:
    """A stone trough (length, depth, height) with a clipped bush in it."""
    stone = Material(painted((0.60, 0.57, 0.52), 39, 0.25), None)
    soil = Material(painted((0.20, 0.15, 0.11), 40, 0.3), None)
    length, depth, height = size
    parts = box(name + " trough", (0, 0, height / 2), size, stone, cell=0.5, others={"+z": soil})
    count = max(1, round(length / (depth * 0.9)))
    for i in range(count):
        x = (i + 0.5) / count * length - length / 2
        parts.append(
            bush(
                f"{name} bush {i}",
                (x, 0, height - 0.05),
                (depth * 0.5, depth * 0.46, 0.36),
                seed + i,
            )
        )
    return placed(parts, foot)
