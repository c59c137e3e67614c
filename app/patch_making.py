"""Views of a scene to make a patch in, and how often a victim finds the target in them.

Patch making itself (`patching.optimize`) knows neither scenes nor victims; this joins them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from envelope.condition import Condition, condition_camera
from envelope.observe import MIN_BOX_HEIGHT_PX, MIN_VISIBLE_SHARE
from envelope.outcome import XYXY, judge, read_answer
from envelope.settings import Reading
from envelope.stage import to_uint8
from envelope.victims.protocols import ask, takes_prompt
from patching.patch import Patch
from patching.placement import Placement, footprint
from patching.raycast import cast_patch, composite, visible_rays
from scene.camera import Camera
from scene.errors import InputError
from scene.scene import Scene

if TYPE_CHECKING:
    import torch

    from patching.optimize.eot import Background
    from patching.optimize.train import VictimLoss
    from scene.render.api import Renderer
    from scene.target import TargetViewer

FloatArray = NDArray[np.float32]

MIN_PATCH_PX = 30
"""Smaller, a patch teaches nothing: its views are drawn again."""

MAX_INCIDENCE_DEG = 80.0
_TRIES_PER_VIEW = 10
_BATCH = 8


@dataclass(frozen=True)
class Cone:
    """The conditions that views are drawn from, evenly (the distance by ratio)."""

    azimuth_deg: float = 30.0
    elevation_deg: float = 8.0
    radius_low: float = 0.8
    radius_high: float = 1.4
    roll_deg: float = 5.0

    def __post_init__(self) -> None:
        if not 0 < self.radius_low <= self.radius_high:
            raise InputError(
                f"reach: wanted 0 < radius-low <= radius-high, found {self.radius_low:g} and "
                f"{self.radius_high:g}"
            )

    def draw(self, rng: np.random.Generator) -> Condition:
        """One condition."""
        ratio = np.log(self.radius_high / self.radius_low)
        return Condition(
            azimuth_deg=self.azimuth_deg * rng.uniform(-1, 1),
            elevation_deg=self.elevation_deg * rng.uniform(-1, 1),
            radius=self.radius_low * float(np.exp(ratio * rng.uniform())),
            roll_deg=self.roll_deg * rng.uniform(-1, 1),
        )


@dataclass(frozen=True, eq=False)
class View:
    """A clean view of the scene in which target and patch are seen.

    clean: (H, W, 3) float32 sRGB. median_depth: (H, W). box: of the target, None without one.
    patch_box: tight box of the patch's visible pixels.
    """

    condition: Condition
    camera: Camera
    clean: FloatArray
    median_depth: FloatArray
    box: XYXY | None
    patch_box: XYXY | None

    @property
    def name(self) -> str:
        """The condition in a few words, for provenance."""
        c = self.condition
        return (
            f"azimuth {c.azimuth_deg:.3f} elevation {c.elevation_deg:.3f} radius {c.radius:.4f} "
            f"roll {c.roll_deg:.3f}"
        )


class ViewDrawer:
    """Draws seeded views about a placement's anchor."""

    def __init__(
        self,
        scene: Scene,
        renderer: Renderer,
        placement: Placement,
        target: TargetViewer | None,
        long_side: int = 640,
    ) -> None:
        """renderer: of the clean scene. target: what must be observable, if it is known."""
        self._scene = scene
        self._renderer = renderer
        self._placement = placement
        self._target = target
        self._anchor = placement.camera.fitted(long_side)

    def draw(self, cone: Cone, count: int, rng: np.random.Generator) -> list[View]:
        """`count` views; those that show too little are drawn again. Raises InputError."""
        views: list[View] = []
        for _ in range(_TRIES_PER_VIEW * count):
            if len(views) == count:
                break
            view = self.view(cone.draw(rng))
            if view is not None:
                views.append(view)
        if len(views) < count:
            raise InputError(
                f"only {len(views)} of {count} views show target and patch: choose a narrower "
                f"reach, or an anchor that sees them better"
            )
        return views

    def view(self, condition: Condition) -> View | None:
        """The view of one condition; None where target or patch can hardly be seen."""
        from scene.target import mask_box

        camera = condition_camera(condition, self._anchor, self._placement.center, self._scene.up)
        drawn = self._renderer.render(
            camera, self._scene.background, frozenset({"rgb", "alpha", "median_depth"})
        )
        assert drawn.median_depth is not None
        seen = footprint(self._placement, camera, drawn.median_depth)
        if seen.visible.sum() < MIN_PATCH_PX or seen.incidence_deg > MAX_INCIDENCE_DEG:
            return None
        box = None
        if self._target is not None:
            target = self._target.view(camera)
            box = target.box
            if box is None or target.visible_share < MIN_VISIBLE_SHARE:
                return None
            if box[3] - box[1] < MIN_BOX_HEIGHT_PX:
                return None
        patch_box = mask_box(seen.visible)
        return View(condition, camera, drawn.rgb, drawn.median_depth, box, patch_box)


def background_of(view: View, placement: Placement, long_side: int | None = None) -> Background:
    """What patch making needs of a view, as victims get it (8 bits), no larger than `long_side`."""
    import torch

    from patching.optimize.eot import Background, as_picture

    picture = as_picture(to_uint8(view.clean).astype(np.float32) / np.float32(255))
    share = _shown(view, placement)
    shown = None if share is None else torch.from_numpy(share)
    whole = Background(picture, _homography(placement, view.camera), view.box, shown, view.name)
    width, height = view.camera.width, view.camera.height
    if long_side is None or long_side >= max(width, height):
        return whole
    small = view.camera.fitted(long_side)
    return whole.resized(small.width, small.height)


