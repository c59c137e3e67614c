"""The way in: from a capture to Gaussians, resumable, the same every time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from scene.capture import Capture
from scene.gaussians import Gaussians
from scene.reconstruct.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from scene.reconstruct.hidden import Hidden
from scene.reconstruct.options import ReconstructOptions
from scene.reconstruct.photos import Photos, load_photos
from scene.reconstruct.quality import Quality, measure
from scene.reconstruct.settings import ReconstructSettings
from scene.reconstruct.training import CpuTraining
from scene.render.cpu.threads import default_threads

__all__ = [
    "Preview",
    "Progress",
    "Quality",
    "ReconstructResult",
    "measure",
    "reconstruct",
]

log = logging.getLogger(__name__)


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


@dataclass(frozen=True, eq=False)
class Preview:
    """What there is so far. quality: on the held-out photos, NaN where there are none."""

    iteration: int
    gaussians: Gaussians
    quality: Quality


PreviewCallback = Callable[[Preview], None]


@dataclass(frozen=True, eq=False)
class ReconstructResult:
    """The scene and how good it is; held-out figures are NaN where nothing was held out.

    seconds: wall time of the training loop, photos and start points included.
    exposure_fitted: None, or where exposures were learnt the same figures after an affine color
    change fitted to each held-out photo ITSELF; the other figures never look at those photos.
    hidden: for people, what no training photo shows and whether it was removed.
    stopped: ended before the last iteration because it was asked to.
    """

    gaussians: Gaussians
    held_out_psnr: float
    held_out_ssim: float
    held_out: tuple[tuple[str, float], ...]
    iterations: int
    seconds: float
    start: str
    exposure_fitted: Quality | None = None
    hidden: str = ""
    stopped: bool = False


class Training(Protocol):
    """A reconstruction that goes on step by step (`CpuTraining`, `CudaTraining`)."""

    iteration: int
    loss: float
    source: str

    def begin(self) -> None:
        """Start from points."""

    def step(self) -> None:
        """One photo."""

    @property
    def recovered(self) -> bool:
        """Whether opacities have had time to rise since they were last pulled down."""

    @property
    def count(self) -> int:
        """Gaussians now."""

    def gaussians(self) -> Gaussians:
        """What there is now."""

    def finish(self) -> Hidden:
        """Drop what is too faint, and what no photo shows where that is wanted."""

    def checkpoint(self) -> Checkpoint:
        """All that `restore` needs."""

    def restore(self, checkpoint: Checkpoint) -> None:
        """Continue where a checkpoint was taken."""


def reconstruct(
    capture: Capture,
    settings: ReconstructSettings | None = None,
    progress: ProgressCallback | None = None,
    resume_from: Path | None = None,
    checkpoint_to: Path | None = None,
    checkpoint_every: int = 500,
    report_every: int = 50,
    threads: int | None = None,
    options: ReconstructOptions | None = None,
    preview: PreviewCallback | None = None,
    preview_every: int = 200,
    device: str = "cpu",
) -> ReconstructResult:
    """Reconstruct a capture.

    progress: called every `report_every` iterations and at the end; returning False stops (after
    recovery, if opacities were just reset) and keeps what there is. resume_from: a checkpoint
    of the same settings and capture; `checkpoint_to` is where they are written. preview: called
    every `preview_every` iterations, except while opacities recover. device: "cpu" or "cuda"
    (gsplat draws; figures are measured with the CPU renderer all the same). Raises InputError.
    """
    settings = settings or ReconstructSettings()
    options = options or ReconstructOptions()
    threads = threads or default_threads()
    started = time.perf_counter()
    photos = load_photos(capture, settings.long_side, options.masks)
    training = _training(device, capture, photos, settings, options, threads)
    if resume_from is not None:
        training.restore(load_checkpoint(Path(resume_from), settings, options))
    else:
        training.begin()
    stop = stop_wanted = False
    while training.iteration < settings.iterations and not stop:
        training.step()
        iteration = training.iteration
        last = iteration == settings.iterations
        if progress is not None and iteration % report_every == 0 and not last:
            now = _progress(training, settings, started)
            stop_wanted |= progress(now) is False
        if preview is not None and iteration % preview_every == 0 and training.recovered:
            preview(_preview(training, photos, threads))
        stop = stop_wanted and training.recovered
        if checkpoint_to is not None and (iteration % checkpoint_every == 0 or last or stop):
            save_checkpoint(training.checkpoint(), settings, Path(checkpoint_to), options)
    hidden = training.finish()
    gaussians = training.gaussians()
    quality = measure(gaussians, photos.held_out, threads)
    fitted = None
    if options.exposure and photos.held_out:
        fitted = measure(gaussians, photos.held_out, threads, fit_exposure=True)
    if progress is not None:
        progress(_progress(training, settings, started, quality.psnr))
    if preview is not None:
        preview(Preview(training.iteration, gaussians, quality))
    seconds = time.perf_counter() - started
    log.info(
        "%d iterations, %d Gaussians, %s, %.0f s",
        training.iteration, len(gaussians),
        f"{quality.psnr:.2f} dB held out" if photos.held_out else "nothing held out", seconds,
    )  # fmt: skip
    return ReconstructResult(
        gaussians,
        quality.psnr,
        quality.ssim,
        quality.per_photo,
        training.iteration,
        seconds,
        training.source,
        fitted,
        f"{hidden}, {'removed' if options.prunes_hidden else 'kept'}",
        training.iteration < settings.iterations,
    )


def _training(
    device: str,
    capture: Capture,
    photos: Photos,
    settings: ReconstructSettings,
    options: ReconstructOptions,
    threads: int,
) -> Training:
    if device == "cuda":
        from scene.reconstruct.cuda import CudaTraining

        return CudaTraining(capture, photos, settings, options)
    return CpuTraining(capture, photos, settings, options, threads)


def _progress(
    training: Training,
    settings: ReconstructSettings,
    started: float,
    held_out_psnr: float | None = None,
) -> Progress:
    seconds = time.perf_counter() - started
    total, count = settings.iterations, training.count
    return Progress(training.iteration, total, count, training.loss, seconds, held_out_psnr)


def _preview(training: Training, photos: Photos, threads: int) -> Preview:
    gaussians = training.gaussians()
    return Preview(training.iteration, gaussians, measure(gaussians, photos.held_out, threads))
