"""The anchor: one camera, the attacked picture it sees, and the patch's mask in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from patching.lift import above
from patching.patch import Patch
from patching.placement import Placement
from patching.raycast import composite
from scene.camera import Camera
from scene.errors import InputError
from scene.render.api import Color, Renderer
from scene.surface import Surface, SurfaceFit, fit_masked_surface

FloatArray = NDArray[np.float32]
BoolArray = NDArray[np.bool_]

MIN_SCALE, MAX_SCALE = 0.25, 4.0
MIN_MASK_PX = 16
"""Fewer pixels carry no patch."""


@dataclass(frozen=True, eq=False)
class Anchor:
    """What APSE lifts into the scene; fixed from here on.

    camera: the anchor camera.
    image: (H, W, 3) float32 sRGB, the attacked view.
    mask: (H, W) bool, the patch's pixels.
    clean: (H, W, 3) float32 sRGB, the same view without the patch.
    surface: what the patch lies on, normals of either sign.
    placement: where it came from; None for an outside pair.
    fit: how it was found, before any lift; None when a placement brought it.
    background: sRGB behind the Gaussians, as rendered.
    """

    camera: Camera
    image: FloatArray
    mask: BoolArray
    clean: FloatArray
    surface: Surface
    placement: Placement | None = None
    fit: SurfaceFit | None = None
    background: Color = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        shape = (self.camera.height, self.camera.width)
        for name, wanted in (("image", (*shape, 3)), ("clean", (*shape, 3)), ("mask", shape)):
            found = getattr(self, name).shape
            if found != wanted:
                raise ValueError(f"anchor {name}: wanted shape {wanted}, found {found}")


def anchor_from_placement(
    renderer: Renderer,
    placement: Placement,
    patch: Patch,
    background: Color = (0.0, 0.0, 0.0),
    scale: float = 1.0,
) -> Anchor:
    """The clean anchor render with the patch pasted flat in sRGB; mask = coverage > 0.5.

    renderer: of the clean scene. Edges are anti-aliased by coverage; nothing hides the patch in
    its own anchor view. scale: of the anchor's resolution; 2 serves views nearer than 0.8 of the
    anchor's distance, at four times the work. Raises InputError when the anchor camera sees too
    little of the patch.
    """
    if not MIN_SCALE <= scale <= MAX_SCALE:
        raise InputError(
            f"anchor scale: wanted {MIN_SCALE:g} to {MAX_SCALE:g}, found {scale:g}; 1 is the usual"
        )
    camera = placement.camera
    camera = camera.resized(round(scale * camera.width), round(scale * camera.height))
    clean = renderer.render(camera, background).rgb
    image, coverage, _ = composite(placement, patch, camera, clean)
    mask = coverage > 0.5
    if mask.sum() < MIN_MASK_PX:
        raise InputError(
            f"the anchor camera sees {int(mask.sum())} pixels of the patch, wanted at least "
            f"{MIN_MASK_PX}; place it larger, nearer or more frontal"
        )
    return Anchor(camera, image, mask, clean, placement.surface, placement, None, background)


def anchor_from_files(
    renderer: Renderer,
    image_path: str | Path,
    mask_path: str | Path,
    camera: Camera,
    background: Color = (0.0, 0.0, 0.0),
    rule: Literal["cluster", "quantile"] = "cluster",
) -> Anchor:
    """An anchor from another pipeline's pair: attacked picture and mask.

    Mask pixels above half brightness are patch. The pair may be of another resolution than
    `camera` when its aspect is the same: the anchor then has the pair's resolution. The surface
    is found from the clean scene's depth under the mask: its nearest depth cluster, or the
    paper's depth quantile. Raises InputError.
    """
    image = _read_picture(Path(image_path), "attacked picture")
    mask = _read_picture(Path(mask_path), "mask").mean(axis=2) > 0.5
    height, width = image.shape[:2]
    if mask.shape != (height, width):
        raise InputError(
            f"{mask_path}: wanted a mask of {width}x{height} px like the attacked picture, found "
            f"{mask.shape[1]}x{mask.shape[0]}"
        )
    if abs(width * camera.height / camera.width - height) > 1:
        raise InputError(
            f"{image_path}: wanted the anchor camera's aspect ({camera.width}x{camera.height}), "
            f"found {width}x{height}; crop neither picture nor camera alone"
        )
    if mask.sum() < MIN_MASK_PX:
        raise InputError(
            f"{mask_path}: wanted a mask with white patch pixels, found {int(mask.sum())} of them"
        )
    camera = camera.resized(width, height)
    drawn = renderer.render(camera, background, frozenset({"rgb", "alpha", "median_depth"}))
    assert drawn.median_depth is not None
    rng = np.random.default_rng(0)
    fit = fit_masked_surface(mask, drawn.alpha, drawn.median_depth, camera, rng, rule)
    # the paper's own offset (its settings') stands in for the lift
    surface = above(fit) if rule == "cluster" else fit.surface
    return Anchor(camera, image, mask, drawn.rgb, surface, None, fit, background)


def _read_picture(path: Path, what: str) -> FloatArray:
    """(H, W, 3) float32 sRGB in [0, 1]."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as picture:
            return np.asarray(picture.convert("RGB")).astype(np.float32) / np.float32(255)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such {what}") from error
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError, SyntaxError) as error:
        raise InputError(
            f"{path}: wanted the {what} as a picture (PNG, JPEG or WebP), found a file that is "
            f"none or is damaged"
        ) from error