def victim_loss(victim: Any, spec: str, label: str) -> VictimLoss:
    """The victim's own loss for patch making. Raises InputError when it gives none."""
    if not hasattr(victim, "suppression_loss"):
        from envelope.victims.registry import shown

        raise InputError(
            f"victim {shown(spec)}: wanted one that gives gradients (the demo victims, or "
            f"white_box in `advscene victim list --json`), found one that only answers"
        )
    takes_boxes = victim.info.kind == "grounder"

    def loss(images: torch.Tensor, boxes: Sequence[XYXY | None]) -> torch.Tensor:
        if takes_boxes and all(box is not None for box in boxes):
            found: torch.Tensor = victim.suppression_loss(images, label, boxes)
        else:
            found = victim.suppression_loss(images, label)
        return found

    return loss


@dataclass(frozen=True)
class Found:
    """In how many of `views` pictures the victim found the target."""

    found: int
    views: int

    def __str__(self) -> str:
        return f"{self.found}/{self.views} ({self.found / self.views:.2f})"


@dataclass(frozen=True)
class Judgement:
    """How often the victim does its task, by what lies on the target.

    found: by kind. fooled: of the views in which the gray patch leaves the target found, those in
    which a kind loses it (cASR), by kind.
    """

    found: Mapping[str, Found]
    fooled: Mapping[str, Found | None]

    def to_dict(self) -> dict[str, Any]:
        """Counts by kind, for JSON."""
        return {
            kind: {
                "found": count.found,
                "views": count.views,
                "lost_of_found_on_gray": None if lost is None else [lost.found, lost.views],
            }
            for kind, count, lost in (
                (kind, self.found[kind], self.fooled.get(kind)) for kind in self.found
            )
        }


def judged(
    victim: Any,
    label: str,
    placement: Placement,
    views: Sequence[View],
    patches: Mapping[str, Patch | None],
    progress: Callable[[str, int, int], None] | None = None,
) -> Judgement:
    """How often the victim finds the target with each patch (None: nothing) pasted in the views.

    Found as `envelope` judges it: the most confident box of the class at the victim's threshold
    has IoU >= 0.5 with the target's box; a classifier's first class. Without a target box any box
    of the class will do. patches must hold "gray".
    """
    right = {
        kind: _right(victim, label, placement, views, patch, kind, progress)
        for kind, patch in patches.items()
    }
    base = right["gray"]
    return Judgement(
        {kind: Found(int(is_right.sum()), len(views)) for kind, is_right in right.items()},
        {
            kind: Found(int((base & ~is_right).sum()), int(base.sum())) if base.any() else None
            for kind, is_right in right.items()
            if kind not in ("clean", "gray")
        },
    )


def _right(
    victim: Any,
    label: str,
    placement: Placement,
    views: Sequence[View],
    patch: Patch | None,
    kind: str,
    progress: Callable[[str, int, int], None] | None,
) -> NDArray[np.bool_]:
    """(n,) whether the victim did its task in each view."""
    criterion = Reading(label).criterion(None, victim.info.kind, victim.info.threshold)
    right: list[bool] = []
    for first in range(0, len(views), _BATCH):
        some = views[first : first + _BATCH]
        images = np.stack([_picture(view, placement, patch) for view in some])
        words = takes_prompt(victim)
        for view, answer in zip(some, ask(victim, images, label), strict=True):
            facts = read_answer(answer, label, open_vocabulary=words)
            if view.box is None and facts.kind != "classifier":
                enough = [box for box in facts.boxes if box.confidence >= criterion.gamma]
                right.append(bool(enough))
            else:
                right.append(judge(facts, criterion, view.box, view.patch_box).right is True)
        if progress:
            progress(kind, len(right), len(views))
    return np.array(right)


def _picture(view: View, placement: Placement, patch: Patch | None) -> NDArray[np.uint8]:
    if patch is None:
        return to_uint8(view.clean)
    return to_uint8(composite(placement, patch, view.camera, view.clean, view.median_depth)[0])


def _tight_box(mask: NDArray[np.bool_]) -> XYXY:
    """Pixel edges, xyxy, of the true pixels of an (H, W) mask that has some."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return float(columns[0]), float(rows[0]), float(columns[-1] + 1), float(rows[-1] + 1)


def _shown(view: View, placement: Placement) -> FloatArray | None:
    """(H, W) share of each pixel's patch that nothing hides; None when nothing is hidden."""
    rays = cast_patch(placement, view.camera)
    if rays is None:
        return None
    visible = visible_rays(rays, placement, view.median_depth)
    if (visible == rays.inside).all():
        return None
    inside = rays.pooled(rays.inside.astype(np.float32))
    share = np.ones(view.median_depth.shape, np.float32)
    shown = rays.pooled(visible.astype(np.float32)) / np.maximum(inside, 1e-6)
    share[rays.rows, rays.columns] = np.where(inside > 0, shown, 1)
    return share


def _homography(placement: Placement, camera: Camera) -> NDArray[np.float64]:
    """From patch coordinates to pixels; on a curved surface that of its corners' quad."""
    from scene.surface import Plane

    if isinstance(placement.surface, Plane):
        return placement.homography(camera)
    from patching.optimize.eot import homography_of_quad

    pixels, depth = camera.project(placement.corners())
    if (depth <= 0).any():
        raise InputError("the patch reaches behind a camera: choose a narrower reach")
    return homography_of_quad(pixels)
