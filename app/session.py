"""All that a viewer shows, on the server's side and without viser: it survives every reload.

A session is one scene, the patch in it, the victims, one run with its scoring service, and the
condition that the sliders stand at.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from app.captures import extrapolated
from app.draw import as_pixels
from app.embedding import EmbedOrder, EmbedProgress
from app.gallery import Gallery
from app.opening import (
    RUNS,
    Opened,
    list_runs,
    new_run_folder,
    open_scene_or_run,
    views_path,
)
from app.patchwork import Patchwork
from app.readings import Readings
from app.saved_views import SavedViews
from app.scoring import Scoring
from app.target import target_box_from_view
from app.victim_desk import VictimDesk
from app.views import ViewScores
from envelope.condition import Condition, condition_camera
from scene.camera import Camera
from scene.errors import InputError
from scene.scene import Scene, TargetBox

if TYPE_CHECKING:
    from envelope.run import Run

log = logging.getLogger(__name__)

DEFAULT_LABEL = "stop sign"
DEFAULT_VICTIMS = ("demo-detector", "demo-grounder")

DoubleArray = NDArray[np.float64]
Up = tuple[float, float, float]


class Session:
    """One person's work, shared by all of their browsers.

    Methods that take long say so. They may be called from any thread, one at a time. `condition`
    is where the sliders stand. on_view, on_rows: called, from scoring threads, when the current
    view or the stored rows have something new; must be quick.
    """

    def __init__(self, scene: Scene, path: Path, runs: Path = RUNS) -> None:
        """path: the splat file of `scene`. runs: where new runs are made."""
        self.on_view: Callable[[], None] = lambda: None
        self.on_rows: Callable[[], None] = lambda: None
        self.runs = runs
        self.gallery = Gallery()
        self.victims = VictimDesk(DEFAULT_LABEL)
        self.readings = Readings()
        self._scoring: Scoring | None = None
        self.scene: Scene = scene
        self.path: Path = path
        self.patchwork: Patchwork = Patchwork(scene, self.gallery)
        self._plain_view: ViewScores | None = None
        self.saved_views: SavedViews = SavedViews(views_path(path, scene, runs))
        self._target: NDArray[np.int64] | None = None
        self._take_scene(scene, path)

    @classmethod
    def open(
        cls,
        path: Path | str | None = None,
        runs: Path = RUNS,
        scene_path: Path | None = None,
    ) -> Session:
        """A session on a splat file, a run folder, or (None) the embedded demo. Takes seconds.

        scene_path: where a run's scene is now, if it moved. Raises InputError with one sentence.
        """
        opened = open_scene_or_run(path, runs, scene_path)
        session = cls(opened.scene, opened.path, runs)
        session._take_run(opened)
        return session

    def reopen(self, path: Path | str) -> None:
        """Open another scene or run instead of this one; on an error nothing changes."""
        opened = open_scene_or_run(path, self.runs)
        self._stop_scoring()
        self._take_scene(opened.scene, opened.path)
        self._take_run(opened)

    def close(self) -> None:
        """End scoring; what was scored is on disk."""
        self._stop_scoring()

    # --- cameras ------------------------------------------------------------------------------

    @property
    def anchor_camera(self) -> Camera:
        """The anchor at render size: where conditions start from."""
        if self._scoring is not None:
            return self._scoring.stage.camera_at_anchor
        return self.patchwork.anchor_camera

    @property
    def pivot(self) -> DoubleArray:
        """(3,) the point that conditions turn about: the patch, the target or the middle."""
        if self._scoring is not None:
            return np.asarray(self._scoring.stage.pivot)
        if self.patchwork.placement is not None:
            return np.asarray(self.patchwork.placement.center)
        if self.scene.target is not None:
            return np.asarray(self.scene.target.center)
        return np.median(self.scene.gaussians.means, axis=0).astype(np.float64)

    def camera(self, condition: Condition | None = None) -> Camera:
        """The camera of a condition, default of where the sliders stand."""
        condition = self.condition if condition is None else condition
        return condition_camera(condition, self.anchor_camera, self.pivot, self.scene.up)

    def set_anchor_camera(self, camera: Camera) -> None:
        """Place the patch from another view; placement and embedding are put aside (undo)."""
        self._stop_scoring()
        self.patchwork.set_anchor_camera(camera)
        self._plain_view = None
        self.condition = Condition()

    def load_placement(self, content: bytes) -> None:
        """Take a saved placement file with its anchor; an embedding is put aside (undo)."""
        self.patchwork.load_placement(content)
        self._stop_scoring()
        self._plain_view = None
        self.condition = Condition()

    def set_up(self, up: Up | None) -> None:
        """Take another up axis; None: the one that was found on opening."""
        found, source = self._found_up
        self._change_scene(
            replace(self.scene, up=up or found, up_source="chosen here" if up else source)
        )

    def set_target(self, camera: Camera, box: tuple[float, float, float, float]) -> None:
        """Take what `box` (xyxy pixels of `camera`) shows as the target. Raises InputError."""
        target = target_box_from_view(self.scene, self.patchwork.renderer, camera, box, self.label)
        self._target = None
        self._change_scene(replace(self.scene, target=target))

    def take_target(self, box: TargetBox) -> None:
        """Take a box that somebody else found as the target, under the class asked for now."""
        self._target = None
        self._change_scene(replace(self.scene, target=replace(box, label=self.label)))

    def target_text(self) -> str:
        """What the target is, in a few words."""
        if self.scene.target is not None:
            return self.scene.target.label or "unnamed"
        if self._target is not None:
            return f"{self.label}, {len(self._target)} Gaussians, as the run was made"
        return "none yet"

    # --- patch --------------------------------------------------------------------------------

    def embed(self, order: EmbedOrder, progress: EmbedProgress | None = None) -> None:
        """Embed the placed patch and its gray twin and begin to score. Takes up to a minute.

        Raises InputError, before any work, when the scene has no target yet.
        """
        if self.scene.target is None and self._target is None:
            raise InputError("no target is chosen yet; draw a box around it in the Scene tab first")
        self.patchwork.embed(order, progress)
        self._new_run()

    def undo(self) -> None:
        """Back to the patch, placement and embedding before the last change."""
        before = self.patchwork.adversarial
        self.patchwork.undo()
        if self.patchwork.adversarial is not before:
            self._stop_scoring()
            if self.patchwork.adversarial is not None:
                self._new_run()

    def kinds(self) -> tuple[str, ...]:
        """Render kinds that the browser can draw as splats."""
        adversarial = self.patchwork.adversarial
        return ("clean",) if adversarial is None else adversarial.kinds

    # --- victims and scoring ------------------------------------------------------------------

    @property
    def label(self) -> str:
        """The class that victims are asked for."""
        return self.victims.label

    def set_label(self, label: str) -> None:
        """Ask for another class. Raises InputError when a chosen victim does not know it."""
        label = " ".join(label.lower().split())
        if not label:
            raise InputError("class: wanted the name of an object, such as stop sign")
        self.victims.set_label(label)
        if self.scene.target is not None:
            self.scene = replace(self.scene, target=replace(self.scene.target, label=label))
        self.victims_changed()

    def victims_changed(self) -> None:
        """Score with the victims and the class that are chosen now."""
        if self._scoring is None:
            return
        run = self._scoring.run
        reading = replace(run.settings.reading, label=self.label)
        run.update(replace(run.settings, victims=self.victims.choices(), reading=reading))
        self._score(run)

    def set_thresholds(self, gamma: float | None, tau: float) -> None:
        """Read stored answers under another gamma (None: each victim's own) and tau."""
        if self._scoring is not None:
            run = self._scoring.run
            reading = replace(run.settings.reading, gamma=gamma, tau=tau)
            run.update(replace(run.settings, reading=reading))
        self.readings.forget()
        self.on_view()

    def look(self, condition: Condition) -> None:
        """Have this view drawn and scored before anything else; `view` fills as it is."""
        if self._scoring is not None:
            self._scoring.service.look_at(condition)
            return
        drawn = self.patchwork.renderer.render(self.camera(condition), self.scene.background)
        picture = np.asarray(as_pixels(drawn.rgb))
        far = extrapolated(self.scene, self.camera(condition), self.pivot)
        self._plain_view = ViewScores(condition, {"clean": picture}, extrapolated=far, scored=False)
        self.on_view()

    @property
    def view(self) -> ViewScores | None:
        """The current view as far as it is drawn and scored."""
        scoring = self._scoring
        return self._plain_view if scoring is None else scoring.view_scores()

    @property
    def view_under_way(self) -> bool:
        """Whether something is still to come of the current view."""
        seen = None if self._scoring is None else self._scoring.service.scored_view()
        return seen is not None and not seen.complete

    @property
    def scoring(self) -> Scoring | None:
        """The scoring of the embedded patch; None before there is one."""
        return self._scoring

    def run_folders(self) -> list[Path]:
        """Run folders that can be opened, newest first."""
        return list_runs(self.runs)

    # --- inside -------------------------------------------------------------------------------

    def _take_scene(self, scene: Scene, path: Path) -> None:
        self.scene, self.path = scene, path
        self.condition = Condition()
        self.patchwork = Patchwork(scene, self.gallery)
        self._plain_view = None
        self.saved_views = SavedViews(views_path(path, scene, self.runs))
        self._target = None
        self._found_up = (scene.up, scene.up_source)
        if scene.target is not None and scene.target.label:
            self.victims.label = scene.target.label

    def _take_run(self, opened: Opened) -> None:
        """Adopt an opened run's embedding, victims and rows; of a scene, choose usual victims."""
        run = opened.run
        if run is None:
            self.victims.choose_ready(DEFAULT_VICTIMS)
            if opened.placement is not None and opened.placement.is_file():
                self.patchwork.load_placement(opened.placement.read_bytes())
            return
        self._target = run.target
        patch = run.patch
        if patch is not None:
            patch = replace(patch, name=str(run.about["patch"].get("name") or patch.name))
        self.patchwork.adopt(run.adversarial, patch)
        self.victims.take(run.settings.victims, run.settings.reading.label)
        self._score(run)

    def _change_scene(self, scene: Scene) -> None:
        """The same Gaussians with another up axis or target; an embedding stays, in a new run."""
        self.scene = scene
        self._plain_view = None
        self.patchwork.change_scene(scene)
        if self.patchwork.adversarial is not None:
            self._new_run()

    def _new_run(self) -> None:
        """Make a run of what is embedded now and score in it."""
        from envelope.run import create_run
        from envelope.settings import Reading, RunSettings
        from envelope.stage import StageSettings

        adversarial, patch = self.patchwork.adversarial, self.patchwork.embedded_patch
        assert adversarial is not None
        self._stop_scoring()
        scene = self.scene
        settings = RunSettings(
            StageSettings(up=scene.up, background=scene.background),
            Reading(self.label),
            self.victims.choices(),
        )
        name = f"{scene.name}-{patch.name if patch is not None else 'outside-pair'}"
        folder = new_run_folder(name, self.runs)
        run = create_run(
            folder, adversarial, self.path, settings, patch, self._target, "advscene view"
        )
        self._score(run)

    def _score(self, run: Run) -> None:
        """Score in `run` with the chosen victims; an older scoring ends."""
        if self._scoring is not None:
            self._scoring.close(keep_run=self._scoring.run is run)
        self._scoring = Scoring(run, self.victims.slots(), self._changed)
        self.readings.attach(self._scoring)
        self._scoring.service.look_at(self.condition)
        self._changed()

    def _changed(self) -> None:
        self.on_view()
        self.on_rows()

    def _stop_scoring(self) -> None:
        scoring, self._scoring = self._scoring, None
        self.readings.attach(None)
        if scoring is not None:
            scoring.close()
