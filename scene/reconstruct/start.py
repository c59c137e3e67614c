"""Where a reconstruction starts: points with colors, and the first Gaussians made of them."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scene.capture import Capture
from scene.errors import InputError
from scene.gaussians import SH_C0
from scene.reconstruct.options import ReconstructOptions
from scene.reconstruct.outline import are_outlined, outline_points
from scene.reconstruct.photos import Photos
from scene.reconstruct.settings import ReconstructSettings
from scene.reconstruct.sky import sky_points
from scene.render.cpu.records import FloatArray, aligned, morton_order
from scene.render.cpu.training_pack import (
    HARMONICS,
    LOG_SCALE,
    LOGIT,
    MEAN,
    QUATERNION,
    parameter_floats,
)

log = logging.getLogger(__name__)

FEWEST_POINTS = 100
_START_OPACITY = 0.1
_LARGEST_ANGLE = 0.1  # a first Gaussian's sigma is at most this share of its distance


@dataclass(frozen=True, eq=False)
class StartPoints:
    """points: (P, 3) float64 world. colors: (P, 3) float32 sRGB. source: for people."""

    points: NDArray[np.float64]
    colors: FloatArray
    source: str


def start_points(
    capture: Capture,
    photos: Photos,
    settings: ReconstructSettings,
    rng: np.random.Generator,
    options: ReconstructOptions | None = None,
) -> StartPoints:
    """The capture's own points, or SIFT points found with the known poses; a sky if wanted.

    Where all photos are transparent around an object, points near its outlines' hull join.
    """
    options = options or ReconstructOptions()
    if capture.points is not None:
        points = np.asarray(capture.points, dtype=np.float64)
        colors = capture.point_colors
        if colors is None:
            colors = colors_in_photos(points, photos)
        start = StartPoints(points, np.asarray(colors, dtype=np.float32), "given points")
    elif are_outlined(photos):
        start = _outlined(capture, photos, settings, rng, options.masks)
    else:
        start = sift_points(capture, settings.sift_features, options.masks)
    chosen = np.flatnonzero(np.isfinite(start.points).all(axis=1))
    if len(chosen) < FEWEST_POINTS:
        raise InputError(
            f"reconstruct: wanted at least {FEWEST_POINTS} points to start from, found "
            f"{len(chosen)} ({start.source}); take more overlapping photos, or give points"
        )
    most = min(settings.start_points, settings.most_gaussians)
    if len(chosen) > most:
        chosen = np.sort(rng.choice(chosen, most, replace=False))
    log.info("starting from %d of %d points (%s)", len(chosen), len(start.points), start.source)
    start = StartPoints(start.points[chosen], start.colors[chosen], start.source)
    return _with_sky(start, photos, options.sky_points) if options.sky_points else start


def _outlined(
    capture: Capture,
    photos: Photos,
    settings: ReconstructSettings,
    rng: np.random.Generator,
    masks: bool,
) -> StartPoints:
    """Points near the outlines' hull, which need nothing to match, and what SIFT finds besides."""
    points = outline_points(photos, rng)
    colors = colors_in_photos(points, photos)
    source = f"{len(points)} from the photos' outlines"
    try:
        sift = sift_points(capture, settings.sift_features, masks)
    except InputError as error:
        log.info("only outlines are used: %s", error)
        return StartPoints(points, colors, source)
    return StartPoints(
        np.concatenate([sift.points, points]),
        np.concatenate([sift.colors, colors]),
        f"{len(sift.points)} by SIFT, {source}",
    )


def _with_sky(start: StartPoints, photos: Photos, count: int) -> StartPoints:
    sky = sky_points(start.points, photos, count)
    return StartPoints(
        np.concatenate([start.points, sky]),
        np.concatenate([start.colors, colors_in_photos(sky, photos)]),
        f"{start.source}, {len(sky)} of them sky",
    )


def sift_points(capture: Capture, features: int, masks: bool = True) -> StartPoints:
    """Triangulated SIFT tracks of the training photos; needs OpenCV."""
    from scene.reconstruct.matching import find_features, match_all
    from scene.reconstruct.tracks import triangulate

    found = find_features(capture, features, masks)
    tracks = triangulate(found, match_all(found))
    if len(tracks.errors):
        log.info("SIFT: %d points, %.2f px", len(tracks.points), float(tracks.errors.mean()))
    return StartPoints(tracks.points, tracks.colors, "SIFT with the capture's poses")


def colors_in_photos(points: NDArray[np.float64], photos: Photos) -> FloatArray:
    """Colors of points without: the mean over the photos that have them in the frame."""
    total, count = np.zeros((len(points), 3)), np.zeros(len(points))
    for photo in photos.training:
        pixels, depth = photo.camera.project(points)
        size = (photo.camera.width, photo.camera.height)
        inside = (depth > 0) & (pixels >= 0).all(axis=1) & (pixels < size).all(axis=1)
        column, row = pixels[inside].astype(int).T
        total[inside] += photo.planes()[:, row, column].T
        count[inside] += 1
    gray = np.full((len(points), 3), 0.5)
    mean = np.where(count[:, None] > 0, total / np.maximum(count, 1)[:, None], gray)
    return mean.astype(np.float32)


def first_parameters(start: StartPoints, photos: Photos, coefficients: int) -> FloatArray:
    """Rows of parameters: round Gaussians as large as the points are apart, opacity 0.1."""
    from scipy.spatial import cKDTree

    order = morton_order(start.points.astype(np.float32))
    points, colors = start.points[order], start.colors[order]
    neighbours, _ = cKDTree(points).query(points, k=4)
    apart = np.sqrt((neighbours[:, 1:] ** 2).mean(axis=1))
    from_camera, _ = cKDTree(photos.centers).query(points)
    sigma = np.clip(apart, 1e-4 * from_camera + 1e-9, _LARGEST_ANGLE * from_camera + 1e-6)
    parameters = aligned((len(points), parameter_floats(coefficients)))
    parameters[:, MEAN : MEAN + 3] = points
    parameters[:, LOG_SCALE : LOG_SCALE + 3] = np.log(sigma)[:, None]
    parameters[:, QUATERNION] = 1
    parameters[:, LOGIT] = np.log(_START_OPACITY / (1 - _START_OPACITY))
    parameters[:, HARMONICS : HARMONICS + 3] = (colors - 0.5) / SH_C0
    return parameters
