"""The state of a reconstruction between two iterations on the CPU, and how to get to the next."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scene.capture import Capture
from scene.gaussians import Gaussians
from scene.reconstruct import densify, mcmc
from scene.reconstruct.adam import Adam
from scene.reconstruct.checkpoint import Checkpoint
from scene.reconstruct.exposure import Exposures
from scene.reconstruct.hidden import Hidden, find_hidden
from scene.reconstruct.losses import PhotometricLoss
from scene.reconstruct.options import ReconstructOptions
from scene.reconstruct.photos import Photo, Photos
from scene.reconstruct.quality import BLACK
from scene.reconstruct.settings import ReconstructSettings
from scene.reconstruct.start import first_parameters, start_points
from scene.reconstruct.weighted import weighted_loss
from scene.render.api import Color
from scene.render.cpu.training import TrainingRenderer, gaussians_of
from scene.render.cpu.training_pack import (
    HARMONICS,
    LOG_SCALE,
    LOGIT,
    MEAN,
    QUATERNION,
)

log = logging.getLogger(__name__)

_SMOOTHING = 0.98


class CpuTraining:
    """One reconstruction: `begin` or `restore`, then `step` until done. One caller at a time."""

    def __init__(
        self,
        capture: Capture,
        photos: Photos,
        settings: ReconstructSettings,
        options: ReconstructOptions,
        threads: int,
    ) -> None:
        self._capture, self._photos, self._settings = capture, photos, settings
        self._options = options
        self._threads = threads
        self._renderer = TrainingRenderer(threads=threads)
        self._losses: dict[tuple[int, ...], PhotometricLoss] = {}
        self._around = densify.Surroundings(photos.extent, photos.centers)
        self._rng = np.random.default_rng(settings.seed)
        self._waiting: list[int] = []
        self._parameters = np.zeros((0, 0), np.float32)
        self._adam = Adam((0, 0))
        self._exposures = Exposures(len(photos.training)) if options.exposure else None
        self.loss = float("nan")
        self.iteration = 0
        self.source = "a checkpoint"

    def begin(self) -> None:
        """Start from points."""
        start = start_points(self._capture, self._photos, self._settings, self._rng, self._options)
        self.source = f"{len(start.points)} points ({start.source})"
        self._parameters = first_parameters(start, self._photos, self._settings.coefficients)
        self._adam = Adam(self._parameters.shape, self._threads)
        self._clear_statistics()

    def step(self) -> None:
        """One photo."""
        settings, rng = self._settings, self._rng
        self.iteration += 1
        index, photo = self._next_photo()
        coefficients = settings.coefficients_at(self.iteration)
        background: Color = BLACK
        if settings.random_background:
            background = tuple(rng.random(3).tolist())
        picture = self._renderer.forward(self._parameters, coefficients, photo.camera, background)
        value, seeds = self._compared(index, photo, picture, background)
        gradients = self._renderer.backward(seeds, self._screen_gradients, self._sightings)
        rates = self._rates(coefficients)
        if self._options.mcmc:
            self._add_penalties(gradients)
        self._adam.step(self._parameters, gradients, rates)
        if self._options.mcmc:
            mcmc.jitter(self._parameters, self._options.noise * float(rates[MEAN]), rng)
        self._tend()
        known = np.isfinite(self.loss)
        smoothed = _SMOOTHING * self.loss + (1 - _SMOOTHING) * value
        self.loss = smoothed if known else value

    def _add_penalties(self, gradients: NDArray[np.float32]) -> None:
        """MCMC's; sizes are judged in extents, since a capture's unit may be anything."""
        options = self._options
        per_unit = options.scale_penalty / self._around.extent
        mcmc.add_penalties(gradients, self._parameters, options.opacity_penalty, per_unit)

    def _tend(self) -> None:
        """What is done to the Gaussians every hundred or thousand iterations."""
        settings = self._settings
        if settings.is_densified(self.iteration):
            self._densify()
        elif self.iteration % settings.densify_every == 0:
            densify.limit_sizes(self._parameters, self._around)
        if self._is_reset(self.iteration):
            densify.pull_down_opacities(self._parameters)
            self._adam.forget(LOGIT)

    def _compared(
        self, index: int, photo: Photo, picture: NDArray[np.float32], background: Color
    ) -> tuple[float, NDArray[np.float32]]:
        """Loss and dL/dpicture, through the photo's exposure where that is learnt.

        What is transparent in the photo has the background that the picture was drawn on.
        """
        loss = self._loss_of(photo)
        if self._exposures is None:
            value, seeds = weighted_loss(loss, picture, photo.planes(background), photo.weight)
            return value.loss, seeds
        exposed = self._exposures.apply(index, picture)
        behind = np.array(background, np.float32)[:, None, None]
        red, green, blue = self._exposures.apply(index, behind).ravel().tolist()
        planes = photo.planes((red, green, blue))
        value, seeds = weighted_loss(loss, exposed, planes, photo.weight)
        progress = self.iteration / self._settings.iterations
        return value.loss, self._exposures.step(index, picture, seeds, progress)

    def _is_reset(self, iteration: int) -> bool:
        """MCMC needs no resets."""
        return self._settings.is_reset(iteration) and not self._options.mcmc

    @property
    def count(self) -> int:
        """Gaussians now."""
        return len(self._parameters)

    @property
    def recovered(self) -> bool:
        """Whether opacities have had time to rise again since they were last pulled down."""
        wait = self._settings.recovery
        first = max(1, self.iteration - wait + 1)
        return not any(self._is_reset(i) for i in range(first, self.iteration + 1))

    def gaussians(self) -> Gaussians:
        """What there is now, without what is too faint to be drawn."""
        visible = ~densify.faint(self._parameters)
        return gaussians_of(self._parameters[visible], self._settings.coefficients)

    def finish(self) -> Hidden:
        """Drop what is too faint; find what no photo shows, and drop it where that is wanted."""
        rows = self._parameters[~densify.faint(self._parameters)]
        hidden = find_hidden(rows, self._photos.training, self._threads)
        log.info("%s%s", hidden, ", removed" if self._options.prunes_hidden else ", kept")
        self._parameters = rows[~hidden.unseen] if self._options.prunes_hidden else rows
        return hidden

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
            self._exposures,
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
        if self._exposures is not None and checkpoint.exposures is not None:
            self._exposures = checkpoint.exposures
        state: Any = checkpoint.rng
        self._rng.bit_generator.state = state

    def _next_photo(self) -> tuple[int, Photo]:
        """All photos in a random order, again and again; with the photo's number."""
        photos = self._photos
        half = self.iteration <= self._settings.half_size_until
        if not self._waiting:
            self._waiting = self._rng.permutation(len(photos.training)).tolist()
        index = self._waiting.pop()
        return index, (photos.half if half else photos.training)[index]

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
        if self._options.mcmc:
            most = settings.most_gaussians
            factor = mcmc.growth(len(self._parameters), most, settings, self.iteration)
            result = mcmc.relocate(self._parameters, most, self._rng, factor)
            self._take(result)
            return
        mean = (self._screen_gradients / np.maximum(self._sightings, 1)).astype(np.float32)
        result = densify.densify(
            self._parameters,
            mean,
            settings.densify_gradient,
            settings.most_gaussians,
            self._around,
            self._rng,
        )
        self._take(result)

    def _take(self, result: densify.Densified) -> None:
        """Go on with rearranged rows."""
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
