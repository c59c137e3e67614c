"""Left tab Scene: what is open, what the viewport shows of it, and where its cameras are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.captures import memory_text
from app.jobs import Command
from app.opening import recent_paths
from app.panels.common import Fact, Notice, by_people, put, put_options, thousands, typed_path

if TYPE_CHECKING:
    import viser

    from app.viewer import Viewer

EXPLORE, VICTIMS_EYE = "explore", "victim's eye"
UP_AXES = {
    "+x": (1.0, 0.0, 0.0), "-x": (-1.0, 0.0, 0.0), "+y": (0.0, 1.0, 0.0),
    "-y": (0.0, -1.0, 0.0), "+z": (0.0, 0.0, 1.0), "-z": (0.0, 0.0, -1.0),
}  # fmt: skip
AS_FOUND = "as found"
NO_RECENT = "(none yet)"
NO_CAPTURES = "(no capture cameras)"
NO_CANDIDATES = "(none)"
FILE_HINT = "On this machine: a splat file or folder, as `advscene inspect` knows, or a run folder"
UPLOADED = ".ply,.spz,.splat,.ksplat,.sog,.safetensors,.pt,.ckpt"
DROPPED = {
    "not_finite": "with NaN or infinity",
    "zero_quaternion": "with a rotation of length zero",
    "bad_scale": "without a size",
}
"""Why Gaussians of a file are unusable, by the provenance's word."""
LEAST_BUDGET, MOST_BUDGET = 100, 5_000_000


