"""Where an object stands that transparent photos show: points near the hull of its outlines."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scene.reconstruct.photos import Photo, Photos

DoubleArray = NDArray[np.float64]

_SAMPLES = 60_000
_SOLID = 0.5
# Some programs write a rounded corner, or an opacity of 254, into every photo.
_LEAST_TRANSPARENT = 0.02
_SHARE_OF_PHOTOS = 0.5
# Of the samples' mean distance: how near a sample outside must be.
_NEAR = 1.5
_MARGIN = 0.1


def are_outlined(photos: Photos) -> bool:
    """Whether each training photo is transparent around what it shows."""
    return all(
        photo.alpha is not None and (photo.alpha < _SOLID).mean() > _LEAST_TRANSPARENT
        for photo in photos.training
    )


def outline_points(photos: Photos, rng: np.random.Generator) -> DoubleArray:
    """(P, 3) random points near the surface of the outlines' common hull; none where it is empty.

    A point is in the hull when at least half of the training photos have it in the frame and all of
    these are solid there.
    """
    cameras = [photo.camera for photo in photos.training]
    middle = _crossing(photos)
    reach = [
        np.linalg.norm(c.center - middle) * 0.5 * max(c.width / c.K[0, 0], c.height / c.K[1, 1])
        for c in cameras
    ]
    low, high = middle - np.median(reach), middle + np.median(reach)
    # twice: an object may fill a thousandth of what the cameras see together
    for _ in range(2):
        samples = rng.uniform(low, high, (_SAMPLES, 3))
        inside = in_hull(samples, photos.training)
        if not inside.any():
            return np.zeros((0, 3))
        margin = _MARGIN * (high - low) * inside.mean() ** (1 / 3)
        low, high = samples[inside].min(axis=0) - margin, samples[inside].max(axis=0) + margin
    return _near_surface(samples, inside)


def in_hull(points: DoubleArray, photos: tuple[Photo, ...]) -> NDArray[np.bool_]:
    """(P,) whether enough photos have a point (P, 3) in the frame, and each of them solid."""
    pictured, solid = np.zeros(len(points), int), np.zeros(len(points), int)
    for photo in photos:
        if photo.alpha is None:
            continue
        pixels, depth = photo.camera.project(points)
        size = (photo.camera.width, photo.camera.height)
        seen = (depth > 0) & (pixels >= 0).all(axis=1) & (pixels < size).all(axis=1)
        column, row = pixels[seen].astype(int).T
        pictured[seen] += 1
        solid[seen] += photo.alpha[row, column] > _SOLID
    return (pictured >= max(1.0, _SHARE_OF_PHOTOS * len(photos))) & (solid == pictured)


def _crossing(photos: Photos) -> DoubleArray:
    """(3,) the point nearest to all optical axes."""
    sums, moments = np.zeros((3, 3)), np.zeros(3)
    for photo in photos.training:
        across = np.eye(3) - np.outer(photo.camera.forward, photo.camera.forward)
        sums += across
        moments += across @ photo.camera.center
    return np.asarray(np.linalg.lstsq(sums, moments, rcond=None)[0], dtype=np.float64)


def _near_surface(samples: DoubleArray, inside: NDArray[np.bool_]) -> DoubleArray:
    from scipy.spatial import cKDTree

    if inside.all():
        return samples
    volume = np.prod(np.ptp(samples, axis=0))
    apart = (volume / len(samples)) ** (1 / 3)
    distance, _ = cKDTree(samples[~inside]).query(samples[inside])
    return samples[inside][distance < _NEAR * apart]
