"""A small real scene (a wall, and a red board before it) and victims that look at colors."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from envelope.engine.jobs import VictimSlot
from envelope.stage import Stage, StageSettings
from envelope.victims.protocols import (
    Classification,
    Detections,
    Grounding,
    VictimInfo,
)
from patching.adversarial import AdversarialScene
from patching.anchor import Anchor
from patching.edit import GaussianEdit
from patching.patch import Patch
from patching.placement import Placement
from scene.camera import Camera
from scene.gaussians import SH_C0, Gaussians
from scene.scene import CaptureCamera, Scene, TargetBox
from scene.surface import Plane

BOARD = ((-1.0, 1.0), (-1.0, 1.0), 0.5)
"""x range, y range and z of the red board; the wall is at z = 0, the anchor at z = 6."""


def sheet(
    xs: Sequence[float], ys: Sequence[float], z: float, color: Sequence[float], sigma: float
) -> Gaussians:
    x, y = (a.ravel() for a in np.meshgrid(xs, ys))
    n = len(x)
    scales = np.tile([sigma, sigma, sigma / 10], (n, 1))
    dc = (np.asarray(color) - 0.5) / SH_C0
    return Gaussians(
        np.stack([x, y, np.full(n, z)], axis=1),
        np.tile([1.0, 0, 0, 0], (n, 1)),
        scales,
        np.full(n, 0.95),
        np.tile(dc, (n, 1, 1)),
    )


def small_scene() -> tuple[Scene, np.ndarray]:
    """Scene and rows of the target (the board)."""
    wall = sheet(np.linspace(-6, 6, 61), np.linspace(-4, 4, 41), 0.0, (0.55, 0.6, 0.5), 0.12)
    board = sheet(
        np.linspace(-0.95, 0.95, 39), np.linspace(-0.95, 0.95, 39), 0.5, (0.9, 0.1, 0.1), 0.035
    )
    cameras = tuple(
        CaptureCamera(
            f"{i}",
            Camera.look_at(
                [6 * np.sin(a), 0.5, 6 * np.cos(a)], [0, 0, 0.5], [0, 1, 0], 200, 150, 45
            ),
        )
        for i, a in enumerate(np.radians([-20, 0, 20]))
    )
    box = TargetBox(np.array([0, 0, 0.5]), np.eye(3), np.array([1.1, 1.1, 0.2]), "red board")
    scene = Scene(
        Gaussians.concatenate([wall, board]), "small", cameras, (0.0, 1.0, 0.0), target=box
    )
    return scene, np.arange(len(wall), len(wall) + len(board))


def patch_edit(scene: Scene, color: Sequence[float]) -> GaussianEdit:
    """A flat colored square of 0.8 on the board, without touching the clean Gaussians."""
    added = sheet(np.linspace(-0.37, 0.37, 20), np.linspace(-0.37, 0.37, 20), 0.52, color, 0.022)
    return GaussianEdit(np.zeros(0), np.zeros(0), np.zeros((0, 3)), added, len(scene.gaussians))


def small_adversarial() -> tuple[AdversarialScene, np.ndarray, Patch]:
    scene, target = small_scene()
    camera = Camera.look_at([0, 0, 6], [0, 0, 0.5], [0, 1, 0], 200, 150, 45)
    plane = Plane(np.array([0, 0, 0.52]), np.array([0.0, 0, 1]))
    placement = Placement(
        np.array([0, 0, 0.52]),
        np.array([1.0, 0, 0]),
        np.array([0.0, -1, 0]),
        0.8,
        0.8,
        plane,
        camera,
    )
    picture = np.zeros((150, 200, 3), np.float32)
    anchor = Anchor(camera, picture, np.zeros((150, 200), bool), picture, plane, placement)
    edits = {
        "gray": patch_edit(scene, (0.5, 0.5, 0.5)),
        "adversarial": patch_edit(scene, (0.1, 0.1, 0.9)),
    }
    patch = Patch.from_rgb(np.tile(np.float32([0.1, 0.1, 0.9]), (16, 16, 1)), "blue")
    return AdversarialScene(scene, anchor, edits), target, patch


def small_stage(long_side: int = 200, **settings: Any) -> Stage:
    adversarial, target, patch = small_adversarial()
    fields = {"up": (0.0, 1.0, 0.0), "long_side": long_side, **settings}
    return Stage(adversarial, target, StageSettings(**fields), patch, "scene-hash", threads=1)


def info(name: str, kind: str, labels: tuple[str, ...] = ("red board", "wall")) -> VictimInfo:
    return VictimInfo(name, kind, "none", "tests", (200, 150), 0.5, f"weights of {name}", labels)  # type: ignore[arg-type]


def red_and_blue(image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r, g, b = (image[..., c].astype(int) for c in range(3))
    return (r > 140) & (g < 110) & (b < 110), (b > 140) & (r < 110) & (g < 110)


class ColorDetector:
    """Boxes what is red; much blue in it (over 8 %) makes it unsure."""

    def __init__(self, name: str = "colors", delay_s: float = 0.0) -> None:
        self.info = info(name, "detector")
        self.delay_s = delay_s
        self.batches: list[int] = []

    def predict(self, images: np.ndarray) -> list[Detections]:
        self.batches.append(len(images))
        time.sleep(self.delay_s * len(images))
        return [self._one(image) for image in images]

    def _one(self, image: np.ndarray) -> Detections:
        red, blue = red_and_blue(image)
        if red.sum() < 20:
            return Detections(np.zeros((0, 4)), np.zeros(0), ())
        rows, columns = np.flatnonzero(red.any(axis=1)), np.flatnonzero(red.any(axis=0))
        box = [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]
        share = blue.sum() / ((box[2] - box[0]) * (box[3] - box[1]))
        return Detections(np.array([box]), np.array([0.1 if share > 0.08 else 0.9]), ("red board",))


class ColorGrounder(ColorDetector):
    """The same as a grounding model."""

    def __init__(self, name: str = "words", delay_s: float = 0.0) -> None:
        super().__init__(name, delay_s)
        self.info = info(name, "grounder", ())

    def prompt_for(self, label: str) -> str:
        return f"detect {label}"

    def predict(self, images: np.ndarray, prompt: str) -> list[Grounding]:  # type: ignore[override]
        assert prompt == "detect red board"
        found = super().predict(images)
        return [
            Grounding("<box>", tuple(map(float, d.xyxy[0])), "ok")
            if len(d) and d.confidences[0] > 0.5
            else Grounding("nothing", None, "empty")
            for d in found
        ]


class ColorClassifier:
    def __init__(self, name: str = "names") -> None:
        self.info = info(name, "classifier")

    def predict(self, images: np.ndarray) -> list[Classification]:
        shares = [red_and_blue(image)[1].mean() for image in images]
        return [
            Classification(
                ("red board", "wall"), np.float32([0.3, 0.7] if s > 0.005 else [0.8, 0.2])
            )
            for s in shares
        ]


class Broken:
    """Raises on chosen calls."""

    def __init__(self, name: str, fails: Callable[[int, np.ndarray], bool]) -> None:
        self.info = info(name, "detector")
        self.calls = 0
        self._fails = fails
        self._good = ColorDetector(name)

    def predict(self, images: np.ndarray) -> list[Detections]:
        self.calls += 1
        if self._fails(self.calls, images):
            raise RuntimeError("out of ideas\nand a second line")
        return self._good.predict(images)


class Stuck:
    """Hangs on its first `times` calls."""

    def __init__(self, name: str, times: int) -> None:
        self.info = info(name, "detector")
        self.left = times
        self.release = threading.Event()
        self._good = ColorDetector(name)

    def predict(self, images: np.ndarray) -> list[Detections]:
        if self.left > 0:
            self.left -= 1
            self.release.wait(20)
        return self._good.predict(images)


def slot(victim: Any) -> VictimSlot:
    return VictimSlot(victim.info.name, lambda: victim, "red board")