class ScenePanel:
    """Builds the tab; facts are refreshed by `refresh`."""

    def __init__(self, gui: viser.GuiApi, viewer: Viewer) -> None:
        self._viewer = viewer
        self._session = viewer.session
        self._actions = viewer.actions.scene
        self.notice = Notice(gui, announce=viewer.announce)
        self._name = Fact(gui, "Scene")
        self._facts = Fact(gui, "Holds", multiline=True)
        self._budget_fact = Fact(gui, "Browser", multiline=True)
        self._memory = Fact(gui, "Memory")
        self._notes = Fact(
            gui, "Notes", multiline=True,
            hint="What opening this file left out, changed or did not use; all of it also comes "
            "from `advscene inspect`",
        )  # fmt: skip
        with gui.add_folder("Look"):
            self._build_look(gui)
        with gui.add_folder("Cameras", expand_by_default=False):
            self._build_cameras(gui)
        shown = not viewer.present
        with gui.add_folder("Target", expand_by_default=False, visible=shown):
            self._build_target(gui)
        with gui.add_folder("Open", expand_by_default=False, visible=shown):
            self._build_open(gui)

    def refresh(self) -> None:
        """Show the open scene's facts."""
        scene = self._session.scene
        gaussians = scene.gaussians
        self._name.set(scene.name)
        scale = scene.metres_per_unit
        form = scene.provenance.get("format")
        lines = [
            f"{thousands(len(gaussians))} Gaussians, SH degree {gaussians.sh_degree}",
            f"{len(scene.cameras)} capture cameras",
            f"target: {self._session.target_text()}",
            "scale unknown" if scale is None else f"1 unit = {scale:g} m",
            *([] if form is None else [f"format: {form}"]),
            f"up {_vector(scene.up)} ({scene.up_source})",
        ]
        self._facts.set("\n".join(lines))
        self._memory.set(memory_text(scene))
        notes = notes_text(scene.provenance)
        self._notes.set(notes)
        self._notes.visible = bool(notes)
        shown, total = self._viewer.viewport.shown, self._viewer.viewport.total
        note = ",\nthe target and the largest first" if shown < total else ""
        self._budget_fact.set(f"draws {thousands(shown)} of {thousands(total)}{note}")
        put_options(self._kinds, self._session.kinds(), self._viewer.viewport.kind)
        put(self._target_label, self._session.label)
        put_options(self._captures, self._capture_names())

    def set_mode(self, victims_eye: bool) -> None:
        """Show the viewport's mode in the menu."""
        put(self._mode, VICTIMS_EYE if victims_eye else EXPLORE)

    def set_kind(self, kind: str) -> None:
        """Show which render kind the viewport draws."""
        put_options(self._kinds, self._session.kinds(), kind)

    def _build_look(self, gui: viser.GuiApi) -> None:
        viewer = self._viewer
        anchor = gui.add_button(
            "Anchor view", color="blue", hint="Fly to where the patch was placed from (key H)"
        )
        anchor.on_click(lambda event: viewer.fly_to_anchor(event.client))
        self._mode = gui.add_dropdown(
            "Mode", (EXPLORE, VICTIMS_EYE),
            hint="Explore: splats, drawn by the browser. Victim's eye: the very frame that is "
            "scored, by our own renderer (key V)",
        )  # fmt: skip
        self._mode.on_update(
            by_people(lambda event: viewer.set_victims_eye(event.target.value == VICTIMS_EYE))
        )
        self._kinds = gui.add_dropdown("Shown", self._session.kinds())
        self._kinds.on_update(by_people(lambda event: viewer.show_kind(event.target.value)))
        budget = gui.add_number(
            "Draw at most", int(viewer.viewport.display_budget),
            min=LEAST_BUDGET, max=MOST_BUDGET, step=1000,
            hint="Gaussians sent to a browser: the target, then the largest opacity x area as the "
            "anchor sees it; scoring uses all",
        )  # fmt: skip
        budget.visible = not viewer.present
        budget.on_update(by_people(lambda event: viewer.set_display_budget(event.target.value)))

    def _build_cameras(self, gui: viser.GuiApi) -> None:
        actions, viewer = self._actions, self._viewer
        show = gui.add_checkbox("Show capture cameras", False)
        show.on_update(by_people(lambda _: self._do(lambda: actions.show_captures(show.value))))
        self._captures = gui.add_dropdown("Camera", (NO_CAPTURES,))
        self._captures.on_update(
            by_people(
                lambda event: self._do(
                    lambda: actions.fly_to_capture(self._capture_index(), event.client)
                )
            )
        )
        step = gui.add_button_group("Fly through", ("previous", "next"))
        step.on_click(
            lambda event: self._do(
                lambda: actions.fly_to_capture(
                    self._capture_index() + (1 if event.target.value == "next" else -1),
                    event.client,
                )
            )
        )
        anchor = gui.add_button(
            "Use as anchor", visible=not viewer.present,
            hint="Place the patch from this capture camera; an embedding is put aside (undo)",
        )  # fmt: skip
        anchor.on_click(
            lambda _: self._do(lambda: actions.anchor_at_capture(self._capture_index()))
        )
        up = gui.add_dropdown("Up axis", (AS_FOUND, *UP_AXES), visible=not viewer.present)
        up.on_update(by_people(self._set_up))

    def show_capture(self, index: int) -> None:
        """Show which capture camera was flown to."""
        put_options(self._captures, self._capture_names(), self._capture_names()[index])

    def _capture_names(self) -> tuple[str, ...]:
        cameras = self._session.scene.cameras
        return tuple(f"{i + 1}: {shot.name}" for i, shot in enumerate(cameras)) or (NO_CAPTURES,)

    def _capture_index(self) -> int:
        number = str(self._captures.value).partition(":")[0]
        return int(number) - 1 if number.isdigit() else 0

    def _build_target(self, gui: viser.GuiApi) -> None:
        self._target_label = gui.add_text("Class", self._session.label)
        self._target_label.on_update(
            by_people(lambda event: self._do(lambda: self._set_label(str(event.target.value))))
        )
        self._draw = gui.add_button(
            "Draw its box", hint="Then drag a rectangle around the object in the viewport"
        )
        self._draw.on_click(lambda _: self._do(self._actions.toggle_target_box))
        path = gui.add_text(
            "Capture", "", hint="Folder or file of the scene's photos; objects that its data marks "
            "(masks, 3D boxes) become candidates",
        )  # fmt: skip
        find = gui.add_button("Find candidates")
        find.on_click(
            lambda _: self._do(
                lambda: self._actions.find_candidates(typed_path(path.value), self.notice.say)
            )
        )
        self._candidates = gui.add_dropdown("Candidates", (NO_CANDIDATES,))
        self._candidate = Fact(gui, "Is", multiline=True)
        self._candidates.on_update(by_people(lambda _: self._describe_candidate()))
        take = gui.add_button("Take as target")
        take.on_click(
            lambda _: self._do(lambda: self._actions.take_candidate(self._candidate_index()))
        )

    def show_candidates(self) -> None:
        """List what was found in the capture's data."""
        found = self._actions.candidates
        names = tuple(f"{i + 1}: {c.label or 'object'}" for i, c in enumerate(found))
        put_options(self._candidates, names or (NO_CANDIDATES,), names[0] if names else None)
        self._describe_candidate()

    def _candidate_index(self) -> int:
        number = str(self._candidates.value).partition(":")[0]
        return int(number) - 1 if number.isdigit() else -1

    def _describe_candidate(self) -> None:
        found, index = self._actions.candidates, self._candidate_index()
        text = "its data marks nothing that the scene shows"
        if 0 <= index < len(found):
            text = f"{found[index].source}; {thousands(found[index].count)} Gaussians"
        self._candidate.set(text)

    def set_drawing(self, waiting: bool) -> None:
        """Show whether the next drag on the scene draws the target's box."""
        self._draw.label = "Drag a box now… (cancel)" if waiting else "Draw its box"
        self._draw.color = "orange" if waiting else None

    def _build_open(self, gui: viser.GuiApi) -> None:
        path = gui.add_text("File", "", hint=FILE_HINT)
        button = gui.add_button("Open")
        button.on_click(lambda _: self._do(lambda: self._actions.open_path(typed_path(path.value))))
        self._recent = gui.add_dropdown("Recent", (NO_RECENT,))
        self._recent.on_update(by_people(self._open_recent))
        if not self._viewer.present:
            self.show_recent([NO_RECENT, *recent_paths(self._session.runs)])
        upload = gui.add_upload_button("Upload a splat file", mime_type=UPLOADED)
        upload.on_upload(
            lambda event: self._do(
                lambda: self._actions.open_upload(
                    event.target.value.name, event.target.value.content
                )
            )
        )

    def _open(self, path: Path) -> None:
        self._do(lambda: self._actions.open_path(path))

    def _set_label(self, label: str) -> None:
        self._viewer.actions.victims.set_label(label)

    def show_recent(self, paths: list[str]) -> None:
        """List what was opened lately, the newest first."""
        names = tuple(paths)
        put_options(self._recent, names or (NO_RECENT,), names[0] if names else None)

    def _open_recent(self, event: Any) -> None:
        if event.target.value != NO_RECENT:
            self._open(Path(event.target.value))

    def _set_up(self, event: Any) -> None:
        up = UP_AXES.get(event.target.value)
        self._do(lambda: self._actions.set_up(up))

    def _do(self, command: Command) -> None:
        """Have the worker do `command`; what is wrong with it shows at the head of this tab."""
        self.notice.clear()
        self._viewer.post(command, self.notice.say)


def notes_text(facts: Mapping[str, Any]) -> str:
    """How many Gaussians were left out and why, then the notes of a scene's provenance.

    Plain text, a line each: they hold file names and what files say of themselves.
    """
    dropped = facts.get("dropped", {})
    counts = {word: int(dropped.get(key, 0)) for key, word in DROPPED.items()}
    lines = []
    if total := sum(counts.values()):
        reasons = ", ".join(f"{thousands(n)} {word}" for word, n in counts.items() if n)
        noun = "Gaussian is" if total == 1 else "Gaussians are"
        lines.append(f"{thousands(total)} {noun} left out: {reasons}")
    return "\n".join([*lines, *(" ".join(str(note).split()) for note in facts.get("notes", ()))])


def _vector(values: tuple[float, float, float]) -> str:
    for name, axis in UP_AXES.items():
        if all(abs(a - b) < 1e-3 for a, b in zip(values, axis, strict=True)):
            return name
    return "(" + ", ".join(f"{v:.2f}" for v in values) + ")"
