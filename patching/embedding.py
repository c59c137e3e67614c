"""A patch and its controls, all embedded by the same procedure at the same place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from patching.adversarial import AdversarialScene
from patching.anchor import Anchor, anchor_from_placement
from patching.controls import patch_of_kind
from patching.patch import Patch
from patching.placement import Placement
from scene.errors import InputError
from scene.render.api import Renderer, make_renderer
from scene.scene import Scene

if TYPE_CHECKING:
    from patching.apse.embed import Preview
    from patching.apse.settings import ApseSettings

DEFAULT_KINDS = ("adversarial", "gray")
GRAY = 0.5

KindProgress = Callable[[str, int, int, dict[str, float], "Preview"], bool]
"""(kind, iteration from 1, total, loss terms, preview) -> False to stop and keep this kind."""


def embed_kinds(
    scene: Scene,
    anchor: Anchor,
    patch: Patch | None = None,
    kinds: Sequence[str] = DEFAULT_KINDS,
    settings: ApseSettings | None = None,
    progress: KindProgress | None = None,
    renderer: Renderer | None = None,
    figures: bool = True,
) -> AdversarialScene:
    """Embed every kind and measure its fidelity (method.md section 3).

    anchor: of the adversarial patch. patch: its pixels; None for an outside pair, which has the
    controls that need no pixels (gray) only. kinds: of `patching.controls.PATCH_KINDS`.
    renderer: of the clean scene, if one is at hand. figures: measure fidelity too (20 views).
    """
    from patching.apse.embed import embed
    from patching.apse.fidelity import measure

    renderer = renderer or make_renderer(scene.gaussians)
    cameras = [shot.camera for shot in scene.cameras]
    result = AdversarialScene(scene, anchor, {})
    for kind in kinds:
        attacked = anchor_of_kind(renderer, anchor, patch, kind)

        def step(
            i: int, total: int, terms: dict[str, float], preview: Preview, kind: str = kind
        ) -> bool:
            return progress is None or progress(kind, i, total, terms, preview)

        embedding = embed(scene.gaussians, attacked, settings, cameras, step, renderer)
        report = embedding.report
        if figures:
            content = None if patch is None else patch_of_kind(kind, patch)
            judged = measure(
                renderer, embedding.edit.apply(scene.gaussians), attacked, content, scene.up
            )
            report = replace(report, fidelity=judged.to_dict())
        result = result.with_edit(kind, embedding.edit, report.to_dict())
    return result


def anchor_of_kind(renderer: Renderer, anchor: Anchor, patch: Patch | None, kind: str) -> Anchor:
    """The anchor with a control in the adversarial patch's place.

    An outside pair has no patch pixels to make noise or a shuffle from: InputError for those.
    """
    if kind == "adversarial":
        return anchor
    placement: Placement | None = anchor.placement
    if placement is not None and patch is not None:
        content = patch_of_kind(kind, patch)
        scale = anchor.camera.width / placement.camera.width
        return anchor_from_placement(renderer, placement, content, anchor.background, scale)
    if kind != "gray":
        raise InputError(
            f"control {kind!r}: wanted a placed patch, found an outside pair, which has only the "
            f"gray control"
        )
    image = np.where(anchor.mask[..., None], np.float32(GRAY), anchor.clean).astype(np.float32)
    return replace(anchor, image=image)
