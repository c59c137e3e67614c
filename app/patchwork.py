"""From a patch to an embedded one: gallery, placement, outside pair, embedding, undo."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from app.embedding import EmbedOrder, EmbedProgress, embed_patch, fidelity_table
from app.gallery import Gallery
from app.placing import (
    OutsidePair,
    describe_placement,
    dragged,
    first_anchor_camera,
    moved,
    ray_pixel,
    target_width,
    turned,
)
from scene.camera import Camera
from scene.errors import InputError
from scene.gaussians import Gaussians
from scene.scene import Scene

if TYPE_CHECKING:
    from patching.adversarial import AdversarialScene
    from patching.anchor import Anchor
    from patching.patch import Patch
    from patching.placement import Placement
    from scene.render.api import Renderer

RENDER_LONG_SIDE = 640
UNDO_STEPS = 20


@dataclass(frozen=True, eq=False)
class _State:
    """Everything that undo brings back.

    placement: of the patch, or None. pair: an outside pair's anchor, or None (never both).
    adversarial, embedded_patch: what was embedded last, which need not be what is placed now,
    and its pixels (None for an outside pair).
    anchor_camera: where the patch is placed from, at render size.
    """

    anchor_camera: Camera
    patch: Patch | None = None
    placement: Placement | None = None
    pair: Anchor | None = None
    adversarial: AdversarialScene | None = None
    embedded_patch: Patch | None = None


class Patchwork:
    """The patch of one scene. Methods may be called from any thread, one at a time."""

    def __init__(self, scene: Scene, gallery: Gallery) -> None:
        self.scene = scene
        self.gallery = gallery
        self._lock = threading.RLock()
        self._renderer: Renderer | None = None
        self._outside = OutsidePair()
        self._history: list[_State] = []
        names = gallery.names()
        self._now = _State(
            first_anchor_camera(scene).fitted(RENDER_LONG_SIDE),
            gallery.get(names[0]) if names else None,
        )

    @property
    def renderer(self) -> Renderer:
        """Of the clean scene; the first call takes a moment."""
        with self._lock:
            if self._renderer is None:
                from scene.render.api import make_renderer

                self._renderer = make_renderer(self.scene.gaussians)
            return self._renderer

    @property
    def anchor_camera(self) -> Camera:
        """Where the patch is placed from, at render size."""
        return self._now.anchor_camera

    @property
    def patch(self) -> Patch | None:
        """The chosen patch."""
        return self._now.patch

    @property
    def placement(self) -> Placement | None:
        """Where it lies; None before it is placed and for an outside pair."""
        return self._now.placement

    @property
    def adversarial(self) -> AdversarialScene | None:
        """What was embedded last."""
        return self._now.adversarial

    @property
    def embedded_patch(self) -> Patch | None:
        """The pixels of what was embedded last; None for an outside pair."""
        return self._now.embedded_patch

    def adopt(self, adversarial: AdversarialScene, patch: Patch | None) -> None:
        """Take over what a run holds; nothing to undo."""
        if patch is not None:
            self.gallery.add(patch)
        anchor = adversarial.anchor
        self._now = _State(
            anchor.camera.fitted(RENDER_LONG_SIDE),
            patch or self._now.patch,
            anchor.placement,
            anchor if anchor.placement is None else None,
            adversarial,
            patch,
        )
        self._history.clear()

    def change_scene(self, scene: Scene) -> None:
        """The same Gaussians with another up axis, scale or target."""
        self.scene = scene
        made = self._now.adversarial
        if made is not None:
            self._now = replace(self._now, adversarial=replace(made, scene=scene))

    # --- choosing and placing -----------------------------------------------------------------

    def set_anchor_camera(self, camera: Camera) -> None:
        """Place from another view; placement and embedding are put aside."""
        self._change(
            anchor_camera=camera.fitted(RENDER_LONG_SIDE),
            placement=None, pair=None, adversarial=None, embedded_patch=None,
        )  # fmt: skip

    def choose(self, name: str) -> None:
        """Take a patch of the gallery, at the same place."""
        patch, old = self.gallery.get(name), self.placement
        placement = old and turned(old, old.width, patch.aspect, old.in_plane_deg)
        self._change(patch=patch, placement=placement)

    def add(self, file_name: str, content: bytes) -> None:
        """Add an uploaded picture to the gallery and choose it. Raises InputError."""
        self.choose(self.gallery.add_upload(file_name, content).name)

    def place_along_ray(
        self, origin: ArrayLike, direction: ArrayLike, width_share: float, in_plane_deg: float
    ) -> None:
        """Place the patch where a click's ray meets the scene. Raises InputError."""
        from scene.surface import pick_along_ray

        point = pick_along_ray(self.scene.gaussians, origin, direction)
        if point is None:
            raise InputError("nothing solid lies under the click; click a surface of the scene")
        self.place_at(point, width_share, in_plane_deg)

    def place_at(self, point: ArrayLike, width_share: float, in_plane_deg: float) -> None:
        """Place the patch on the surface that the anchor view shows at `point` (3,).

        width_share: of the target's width. Raises InputError.
        """
        from patching.placement import place_at_pixel

        if self.patch is None:
            raise InputError("no patch is chosen; choose one of the gallery or upload a picture")
        camera = self.anchor_camera
        width = width_share * target_width(self.scene, camera)
        placed = place_at_pixel(
            self.renderer, camera, ray_pixel(camera, point), self.patch, width, self.scene.up,
            in_plane_deg,
        )  # fmt: skip
        if np.linalg.norm(placed.center - np.asarray(point)) > 0.5 * width:
            raise InputError(
                "something stands between the anchor and this point; fly to a view that sees it "
                "and press 'Anchor from my view'"
            )
        self._change(placement=placed, pair=None)

    def resize(self, width_share: float, in_plane_deg: float) -> None:
        """Another size (share of the target's width) and angle at the same place."""
        if self.placement is None or self.patch is None:
            return
        width = width_share * target_width(self.scene, self.anchor_camera)
        self._change(placement=turned(self.placement, width, self.patch.aspect, in_plane_deg))

    def nudge(self, way: str) -> None:
        """Move the patch by a tenth of its size. Raises InputError."""
        if self.placement is None:
            raise InputError("there is no patch to move yet; place one first")
        self._change(placement=moved(self.placement, way))

    def dragged(self, position: ArrayLike, wxyz: ArrayLike) -> Placement | None:
        """Where the placement would lie if handles were let go there; see `placing.dragged`."""
        return None if self.placement is None else dragged(self.placement, position, wxyz)

    def drag(self, position: ArrayLike, wxyz: ArrayLike) -> None:
        """Move and turn the patch to where its handles were dragged."""
        if (placed := self.dragged(position, wxyz)) is not None:
            self._change(placement=placed)

    def placement_file(self) -> bytes:
        """The placement as the JSON file that `advscene embed` and `load_placement` take."""
        if self.placement is None:
            raise InputError("there is no placement to save yet; place the patch first")
        return json.dumps(self.placement.to_dict(), indent=1).encode()

    def load_placement(self, content: bytes) -> None:
        """Take a saved placement; its camera becomes the anchor. Raises InputError."""
        from patching.placement import Placement

        try:
            fields = json.loads(content)
        except ValueError as error:
            raise InputError(f"placement: wanted a JSON placement file, found {error}") from error
        placed = Placement.from_dict(fields)
        camera = placed.camera.fitted(RENDER_LONG_SIDE)
        self._change(
            placement=replace(placed, camera=camera), anchor_camera=camera, pair=None,
            adversarial=None, embedded_patch=None,
        )  # fmt: skip

    def placement_text(self) -> str:
        """Where the patch lies, in words."""
        if self._now.pair is not None:
            return "from an outside pair"
        if self.placement is None:
            return "not placed yet"
        text = describe_placement(self.placement, self.scene.metres_per_unit)
        return text if self.up_to_date else text + "\nnot embedded yet"

    def width_share(self) -> float | None:
        """Width of the placed patch as a share of the target's."""
        if self.placement is None:
            return None
        return self.placement.width / target_width(self.scene, self.anchor_camera)

    # --- outside pair -------------------------------------------------------------------------

    def take_pair_part(self, part: str, content: bytes) -> None:
        """Keep an uploaded "image" or "mask"."""
        self._outside.take(part, content)

    def pair_text(self) -> str:
        """What of the outside pair is here."""
        return self._outside.text()

    def use_pair(self, camera: Camera) -> None:
        """Take the outside pair as the attacked anchor at `camera`. Raises InputError."""
        anchor = self._outside.anchor(self.renderer, camera, self.scene.background)
        self._change(anchor_camera=camera.fitted(RENDER_LONG_SIDE), placement=None, pair=anchor)

    # --- embedding ----------------------------------------------------------------------------

    @property
    def can_embed(self) -> bool:
        """Whether there is something to embed."""
        return self.placement is not None or self._now.pair is not None

    @property
    def up_to_date(self) -> bool:
        """Whether what was embedded is what is placed now."""
        if self.adversarial is None:
            return False
        anchor = self.adversarial.anchor
        return anchor is self._now.pair or (
            anchor.placement is not None and anchor.placement is self.placement
        )

    def embed(self, order: EmbedOrder, progress: EmbedProgress | None = None) -> None:
        """Embed the patch and its gray twin. Takes up to a minute; see `embed_patch`."""
        pair = self._now.pair
        anchor = self._attacked_anchor()
        patch = self.patch if pair is None else None
        made = embed_patch(self.scene, anchor, patch, self.renderer, order, progress)
        self._change(adversarial=made, embedded_patch=patch)

    def fidelity_table(self) -> list[list[str]]:
        """The embedding's figures, a heading and a row each; empty without any."""
        return [] if self.adversarial is None else fidelity_table(self.adversarial)

    def display_parts(self) -> dict[str, Gaussians]:
        """What all kinds share, under "shared", and what each kind has besides, under its name."""
        clean = self.scene.gaussians
        if self.adversarial is None:
            return {"shared": clean}
        edits = self.adversarial.edits
        changed = np.zeros(len(clean), bool)
        for edit in edits.values():
            changed[edit.indices] = True
        parts = {"shared": clean.select(~changed), "clean": clean.select(changed)}
        for kind in edits:
            edited = self.adversarial.gaussians(kind)
            own = np.concatenate([changed, np.ones(len(edited) - len(clean), bool)])
            parts[kind] = edited.select(own & (edited.opacities > 0))
        return parts

    # --- undo ---------------------------------------------------------------------------------

    @property
    def can_undo(self) -> bool:
        """Whether `undo` would change anything."""
        return bool(self._history)

    def undo(self) -> None:
        """Back to the patch, placement and embedding before the last change."""
        if not self._history:
            raise InputError("there is nothing to take back")
        self._now = self._history.pop()

    def _change(self, **changes: Any) -> None:
        self._history.append(self._now)
        del self._history[:-UNDO_STEPS]
        self._now = replace(self._now, **changes)

    def _attacked_anchor(self) -> Anchor:
        from patching.anchor import anchor_from_placement

        if self._now.pair is not None:
            return self._now.pair
        if self.placement is None or self.patch is None:
            raise InputError("there is no patch to embed yet; place one first")
        return anchor_from_placement(
            self.renderer, self.placement, self.patch, self.scene.background
        )
