"""A run is a folder: everything needed to repeat it, and its scores.

    run.toml          scene (path, hash), patch, embedding, settings, victims, sweep, versions
    scores.sqlite     one row per score, written as it arrives
    adversarial/      the embedded patch and its controls as small edits, and the anchor
    patch.png         the patch's pixels (none for an outside pair)
    target.npy        rows of the target's Gaussians

The scene itself is not copied; its hash must agree when the run is opened.
"""

from __future__ import annotations

import os
import sys
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from envelope.outcome import Criterion
from envelope.settings import Reading, RunSettings, VictimChoice
from envelope.store import ScoreStore
from envelope.sweep import SweepPlan
from envelope.toml_text import to_toml
from scene.errors import InputError

if TYPE_CHECKING:
    from envelope.cells import CriterionOf, ScoreTable
    from envelope.engine.jobs import ServiceSettings, VictimSlot
    from envelope.engine.local import ScoringService
    from envelope.stage import Stage
    from patching.adversarial import AdversarialScene
    from patching.patch import Patch
    from scene.scene import Scene

__all__ = ["Reading", "Run", "RunSettings", "VictimChoice", "create_run", "is_run", "open_run"]

SCHEMA = 1
RUN_FILE = "run.toml"
SCORES = "scores.sqlite"
ADVERSARIAL = "adversarial"
PATCH = "patch.png"
TARGET = "target.npy"

_PACKAGES = (
    "advscene-inspector", "numpy", "numba", "torch", "torchvision", "transformers", "onnxruntime",
    "ultralytics",
)  # fmt: skip


