"""How good a reconstruction is: renders against photos, by the renderer that everyone uses."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from scene.gaussians import Gaussians
from scene.reconstruct.exposure import changed, fitted
from scene.reconstruct.losses import FloatArray, psnr, similarity
from scene.reconstruct.photos import Photo
from scene.reconstruct.weighted import agreeing
from scene.render.api import Color, make_renderer

BLACK: Color = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Quality:
    """Agreement with photos: means and per photo (dB), over the pixels that count.

    exposure_fitted: whether an affine color change was fitted to each of these photos first.
    """

    psnr: float
    ssim: float
    per_photo: tuple[tuple[str, float], ...]
    exposure_fitted: bool = False


def measure(
    gaussians: Gaussians,
    photos: tuple[Photo, ...],
    threads: int | None = None,
    fit_exposure: bool = False,
) -> Quality:
    """PSNR and SSIM of renders against photos; NaN where there are none.

    fit_exposure: judge after the affine color change that suits each photo best. This looks at the
    photos that are judged by, so it is never done unasked.
    """
    if not photos:
        return Quality(float("nan"), float("nan"), (), fit_exposure)
    renderer = make_renderer(gaussians, "cpu", threads=threads)
    decibels, similarities = [], []
    for photo in photos:
        # a photo's matte is black where nothing of it is transparent
        rgb = renderer.render(photo.camera, photo.matte).rgb
        picture = np.ascontiguousarray(np.clip(rgb, 0, 1).transpose(2, 0, 1))
        planes = photo.planes()
        if fit_exposure:
            picture = np.clip(changed(picture, fitted(picture, planes, photo.weight)), 0, 1)
        decibels.append(_decibels(picture, planes, photo.weight))
        similarities.append(_similarity(picture, planes, photo.weight))
    names = [photo.name for photo in photos]
    return Quality(
        float(np.mean(decibels)),
        float(np.mean(similarities)),
        tuple(zip(names, decibels, strict=True)),
        fit_exposure,
    )


def _decibels(picture: FloatArray, planes: FloatArray, weight: FloatArray | None) -> float:
    """PSNR; with a weight, the squared error is its weighted mean."""
    if weight is None:
        return psnr(picture, planes)
    squared = (picture.astype(np.float64) - planes) ** 2
    error = float((squared * weight).sum() / (3 * weight.sum(dtype=np.float64)))
    return float("inf") if error == 0 else -10 * math.log10(error)


def _similarity(picture: FloatArray, planes: FloatArray, weight: FloatArray | None) -> float:
    """SSIM; with a weight, what does not count agrees and is left out of the mean."""
    if weight is None:
        return similarity(picture, planes)
    missing = 1 - similarity(agreeing(picture, planes, weight), planes)
    return 1 - missing * weight.size / float(weight.sum(dtype=np.float64))
