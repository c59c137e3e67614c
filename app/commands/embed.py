"""`advscene embed`: a patch becomes Gaussians, and a run folder is made."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from scene.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from patching.adversarial import AdversarialScene
    from patching.anchor import Anchor
    from patching.patch import Patch
    from scene.camera import Camera
    from scene.render.api import Renderer, RenderSettings
    from scene.scene import Scene


@dataclass(frozen=True)
class Where:
    """Where the patch lies: a placement file, or a pixel of the anchor view."""

    placement: Path | None = None
    """Placement file (JSON), as saved by the viewer; it brings its anchor camera."""
    camera: Path | None = None
    """Anchor camera file, for --where.pixel and for an outside pair."""
    pixel: tuple[float, float] | None = None
    """Pixel (x y) of the anchor view on which the patch's centre lies."""
    width: float | None = None
    """Patch width in world units, with --where.pixel."""
    turn_deg: float = 0.0
    """Clockwise turn of the patch on its surface, degrees, with --where.pixel."""


@dataclass(frozen=True)
class Target:
    """What victims should see; default: the target box that the scene file names."""

    label: str | None = None
    """Class name of the target, such as "stop sign"; default: the scene's."""
    box: tuple[float, float, float, float] | None = None
    """Box (x0 y0 x1 y1) around the target in the anchor view, lifted by depth."""
    whole_scene: bool = False
    """The target is all that the scene holds (a scanned object)."""


