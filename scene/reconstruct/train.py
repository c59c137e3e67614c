"""The training loop: from a capture to Gaussians, resumable, the same every time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scene.capture import Capture
from scene.gaussians import Gaussians
from scene.reconstruct import densify
from scene.reconstruct.adam import Adam
from scene.reconstruct.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from scene.reconstruct.losses import PhotometricLoss, psnr, similarity
from scene.reconstruct.photos import Photo, Photos, load_photos
from scene.reconstruct.settings import ReconstructSettings
from scene.reconstruct.start import first_parameters, start_points
from scene.render.api import Color, make_renderer
from scene.render.cpu.threads import default_threads
from scene.render.cpu.training import TrainingRenderer, gaussians_of
from scene.render.cpu.training_pack import (
    HARMONICS,
    LOG_SCALE,
    LOGIT,
    MEAN,
    QUATERNION,
)

log = logging.getLogger(__name__)

BLACK: Color = (0.0, 0.0, 0.0)
_SMOOTHING = 0.98


@dataclass(frozen=True)
class Progress:
    """How far a reconstruction is. loss: running mean. held_out_psnr: dB, when just measured."""

    iteration: int
    iterations: int
    gaussians: int
    loss: float
    seconds: float
    held_out_psnr: float | None = None


ProgressCallback = Callable[[Progress], bool | None]


@dataclass(frozen=True)
class Quality:
    """Agreement with photos, by the renderer that everyone uses: means and per photo (dB)."""

    psnr: float
    ssim: float
    per_photo: tuple[tuple[str, float], ...]


@dataclass(frozen=True, eq=False)
class ReconstructResult:
    """The scene and how good it is; held-out figures are NaN where nothing was held out.

    seconds: wall time of the training loop, photos and start points included.
    """

    gaussians: Gaussians
    held_out_psnr: float
    held_out_ssim: float
    held_out: tuple[tuple[str, float], ...]
    iterations: int
    seconds: float
    start: str


def reconstruct(
    capture: Capture,
    settings: ReconstructSettings | None = None,
    progress: ProgressCallback | None = None,
    resume_from: Path | None = None,
    checkpoint_to: Path | None = None,
    checkpoint_every: int = 500,
    report_every: int = 50,
    threads: int | None = None,
) -> ReconstructResult:
    """Reconstruct a capture.

    progress: called every `report_every` iterations and at the end; returning False stops (after
    recovery, if opacities were just reset) and keeps what there is. resume_from: a checkpoint
    of the same settings and capture; `checkpoint_to` is where they are written. Raises InputError.
    """
    settings = settings or ReconstructSettings()
    started = time.perf_counter()
    photos = load_photos(capture, settings.long_side)
    training = _Training(capture, photos, settings, threads or default_threads())
    if resume_from is not None:
        training.restore(load_checkpoint(Path(resume_from), settings))
    else:
        training.begin()
    stop = False
    while training.iteration < settings.iterations and not stop:
        training.step()
        iteration = training.iteration
        last = iteration == settings.iterations
        if progress is not None and iteration % report_every == 0 and not last:
            seconds = time.perf_counter() - started
            training.stop_wanted |= progress(training.progress(seconds)) is False
        stop = training.stop_wanted and training.recovered
        if checkpoint_to is not None and (iteration % checkpoint_every == 0 or last or stop):
            save_checkpoint(training.checkpoint(), settings, Path(checkpoint_to))
    gaussians = training.gaussians()
    quality = measure(gaussians, photos.held_out, threads)
    seconds = time.perf_counter() - started
    if progress is not None:
        progress(training.progress(seconds, quality.psnr))
    log.info(
        "%d iterations, %d Gaussians, %.2f dB held out, %.0f s",
        training.iteration, len(gaussians), quality.psnr, seconds,
    )  # fmt: skip
    return ReconstructResult(
        gaussians,
        quality.psnr,
        quality.ssim,
        quality.per_photo,
        training.iteration,
        seconds,
        training.source,
    )


def measure(gaussians: Gaussians, photos: tuple[Photo, ...], threads: int | None = None) -> Quality:
    """PSNR and SSIM of renders against photos; NaN where there are none."""
    if not photos:
        return Quality(float("nan"), float("nan"), ())
    renderer = make_renderer(gaussians, "cpu", threads=threads)
    decibels, similarities = [], []
    for photo in photos:
        rgb = renderer.render(photo.camera, BLACK).rgb
        picture = np.ascontiguousarray(np.clip(rgb, 0, 1).transpose(2, 0, 1))
        decibels.append(psnr(picture, photo.planes()))
        similarities.append(similarity(picture, photo.planes()))
    names = [photo.name for photo in photos]
    return Quality(
        float(np.mean(decibels)),
        float(np.mean(similarities)),
        tuple(zip(names, decibels, strict=True)),
    )


class _Training:
    """The state of a reconstruction between two iterations, and how to get to the next."""

    def __init__(
        self, capture: Capture, photos: Photos, settings: ReconstructSettings, threads: int
    ) -> None:
        self._capture, self._photos, self._settings = capture, photos, settings
        self._threads = threads
        self._renderer = TrainingRenderer(threads=threads)
        self._losses: dict[tuple[int, ...], PhotometricLoss] = {}
        self._around = densify.Surroundings(photos.extent, photos.centers)
        self._rng = np.random.default_rng(settings.seed)
        self._waiting: list[int] = []
        self._parameters = np.zeros((0, 0), np.float32)
        self._adam = Adam((0, 0))
        self._loss = float("nan")
        self.iteration = 0
        self.stop_wanted = False
        self.source = "a checkpoint"

    def begin(self) -> None:
        """Start from points."""
        start = start_points(self._capture, self._photos, self._settings, self._rng)
        self.source = f"{len(start.points)} points ({start.source})"
        self._parameters = first_parameters(start, self._photos, self._settings.coefficients)
        self._adam = Adam(self._parameters.shape, self._threads)
        self._clear_statistics()

    def step(self) -> None:
        """One photo."""
        settings, rng = self._settings, self._rng
        self.iteration += 1
        photo = self._next_photo()
        coefficients = settings.coefficients_at(self.iteration)
        background: Color = BLACK
        if settings.random_background:
            background = tuple(rng.random(3).tolist())
        picture = self._renderer.forward(self._parameters, coefficients, photo.camera, background)
        value, seeds = self._loss_of(photo)(picture, photo.planes())
        gradients = self._renderer.backward(seeds, self._screen_gradients, self._sightings)
        self._adam.step(self._parameters, gradients, self._rates(coefficients))
        if settings.is_densified(self.iteration):
            self._densify()
        elif self.iteration % settings.densify_every == 0:
            densify.limit_sizes(self._parameters, self._around)
        if settings.is_reset(self.iteration):
            densify.pull_down_opacities(self._parameters)
            self._adam.forget(LOGIT)
        known = np.isfinite(self._loss)
        smoothed = _SMOOTHING * self._loss + (1 - _SMOOTHING) * value.loss
        self._loss = smoothed if known else value.loss

    @property
    def recovered(self) -> bool:
        """Whether opacities have had time to rise again since they were last pulled down."""
        wait = self._settings.recovery
        first = max(1, self.iteration - wait + 1)
        return not any(self._settings.is_reset(i) for i in range(first, self.iteration + 1))

    def gaussians(self) -> Gaussians:
        """What there is now, without what is too faint to be drawn."""
        visible = ~densify.faint(self._parameters)
        return gaussians_of(self._parameters[visible], self._settings.coefficients)

    def progress(self, seconds: float, held_out_psnr: float | None = None) -> Progress:
        """For the callback."""
        return Progress(
            self.iteration,
            self._settings.iterations,
            len(self._parameters),
            self._loss,
            seconds,
            held_out_psnr,
        )

    def checkpoint(self) -> Checkpoint:
        """All that `restore` needs."""
        return Checkpoint(
            self._parameters,
            self._adam.first,
            self._adam.second,
            self._screen_gradients,
            self._sightings,
            np.array(self._waiting, dtype=np.int64),
            dict(self._rng.bit_generator.state),
            self.iteration,
        )

    def restore(self, checkpoint: Checkpoint) -> None:
        """Continue where a checkpoint was taken."""
        self._parameters = checkpoint.parameters.copy()
        self._adam = Adam(self._parameters.shape, self._threads)
        self._adam.first[:] = checkpoint.first
        self._adam.second[:] = checkpoint.second
        self._adam.steps = self.iteration = checkpoint.iteration
        self._screen_gradients = checkpoint.screen_gradients.copy()
        self._sightings = checkpoint.sightings.copy()
        self._waiting = checkpoint.waiting.tolist()
        state: Any = checkpoint.rng
        self._rng.bit_generator.state = state

    def _next_photo(self) -> Photo:
        """All photos in a random order, again and again."""
        photos = self._photos
        half = self.iteration <= self._settings.half_size_until
        if not self._waiting:
            self._waiting = self._rng.permutation(len(photos.training)).tolist()
        return (photos.half if half else photos.training)[self._waiting.pop()]

    def _loss_of(self, photo: Photo) -> PhotometricLoss:
        size = photo.pixels.shape[1:]
        if size not in self._losses:
            weight = self._settings.dssim_weight
            self._losses[size] = PhotometricLoss(size[0], size[1], weight, self._threads)
        return self._losses[size]

    def _rates(self, coefficients: int) -> NDArray[np.float32]:
        """Learning rates per column; harmonics that are not drawn yet do not move."""
        settings = self._settings
        fallen = settings.rate_mean_end ** (self.iteration / settings.iterations)
        rates = np.zeros(self._parameters.shape[1], np.float32)
        rates[MEAN : MEAN + 3] = settings.rate_mean * self._around.extent * fallen
        rates[LOG_SCALE : LOG_SCALE + 3] = settings.rate_scale
        rates[QUATERNION : QUATERNION + 4] = settings.rate_quaternion
        rates[LOGIT] = settings.rate_opacity
        rates[HARMONICS : HARMONICS + 3] = settings.rate_sh_dc
        rates[HARMONICS + 3 : HARMONICS + 3 * coefficients] = settings.rate_sh_rest
        return rates

    def _densify(self) -> None:
        settings = self._settings
        mean = (self._screen_gradients / np.maximum(self._sightings, 1)).astype(np.float32)
        result = densify.densify(
            self._parameters,
            mean,
            settings.densify_gradient,
            settings.most_gaussians,
            self._around,
            self._rng,
        )
        self._parameters = result.parameters
        self._adam.rearrange(result.source)
        self._clear_statistics()
        log.debug(
            "iteration %d: %d cloned, %d split, %d removed, %d in all",
            self.iteration, result.cloned, result.split, result.removed, len(self._parameters),
        )  # fmt: skip

    def _clear_statistics(self) -> None:
        self._screen_gradients = np.zeros(len(self._parameters), np.float32)
        self._sightings = np.zeros(len(self._parameters), np.float32)