class Run:
    """An open run folder. Scene, patch and stage are loaded when first asked for."""

    def __init__(
        self, folder: Path, about: Mapping[str, Any], settings: RunSettings, read_only: bool
    ) -> None:
        self.folder = folder
        self.about = dict(about)
        self.settings = settings
        self.read_only = read_only
        self.scene_path = folder / self.about["scene"]["path"]
        self.allow_changed_scene = False
        self.store = ScoreStore(folder / SCORES, read_only=read_only)

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.resolve().name

    @cached_property
    def scene(self) -> Scene:
        """The clean scene, with the up axis and background that the run was made with.

        Raises InputError when its file is absent or has changed.
        """
        from scene.scene import file_sha256, load_scene

        if not self.scene_path.exists():
            raise InputError(
                f"{self.folder}: its scene {self.scene_path} is not there; name the file with "
                f"--scene"
            )
        wanted, found = self.about["scene"]["sha256"], file_sha256(self.scene_path)
        if found != wanted and not self.allow_changed_scene:
            raise InputError(
                f"{self.scene_path}: this is not the scene that {self.folder} was made with (hash "
                f"{found[:12]}, wanted {wanted[:12]}); restore it or allow the changed scene"
            )
        stage = self.settings.stage
        return replace(
            load_scene(self.scene_path),
            up=stage.up,
            up_source=str(self.about["scene"].get("up_source", "of the run")),
            background=stage.background,
        )

    @cached_property
    def adversarial(self) -> AdversarialScene:
        """The scene with its embedded patches."""
        from patching.adversarial import AdversarialScene

        return AdversarialScene.load(self.folder / ADVERSARIAL, self.scene)

    @cached_property
    def patch(self) -> Patch | None:
        """The adversarial patch's pixels; None for an outside pair."""
        from patching.patch import load_patch

        path = self.folder / PATCH
        return load_patch(path) if path.is_file() else None

    @cached_property
    def target(self) -> NDArray[np.int64]:
        """(M,) rows of the target's Gaussians."""
        path = self.folder / TARGET
        try:
            return np.asarray(np.load(path, allow_pickle=False), dtype=np.int64)
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: the run's target is missing or damaged") from error

    def stage(self, threads: int | None = None) -> Stage:
        """Cameras, truths and pictures of this run. threads: CPU threads of one render."""
        from envelope.stage import Stage

        sha256 = self.about["scene"]["sha256"]
        if self.allow_changed_scene:
            from scene.scene import file_sha256

            sha256 = file_sha256(self.scene_path)
        return Stage(
            self.adversarial, self.target, self.settings.stage, self.patch, sha256, threads
        )

    def slots(self, threads: int = 1) -> list[VictimSlot]:
        """The run's victims, to be loaded by a service. threads: CPU threads of one prediction."""
        from envelope.engine.jobs import VictimSlot

        label = self.settings.reading.label
        return [
            VictimSlot(choice.name, _loader(choice.spec, label, threads), label, choice.prompt)
            for choice in self.settings.victims
        ]

    def service(
        self,
        on_change: Callable[[], None] | None = None,
        settings: ServiceSettings | None = None,
        threads: int | None = None,
    ) -> ScoringService:
        """A scoring service of this run; close it before the run."""
        from envelope.engine.local import ScoringService

        return ScoringService(
            self.stage(threads), self.slots(), self.store, settings=settings, on_change=on_change
        )

    def criterion(self, victim: str, kind: str) -> Criterion:
        """How a victim's stored answers are read. kind: classifier, detector or grounder."""
        return self.settings.reading.criterion(
            self.settings.choice(victim), kind, self.thresholds().get(victim)
        )

    def table(
        self,
        plan: SweepPlan | None = None,
        reading: Reading | None = None,
        skip_hidden: bool = False,
        criterion_of: CriterionOf | None = None,
    ) -> ScoreTable:
        """The stored rows, judged. plan: only its cells and variants; None: all rows.

        reading: read under other thresholds than the run's. skip_hidden: leave out views in which
        the patch is hidden. criterion_of: instead of both, as another run reads its answers.
        """
        from envelope.cells import ScoreTable

        views = self.store.views(self.store.geometry())
        reading = reading or self.settings.reading
        thresholds = self.thresholds()

        def own(victim: str, kind: str) -> Criterion:
            choice = self.settings.choice(victim)
            return reading.criterion(choice, kind, thresholds.get(victim))

        conditions = None if plan is None else plan.cells()
        variants = None if plan is None else plan.variants
        rows = self.store.rows(views)
        return ScoreTable(rows, views, criterion_of or own, conditions, variants, skip_hidden)

    def update(self, settings: RunSettings) -> None:
        """Take other settings and write run.toml."""
        self._may_write()
        self.settings = settings
        _write_run_file(self.folder, self.about, settings)

    def close(self) -> None:
        """Close the score file."""
        self.store.close()

    def _may_write(self) -> None:
        if self.read_only:
            raise InputError(f"{self.folder}: the run is opened read-only")

    def thresholds(self) -> dict[str, float]:
        """Each victim's conventional threshold, as it said when it last scored."""
        known = self.store.settings()
        found = {}
        for (victim, _), settings_hash in self.store.current_settings().items():
            threshold = known[settings_hash].get("threshold")
            if threshold is not None:
                found[victim] = float(threshold)
        return found


def create_run(
    folder: str | Path,
    adversarial: AdversarialScene,
    scene_path: str | Path,
    settings: RunSettings,
    patch: Patch | None = None,
    target: NDArray[np.int64] | None = None,
    command: str = "",
) -> Run:
    """Make a run folder; run.toml is written last, so that a folder with it is whole.

    scene_path: the splat file that `adversarial.scene` was loaded from. target: rows of the
    target's Gaussians, default those in the scene's target box. command: how it was made.
    Raises InputError when the folder holds something already, or no target is known.
    """
    from scene.scene import file_sha256
    from scene.target import select_in_box

    folder, scene_path = Path(folder), Path(scene_path)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: wanted a new or empty folder for the run")
    scene = adversarial.scene
    if target is None:
        if scene.target is None:
            raise InputError(f"{scene_path}: the scene names no target; give its box")
        target = select_in_box(scene.gaussians, scene.target).indices
    folder.mkdir(parents=True, exist_ok=True)
    _save_adversarial(folder, adversarial, patch)
    with (folder / TARGET).open("wb") as file:
        np.save(file, np.asarray(target, dtype=np.int64))
    about = {
        "schema": SCHEMA,
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": command,
        "scene": {
            "path": _relative(scene_path, folder),
            "sha256": file_sha256(scene_path),
            "name": scene.name,
            "gaussians": len(scene.gaussians),
            "up_source": scene.up_source,
        },
        "patch": _patch_facts(patch),
        "embedding": _embedding_facts(adversarial),
        "versions": _versions(),
    }
    _write_run_file(folder, about, settings)
    return open_run(folder)


