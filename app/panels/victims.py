"""Left tab Victims: who is scored, what each needs, the class, and the thresholds gamma and tau."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from app.jobs import Command
from app.panels.common import Fact, Notice, by_people, put, put_options
from app.victim_desk import PROMPTS, Form, VictimRow, forms, row_name, with_prompt
from envelope.outcome import CONFIDENCE_FLOOR, GAMMA_CLOSED_SET, TAU

if TYPE_CHECKING:
    import viser

    from app.viewer import Viewer

NOBODY = "(nobody)"


class VictimsPanel:
    """Those that score, then one victim of the roster with all that is known of it.

    Loading and probing happen in jobs, so that the page stays quick. What models answer is shown
    as plain text only.
    """

    def __init__(self, gui: viser.GuiApi, viewer: Viewer) -> None:
        self._viewer = viewer
        self._session = viewer.session
        self._actions = viewer.actions.victims
        self._rows: dict[str, VictimRow] = {}
        shown = not viewer.present
        self.notice = Notice(gui, announce=viewer.announce)
        self._label = gui.add_text(
            "Class", self._session.label, hint="The object that the victims should find",
            disabled=not shown,
        )  # fmt: skip
        self._label.on_update(by_people(self._set_label))
        self._scoring = Fact(gui, "Scoring", multiline=True)
        self._estimate = Fact(
            gui, "Sweep takes", multiline=True,
            hint="The sweep that the Sweep tab is set to, with these victims on this machine",
        )  # fmt: skip
        self._estimate.visible = shown
        with gui.add_folder("Models"):
            self._build_roster(gui, shown)
        with gui.add_folder("What counts", visible=shown):
            self._build_thresholds(gui)
        with gui.add_folder("Add a model by its path", expand_by_default=False, visible=shown):
            self._build_form(gui)
        self.refresh()

    def refresh(self) -> None:
        """Show each victim's state."""
        here = self._rows.get(str(self._list.value))
        rows = labelled(self._session.victims.rows())
        self._rows = rows
        same = [label for label, row in rows.items() if here is not None and row.spec == here.spec]
        put_options(self._list, tuple(rows) or (NOBODY,), same[0] if same else None)
        scoring = [row for row in rows.values() if row.chosen or row.loading]
        lines = [f"{row.name}: {row.state}{_pace(row)}" for row in scoring]
        lines += self._troubles_and_costs()
        self._scoring.set("\n".join(lines) or "nobody: choose a model below")
        self._show_row()
        put(self._label, self._session.label)

    def _troubles_and_costs(self) -> list[str]:
        """What went wrong while scoring, and what calls to an address cost; plain text."""
        running = self._session.scoring
        if running is None:
            return []
        lines = []
        for name, victim in running.service.progress().victims.items():
            if victim.message:
                lines.append(f"{name}: {victim.message}")
            if victim.errors:
                lines.append(f"{name}: {victim.errors} answers were errors and are in no count")
            if victim.usage:
                lines.append(f"{name}: {victim.usage}")
        return lines

    def show_estimate(self, text: str) -> None:
        """How long the sweep will take."""
        self._estimate.set(text)

    def show_row(self, spec: str) -> None:
        """Choose a victim in the menu."""
        for label, row in self._rows.items():
            if row.spec == spec:
                put(self._list, label)
        self._show_row()

    def show_probe(self, spec: str, text: str) -> None:
        """What a probe found; "" hides it."""
        self._probed.set(f"{row_name(spec)}: {text}" if text else "")
        self._probed.visible = bool(text)

    def _build_roster(self, gui: viser.GuiApi, shown: bool) -> None:
        self._list = gui.add_dropdown("Model", (NOBODY,))
        self._list.on_update(by_people(lambda _: self._show_row()))
        self._state = Fact(gui, "State", multiline=True)
        self._licence = Fact(gui, "Licence", multiline=True)
        self._command = Fact(gui, "Get it", multiline=True, hint="Run this, then 'Look again'")
        self._prompt = gui.add_dropdown(
            "Prompt", PROMPTS, visible=False,
            hint="Its own prompt, or one of three paraphrases; stored with every score",
        )  # fmt: skip
        self._toggle = gui.add_button("Score", color="blue", visible=shown)
        self._toggle.on_click(lambda _: self._do(self._toggle_row))
        self._probe = gui.add_button(
            "Probe", visible=shown,
            hint="Shows it a stop sign at known places and says whether its boxes land there",
        )  # fmt: skip
        self._probe.on_click(
            lambda _: self._do(lambda: self._actions.probe(self._spec(), self.notice.say))
        )
        again = gui.add_button("Look again", visible=shown)
        again.on_click(lambda _: self._do(self.refresh))
        self._probed = Fact(gui, "Probe", multiline=True)
        self._probed.visible = False

    def _show_row(self) -> None:
        row = self._rows.get(str(self._list.value))
        if row is None:
            return
        self._state.set(row.state + _pace(row))
        self._licence.set(row.licence or "not stated")
        self._command.set(row.command)
        self._command.visible = bool(row.command) and not row.available
        self._prompt.visible = bool(row.prompts) and not self._viewer.present
        self._toggle.label = "Leave out" if row.chosen else "Score with it"
        self._toggle.color = "gray" if row.chosen else "blue"
        self._toggle.disabled = row.loading or not row.available
        self._probe.disabled = row.loading or not row.available

    def _spec(self) -> str:
        """Of the shown victim, under the chosen prompt where prompts can be chosen."""
        row = self._rows.get(str(self._list.value))
        if row is None:
            return ""
        return with_prompt(row.spec, str(self._prompt.value)) if row.prompts else row.spec

    def _toggle_row(self) -> None:
        row = self._rows.get(str(self._list.value))
        if row is not None and row.chosen:
            self._actions.leave_out(row.spec)
        else:
            self._actions.load(self._spec(), self.notice.say)

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

    def _build_form(self, gui: viser.GuiApi) -> None:
        known = {form.name: form for form in forms()}
        menu = gui.add_dropdown("Kind", tuple(known))
        about = Fact(gui, "Wants", multiline=True)
        path = gui.add_text("Path", "")
        options = gui.add_text("Options", "", hint="name=value&name=value")
        button = gui.add_button("Add and score")
        about.set(form_text(known[str(menu.value)]))
        menu.on_update(by_people(lambda _: about.set(form_text(known[str(menu.value)]))))

        def add() -> None:
            spec = known[str(menu.value)].spec(str(path.value), str(options.value))
            self._actions.load(spec, self.notice.say)

        button.on_click(lambda _: self._do(add))

    def _set_label(self, event: Any) -> None:
        self._do(lambda: self._actions.set_label(str(event.target.value)))

    def _do(self, command: Command) -> None:
        """Have the worker do `command`; what is wrong with it shows at the head of this tab."""
        self.notice.clear()
        self._viewer.post(command, self.notice.say)


def labelled(rows: list[VictimRow]) -> dict[str, VictimRow]:
    """Rows by their line of the menu: a sign for the state, then the name.

    Namesakes are told apart by their options, else by the spec: the sign alone would not do, and
    the end of a long path is not in sight.
    """
    names = Counter(row.name for row in rows)
    long_names = Counter(_with_options(row) for row in rows)
    found: dict[str, VictimRow] = {}
    for row in rows:
        sign = "●" if row.chosen else "○" if row.available else "·"
        long_name = _with_options(row)
        several = long_name if long_names[long_name] == 1 else row.spec
        found[f"{sign} {row.name if names[row.name] == 1 else several}"] = row
    return found


def _with_options(row: VictimRow) -> str:
    options = row.spec.partition("?")[2]
    return f"{row.name}?{options}" if options else f"{row.name} (no options)"


def form_text(form: Form) -> str:
    """What a way to name a model by path wants."""
    options = f"\noptions: {', '.join(form.options)}" if form.options else ""
    state = "" if form.state == "ready" else f" ({form.state})"
    return f"{form.name}:{form.takes}{state}{options}\nlicence: {form.licence}"


def _pace(row: VictimRow) -> str:
    return f", {row.seconds:.3g} s a picture" if row.seconds else ""
