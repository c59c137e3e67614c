"""A made-up street of Gaussians with the statistics of a trained scene, for benchmarks.

Thin, anisotropic surfels on a ground and facades, denser near the camera; foliage of fuzzier ones;
a far shell of big ones; a quarter of them faint. Nothing is in any order.
"""

from __future__ import annotations

import numpy as np

from scene.camera import Camera
from scene.gaussians import SH_C0, Gaussians


def street_scene(n: int = 100_000, degree: int = 3, seed: int = 0) -> Gaussians:
    """n Gaussians in front of `street_camera`, x right, y down, z forward, metres."""
    rng = np.random.default_rng(seed)
    shares = {"sign": 0.065, "ground": 0.28, "facades": 0.31, "foliage": 0.27, "far": 0.075}
    counts = {name: int(share * n) for name, share in shares.items()}
    counts["ground"] += n - sum(counts.values())
    density = np.sqrt(100_000 / n)
    makers = {
        "sign": _sign,
        "ground": _ground,
        "facades": _facades,
        "foliage": _foliage,
        "far": _far,
    }
    parts = [makers[name](counts[name], density, rng) for name in makers]
    means, normals, sizes, colors, flatness = (
        np.concatenate([part[i] for part in parts]) for i in range(5)
    )
    order = rng.permutation(n)
    means, normals, sizes, colors = means[order], normals[order], sizes[order], colors[order]
    base = np.log(sizes) + rng.normal(0, 0.65, n)
    scales = np.exp(base[:, None] + rng.normal(0, 0.5, (n, 3)))
    scales[:, 2] *= flatness[order]
    opacities = rng.beta(6.0, 1.2, n)
    faint = rng.random(n) < 0.25
    opacities[faint] = rng.beta(1.0, 3.0, faint.sum())
    sh = rng.normal(0, 0.06, (n, (degree + 1) ** 2, 3))
    sh[:, 0] = (np.clip(colors + rng.normal(0, 0.05, (n, 3)), 0, 1) - 0.5) / SH_C0
    quats = _turned_to(normals + rng.normal(0, 0.08, (n, 3)), rng)
    return Gaussians(means, quats, scales, np.clip(opacities, 0.006, 0.999), sh)


def street_camera(width: int = 640, height: int = 480) -> Camera:
    """At the origin, looking down the street, 60 degrees wide."""
    focal = 0.5 * width / np.tan(np.radians(30.0))
    K = np.array([[focal, 0, width / 2], [0, focal, height / 2], [0, 0, 1]])
    return Camera(np.eye(4), K, width, height)


def _part(means, normals, sizes, color, flatness):
    n = len(means)
    return (
        means,
        np.broadcast_to(normals, (n, 3)),
        np.broadcast_to(sizes, n),
        np.broadcast_to(color, (n, 3)),
        np.full(n, flatness),
    )


def _sign(n, density, rng):
    radius, angle = 0.4 * np.sqrt(rng.random(n)), rng.uniform(0, 2 * np.pi, n)
    means = np.stack(
        [1.5 + radius * np.cos(angle), -0.9 + radius * np.sin(angle), 8 + rng.normal(0, 0.004, n)],
        1,
    )
    return _part(means, [0, 0, -1.0], 0.4 * np.sqrt(np.pi / n) * 0.9, [0.75, 0.05, 0.06], 0.12)


def _ground(n, density, rng):
    z = 1.5 + 48 * rng.random(n) ** 2.2
    x = rng.uniform(-1, 1, n) * (3 + 0.55 * z)
    means = np.stack([x, 1.6 + rng.normal(0, 0.01, n), z], 1)
    return _part(means, [0, -1.0, 0], (0.0125 + 0.0056 * z) * density, [0.35, 0.35, 0.36], 0.12)


def _facades(n, density, rng):
    side = rng.integers(0, 3, n)
    z = np.where(side == 2, 46.0, 6 + 40 * rng.random(n) ** 1.5)
    x = np.choose(side, [-9.0, 8.0, 0.0]) + np.where(side == 2, rng.uniform(-9, 8, n), 0.0)
    means = np.stack([x, rng.uniform(-8, 1.6, n), z], 1) + rng.normal(0, 0.01, (n, 3))
    normals = np.array([[1.0, 0, 0], [-1.0, 0, 0], [0, 0, -1.0]])[side]
    return _part(means, normals, (0.0375 + 0.0035 * z) * density, [0.55, 0.42, 0.36], 0.12)


def _foliage(n, density, rng):
    trees = np.array(
        [[-5.5, -1.5, 9], [-5.5, -2, 15], [5.2, -1.8, 12], [5.5, -2.2, 20], [-5.5, -1.8, 24],
         [5.2, -1.2, 30], [-3.8, 1.0, 6.5], [4.0, 1.1, 7.5]]
    )  # fmt: skip
    radii = np.array([1.7, 1.9, 1.8, 2.0, 2.0, 2.0, 0.7, 0.7])
    tree = rng.choice(8, n, p=[0.2, 0.15, 0.18, 0.12, 0.12, 0.09, 0.07, 0.07])
    direction = rng.normal(size=(n, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    means = trees[tree] + direction * (radii[tree] * rng.random(n) ** 0.45)[:, None]
    return _part(means, rng.normal(size=(n, 3)), 0.045 * density, [0.18, 0.36, 0.12], 0.35)


def _far(n, density, rng):
    azimuth, height = rng.uniform(-0.9, 0.9, n), rng.uniform(-0.15, 0.75, n)
    radius = rng.uniform(60, 120, n)
    means = np.stack(
        [np.sin(azimuth) * np.cos(height), -np.sin(height), np.cos(azimuth) * np.cos(height)], 1
    )
    return _part(means * radius[:, None], -means, 1.6 * density, [0.5, 0.65, 0.9], 0.12)


def _turned_to(normals, rng):
    """Quaternions wxyz that turn +z to the normals, with a random spin."""
    normals = normals / np.linalg.norm(normals, axis=1, keepdims=True)
    x, y, z = normals.T
    turn = np.stack([1 + z, -y, x, np.zeros_like(x)], 1)
    turn[z < -0.999999] = [0, 1, 0, 0]
    turn /= np.linalg.norm(turn, axis=1, keepdims=True)
    half = rng.uniform(0, np.pi, len(x))
    w, i, j, _ = turn.T
    c, s = np.cos(half), np.sin(half)
    return np.stack([w * c, i * c + j * s, j * c - i * s, w * s], 1)
