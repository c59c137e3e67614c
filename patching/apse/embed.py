"""Adversarial patch scene embedding: from an attacked anchor view to edited Gaussians."""

from __future__ import annotations

import itertools
import logging
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from patching.anchor import Anchor
from patching.apse.losses import attachment_loss
from patching.apse.parameters import Learnable
from patching.apse.select import OldSelection, select_old
from patching.apse.settings import ApseSettings
from patching.apse.spawn import Spawn, spawn_new
from patching.apse.texture import AnchorTexture
from patching.apse.views import (
    AnchorView,
    AuxiliaryView,
    Editable,
    Leaves,
    auxiliary_cameras,
)
from patching.edit import GaussianEdit, no_gaussians
from scene.camera import Camera
from scene.errors import InputError
from scene.gaussians import Gaussians
from scene.render.api import Renderer

log = logging.getLogger(__name__)

FloatArray = NDArray[np.float32]
Preview = Callable[[], FloatArray]
Progress = Callable[[int, int, dict[str, float], Preview], bool]
"""(iteration from 1, total, loss terms, preview) -> False to stop and keep what there is."""

HISTORY_STEPS = 60
"""Loss values kept in a report."""


class _View(Protocol):
    def loss(self, leaves: Leaves) -> tuple[torch.Tensor, dict[str, float]]: ...


