"""Embedding as the page runs it: the patch and its gray twin, with progress, preview and stop."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from scene.errors import InputError

if TYPE_CHECKING:
    from patching.adversarial import AdversarialScene
    from patching.anchor import Anchor
    from patching.patch import Patch
    from scene.render.api import Renderer
    from scene.scene import Scene

PREVIEW_EVERY_S = 1.5
KINDS = ("adversarial", "gray")
CONTROLS = ("noise", "shuffled")

FIGURES = (
    ("anchor patch", "anchor_patch"),
    ("ring", "ring"),
    ("non-patch", "anchor_rest"),
    ("off anchor", "off_patch"),
    ("off anchor / its floor", "off_over_floor"),
    ("median depth", "depth"),
)


@dataclass(frozen=True)
class EmbedOrder:
    """What to run.

    iterations: per kind. variant: "inspector" or "paper". controls: noise and shuffled besides
    gray, which is always there. figures: measure the fidelity too.
    """

    iterations: int = 300
    variant: str = "inspector"
    controls: bool = False
    figures: bool = True

    @property
    def kinds(self) -> tuple[str, ...]:
        """What is embedded, in this order."""
        return (*KINDS, *CONTROLS) if self.controls else KINDS


@dataclass(frozen=True, eq=False)
class EmbedStep:
    """One step of a running embedding.

    fraction: of everything, 0 to 1. text: kind and iteration. kind: what is embedded.
    iteration: from 1. loss: the total. pictures: (embedded so far, wanted), each (H, W, 3) float
    sRGB of the patch's surroundings, now and then while the patch itself is embedded; else None.
    """

    fraction: float
    text: str
    kind: str
    iteration: int
    loss: float
    pictures: tuple[Any, Any] | None = None


EmbedProgress = Callable[[EmbedStep], bool]
"""Called after every step; False stops this kind and keeps what there is."""


def embed_patch(
    scene: Scene,
    anchor: Anchor,
    patch: Patch | None,
    renderer: Renderer,
    order: EmbedOrder,
    progress: EmbedProgress | None = None,
) -> AdversarialScene:
    """Embed the anchor's patch and its gray twin.

    patch: None for an outside pair. renderer: of the clean scene. Raises InputError.
    """
    from patching.apse.settings import ApseSettings
    from patching.embedding import embed_kinds

    if order.variant not in ("inspector", "paper"):
        raise InputError(f"variant: wanted inspector or paper, found {order.variant!r}")
    variant = cast(Literal["inspector", "paper"], order.variant)
    settings = ApseSettings.of(variant, iterations=order.iterations)
    kinds = order.kinds
    shown = {"at": 0.0}

    def step(kind: str, i: int, total: int, terms: dict[str, float], preview: Any) -> bool:
        if progress is None:
            return True
        pictures = None
        now = time.monotonic()
        if kind == "adversarial" and (now - shown["at"] > PREVIEW_EVERY_S or i == total):
            shown["at"] = now
            pictures = (_around(anchor, preview()), _around(anchor, anchor.image))
        fraction = (kinds.index(kind) + i / total) / len(kinds)
        loss = float(terms.get("total", sum(terms.values())))
        return progress(EmbedStep(fraction, f"{kind} {i}/{total}", kind, i, loss, pictures))

    return embed_kinds(scene, anchor, patch, kinds, settings, step, renderer, order.figures)


def fidelity_table(adversarial: AdversarialScene) -> list[list[str]]:
    """The figures that the embeddings reported: a heading, then a row per figure, in words.

    Mean absolute differences in sRGB 0..1 unless a unit is given; a column per embedded kind.
    """
    measured = {k: r for k, r in adversarial.reports.items() if r.get("fidelity")}
    notes = [" (stopped early)" if report.get("stopped") else "" for report in measured.values()]
    heads = [kind + note for kind, note in zip(measured, notes, strict=True)]
    table = [["mean abs. differences", *heads]] if measured else []
    for name, key in FIGURES:
        found = [report["fidelity"].get(key) for report in measured.values()]
        if any(value is not None for value in found):
            words = ["" if value is None else _figure(key, value) for value in found]
            table.append([name, *words])
    return table


def fidelity_text(adversarial: AdversarialScene) -> str:
    """`fidelity_table` as lines, a block per kind."""
    heading, *rows = fidelity_table(adversarial) or [[]]
    lines = []
    for column, kind in enumerate(heading[1:], start=1):
        lines.append(f"{kind}, mean absolute differences")
        lines += [f"  {row[0]} {row[column]}" for row in rows if row[column]]
    return "\n".join(lines)


def _figure(key: str, value: float) -> str:
    """A figure as it is read: depth in percent, a multiple with its sign, the rest sRGB 0..1."""
    if key == "depth":
        return f"{100 * value:.2f} %"
    if key == "off_over_floor":
        return f"×{value:.1f}"
    return f"{value:.5f}" if value < 0.001 else f"{value:.4f}"


def _around(anchor: Anchor, picture: Any) -> Any:
    """The part of an anchor picture around the patch, with a margin of half the patch."""
    import numpy as np

    rows, columns = np.flatnonzero(anchor.mask.any(1)), np.flatnonzero(anchor.mask.any(0))
    margin = max(len(rows), len(columns)) // 2
    height, width = anchor.mask.shape
    y0, y1 = max(rows[0] - margin, 0), min(rows[-1] + 1 + margin, height)
    x0, x1 = max(columns[0] - margin, 0), min(columns[-1] + 1 + margin, width)
    return picture[y0:y1, x0:x1]
