"""Trees, bushes and planters."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scene.worlds.patterns import bark, foliage
from scene.worlds.surfaces import Color, Material, Surface, ball, cylinder

DoubleArray = NDArray[np.float64]


def tree(
    name: str,
    foot: ArrayLike,
    height: float,
    crown: float,
    seed: int,
    color: Color = (0.30, 0.42, 0.15),
    leaves: int = 420,
) -> list[Surface]:
    """A street tree: tapering trunk, forked boughs, a crown of clumps and single leaf cards.

    height: metres to the crown's middle. crown: radius in metres.
    """
    rng = np.random.default_rng(seed)
    foot = np.asarray(foot, dtype=np.float64)
    wood = Material(bark(15), 0.6)
    leaf = Material(foliage(14, color), 1.6)
    middle = foot + np.array([0, 0, height])
    parts = [cylinder(name + " trunk", foot, 0.15, height - 0.2 * crown, wood, 0.08, sides=14)]
    clumps = 9
    centers = middle + crown * 0.58 * _sphere_points(rng, clumps) * np.array([1, 1, 0.85])
    parts.append(
        ball(name + " core", middle, np.array([0.62, 0.62, 0.6]) * crown, leaf, 0.10, seed)
    )
    for i, center in enumerate(centers):
        size = crown * rng.uniform(0.38, 0.52)
        parts.append(
            ball(
                f"{name} clump {i}", center, (size, size, size * 0.85), leaf, 0.14, seed + i + 1, 12
            )
        )
    parts.append(_leaf_cards(name + " leaves", middle, crown, leaf, leaves, rng))
    return parts


def bush(
    name: str, foot: ArrayLike, size: ArrayLike, seed: int, color: Color = (0.26, 0.38, 0.16)
) -> Surface:
    """A clipped bush."""
    leaf = Material(foliage(14, color), 1.2)
    size = np.asarray(size, dtype=np.float64)
    center = np.asarray(foot, dtype=np.float64) + np.array([0, 0, size[2] * 0.9])
    return ball(name, center, size, leaf, 0.08, seed, 14)


def _sphere_points(rng: np.random.Generator, count: int) -> DoubleArray:
    """Roughly even unit directions (Fibonacci lattice with a random turn)."""
    i = np.arange(count) + 0.5
    z = 1 - 2 * i / count
    angle = i * 2.399963 + rng.uniform(0, 2 * np.pi)
    r = np.sqrt(1 - z * z)
    return np.stack([r * np.cos(angle), r * np.sin(angle), z], axis=1)


def _leaf_cards(
    name: str,
    middle: DoubleArray,
    crown: float,
    material: Material,
    count: int,
    rng: np.random.Generator,
) -> Surface:
    """Loose twigs of leaves that break the crown's outline: small random triangles pairs."""
    outward = _sphere_points(rng, count)
    at = middle + outward * crown * rng.uniform(0.86, 1.08, (count, 1)) * np.array([1, 1, 0.9])
    spread = rng.normal(size=(count, 2, 3))
    spread /= np.linalg.norm(spread, axis=2, keepdims=True)
    u, v = spread[:, 0] * crown * 0.11, spread[:, 1] * crown * 0.07
    vertices = np.stack([at - u, at - v, at + u, at + v], axis=1).reshape(-1, 3)
    first = np.arange(count) * 4
    faces = np.concatenate(
        [np.stack([first, first + 1, first + 2], 1), np.stack([first, first + 2, first + 3], 1)]
    )
    corner = np.array([[0, 0.5], [0.5, 0], [1, 0.5], [0.5, 1]]) * 0.12
    uv = (rng.random((count, 1, 2)) + corner).reshape(-1, 2)
    normals = np.repeat(outward, 4, axis=0)
    return Surface(name, vertices, faces, uv, normals, material)
