"""How far a picture is from its photo: (1 - w) L1 + w (1 - SSIM), w = 0.2, and its gradient.

SSIM as 3DGS takes it: an 11x11 Gaussian window of sigma 1.5, zeros outside the picture, constants
0.01^2 and 0.03^2, averaged over pixels and channels. Value and gradient come from two fused
passes over the rows. A pass blurs each row once horizontally and keeps the last eleven in a ring
(stored twice, so that they always stand together somewhere).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scene.render.cpu.cache import helper, kernel
from scene.render.cpu.threads import run_shares

FloatArray = NDArray[np.float32]

TAPS = 11
_REACH = TAPS // 2
_SIGMA = 1.5
_C1 = np.float32(0.01**2)
_C2 = np.float32(0.03**2)
_f = np.float32


def _window() -> FloatArray:
    weights = np.exp(-((np.arange(TAPS) - _REACH) ** 2) / (2 * _SIGMA**2))
    return (weights / weights.sum()).astype(np.float32)


WINDOW = _window()


@dataclass(frozen=True)
class LossValue:
    """Means over pixels and channels: |difference|, SSIM, and the weighted loss."""

    l1: float
    ssim: float
    loss: float


class PhotometricLoss:
    """The loss for pictures of one size; keeps its working memory between calls."""

    def __init__(
        self, height: int, width: int, dssim_weight: float = 0.2, threads: int = 1
    ) -> None:
        self._weight = dssim_weight
        self._threads = threads
        self._slopes = np.empty((3, 3, height, width), np.float32)
        self._gradient = np.empty((3, height, width), np.float32)

    def __call__(self, picture: FloatArray, photo: FloatArray) -> tuple[LossValue, FloatArray]:
        """Loss and dL/dpicture.

        picture: (3 or more, H, W) float32, planar; planes after the third are ignored.
        photo: (3, H, W) float32. The gradient (3, H, W) is reused by the next call.
        """
        threads, slopes = self._threads, self._slopes
        sums = run_shares(
            threads, lambda thread: _compare(picture, photo, WINDOW, thread, threads, slopes)
        )
        count = photo.size
        ssim = sum(part[0] for part in sums) / count
        l1 = sum(part[1] for part in sums) / count
        weight = self._weight
        run_shares(
            threads,
            lambda thread: _gradient(
                picture,
                photo,
                WINDOW,
                slopes,
                _f((1 - weight) / count),
                _f(weight / count),
                thread,
                threads,
                self._gradient,
            ),
        )
        value = LossValue(l1, ssim, (1 - weight) * l1 + weight * (1 - ssim))
        return value, self._gradient


def similarity(picture: FloatArray, photo: FloatArray) -> float:
    """Mean SSIM of two (3, H, W) float32 pictures."""
    slopes = np.empty((3, *photo.shape), np.float32)
    return _compare(picture, photo, WINDOW, 0, 1, slopes)[0] / photo.size


def psnr(picture: FloatArray, photo: FloatArray) -> float:
    """Peak signal-to-noise ratio in dB of pictures in [0, 1], the first one clipped to that."""
    error = float(np.mean((np.clip(picture, 0, 1).astype(np.float64) - photo) ** 2))
    return float("inf") if error == 0 else -10 * math.log10(error)


@kernel
def _compare(picture, photo, window, thread, threads, slopes):  # type: ignore[no-untyped-def]
    """A thread's rows: sums of SSIM and |difference|; fills slopes (3, 3, H, W).

    slopes[0] = dSSIM/dmu, [1] = dSSIM/d(blur of x^2), [2] = dSSIM/d(blur of x y), per pixel,
    where mu is the blurred picture and the others are blurred as they stand (not centred).
    """
    height, width = photo.shape[1], photo.shape[2]
    padded = np.zeros((5, width + TAPS - 1), np.float32)
    ring = np.zeros((2 * TAPS, 5, width), np.float32)
    blurred = np.empty((5, width), np.float32)
    similarity_sum, difference_sum = 0.0, 0.0
    for channel in range(3):
        first, last = height * thread // threads, height * (thread + 1) // threads
        for row in range(first - _REACH, last + _REACH):
            slot = np.uint64((row + TAPS) % TAPS)
            if 0 <= row < height:
                _products(picture[channel, row], photo[channel, row], padded)
                _blur_row(padded, window, ring, slot)
            else:
                ring[slot] = _f(0)
                ring[slot + np.uint64(TAPS)] = _f(0)
            center = row - _REACH
            if center < first:
                continue
            _blur_ring(ring, slot, window, blurred)
            parts = _ssim_row(
                blurred,
                picture[channel, center],
                photo[channel, center],
                slopes[0, channel, center],
                slopes[1, channel, center],
                slopes[2, channel, center],
            )
            similarity_sum += parts[0]
            difference_sum += parts[1]
    return similarity_sum, difference_sum


@kernel
def _gradient(picture, photo, window, slopes, l1_share, ssim_share, thread, threads, gradient):  # type: ignore[no-untyped-def]
    """A thread's rows of l1_share * sign(x - y) - ssim_share * dSSIM/dx."""
    height, width = photo.shape[1], photo.shape[2]
    padded = np.zeros((3, width + TAPS - 1), np.float32)
    ring = np.zeros((2 * TAPS, 3, width), np.float32)
    blurred = np.empty((3, width), np.float32)
    for channel in range(3):
        first, last = height * thread // threads, height * (thread + 1) // threads
        for row in range(first - _REACH, last + _REACH):
            slot = np.uint64((row + TAPS) % TAPS)
            if 0 <= row < height:
                for quantity in range(3):
                    for x in range(np.uint64(width)):
                        padded[quantity, x + np.uint64(_REACH)] = slopes[quantity, channel, row, x]
                _blur_row(padded, window, ring, slot)
            else:
                ring[slot] = _f(0)
                ring[slot + np.uint64(TAPS)] = _f(0)
            center = row - _REACH
            if center < first:
                continue
            _blur_ring(ring, slot, window, blurred)
            seen, true, out = picture[channel, center], photo[channel, center], gradient[channel]
            for x in range(np.uint64(width)):
                a, b = seen[x], true[x]
                sign = _f(1) if a > b else (_f(-1) if a < b else _f(0))
                slope = blurred[0, x] + _f(2) * a * blurred[1, x] + b * blurred[2, x]
                out[np.uint64(center), x] = l1_share * sign - ssim_share * slope