@dataclass(frozen=True)
class Embed:
    """Embed a patch and its controls into a scene (APSE) and make a run folder for sweeps."""

    scene: Annotated[Path, tyro.conf.Positional]
    """Splat file."""
    out: Path
    """Run folder to make; must not exist yet."""
    patch: Path | None = None
    """Patch picture (PNG or JPEG)."""
    image: Path | None = None
    """Outside pair: the attacked anchor picture (with --mask and --where.camera)."""
    mask: Path | None = None
    """Outside pair: the patch's mask, white on black."""
    where: Where = field(default_factory=Where)
    target: Target = field(default_factory=Target)
    kinds: tuple[Literal["adversarial", "gray", "noise", "shuffled"], ...] = ("adversarial", "gray")
    """What is embedded at the same place; gray is the control that cASR needs."""
    variant: Literal["inspector", "paper"] = "inspector"
    """APSE variant."""
    without: tuple[Literal["new", "old", "keep", "aux", "attachment"], ...] = ()
    """Ablations: parts of APSE to leave out."""
    iterations: int = 300
    """Optimizer steps; 120 are a preview."""
    seed: int = 0
    """Seed of the auxiliary views and of the run's noise variants."""
    render_size: int = 640
    """Longer side of every picture that victims get, pixels."""
    anchor_scale: float = 1.0
    """Resolution of the anchor picture as a multiple of its camera's: 2 is sharper nearer than
    radius 0.8 and worse far away (where --antialiased helps), and takes 2.5 times as long."""
    antialiased: bool = False
    """Draw with opacity compensated for the low-pass filter, so that small Gaussians do not grow
    in far views; the scene should have been trained so. Holds for the whole run."""
    up: tuple[float, float, float] | None = None
    """The scene's up axis; default: the scene's own."""
    background: tuple[float, float, float] | None = None
    """sRGB behind the Gaussians; default: the scene's own."""
    ply: bool = False
    """Also write OUT/adversarial.ply, OUT/gray.ply, ... for other viewers."""
    json: bool = False
    """Print the fidelity figures as JSON."""

    def run(self) -> None:
        """Embed, judge, write the run folder."""
        from app.commands.output import say, say_json
        from envelope.run import create_run
        from patching.patch import load_patch
        from scene.render.api import make_renderer
        from scene.scene import load_scene

        if self.out.exists():
            raise InputError(f"--out {self.out}: wanted a new folder, found one that exists")
        scene = load_scene(self.scene)
        if self.up is not None:
            scene = replace(scene, up=self.up, up_source="given")
        if self.background is not None:
            scene = replace(scene, background=self.background)
        patch = None if self.patch is None else load_patch(self.patch)
        renderer = make_renderer(scene.gaussians, settings=self._render_settings())
        anchor = self._anchor(scene, renderer, patch)
        target, label = self._target(scene, renderer, anchor.camera)
        adversarial = self._embedded(scene, renderer, anchor, patch)
        run = create_run(
            self.out, adversarial, self.scene, self._settings(scene, label), patch, target,
            command=shlex.join(["advscene", *sys.argv[1:]]),
        )  # fmt: skip
        run.close()
        if self.ply:
            self._write_plys(adversarial)
        if self.json:
            say_json({"run": str(self.out), "target_gaussians": len(target),
                      "reports": dict(adversarial.reports)})  # fmt: skip
        else:
            _print_reports(adversarial, say)
            say(f"{self.out}: run folder made; `advscene sweep {self.out}` scores it")

    def _anchor(self, scene: Scene, renderer: Renderer, patch: Patch | None) -> Anchor:
        from patching.anchor import anchor_from_files, anchor_from_placement
        from patching.placement import load_placement, place_at_pixel
        from scene.camera import load_camera

        where = self.where
        camera = None if where.camera is None else load_camera(where.camera)
        if self.image is not None or self.mask is not None:
            if self.image is None or self.mask is None or camera is None:
                raise InputError("an outside pair wants --image, --mask and --where.camera")
            if self.anchor_scale != 1:
                raise InputError(
                    "--anchor-scale is for a placed patch; an outside pair has its own resolution"
                )
            rule: Literal["quantile", "cluster"] = (
                "quantile" if self.variant == "paper" else "cluster"
            )
            return anchor_from_files(
                renderer, self.image, self.mask, camera, scene.background, rule
            )
        if patch is None:
            raise InputError("wanted --patch PICTURE, or an outside pair (--image and --mask)")
        if where.placement is not None:
            placement = load_placement(where.placement)
        elif camera is None or where.pixel is None or where.width is None:
            raise InputError(
                "wanted --where.placement FILE, or all of --where.camera, --where.pixel and "
                "--where.width"
            )
        else:
            placement = place_at_pixel(
                renderer, camera, where.pixel, patch, where.width, scene.up, where.turn_deg
            )
        return anchor_from_placement(
            renderer, placement, patch, scene.background, self.anchor_scale
        )

    def _target(
        self, scene: Scene, renderer: Renderer, camera: Camera
    ) -> tuple[NDArray[np.int64], str]:
        import numpy as np

        from scene.target import select_from_anchor_box, select_in_box

        wanted = self.target
        label = wanted.label or (scene.target.label if scene.target else "")
        if not label:
            raise InputError("the scene names no target class; give --target.label")
        if wanted.whole_scene:
            return np.arange(len(scene.gaussians)), label
        if wanted.box is not None:
            depth = renderer.render(camera, outputs=frozenset({"median_depth"})).median_depth
            assert depth is not None
            return (
                select_from_anchor_box(scene.gaussians, camera, wanted.box, depth).indices,
                label,
            )
        if scene.target is None:
            raise InputError(
                "the scene names no target; give --target.box X0 Y0 X1 Y1 or --target.whole-scene"
            )
        return select_in_box(scene.gaussians, scene.target).indices, label

    def _embedded(
        self, scene: Scene, renderer: Renderer, anchor: Anchor, patch: Patch | None
    ) -> AdversarialScene:
        from app.commands.output import progress_line
        from patching.apse.settings import ApseSettings
        from patching.embedding import embed_kinds

        settings = ApseSettings.of(self.variant, iterations=self.iterations, seed=self.seed)
        settings = settings.without(*self.without)
        line = progress_line("embedding")

        def progress(kind: str, step: int, total: int, terms: Any, preview: Any) -> bool:
            line(f"{kind} {step}/{total}", step / total)
            return True

        return embed_kinds(scene, anchor, patch, self.kinds, settings, progress, renderer)

    def _render_settings(self) -> RenderSettings:
        from scene.render.api import RenderSettings

        return RenderSettings(antialiased=self.antialiased)

    def _settings(self, scene: Scene, label: str) -> Any:
        from envelope.settings import Reading, RunSettings
        from envelope.stage import StageSettings

        stage = StageSettings(
            up=scene.up, seed=self.seed, long_side=self.render_size, background=scene.background,
            render=self._render_settings(),
        )  # fmt: skip
        return RunSettings(stage, Reading(label))

    def _write_plys(self, adversarial: AdversarialScene) -> None:
        from scene.io import save_ply

        for kind in self.kinds:
            save_ply(adversarial.gaussians(kind), self.out / f"{kind}.ply")


def _print_reports(adversarial: AdversarialScene, say: Any) -> None:
    from app.embedding import fidelity_text

    for kind, report in adversarial.reports.items():
        say(f"{kind}: {report['new']} new + {report['reused']} reused Gaussians, "
            f"{report['iterations']} iterations, {report['aux_views']} auxiliary views, "
            f"{report['wall_s']:.1f} s on a {report['surface']}")  # fmt: skip
    say(fidelity_text(adversarial))
