"""A sweep's wall time over the time that its victims need alone for the same pictures.

On the shipped demo run with its victims where they are there, else on a made-up street of 100,000
Gaussians with a small convolutional network in the detector's place. Victims have one thread each
in both cases, and get the same pictures in the same batches.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from envelope.engine.jobs import VictimSlot
from envelope.engine.local import ScoringService
from envelope.run import open_run
from envelope.stage import Stage, StageSettings
from envelope.store import ScoreStore
from envelope.sweep import SweepPlan
from envelope.victims.protocols import Detections, VictimInfo, takes_prompt
from patching.adversarial import AdversarialScene
from patching.anchor import Anchor
from patching.edit import GaussianEdit, no_gaussians
from patching.patch import Patch
from patching.placement import place_by_numbers
from scene.errors import InputError
from scene.scene import Scene
from tests.bench.street_scene import street_camera, street_scene

Row = tuple[str, str, str]

ASSETS = Path(__file__).resolve().parents[2] / "assets"
PLAN = SweepPlan({"azimuth_deg": (-20, -10, 0, 10, 20)}, variants=2)
ROUNDS = 3
LIMIT = 1.3


def run() -> list[Row]:
    """Rows: what, measured, wanted."""
    with tempfile.TemporaryDirectory() as folder:
        stage, victims, what = _demo(Path(folder)) or _street()
        _sweep(stage, victims, Path(folder) / "warm", SweepPlan({"radius": (1.0,)}, variants=1))
        pairs = []
        for number in range(ROUNDS):
            took, counts = _sweep(stage, victims, Path(folder) / str(number), PLAN)
            pairs.append((took, _alone(victims)))
    ratio = float(np.median([wall / alone for (wall, _), (alone, _) in pairs]))
    cpu = float(np.median([sweep / alone for (_, sweep), (_, alone) in pairs]))
    (wall, _), (alone, _) = min(pairs)
    views = len(PLAN.views())
    return [
        (f"sweep wall / victims alone ({what})", f"{ratio:.2f}", f"<= {LIMIT}"),
        ("the same in CPU time (nothing overlaps)", f"{cpu:.2f}", ""),
        (f"sweep of {views} views x {len(PLAN.kinds)} kinds", f"{wall:.2f} s", ""),
        ("victims alone", f"{alone:.2f} s", ""),
        ("renders per view (overlay is pasted)", f"{counts['renders'] / views:.1f}", "3.0"),
        ("pictures per victim and view", f"{counts['pictures'] / views:.1f}", "4.0"),
    ]


class _Recorded:
    """A victim that notes its batches."""

    def __init__(self, victim: Any) -> None:
        self.info = victim.info
        self.batches: list[Any] = []
        self._victim = victim
        if takes_prompt(victim):  # having the method is what tells that a victim is asked in words
            self.prompt_for = victim.prompt_for

    def predict(self, images: np.ndarray, *prompt: str) -> Any:
        self.batches.append((images, prompt))
        return self._victim.predict(images, *prompt)

    def again(self) -> None:
        """The same pictures in the same batches."""
        for images, prompt in self.batches:
            self._victim.predict(images, *prompt)


def _sweep(
    stage: Stage, victims: Sequence[_Recorded], folder: Path, plan: SweepPlan
) -> tuple[tuple[float, float], dict[str, float]]:
    """Wall and CPU seconds of a sweep with loaded victims, and its work counts."""
    folder.mkdir()
    for victim in victims:
        victim.batches.clear()
    slots = [VictimSlot(v.info.name, lambda v=v: v, "stop sign") for v in victims]  # type: ignore[misc]
    store = ScoreStore(folder / "scores.sqlite")
    service = ScoringService(stage, slots, store)
    while any(v.state == "loading" for v in service.progress().victims.values()):
        time.sleep(0.01)
    before, clock = stage.renders, _Clock()
    service.start(plan)
    if not service.wait(600):
        raise RuntimeError("the sweep did not end within 600 s")
    took = clock.read()
    failed = [name for name, v in service.progress().victims.items() if v.state == "failed"]
    if failed:
        raise RuntimeError(f"the sweep ran without {', '.join(failed)}")
    pictures = sum(len(images) for images, _ in victims[0].batches)
    service.close()
    store.close()
    return took, {"renders": stage.renders - before, "pictures": pictures}


def _alone(victims: Sequence[_Recorded]) -> tuple[float, float]:
    """Wall and CPU seconds of the victims, one thread each, with the pictures at hand."""
    threads = [threading.Thread(target=victim.again) for victim in victims]
    clock = _Clock()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return clock.read()


class _Clock:
    """Wall and CPU seconds since it was made."""

    def __init__(self) -> None:
        self._start = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        return time.perf_counter() - self._start[0], time.process_time() - self._start[1]


def _demo(folder: Path) -> tuple[Stage, list[_Recorded], str] | None:
    """The shipped demo run with those of its victims that can be loaded."""
    from envelope.victims.registry import load_victim

    if not (ASSETS / "demo-run" / "run.toml").is_file():
        return None
    shutil.copytree(ASSETS / "demo-run", folder / "demo-run")
    run = open_run(folder / "demo-run", scene_path=ASSETS / "demo" / "street.compressed.ply")
    try:
        specs = [choice.spec for choice in run.settings.victims]
        victims = [_Recorded(load_victim(spec, run.settings.reading.label)) for spec in specs]
        return run.stage(), victims, "demo: " + ", ".join(specs)
    except InputError:
        return None
    finally:
        run.close()


def _street() -> tuple[Stage, list[_Recorded], str]:
    """100,000 Gaussians, a placed patch without Gaussians, one network."""
    gaussians, camera = street_scene(), street_camera()
    target = np.flatnonzero(np.linalg.norm(gaussians.means - [0, 0, 6], axis=1) < 2.5)
    placement = place_by_numbers([0, 0, 6], [0, 0, -1], 0.6, 1.0, camera, (0, -1, 0))
    blank = np.zeros((camera.height, camera.width, 3), np.float32)
    mask = np.zeros((camera.height, camera.width), bool)
    anchor = Anchor(camera, blank, mask, blank, placement.surface, placement)
    edit = GaussianEdit(np.zeros(0), np.zeros(0), np.zeros((0, 3)), no_gaussians(), len(gaussians))
    scene = Scene(gaussians, "street", up=(0.0, -1.0, 0.0))
    adversarial = AdversarialScene(scene, anchor, {"gray": edit, "adversarial": edit})
    patch = Patch.from_rgb(np.full((32, 32, 3), 0.5, np.float32), "gray")
    stage = Stage(adversarial, target, StageSettings(up=scene.up), patch, "street")
    return stage, [_Recorded(_Network())], "made-up street, one network of the detector's cost"


class _Network:
    """Convolutions that take about as long as the demo detector; finds nothing."""

    info = VictimInfo("network", "detector", "none", "bench", (320, 320), 0.5, "", ("stop sign",))

    def __init__(self) -> None:
        import torch

        torch.set_num_threads(1)
        sizes = ((3, 32, 2), (32, 48, 1), (48, 64, 2), (64, 96, 1), (96, 128, 2))
        layers = [torch.nn.Conv2d(a, b, 3, stride, 1) for a, b, stride in sizes]
        self._layers = torch.nn.Sequential(*layers).eval()

    def predict(self, images: np.ndarray) -> list[Detections]:
        import torch

        batch = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255
        with torch.inference_mode():
            self._layers(torch.nn.functional.interpolate(batch, (320, 320)))
        return [Detections(np.zeros((0, 4)), np.zeros(0), ()) for _ in images]
