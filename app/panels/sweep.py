"""Left tab Sweep: the nine sliders, which axes to sweep, start / pause / resume / stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.jobs import Command
from app.panels.common import Fact, Notice, by_people, put, put_options
from app.scoring import SweepChoice
from envelope.condition import AXES, Axis, Condition

if TYPE_CHECKING:
    import viser

    from app.viewer import Viewer

LABELS = {
    "azimuth_deg": "azimuth °",
    "elevation_deg": "elevation °",
    "radius": "radius ×",
    "yaw_deg": "yaw °",
    "pitch_deg": "pitch °",
    "roll_deg": "roll °",
    "focal": "focal ×",
    "shift_x": "shift x",
    "shift_y": "shift y",
}
NO_AXIS = "none"
MOST_VALUES, MOST_VARIANTS = 41, 9
NO_VIEWS = "(none yet)"
ALL_AXES = "all nine, one at a time"
ALWAYS = ("clean", "gray", "adversarial")
PRESETS: dict[str, tuple[str, int, str, int]] = {
    "dome: azimuth x radius": ("azimuth_deg", 9, "radius", 7),
    "dome: azimuth x elevation": ("azimuth_deg", 9, "elevation_deg", 7),
    "aim: yaw x pitch": ("yaw_deg", 7, "pitch_deg", 7),
    "lens: focal x roll": ("focal", 7, "roll_deg", 7),
    "distance only": ("radius", 9, NO_AXIS, 1),
    ALL_AXES: (ALL_AXES, 1, NO_AXIS, 1),
}


class SweepPanel:
    """Builds the tab and turns its inputs into session calls on the worker."""

    def __init__(self, gui: viser.GuiApi, viewer: Viewer) -> None:
        self._viewer = viewer
        self._session = viewer.session
        self.notice = Notice(gui, announce=viewer.announce)
        self._build_controls(gui, not viewer.present)
        with gui.add_folder("View"):
            self.sliders = {name: self._slider(gui, axis) for name, axis in AXES.items()}
            reset = gui.add_button("Back to the anchor view", icon=_icon("HOME"))
            reset.on_click(lambda _: viewer.post(lambda: viewer.go_to(Condition()), self._say))
            self._build_views(gui)
        with gui.add_folder("What is swept", visible=not viewer.present):
            self._build_sweep(gui)

    def set_condition(self, condition: Condition) -> None:
        """Move all nine sliders to `condition`."""
        for name, slider in self.sliders.items():
            axis = AXES[name]
            put(slider, min(max(getattr(condition, name), axis.low), axis.high))

    def refresh(self) -> None:
        """Show the plan's size, the service's state and the progress."""
        self.refresh_state()
        if self._session.scoring is None:
            self._estimate.set("embed a patch first")
            self._viewer.panels.victims.show_estimate("embed a patch first")
        else:
            self._show_estimate()

    def refresh_state(self) -> None:
        """Show the service's state and the progress only: quick, no stored row is read."""
        scoring = self._session.scoring
        if scoring is None:
            self._state.set("no patch embedded yet")
            put(self._progress, 0.0)
            self._start.disabled = True
            self._stop.disabled = True
            return
        status = scoring.status()
        self._start.disabled = False
        self._start.label = {"idle": "Start", "running": "Pause", "paused": "Resume"}[status.state]
        self._start.icon = _icon("PLAYER_PAUSE" if status.state == "running" else "PLAYER_PLAY")
        self._stop.disabled = status.state == "idle"
        put(self._progress, 100.0 * status.done / max(status.total, 1))
        self._state.set(status.text)

    def toggle(self) -> None:
        """Start, pause or resume, whichever comes next. Raises InputError."""
        self.notice.clear()
        self._viewer.actions.sweep.toggle(self._choice())

    def show_plan(self) -> None:
        """Set the inputs to the open run's sweep, so that Start goes on with it."""
        plan = None if self._session.scoring is None else self._session.scoring.plan
        choice = None if plan is None else SweepChoice.of(plan)
        if choice is None or choice.variants > MOST_VARIANTS:
            return
        if max(choice.axes.values()) > MOST_VALUES:
            return
        put(self._variants, choice.variants)
        for kind, box in self._kinds.items():
            put(box, kind in choice.kinds)
        (x, nx), (y, ny) = [*choice.axes.items(), ("", 1)][:2]
        put(self._x, ALL_AXES if choice.every_axis else LABELS[x])
        put(self._y, NO_AXIS if choice.every_axis or not y else LABELS[y])
        put(self._x_count, 1 if choice.every_axis else nx)
        put(self._y_count, 1 if choice.every_axis else ny)

    def refresh_views(self, name: str | None = None) -> None:
        """Show the saved views, `name` chosen."""
        put_options(self._views, self._session.saved_views.names() or (NO_VIEWS,), name)

    def _build_views(self, gui: viser.GuiApi) -> None:
        actions = self._viewer.actions.lists
        self._views = gui.add_dropdown("Saved views", (NO_VIEWS,))
        self._views.on_update(
            by_people(
                lambda event: self._do(
                    lambda: actions.go_to_view(str(event.target.value), event.client)
                )
            )
        )
        step = gui.add_button_group("Go to", ("previous", "next"), hint="Keys page up, page down")
        step.on_click(
            lambda event: self._do(
                lambda: actions.step_view(1 if event.target.value == "next" else -1, event.client)
            )
        )
        visible = not self._viewer.present
        name = gui.add_text("Name", "", hint="Empty: named by its numbers", visible=visible)
        keep = gui.add_button_group("This view", ("save", "remove"), visible=visible)
        keep.on_click(
            lambda event: self._do(
                (lambda: actions.save_view(str(name.value)))
                if event.target.value == "save"
                else (lambda: actions.remove_view(str(self._views.value)))
            )
        )
        self.refresh_views()

    def _do(self, command: Command) -> None:
        """Have the worker do `command`; what is wrong with it shows at the head of this tab."""
        self.notice.clear()
        self._viewer.post(command, self._say)

    def _choice(self) -> SweepChoice:
        """What the inputs say."""
        axes = {}
        for menu, count in ((self._x, self._x_count), (self._y, self._y_count)):
            if menu.value not in (NO_AXIS, ALL_AXES):
                axes[_axis_of(menu.value)] = int(count.value)
        scoring = self._session.scoring
        there = scoring.stage.kinds if scoring is not None else ()
        extra = [kind for kind, box in self._kinds.items() if box.value]
        kinds = tuple(kind for kind in (*ALWAYS, *extra) if kind in there)
        return SweepChoice(axes, int(self._variants.value), kinds, self._x.value == ALL_AXES)

    def _show_estimate(self) -> None:
        scoring = self._session.scoring
        if scoring is not None:
            text = scoring.estimate(self._choice().plan(self._session.condition))
            self._estimate.set(text)
            self._viewer.panels.victims.show_estimate(text)

    def _changed(self, _: Any) -> None:
        self.notice.clear()
        self._viewer.post(self._show_estimate, self._say)

    def _slider(self, gui: viser.GuiApi, axis: Axis) -> Any:
        step = 0.5 if axis.unit == "deg" else 0.01
        slider = gui.add_slider(
            LABELS[axis.name],
            min=float(axis.low),
            max=float(axis.high),
            step=step,
            initial_value=float(getattr(self._session.condition, axis.name)),
            hint=f"+ means: {axis.positive}",
        )
        slider.on_update(
            by_people(lambda event: self._viewer.slider_moved(axis.name, event.target.value))
        )
        return slider

    def _build_controls(self, gui: viser.GuiApi, shown: bool) -> None:
        """Start, stop and progress first, in sight on small screens too."""
        viewer = self._viewer
        self._state = Fact(gui, "State", multiline=True)
        self._progress = gui.add_progress_bar(0.0)
        self._estimate = Fact(
            gui, "Estimate", multiline=True, hint="Of the sweep that is set under 'What is swept'"
        )
        self._estimate.visible = shown
        self._start = gui.add_button(
            "Start", color="blue", icon=_icon("PLAYER_PLAY"), visible=shown
        )
        self._stop = gui.add_button("Stop", icon=_icon("PLAYER_STOP"), disabled=True, visible=shown)
        self._start.on_click(lambda _: viewer.post(self.toggle, self._say))
        self._stop.on_click(lambda _: self._stop_pressed())

    def _stop_pressed(self) -> None:
        """Say at once that the press arrived, whatever the worker is busy with."""
        self._stop.disabled = True
        self._state.set("stopping…")
        self._viewer.post(self._viewer.actions.sweep.stop, self._say)

    def _build_sweep(self, gui: viser.GuiApi) -> None:
        preset = gui.add_dropdown("Preset", tuple(PRESETS))
        names = tuple(LABELS.values())
        self._x = gui.add_dropdown(
            "Axis 1", (*names, ALL_AXES), initial_value=LABELS["azimuth_deg"]
        )
        self._x_count = gui.add_number("values", 9, min=1, max=MOST_VALUES, step=1)
        self._y = gui.add_dropdown("Axis 2", (NO_AXIS, *names), initial_value=LABELS["radius"])
        self._y_count = gui.add_number("values", 7, min=1, max=MOST_VALUES, step=1)
        self._variants = gui.add_slider(
            "Variants", min=1, max=MOST_VARIANTS, step=1, initial_value=3,
            hint="1 exact view and the rest with small camera noise, the same for all kinds",
        )  # fmt: skip
        self._kinds = {
            "overlay": gui.add_checkbox("overlay", True),
            "noise": gui.add_checkbox("noise", False),
            "shuffled": gui.add_checkbox("shuffled", False),
        }
        preset.on_update(by_people(lambda event: self._use_preset(event.target.value)))
        fields: tuple[Any, ...] = (self._x, self._x_count, self._y, self._y_count, self._variants)
        for field in (*fields, *self._kinds.values()):
            field.on_update(by_people(self._changed))

    def _use_preset(self, name: str) -> None:
        x, nx, y, ny = PRESETS[name]
        put(self._x, LABELS.get(x, x))
        put(self._y, LABELS.get(y, y))
        put(self._x_count, nx)
        put(self._y_count, ny)
        self._changed(None)

    def _say(self, text: str) -> None:
        self.notice.say(text)


def _axis_of(label: str) -> str:
    return next(name for name, text in LABELS.items() if text == label)


def _icon(name: str) -> Any:
    import viser

    return getattr(viser.Icon, name)
