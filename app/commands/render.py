"""`advscene render`: one picture of a scene from a camera file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro


@dataclass(frozen=True)
class Render:
    """Draw one picture of a scene, exactly as victims would get it."""

    scene: Annotated[Path, tyro.conf.Positional]
    """Splat file (PLY or compressed PLY)."""
    camera: Path
    """Camera file: JSON with width, height, K (3x3), camera_from_world (4x4, OpenCV axes)."""
    out: Path
    """PNG to write."""
    background: tuple[float, float, float] | None = None
    """sRGB behind the Gaussians, each 0 to 1; default: the scene's own."""
    backend: Literal["auto", "cpu", "cuda", "reference"] = "auto"
    """What draws: auto is CUDA where there is one, else the CPU."""
    depth: Path | None = None
    """Also write the median depth here, as a float32 .npy in scene units."""

    def run(self) -> None:
        """Render and write the PNG."""
        import numpy as np
        from PIL import Image

        from app.commands.output import say
        from scene.camera import load_camera
        from scene.errors import InputError
        from scene.render.api import Output, make_renderer
        from scene.scene import load_scene

        if self.out.suffix.lower() != ".png":
            raise InputError(f"--out: wanted a .png file, found {self.out.name}")
        camera = load_camera(self.camera)
        scene = load_scene(self.scene)
        background = self.background or scene.background
        renderer = make_renderer(scene.gaussians, self.backend)
        with_depth = frozenset[Output]({"rgb", "alpha", "median_depth"})
        picture = renderer.render(camera, background, with_depth)
        self.out.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.rint(np.clip(picture.rgb, 0, 1) * 255).astype(np.uint8)
        Image.fromarray(pixels).save(self.out)
        if self.depth is not None and picture.median_depth is not None:
            np.save(self.depth, picture.median_depth)
        say(f"{self.out}: {camera.width}x{camera.height}, {len(scene.gaussians)} Gaussians, "
            f"{renderer.backend}, background {background}")  # fmt: skip
