"""Surfaces as small triangle meshes with texture coordinates and smooth normals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scene.worlds.textures import Texture

Color = tuple[float, float, float]
DoubleArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Material:
    """How a surface looks.

    texture: sRGB picture. tile_m: metres that one repeat of it covers (None: stretched once over
    the whole surface). tint: linear-light factor per channel. gloss: strength of the clear coat's
    Fresnel reflection, 0 (matt) to 1. glow: extra irradiance (RGB), the lamps of an interior.
    """

    texture: Texture
    tile_m: float | None = None
    tint: Color = (1.0, 1.0, 1.0)
    gloss: float = 0.0
    glow: Color = (0.0, 0.0, 0.0)

    def tinted(self, tint: Color) -> Material:
        """The same material under another tint."""
        return replace(self, tint=tint)


@dataclass(frozen=True, eq=False)
class Surface:
    """A named mesh of one material.

    vertices: (V, 3) metres. faces: (F, 3), counter-clockwise seen from outside. uv: (V, 2) texture
    repeats, v up. normals: (V, 3) unit, outward.
    """

    name: str
    vertices: DoubleArray
    faces: NDArray[np.int64]
    uv: DoubleArray
    normals: DoubleArray
    material: Material

    def moved(self, rotation: ArrayLike, offset: ArrayLike) -> Surface:
        """Rotated by (3, 3), then shifted by (3,)."""
        rotation = np.asarray(rotation, dtype=np.float64)
        return replace(
            self,
            vertices=self.vertices @ rotation.T + np.asarray(offset, dtype=np.float64),
            normals=self.normals @ rotation.T,
        )


def turned(yaw_deg: float) -> DoubleArray:
    """(3, 3) right-handed rotation about +z."""
    c, s = np.cos(np.radians(yaw_deg)), np.sin(np.radians(yaw_deg))
    return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1.0]])


def placed(surfaces: Sequence[Surface], offset: ArrayLike, yaw_deg: float = 0) -> list[Surface]:
    """A group of surfaces turned about its own origin and set down at `offset`."""
    return [surface.moved(turned(yaw_deg), offset) for surface in surfaces]


def grid(
    name: str,
    points: DoubleArray,
    material: Material,
    size: tuple[float, float] | None = None,
    normals: DoubleArray | None = None,
) -> Surface:
    """A sheet through (rows, columns, 3) points; columns run along u, rows along v.

    size: metres along u and v, for materials with a tile size; measured when not given.
    Normals default to the sheet's own, along (d/du x d/dv).
    """
    rows, columns = points.shape[:2]
    if size is None:
        size = (_path_length(points[rows // 2]), _path_length(points[:, columns // 2]))
    repeats = (1.0, 1.0) if material.tile_m is None else tuple(s / material.tile_m for s in size)
    u, v = np.meshgrid(np.linspace(0, 1, columns), np.linspace(0, 1, rows))
    if normals is None:
        normals = _sheet_normals(points)
    first = (np.arange(rows - 1)[:, None] * columns + np.arange(columns - 1)).ravel()
    faces = np.concatenate(
        [
            np.stack([first, first + 1, first + columns + 1], axis=1),
            np.stack([first, first + columns + 1, first + columns], axis=1),
        ]
    )
    uv = np.stack([u.ravel() * repeats[0], v.ravel() * repeats[1]], axis=1)
    return Surface(name, points.reshape(-1, 3), faces, uv, normals.reshape(-1, 3), material)


def quad(
    name: str, origin: ArrayLike, u: ArrayLike, v: ArrayLike, material: Material, cell: float = 0.6
) -> Surface:
    """A rectangle from its lower left corner along u (right) and v (up); it faces u x v.

    cell: metres between vertices, which carry the baked light.
    """
    origin, u, v = (np.asarray(a, dtype=np.float64) for a in (origin, u, v))
    size = (float(np.linalg.norm(u)), float(np.linalg.norm(v)))
    a, b = (np.linspace(0, 1, 1 + int(np.clip(np.ceil(s / cell), 1, 200))) for s in size)
    points = origin + a[None, :, None] * u + b[:, None, None] * v
    normal = np.cross(u, v) / np.linalg.norm(np.cross(u, v))
    return grid(name, points, material, size, np.broadcast_to(normal, points.shape).copy())


_BOX_FACES = {
    "+x": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "-x": ((-1, 0, 0), (0, -1, 0), (0, 0, 1)),
    "+y": ((0, 1, 0), (-1, 0, 0), (0, 0, 1)),
    "-y": ((0, -1, 0), (1, 0, 0), (0, 0, 1)),
    "+z": ((0, 0, 1), (1, 0, 0), (0, 1, 0)),
    "-z": ((0, 0, -1), (1, 0, 0), (0, -1, 0)),
}


def box(
    name: str,
    center: ArrayLike,
    size: ArrayLike,
    material: Material,
    faces: Sequence[str] = ("+x", "-x", "+y", "-y", "+z"),
    cell: float = 0.6,
    others: dict[str, Material] | None = None,
) -> list[Surface]:
    """A box of the named faces; `others` gives single faces another material."""
    center, half = np.asarray(center, float), np.asarray(size, float) / 2
    made = []
    for face in faces:
        normal, u, v = (np.array(axis) * half for axis in _BOX_FACES[face])
        skin = (others or {}).get(face, material)
        made.append(quad(name + face, center + normal - u - v, 2 * u, 2 * v, skin, cell))
    return made


def cylinder(
    name: str,
    base: ArrayLike,
    radius: float,
    height: float,
    material: Material,
    top_radius: float | None = None,
    sides: int = 24,
    axis: str = "z",
    cell: float = 0.5,
) -> Surface:
    """The mantle of a cylinder or cone that stands on `base` along +z (or lies along +x, +y)."""
    top_radius = radius if top_radius is None else top_radius
    angle = np.linspace(0, 2 * np.pi, sides + 1)
    up = np.linspace(0, 1, 1 + int(np.clip(np.ceil(height / cell), 1, 40)))[:, None]
    r = radius + (top_radius - radius) * up
    points = np.stack(
        [r * np.cos(angle), r * np.sin(angle), np.broadcast_to(height * up, (len(up), sides + 1))],
        axis=-1,
    )
    slope = (radius - top_radius) / max(height, 1e-9)
    flat = np.stack([np.cos(angle), np.sin(angle), np.full_like(angle, slope)], axis=-1)
    normals = np.broadcast_to(flat / np.linalg.norm(flat, axis=1)[:, None], points.shape)
    size = (2 * np.pi * max(radius, top_radius), height)
    order = {"z": [0, 1, 2], "x": [2, 0, 1], "y": [1, 2, 0]}[axis]
    points, normals = points[..., order], normals[..., order].copy()
    return grid(name, points + np.asarray(base, dtype=np.float64), material, size, normals)


def disc(
    name: str,
    center: ArrayLike,
    right: ArrayLike,
    up: ArrayLike,
    radius: float,
    material: Material,
    sides: int = 24,
    phase: float = 0.0,
) -> Surface:
    """A flat regular polygon with `sides` corners; it faces right x up, texture fitted around it.

    The texture's unit square is the square of half side `radius` * cos(pi / sides) for an even
    number of sides, so that an octagon touches it on all four sides.
    """
    center, right, up = (np.asarray(a, dtype=np.float64) for a in (center, right, up))
    angle = phase + np.arange(sides) * 2 * np.pi / sides
    flat = np.concatenate([[[0.0, 0.0]], np.stack([np.cos(angle), np.sin(angle)], axis=1)])
    vertices = center + radius * (flat[:, :1] * right + flat[:, 1:] * up)
    corner = np.arange(sides)
    faces = np.stack([np.zeros_like(corner), corner + 1, (corner + 1) % sides + 1], axis=1)
    uv = 0.5 + 0.5 * flat / np.cos(np.pi / sides)
    normals = np.broadcast_to(np.cross(right, up), vertices.shape).copy()
    return Surface(name, vertices, faces, uv, normals, material)


def ball(
    name: str,
    center: ArrayLike,
    radii: ArrayLike,
    material: Material,
    bump: float = 0.0,
    seed: int = 0,
    rings: int = 16,
) -> Surface:
    """An ellipsoid; `bump` roughens it (fraction of the radius) into a bush or a tree crown."""
    radii = np.broadcast_to(np.asarray(radii, dtype=np.float64), 3)
    phase = np.random.default_rng(seed).uniform(0, 2 * np.pi, 4)
    a, t = np.meshgrid(
        np.linspace(0, 2 * np.pi, 2 * rings + 1), np.linspace(-np.pi / 2, np.pi / 2, rings + 1)
    )
    unit = np.stack([np.cos(t) * np.cos(a), np.cos(t) * np.sin(a), np.sin(t)], axis=-1)
    wave = np.sin(4 * a + phase[0]) * np.sin(5 * t + phase[1])
    wave = wave + 0.7 * np.sin(7 * a + phase[2]) * np.sin(8 * t + phase[3])
    points = unit * radii * (1 + bump * np.cos(t) * wave)[..., None]
    size = (2 * np.pi * radii[0], np.pi * radii[2])
    if bump == 0:
        normals = unit / radii
    else:
        normals = _sheet_normals(points) + 0.5 * unit
    normals = normals / np.maximum(np.linalg.norm(normals, axis=-1, keepdims=True), 1e-9)
    return grid(name, points + np.asarray(center, dtype=np.float64), material, size, normals)


def _path_length(points: DoubleArray) -> float:
    return float(np.linalg.norm(np.diff(points, axis=0), axis=1).sum())


def _sheet_normals(points: DoubleArray) -> DoubleArray:
    normals = np.cross(np.gradient(points, axis=1), np.gradient(points, axis=0))
    length = np.linalg.norm(normals, axis=-1, keepdims=True)
    unit: DoubleArray = normals / np.maximum(length, 1e-12)
    return unit
