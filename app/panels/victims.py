"""Left tab Victims: who is scored, their state, the class, and the thresholds gamma and tau."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.jobs import Command
from app.panels.common import Fact, Notice, by_people, put
from app.victim_desk import VictimRow
from envelope.outcome import CONFIDENCE_FLOOR, GAMMA_CLOSED_SET, TAU

if TYPE_CHECKING:
    import viser

    from app.viewer import Viewer

PRESETS = ("yolox", "nanodet", "fastestdet")


class VictimsPanel:
    """One folder per victim; loading happens in a job, so that the page stays quick."""

    def __init__(self, gui: viser.GuiApi, viewer: Viewer) -> None:
        self._gui = gui
        self._viewer = viewer
        self._session = viewer.session
        self._actions = viewer.actions.victims
        self._rows: dict[str, tuple[Fact, Any]] = {}
        self._shown: dict[str, VictimRow] = {}
        self._label = gui.add_text(
            "Class", self._session.label, hint="The object that the victims should find"
        )
        self._label.on_update(by_people(self._set_label))
        self._list = gui.add_folder("Models")
        with gui.add_folder("What counts"):
            self._build_thresholds(gui)
        with gui.add_folder("Add an ONNX detector", expand_by_default=False):
            self._build_onnx(gui)
        self.notice = Notice(gui)
        self.refresh()

    def refresh(self) -> None:
        """Show each victim's state."""
        for row in self._session.victims.rows():
            if row.spec not in self._rows:
                self._add_row(row.spec, row.name)
            if self._shown.get(row.spec) == row:
                continue
            self._shown[row.spec] = row
            state, button = self._rows[row.spec]
            state.set(row.state)
            button.label = f"Leave out {row.name}" if row.chosen else f"Score {row.name}"
            button.disabled = row.loading or not row.available
            button.visible = row.available
            button.color = "gray" if row.chosen else "blue"
        put(self._label, self._session.label)

    def _add_row(self, spec: str, name: str) -> None:
        with self._list:
            state = Fact(self._gui, name, multiline=True)
            button = self._gui.add_button(f"Score {name}")
        button.on_click(lambda _: self._do(lambda: self._toggle(spec)))
        self._rows[spec] = (state, button)

    def _toggle(self, spec: str) -> None:
        if spec in self._session.victims.chosen:
            self._actions.leave_out(spec)
        else:
            self._actions.load(spec, self.notice.say)

    def _build_thresholds(self, gui: viser.GuiApi) -> None:
        hint = "Stored answers are read again; nothing is scored again"
        self._own = gui.add_checkbox(
            "own gamma", True, hint="Each victim's own, conventional confidence threshold"
        )
        self._gamma = gui.add_slider(
            "gamma", min=CONFIDENCE_FLOOR, max=1.0, step=0.01, initial_value=GAMMA_CLOSED_SET,
            disabled=True,
            hint=f"Least confidence of a detector's box. {hint}",
        )  # fmt: skip
        self._tau = gui.add_slider(
            "tau", min=0.05, max=0.95, step=0.05, initial_value=TAU,
            hint=f"Least overlap (IoU) with the true box. {hint}",
        )  # fmt: skip
        for field in (self._own, self._gamma, self._tau):
            field.on_update(by_people(lambda _: self._moved()))

    def _moved(self) -> None:
        self._gamma.disabled = bool(self._own.value)
        self._do(lambda: self._actions.set_thresholds(*self.thresholds()))

    def thresholds(self) -> tuple[float | None, float]:
        """(gamma or None for each victim's own, tau) as the sliders stand."""
        gamma = None if self._own.value else float(self._gamma.value)
        return gamma, float(self._tau.value)

    def _build_onnx(self, gui: viser.GuiApi) -> None:
        path = gui.add_text("File", "", hint="An .onnx file on this machine")
        preset = gui.add_dropdown("Decoding", PRESETS)
        labels = gui.add_text("Labels file", "", hint="One class name a line; empty: COCO's 80")
        button = gui.add_button("Add and score")

        def add(_: Any) -> None:
            spec = f"onnx:{path.value.strip()}?preset={preset.value}"
            if labels.value.strip():
                spec += f"&labels={labels.value.strip()}"
            self._do(lambda: self._actions.load(spec, self.notice.say))

        button.on_click(add)

    def _set_label(self, event: Any) -> None:
        self._do(lambda: self._actions.set_label(str(event.target.value)))

    def _do(self, command: Command) -> None:
        """Have the worker do `command`; what is wrong with it shows at the foot of this tab."""
        self.notice.clear()
        self._viewer.post(command, self.notice.say)