@dataclass(frozen=True)
class ApseReport:
    """What an embedding did; JSON values only, kept with its edit.

    settings: as used. iterations: done. stopped: by the user. new, reused, faded: Gaussians.
    surface: its kind. normal_offset, tangent_offset: mean distance that new centres moved, strides.
    losses: (iteration, total, terms...) samples. wall_s, cpu_s: of the whole embedding.
    fidelity: figures of `patching.apse.fidelity`, empty until measured.
    """

    settings: dict[str, Any]
    iterations: int
    stopped: bool
    new: int
    reused: int
    faded: int
    aux_views: int
    surface: str
    normal_offset: float
    tangent_offset: float
    losses: tuple[dict[str, float], ...]
    setup_s: float
    wall_s: float
    cpu_s: float
    fidelity: dict[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """JSON fields."""
        fields = asdict(self)
        fields["losses"] = list(self.losses)
        return fields


@dataclass(frozen=True, eq=False)
class Embedding:
    """The edit that puts the patch into the scene, and how it came about."""

    edit: GaussianEdit
    report: ApseReport


def embed(
    gaussians: Gaussians,
    anchor: Anchor,
    settings: ApseSettings | None = None,
    aux_cameras: Sequence[Camera] | None = None,
    progress: Progress | None = None,
    renderer: Renderer | None = None,
    threads: int | None = None,
) -> Embedding:
    """Lift the anchor's attacked view into the scene.

    gaussians: the clean scene. aux_cameras: the capture's cameras, from which auxiliary views are
    drawn; without them a cone about the anchor is used. progress: called after every step; its
    last argument draws the anchor view as embedded so far. renderer: of `gaussians`, if one is
    at hand. threads: Python threads that work the views (default: up to 2).
    """
    settings = settings or ApseSettings()
    clock, cpu_clock = time.perf_counter(), time.process_time()
    threads = threads or min(2, os.cpu_count() or 1)
    torch_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        job = _prepare(gaussians, anchor, settings, aux_cameras or (), renderer)
        setup_s = time.perf_counter() - clock
        done, stopped, losses = _optimize(job, settings, progress, threads)
    finally:
        torch.set_num_threads(torch_threads)
    moved = job.learnable.mean_offsets()
    report = ApseReport(
        settings=asdict(settings), iterations=done, stopped=stopped, new=len(job.spawn.centers),
        reused=len(job.old.reused), faded=len(job.old.faded), aux_views=len(job.views) - 1,
        surface=anchor.surface.kind, normal_offset=moved[1], tangent_offset=moved[0],
        losses=tuple(losses), setup_s=setup_s, wall_s=time.perf_counter() - clock,
        cpu_s=time.process_time() - cpu_clock,
    )  # fmt: skip
    log.info("embedded %d new and %d reused Gaussians", report.new, report.reused)
    return Embedding(_edit(gaussians, job), report)


@dataclass(frozen=True, eq=False)
class _Job:
    """Everything an optimization works on; views[0] is the anchor's."""

    old: OldSelection
    spawn: Spawn
    learnable: Learnable
    anchor_view: AnchorView
    views: list[_View]


def _prepare(
    gaussians: Gaussians,
    anchor: Anchor,
    settings: ApseSettings,
    captured: Sequence[Camera],
    renderer: Renderer | None,
) -> _Job:
    if renderer is None:
        from scene.render.api import make_renderer

        renderer = make_renderer(gaussians)
    drawn = renderer.render(
        anchor.camera, anchor.background, frozenset({"rgb", "alpha", "median_depth"})
    )
    assert drawn.median_depth is not None
    spawn = spawn_new(anchor, patch_depth(anchor), settings)
    old = select_old(
        gaussians, anchor.camera, anchor.mask, drawn.median_depth, anchor.surface, spawn.stride,
        settings,
    )  # fmt: skip
    if len(spawn.centers) == 0:
        raise InputError(
            "the anchor's rays do not meet the patch's surface; choose a more frontal anchor"
        )
    reused = gaussians.select(old.reused)
    new = spawn.gaussians(settings.start_opacity) if settings.use_new else no_gaussians()
    if len(reused) + len(new) == 0:
        raise InputError("no Gaussian of the scene lies under the patch, so none can be reused")
    changed = np.zeros(len(gaussians), bool)
    changed[old.reused] = True
    changed[old.faded] = True
    editable = Editable(
        gaussians.select(~changed), Gaussians.concatenate([reused, new]), len(reused), reused.sh
    )
    learnable = Learnable(reused, spawn if settings.use_new else None, settings)
    texture = AnchorTexture(anchor)
    cameras = auxiliary_cameras(anchor, texture, settings, captured)
    pictures = [
        renderer.render(camera, anchor.background, frozenset({"rgb", "alpha", "median_depth"}))
        for camera in cameras
    ]
    render = renderer.settings
    anchor_view = AnchorView(anchor, editable, drawn.rgb, settings, render)
    auxiliary = [
        AuxiliaryView(camera, anchor, texture, editable, picture, settings, render)
        for camera, picture in zip(cameras, pictures, strict=True)
    ]
    return _Job(old, spawn, learnable, anchor_view, [anchor_view, *auxiliary])


def patch_depth(anchor: Anchor) -> float:
    """Median camera z of the patch's surface under the anchor's mask, world units."""
    pixels = anchor.camera.pixel_centers()[anchor.mask]
    points, hit = anchor.surface.intersect(anchor.camera.center, anchor.camera.rays(pixels))
    if not hit.any():
        raise InputError(
            "the anchor's rays do not meet the patch's surface; choose a more frontal anchor"
        )
    return float(np.median((points[hit] - anchor.camera.center) @ anchor.camera.forward))


def _optimize(
    job: _Job, settings: ApseSettings, progress: Progress | None, threads: int
) -> tuple[int, bool, list[dict[str, float]]]:
    """Run the steps; returns how many, whether stopped, and loss samples."""
    weights = [1.0] + [1.0 / max(len(job.views) - 1, 1)] * (len(job.views) - 1)
    losses: list[dict[str, float]] = []
    every = max(1, settings.iterations // HISTORY_STEPS)
    with ThreadPoolExecutor(threads, thread_name_prefix="apse") as pool:
        for step in range(settings.iterations):
            terms = _step(job, settings, weights, pool, step)
            if step % every == 0 or step == settings.iterations - 1:
                losses.append({"iteration": step + 1, **terms})
            if progress is None:
                continue
            if progress(step + 1, settings.iterations, terms, job.anchor_view.preview) is False:
                return step + 1, True, losses
    return settings.iterations, False, losses


def _step(
    job: _Job, settings: ApseSettings, weights: list[float], pool: ThreadPoolExecutor, step: int
) -> dict[str, float]:
    """One optimizer step; returns the loss terms (auxiliary ones averaged over views)."""
    learnable = job.learnable
    learnable.set_rates(settings.final_rate ** (step / settings.iterations))
    values = learnable.values()
    arrays = tuple(value.detach() for value in values)
    # views are worked by threads (kernels release the GIL) and summed in their own order
    results = pool.map(_gradients, job.views, weights, itertools.repeat(arrays))
    terms: dict[str, float] = {"total": 0.0}
    sums: list[torch.Tensor] | None = None
    for (gradients, loss, found), weight in zip(results, weights, strict=True):
        sums = (
            list(gradients)
            if sums is None
            else [a + b for a, b in zip(sums, gradients, strict=True)]
        )
        terms["total"] += loss
        for name, value in found.items():
            terms[name] = terms.get(name, 0.0) + weight * value
    assert sums is not None
    learnable.optimizer.zero_grad(set_to_none=True)
    torch.autograd.backward(values, sums)
    if settings.use_attachment and learnable.normals is not None:
        attach = attachment_loss(learnable.normals, settings.attach_sigma, settings.attach_cap)
        (settings.weight_attach * attach).backward()
        terms["attach"] = float(attach.detach())
        terms["total"] += settings.weight_attach * terms["attach"]
    learnable.optimizer.step()
    learnable.clamp()
    return terms


def _gradients(
    view: _View, weight: float, arrays: tuple[torch.Tensor, ...]
) -> tuple[tuple[torch.Tensor, ...], float, dict[str, float]]:
    """Gradients of one view's weighted loss for (means, scales, opacities, colors)."""
    means, scales, opacities, colors = (array.clone().requires_grad_() for array in arrays)
    leaves = (means, scales, opacities, colors)
    loss, terms = view.loss(leaves)
    loss = weight * loss
    return torch.autograd.grad(loss, leaves), float(loss.detach()), terms


def _edit(gaussians: Gaussians, job: _Job) -> GaussianEdit:
    """The learnt state as an edit of the clean scene."""
    opacities, sh_dc, added = job.learnable.result()
    faded = job.old.faded
    return GaussianEdit(
        np.concatenate([job.old.reused, faded]),
        np.concatenate([opacities, np.zeros(len(faded), np.float32)]),
        np.concatenate([sh_dc, gaussians.sh[faded, 0]]),
        added,
        len(gaussians),
    )
