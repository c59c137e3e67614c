"""Compile every CPU kernel once, so that nobody waits for a compiler while using the program.

Compiled code is kept on disk (`scene.render.cpu.cache`); a second run only loads it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

Progress = Callable[[str, float], None]
"""Called with what is being compiled and the share of the work that is done, 0 to 1."""


@dataclass(frozen=True)
class Stage:
    """One step of the warm-up.

    label: shown to the user. function: "module:function", imported when its turn comes and called
    without arguments; it runs a kernel on a tiny input. seconds: about how long it compiles.
    """

    label: str
    function: str
    seconds: float

    def run(self) -> None:
        """Compile (or load) what the stage names."""
        module, _, name = self.function.partition(":")
        getattr(import_module(module), name)()


STAGES: tuple[Stage, ...] = (
    Stage("projection and colors", "scene.render.cpu.warm_forward:warm_projection", 3.5),
    Stage("depth sorting", "scene.render.cpu.warm_forward:warm_sorting", 2.0),
    Stage("tile lists", "scene.render.cpu.warm_forward:warm_binning", 1.5),
    Stage("blending", "scene.render.cpu.warm_forward:warm_color", 1.5),
    Stage("blending with depth", "scene.render.cpu.warm_forward:warm_depths", 1.5),
    Stage("tiles of an edit", "scene.render.cpu.warm_forward:warm_frames", 1.0),
    Stage("gradients of a patch", "scene.render.cpu.training_warm:warm_patch_view", 8.0),
    Stage("gradients of a scene", "scene.render.cpu.training_warm:warm_training", 5.0),
    Stage("training losses", "scene.reconstruct.warm:warm_losses", 4.0),
)
"""All stages, in order. Whoever adds a kernel adds its stage here."""


def warmup(progress: Progress | None = None) -> None:
    """Compile all CPU kernels: about half a minute the first time, a second or two after that."""
    total = sum(stage.seconds for stage in STAGES)
    done = 0.0
    for stage in STAGES:
        if progress is not None:
            progress(stage.label, done / total)
        stage.run()
        done += stage.seconds
    if progress is not None:
        progress("done", 1.0)
