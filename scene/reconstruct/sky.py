"""A sky to start from: points on a far sphere, colored by the photos that look that way.

Gaussians rather than a background color, since a sky has clouds and a horizon, since they are
saved in every splat format, and since the renderer, the victims and other viewers need to know
nothing of them. They are learnt, split and faded like all others; the sphere is so far away that
no photo sees it move against infinity by more than a pixel or so.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scene.reconstruct.photos import Photos

FAR = 20.0
"""Radius of the sphere in sizes of the scene (farthest point or camera from the cameras' mean)."""
_FARTHEST_SHARE = 0.98  # of the points: a few stray ones say nothing of the scene's size


def sky_points(points: NDArray[np.float64], photos: Photos, count: int) -> NDArray[np.float64]:
    """(K, 3) evenly spread points of the sphere that at least one training photo has in frame.

    points: (P, 3) the scene's own. count: points on the whole sphere; K is at most that.
    """
    middle = photos.centers.mean(axis=0)
    away = np.linalg.norm(points - middle, axis=1)
    size = max(float(np.quantile(away, _FARTHEST_SHARE)), photos.extent)
    sphere = middle + FAR * size * spread_directions(count)
    seen = np.zeros(count, bool)
    for photo in photos.training:
        pixels, depth = photo.camera.project(sphere)
        size_px = (photo.camera.width, photo.camera.height)
        inside = (pixels >= 0).all(axis=1) & (pixels < size_px).all(axis=1)
        seen |= (depth > 0) & inside
    return sphere[seen]


def spread_directions(count: int) -> NDArray[np.float64]:
    """(count, 3) unit vectors, evenly spread (a Fibonacci lattice)."""
    k = np.arange(count) + 0.5
    z = 1 - 2 * k / count
    around = np.pi * (1 + 5**0.5) * k
    radius = np.sqrt(1 - z**2)
    return np.stack([radius * np.cos(around), radius * np.sin(around), z], axis=1)
