"""`advscene make-patch`: optimize a patch against one victim in views of a scene."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from scene.errors import InputError

if TYPE_CHECKING:
    from app.patch_making import Judgement, View
    from patching.optimize.settings import MakeSettings
    from patching.patch import Patch
    from patching.placement import Placement
    from scene.scene import Scene


@dataclass(frozen=True)
class Reach:
    """How far the views go from the anchor, in which the patch is made and judged."""

    azimuth_deg: float = 30.0
    """Largest azimuth either way, degrees."""
    elevation_deg: float = 8.0
    """Largest elevation either way, degrees."""
    radius_low: float = 0.8
    """Smallest distance, as a multiple of the anchor's."""
    radius_high: float = 1.4
    """Largest distance, as a multiple of the anchor's."""
    roll_deg: float = 5.0
    """Largest roll either way, degrees."""


@dataclass(frozen=True)
class MakePatch:
    """Make an adversarial patch against a victim that gives gradients (white box, EOT)."""

    scene: Annotated[Path, tyro.conf.Positional]
    """Splat file."""
    placement: Path
    """Placement file (JSON): where the patch lies, and the anchor camera."""
    out: Path
    """PNG to write; what the patch was made from goes into a JSON file beside it."""
    victim: str = "demo-detector"
    """Victim to fool; it must give gradients (`white_box` in `advscene victim list --json`)."""
    label: str | None = None
    """Class name to hide, such as "stop sign"; default: the scene's."""
    level: Literal["none", "weak", "strong", "very strong"] = "strong"
    """How strongly views are varied: 1, 4, 8 or 16 transformed views per step."""
    steps: int = 80
    """Optimizer steps per restart, at most."""
    restarts: int = 3
    """Independent starts; the best by loss on views kept aside for that wins."""
    size: int = 160
    """Side of the square patch picture, pixels."""
    views: int = 36
    """Views of the scene that the patch is made in; a third as many others choose the best state,
    two thirds as many judge it."""
    reach: Reach = field(default_factory=Reach)
    controls: bool = False
    """Also write gray.png, noise.png and shuffled.png (the patch's pixels in random order) into
    the same folder."""
    seed: int = 0
    """Seed of views, starts and transformations; the same numbers make the same patch."""
    threads: int = 1
    """CPU threads; with another number the patch may differ in its last bits."""
    json: bool = False
    """Print the figures as JSON."""

    def run(self) -> None:
        """Make the patch, write it, print how often the victim finds the target."""
        from app.commands.output import say, say_json
        from patching.patch import load_patch, save_patch

        if self.out.suffix.lower() != ".png":
            raise InputError(f"--out: wanted a .png file, found {self.out.name}")
        settings = self._settings()
        job = self._prepared()
        patch = self._made(job, settings)
        judgement = self._judged(job, patch)
        figures = {"judged": judgement.to_dict(), "judged_views": [v.name for v in job.judging]}
        patch = replace(patch, provenance={**patch.provenance, **figures})
        save_patch(patch, self.out)
        if self.controls:
            saved = load_patch(self.out)
            for kind, control in _controls(saved).items():
                save_patch(control, self.out.with_name(f"{kind}.png"))
        if self.json:
            say_json({"patch": str(self.out), **judgement.to_dict()})
            return
        say(f"{self.out}: {self.size}x{self.size} px against {job.victim.info.name} ({job.label})")
        say(f"{job.victim.info.name} finds the target in these {len(job.judging)} other views:")
        for kind, count in judgement.found.items():
            lost = judgement.fooled.get(kind)
            also = f", lost of those found on gray: {lost}" if lost else ""
            say(f"  {kind:12s} {count}{also}")

    def _settings(self) -> MakeSettings:
        from patching.optimize.settings import MakeSettings

        return MakeSettings.advscene(
            self.level,
            size_px=self.size,
            steps=self.steps,
            restarts=self.restarts,
            seed=self.seed,
        )

    def _prepared(self) -> _Job:
        """Scene, victim and views; everything that can be refused is refused here."""
        import numpy as np

        from app.patch_making import Cone, ViewDrawer, victim_loss
        from envelope.victims.registry import load_victim
        from patching.placement import load_placement
        from scene.render.api import make_renderer
        from scene.scene import load_scene
        from scene.target import TargetViewer, select_in_box

        if self.views < 1:
            raise InputError(f"--views: wanted at least 1, found {self.views}")
        scene = load_scene(self.scene)
        placement = load_placement(self.placement)
        label = self.label or (scene.target.label if scene.target else "")
        if not label:
            raise InputError("the scene names no target class; give --label")
        victim = load_victim(self.victim, label, threads=self.threads)
        victim_loss(victim, self.victim, label)
        cone = Cone(**asdict(self.reach))
        renderer = make_renderer(scene.gaussians, threads=self.threads)
        target = None
        if scene.target is not None:
            rows = select_in_box(scene.gaussians, scene.target).indices
            target = TargetViewer(scene.gaussians, rows, renderer=renderer)
        drawer = ViewDrawer(scene, renderer, placement, target)
        rng = np.random.default_rng([self.seed, _VIEWS_STREAM])
        aside = max(1, self.views // 3)
        making, choosing, judging = (
            drawer.draw(cone, count, rng) for count in (self.views, aside, max(2, 2 * aside))
        )
        return _Job(scene, placement, label, victim, making, choosing, judging)

    def _made(self, job: _Job, settings: MakeSettings) -> Patch:
        from app.commands.output import progress_line
        from app.patch_making import background_of, victim_loss
        from envelope.victims.torch_tools import torch_threads
        from patching.optimize.train import make_patch

        line = progress_line("making")

        def progress(step: int, total: int, terms: dict[str, float]) -> None:
            line(
                f"restart {terms['restart']:.0f}/{settings.restarts}, loss {terms['victim']:.3f}, "
                f"aside {terms['aside']:.3f}",
                min(0.999, step / total),
            )

        # finer than its input the victim never sees; the patch is judged at render size
        long_side = max(job.victim.info.input_size)
        making = [background_of(view, job.placement, long_side) for view in job.making]
        choosing = [background_of(view, job.placement, long_side) for view in job.choosing]
        loss = victim_loss(job.victim, self.victim, job.label)
        about = self._about(job, (making[0].picture.shape[2], making[0].picture.shape[1]))
        with torch_threads(self.threads):
            patch = make_patch(
                loss, making, settings, progress, aside=choosing, name=self.out.stem, about=about
            )
        line("done", 1.0)
        metres = job.scene.metres_per_unit
        side = None if metres is None else round(job.placement.width * metres, 6)
        return replace(patch, side_m=side)

    def _about(self, job: _Job, view_size: tuple[int, int]) -> dict[str, Any]:
        """What the provenance says besides the loop's own account."""
        info = job.victim.info
        return {
            "made_by": "advscene make-patch",
            "victim": info.name,
            "weights_hash": info.weights_hash,
            "label": job.label,
            "scene_sha256": job.scene.provenance.get("sha256"),
            "placement": job.placement.to_dict(),
            "reach": asdict(self.reach),
            "level": self.level,
            "view_size": list(view_size),
        }

    def _judged(self, job: _Job, patch: Patch) -> Judgement:
        from app.patch_making import judged

        patches = {"clean": None, **_controls(patch), "adversarial": patch}
        return judged(job.victim, job.label, job.placement, job.judging, patches)


def _controls(patch: Patch) -> dict[str, Patch]:
    """The patches that it is compared with, by kind."""
    from patching.controls import patch_of_kind

    return {kind: patch_of_kind(kind, patch) for kind in ("gray", "noise", "shuffled")}


_VIEWS_STREAM = 7
"""Keeps the views' random numbers apart from those of the restarts."""


@dataclass(frozen=True, eq=False)
class _Job:
    """What a patch is made from: views to make it in, to choose it by, to judge it in."""

    scene: Scene
    placement: Placement
    label: str
    victim: Any
    making: list[View]
    choosing: list[View]
    judging: list[View]
