"""Right dock, top: the envelope as a heat map and as curves, with counts and intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.dome import STATE_COLOR, STATE_TEXT
from app.panels.common import Fact, Notice, by_people

if TYPE_CHECKING:
    import viser

    from app.viewer import Viewer

NO_VICTIM = "(no victim)"
MAP_ASPECT = 1.5
PLOT_CONFIG = {"displayModeBar": False, "responsive": True}


class EnvelopePanel:
    """Menus for measure, victim and axes; two plots; one sentence of numbers."""

    def __init__(self, map_tab: Any, curve_tab: Any, gui: viser.GuiApi, viewer: Viewer) -> None:
        self._viewer = viewer
        self._session = viewer.session
        with map_tab:
            figure = self._session.heat_map()
            self._map = gui.add_plotly(figure, config=PLOT_CONFIG, aspect=MAP_ASPECT)
            gui.add_html(_legend())
            self._build_menus(gui)
            self._summary = Fact(gui, "Measured", multiline=True)
            self.notice = Notice(gui)
        with curve_tab:
            figure = self._session.curves()
            self._curves = gui.add_plotly(figure, config=PLOT_CONFIG, aspect=MAP_ASPECT)
            self._curve_text = Fact(gui, "Reading", multiline=True)

    def refresh(self) -> None:
        """Compute the envelope from the stored rows again and show it."""
        session = self._session
        self._victim.options = session.scored_victims() or (NO_VICTIM,)
        if session.shown_victim in self._victim.options:
            self._victim.value = session.shown_victim
        self._measure.value = session.measure
        self._map.figure = session.heat_map()
        self._summary.set(session.summary_text())
        self._curves.figure = session.curves()
        self._curve_text.set(session.curve_text())

    def _build_menus(self, gui: viser.GuiApi) -> None:
        session = self._session
        self._measure = gui.add_dropdown(
            "Measure", session.measures(), initial_value=session.measure,
            hint="ASR: share of conditions where the attack works. gain: ASR minus the clean "
            "render's. cASR: among conditions right on the gray patch",
        )  # fmt: skip
        self._victim = gui.add_dropdown("Victim", session.scored_victims() or (NO_VICTIM,))
        self._measure.on_update(by_people(self._chosen))
        self._victim.on_update(by_people(self._chosen))

    def _chosen(self, _: Any) -> None:
        self._session.measure = self._measure.value
        if self._victim.value != NO_VICTIM:
            self._session.shown_victim = self._victim.value
        self._viewer.refresh_scores_soon()


def _legend() -> str:
    """Our own constant words and colors only."""
    keys = "".join(
        f'<span style="white-space:nowrap;margin-right:10px"><span style="display:inline-block;'
        f"width:10px;height:10px;border-radius:5px;border:1px solid #888;margin-right:4px;"
        f'background:rgb{STATE_COLOR[state]}"></span>{text}</span>'
        for state, text in STATE_TEXT.items()
    )
    return f'<div style="font-size:11.5px;padding:0 0.75em 0.4em">{keys}</div>'
