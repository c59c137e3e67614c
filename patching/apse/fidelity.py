"""How well an embedded patch holds, at its anchor and away from it.

Off the anchor the truth is the clean render with the patch ray-cast on its surface, supersampled,
hidden by what lies in front. The floor beside it is what a texture of the anchor's resolution
reaches there: no embedding of one anchor view can know more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patching.anchor import Anchor
from patching.apse.texture import AnchorTexture
from patching.apse.views import dilated, orbit
from patching.patch import Patch
from patching.raycast import SUPERSAMPLE, Laid, composite
from scene.camera import Camera
from scene.gaussians import Gaussians
from scene.render.api import Rendered, Renderer, make_renderer

FloatArray = NDArray[np.float32]
BoolArray = NDArray[np.bool_]

AZIMUTHS_DEG = (-45.0, -30.0, -15.0, 0.0, 15.0, 30.0, 45.0)
RADII = (0.6, 1.0, 2.0)
RING_PX = 2
LEAK = 0.02
MIN_PIXELS = 20
"""Views that show fewer patch pixels are left out of the means."""


@dataclass(frozen=True)
class Fidelity:
    """Mean absolute errors over pixels and channels, sRGB; NaN where no view shows the patch.

    anchor_patch: inside the mask, against the attacked anchor. ring: within 2 px of its edge.
    anchor_rest: outside the mask. For an outside pair both are held to the clean render there.
    off_patch: inside the patch, mean over the off-anchor views. floor: what an anchor-resolution
    texture reaches there. near, far: off_patch at radius 0.6 and 2.
    clean_patch: off_patch of the scene without the patch, for scale.
    leak: outside the patch's surroundings, off the anchor, against the clean render.
    leak_px: pixels there, per view, that changed by more than 0.02.
    depth: mean |median depth - depth of the patch's surface| / depth, over its inner pixels.
    """

    anchor_patch: float
    ring: float
    anchor_rest: float
    off_patch: float
    floor: float
    near: float
    far: float
    clean_patch: float
    leak: float
    leak_px: float
    depth: float

    @property
    def off_over_floor(self) -> float:
        """Off-anchor error as a multiple of its floor."""
        return self.off_patch / self.floor if self.floor > 0 else float("nan")

    def to_dict(self) -> dict[str, float]:
        """JSON fields."""
        return {**asdict(self), "off_over_floor": self.off_over_floor}


def measure(
    clean: Renderer,
    embedded: Gaussians | Renderer,
    anchor: Anchor,
    patch: Patch | None = None,
    up: ArrayLike | None = None,
    azimuths_deg: Sequence[float] = AZIMUTHS_DEG,
    radii: Sequence[float] = RADII,
) -> Fidelity:
    """Judge an embedding.

    patch: what was placed; with the anchor's placement it gives the truth at full resolution.
    Without either (an outside pair) the anchor's own pixels are the truth. up: (3,) axis that the
    views turn about, default the anchor's upright.
    """
    renderer = (
        make_renderer(embedded, settings=clean.settings)
        if isinstance(embedded, Gaussians)
        else embedded
    )
    truth = truth_of(anchor, patch)
    at_anchor = _at_anchor(clean, renderer, anchor)
    pivot = truth[0].corners().mean(axis=0)
    axis = -anchor.camera.down if up is None else up
    rows: list[dict[str, float]] = []
    for radius in radii:
        for azimuth in azimuths_deg:
            if azimuth == 0 and radius == 1:
                continue
            camera = orbit(anchor.camera, pivot, axis, azimuth, 0.0, radius)
            row = _off_anchor(clean, renderer, anchor, camera, truth)
            rows.append({"radius": radius, **row})
    shown = [row for row in rows if row["pixels"] >= MIN_PIXELS]

    def mean(name: str, chosen: Sequence[dict[str, float]]) -> float:
        values = [row[name] for row in chosen if np.isfinite(row[name])]
        return float(np.mean(values)) if values else float("nan")

    return Fidelity(
        **at_anchor,
        off_patch=mean("error", shown), floor=mean("floor", shown),
        near=mean("error", [r for r in shown if r["radius"] == min(radii)]),
        far=mean("error", [r for r in shown if r["radius"] == max(radii)]),
        clean_patch=mean("clean", shown), leak=mean("leak", rows),
        leak_px=mean("leak_px", rows), depth=mean("depth", shown),
    )  # fmt: skip


def truth_of(anchor: Anchor, patch: Patch | None) -> tuple[Laid, Patch]:
    """What is laid over clean renders as the truth, and its picture."""
    if patch is None or anchor.placement is None:
        texture = AnchorTexture(anchor)
        return texture, texture.patch
    return anchor.placement, patch


def _at_anchor(clean: Renderer, renderer: Renderer, anchor: Anchor) -> dict[str, float]:
    picture = _draw(renderer, anchor.camera, anchor).rgb
    wanted = anchor.image
    if anchor.placement is None:  # an outside picture may differ from the scene beside its patch
        before = _draw(clean, anchor.camera, anchor).rgb
        wanted = np.where(anchor.mask[..., None], anchor.image, before)
    error = np.abs(picture - wanted).mean(axis=2)
    ring = dilated(anchor.mask, RING_PX) & dilated(~anchor.mask, RING_PX)
    return {
        "anchor_patch": float(error[anchor.mask].mean()),
        "ring": float(error[ring].mean()),
        "anchor_rest": float(error[~anchor.mask].mean()),
    }


def _off_anchor(
    clean: Renderer,
    renderer: Renderer,
    anchor: Anchor,
    camera: Camera,
    truth: tuple[Laid, Patch],
) -> dict[str, float]:
    before, after = _draw(clean, camera, anchor), _draw(renderer, camera, anchor)
    wanted, coverage, surface_depth = composite(*truth, camera, before.rgb, before.median_depth)
    whole = composite(*truth, camera, before.rgb, supersample=2)[1]
    inside = coverage >= 0.5
    inner = ~dilated(~inside, RING_PX)
    away = ~dilated(whole > 0, RING_PX)
    changed = np.abs(after.rgb - before.rgb).mean(axis=2)[away]
    row = {"pixels": float(inside.sum()), "leak": float(changed.mean())}
    row["leak_px"] = float((changed > LEAK).sum())
    row["error"] = _l1(after.rgb[inside], wanted[inside])
    row["clean"] = _l1(before.rgb[inside], wanted[inside])
    row["floor"] = _l1(anchor_resolution(anchor, camera, inside), wanted[inside])
    assert after.median_depth is not None
    depth_error = np.abs(after.median_depth - surface_depth) / np.maximum(surface_depth, 1e-9)
    row["depth"] = float(depth_error[inner].mean()) if inner.any() else float("nan")
    return row


def _draw(renderer: Renderer, camera: Camera, anchor: Anchor) -> Rendered:
    return renderer.render(camera, anchor.background, frozenset({"rgb", "alpha", "median_depth"}))


def anchor_resolution(anchor: Anchor, camera: Camera, where: BoolArray) -> FloatArray:
    """(n, 3) the anchor's own picture, carried by its surface to the pixels `where` of `camera`."""
    from scipy.ndimage import map_coordinates

    steps = (np.arange(SUPERSAMPLE) + 0.5) / SUPERSAMPLE - 0.5
    shifts = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 1, 2)
    rays = camera.rays(camera.pixel_centers()[where] + shifts)
    points, hit = anchor.surface.intersect(camera.center, rays)
    pixels, _ = anchor.camera.project(np.where(hit[..., None], points, anchor.camera.center))
    at = np.nan_to_num(np.moveaxis(pixels - 0.5, -1, 0)[::-1], nan=-1.0)
    channels = [
        map_coordinates(anchor.image[..., c], at, order=1, mode="nearest").mean(axis=0)
        for c in range(3)
    ]
    return np.stack(channels, axis=-1).astype(np.float32)


def _l1(picture: FloatArray, wanted: FloatArray) -> float:
    return float(np.abs(picture - wanted).mean()) if picture.size else float("nan")