def is_run(path: str | Path) -> bool:
    """Whether a path is a run folder."""
    return (Path(path) / RUN_FILE).is_file()


def open_run(
    folder: str | Path,
    read_only: bool = False,
    scene_path: str | Path | None = None,
    allow_changed_scene: bool = False,
) -> Run:
    """Open a run folder. Neither scene nor models are loaded yet.

    scene_path: where the scene is now, if it moved. allow_changed_scene: score on although the
    scene's hash differs (the new scores are kept apart from the old). Raises InputError.
    """
    folder = Path(folder)
    path = folder / RUN_FILE
    try:
        fields = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"{folder}: wanted a run folder with {RUN_FILE}, found none") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise InputError(f"{path}: wanted a run file, found {error}") from error
    if fields.get("schema") != SCHEMA:
        raise InputError(
            f"{path}: wanted run schema {SCHEMA}, found {fields.get('schema')}; open it with the "
            f"version of advscene that wrote it"
        )
    try:
        settings = RunSettings.from_dict(fields)
        about = {key: fields[key] for key in ("schema", "created", "command", "scene")}
        about["scene"]["path"], about["scene"]["sha256"]
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: missing or wrong field: {error}") from error
    about.update({key: fields.get(key, {}) for key in ("patch", "embedding", "versions")})
    run = Run(folder, about, settings, read_only)
    if scene_path is not None:
        run.scene_path = Path(scene_path)
    run.allow_changed_scene = allow_changed_scene
    return run


def with_sweep(settings: RunSettings, plan: SweepPlan) -> RunSettings:
    """The same settings with another sweep."""
    return RunSettings(settings.stage, settings.reading, settings.victims, plan)


def _loader(spec: str, label: str, threads: int) -> Callable[[], Any]:
    def load() -> Any:
        from envelope.engine.isolated import load_for_scoring

        return load_for_scoring(spec, label, threads)

    return load


def _save_adversarial(folder: Path, adversarial: AdversarialScene, patch: Patch | None) -> None:
    from patching.patch import save_patch

    adversarial.save(folder / ADVERSARIAL)
    if patch is not None:
        save_patch(patch, folder / PATCH)
    else:
        (folder / PATCH).unlink(missing_ok=True)


def _write_run_file(folder: Path, about: Mapping[str, Any], settings: RunSettings) -> None:
    partial = folder / (RUN_FILE + ".part")
    partial.write_text(to_toml({**about, **settings.to_dict()}), encoding="utf-8")
    os.replace(partial, folder / RUN_FILE)


def _patch_facts(patch: Patch | None) -> dict[str, Any]:
    if patch is None:
        return {"name": "outside pair"}
    facts = {"file": PATCH, "name": patch.name, "side_m": patch.side_m}
    return {**facts, "sha256": patch.provenance.get("sha256")}


def _embedding_facts(adversarial: AdversarialScene) -> dict[str, Any]:
    """Settings of every kind's embedding, and the hash of its result."""
    from envelope.stage import edit_hash

    facts: dict[str, Any] = {}
    for kind, edit in adversarial.edits.items():
        report = adversarial.reports.get(kind, {})
        facts[kind] = {"hash": edit_hash(edit), "settings": report.get("settings")}
    return facts


def _relative(path: Path, folder: Path) -> str:
    try:
        return Path(os.path.relpath(path.resolve(), folder.resolve())).as_posix()
    except ValueError:  # another drive
        return str(path.resolve())


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