@helper
def _products(seen, true, padded):  # type: ignore[no-untyped-def]
    """x, y, x^2, y^2, x y of a row, between margins of zeros."""
    for x in range(np.uint64(len(seen))):
        at = x + np.uint64(_REACH)
        a, b = seen[x], true[x]
        padded[0, at] = a
        padded[1, at] = b
        padded[2, at] = a * a
        padded[3, at] = b * b
        padded[4, at] = a * b


@helper
def _blur_row(padded, window, ring, slot):  # type: ignore[no-untyped-def]
    """Blur a row horizontally into the ring, at its slot and again TAPS slots later."""
    for quantity in range(np.uint64(padded.shape[0])):
        for x in range(np.uint64(ring.shape[2])):
            total = window[_REACH] * padded[quantity, x + np.uint64(_REACH)]
            for tap in range(np.uint64(_REACH)):
                far = np.uint64(TAPS - 1) - tap
                total += window[tap] * (padded[quantity, x + tap] + padded[quantity, x + far])
            ring[slot, quantity, x] = total
        for x in range(np.uint64(ring.shape[2])):
            ring[slot + np.uint64(TAPS), quantity, x] = ring[slot, quantity, x]


@helper
def _blur_ring(ring, newest, window, out):  # type: ignore[no-untyped-def]
    """Blur vertically over the last eleven rows: they stand together, oldest first."""
    oldest = (newest + np.uint64(1)) % np.uint64(TAPS)
    for quantity in range(np.uint64(out.shape[0])):
        for x in range(np.uint64(out.shape[1])):
            total = window[_REACH] * ring[oldest + np.uint64(_REACH), quantity, x]
            for tap in range(np.uint64(_REACH)):
                far = np.uint64(TAPS - 1) - tap
                pair = ring[oldest + tap, quantity, x] + ring[oldest + far, quantity, x]
                total += window[tap] * pair
            out[quantity, x] = total


@helper
def _ssim_row(blurred, seen, true, of_mean, of_square, of_product):  # type: ignore[no-untyped-def]
    """SSIM and |difference| summed over a row; the three slopes per pixel."""
    similarity_sum, difference_sum = _f(0), _f(0)
    for x in range(np.uint64(len(seen))):
        mean, true_mean = blurred[0, x], blurred[1, x]
        variance = blurred[2, x] - mean * mean
        true_variance = blurred[3, x] - true_mean * true_mean
        covariance = blurred[4, x] - mean * true_mean
        a = mean * mean + true_mean * true_mean + _C1
        b = variance + true_variance + _C2
        c = _f(2) * mean * true_mean + _C1
        d = _f(2) * covariance + _C2
        inverse_a, inverse_b = _f(1) / a, _f(1) / b
        both = inverse_a * inverse_b
        value = c * d * both
        similarity_sum += value
        of_mean[x] = _f(2) * (true_mean * (d - c) * both + mean * value * (inverse_b - inverse_a))
        of_square[x] = -value * inverse_b
        of_product[x] = _f(2) * c * both
        difference_sum += abs(seen[x] - true[x])
    return similarity_sum, difference_sum
