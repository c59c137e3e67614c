"""Right dock, top: the envelope as a heat map and as curves, with counts and intervals."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from app.dome import STATE_COLOR, STATE_TEXT
from app.panels.common import Notice, by_people, put, put_html, put_options
from app.panels.sweep import LABELS
from app.readings import BANDS, SHORT, measure_hint

if TYPE_CHECKING:
    import viser

    from app.summary import Summary
    from app.viewer import Viewer

NO_VICTIM = "(no victim)"
NO_AXIS = "(no sweep yet)"
MAP_ASPECT = 0.4
CURVE_ASPECT = 0.5
"""Height over width (viser's text says the opposite)."""
CAUTION_COLOR = "#b34700"
PLOT_CONFIG = {"displayModeBar": False, "responsive": True}


class EnvelopePanel:
    """Menus for measure and victim; heat map and curves; the numbers with counts and intervals."""

    def __init__(self, map_tab: Any, curve_tab: Any, gui: viser.GuiApi, viewer: Viewer) -> None:
        self._viewer = viewer
        self._session = viewer.session
        self._readings = viewer.session.readings
        with map_tab:
            self._headline = gui.add_html("")
            self._troubles = Notice(gui, "Victims")
            self._map = gui.add_plotly(self._heat_map(), config=PLOT_CONFIG, aspect=MAP_ASPECT)
            self._measure = gui.add_dropdown(
                "Measure", tuple(SHORT), initial_value=self._readings.word, hint=measure_hint()
            )
            self._victim = gui.add_dropdown("Victim", (NO_VICTIM,))
            self._details = gui.add_html("")
            gui.add_html(_legend())
            self.notice = Notice(gui)
        with curve_tab:
            self._pooled = gui.add_html("")
            self._curves = gui.add_plotly(self._lines(""), config=PLOT_CONFIG, aspect=CURVE_ASPECT)
            self._axis = gui.add_dropdown("Along", (NO_AXIS,))
            self._bands = gui.add_dropdown(
                "Bands", tuple(BANDS), initial_value=self._readings.bands,
                hint="Render kinds whose 95 % intervals over conditions are filled; the others' "
                "are whiskers. Hover any point for its counts",
            )  # fmt: skip
        self._measure.on_update(by_people(self._chosen))
        self._victim.on_update(by_people(self._chosen))
        self._bands.on_update(by_people(self._chosen))
        self._axis.on_update(by_people(lambda _: viewer.refresh_scores_soon()))

    def refresh(self) -> None:
        """Compute the envelope from the stored rows again and show it."""
        readings, plan = self._readings, self._readings.plan
        put_options(self._victim, readings.victims() or (NO_VICTIM,), readings.shown_victim())
        put(self._measure, readings.word)
        axes = {LABELS[name]: name for name in plan.axes} if plan is not None else {}
        put_options(self._axis, tuple(axes) or (NO_AXIS,))
        self.refresh_map()
        self._curves.figure = self._lines(axes.get(self._axis.value, ""))
        summary = readings.summary()
        put_html(self._headline, headline(summary))
        put_html(self._details, details(summary))
        crossed = tuple(axes) if plan is not None and plan.mode == "grid" else ()
        put_html(self._pooled, pooled(summary, str(self._axis.value), crossed))
        self.refresh_troubles()

    def refresh_troubles(self) -> None:
        """Say which victims do not answer now, above the numbers that lack their answers."""
        if troubles := self._readings.troubles():
            self._troubles.say(troubles)
        else:
            self._troubles.clear()

    def refresh_map(self) -> None:
        """Show the heat map, with its ring at the sliders' view."""
        self._map.figure = self._heat_map()

    def _heat_map(self) -> Any:
        return self._readings.heat_map(self._session.condition)

    def _lines(self, axis: str) -> Any:
        return self._readings.curves(axis, self._session.condition)

    def _chosen(self, _: Any) -> None:
        self._readings.word = self._measure.value
        self._readings.bands = self._bands.value
        if self._victim.value != NO_VICTIM:
            self._readings.victim = self._victim.value
            self._viewer.post(self._viewer.panels.renders.refresh_answers, self.notice.say)
        self._viewer.refresh_scores_soon()


def headline(summary: Summary) -> str:
    """HTML of what stays in sight above the map: the rate, its interval, its counts, a caution."""
    lines = f"<div><b>{escape(summary.value)}</b> {escape(summary.basis)}</div>"
    if summary.lines:
        lines += f"<div>{escape(summary.lines[0])}</div>"
    if summary.caution:
        lines += f'<div style="color:{CAUTION_COLOR}">{escape(summary.caution)}</div>'
    return _small(lines)


def details(summary: Summary) -> str:
    """HTML of the other numbers and of the settings that all of them were made with."""
    rest = [line for line in (*summary.lines[1:], summary.settings) if line]
    return _small("".join(f"<div>{escape(line)}</div>" for line in rest))


def pooled(summary: Summary, axis: str, axes: tuple[str, ...]) -> str:
    """HTML above the curves: what a point of them pools, and the settings."""
    others = [name for name in axes if name != axis]
    words = f"each point pools all values of {', '.join(others)}" if others else ""
    rest = [line for line in (words, summary.settings) if line]
    return _small("".join(f"<div>{escape(line)}</div>" for line in rest))


def _small(lines: str) -> str:
    """Lines of the dock's small print; names of files and models' words are never in them."""
    return f'<div style="font-size:11.25px;line-height:1.35;padding:0 0.75em 0.3em">{lines}</div>'


def _legend() -> str:
    """Our own constant words and colors only."""
    keys = "".join(
        f'<span style="white-space:nowrap;margin-right:10px"><span style="display:inline-block;'
        f"width:10px;height:10px;border-radius:5px;border:1px solid #888;margin-right:4px;"
        f'background:rgb{STATE_COLOR[state]}"></span>{text}</span>'
        for state, text in STATE_TEXT.items()
    )
    ring = "background:none;border:2px solid #e8418c"
    keys += (
        '<span style="white-space:nowrap;margin-right:10px"><span style="display:inline-block;'
        f'width:9px;height:9px;border-radius:5px;margin-right:4px;{ring}"></span>this view</span>'
    )
    words = "small camera: extrapolated"
    keys += f'<span style="white-space:nowrap">{words}</span>'
    return f'<div style="font-size:11.5px;padding:0 0.75em 0.4em">{keys}</div>'
