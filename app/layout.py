"""Where the panels are: left dock with five tabs, right dock with the envelope over the renders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.panels.envelope import EnvelopePanel
from app.panels.patch import PatchPanel
from app.panels.runs import RunsPanel
from app.panels.scene import ScenePanel
from app.panels.sweep import SweepPanel
from app.panels.victim_view import VictimViewPanel
from app.panels.victims import VictimsPanel

if TYPE_CHECKING:
    from app.viewer import Viewer

LEFT_WIDTH = 330
RIGHT_WIDTH = 430


@dataclass(frozen=True)
class Layout:
    """All panels of one viewer."""

    scene: ScenePanel
    patch: PatchPanel
    sweep: SweepPanel
    victims: VictimsPanel
    runs: RunsPanel
    envelope: EnvelopePanel
    renders: VictimViewPanel


def build_layout(viewer: Viewer) -> Layout:
    """Make every panel of `viewer` in its server's shared GUI."""
    import viser

    gui = viewer.server.gui
    gui.configure_theme(
        show_share_button=False, show_logo=False, dark_mode=False, brand_color=(0, 92, 150)
    )
    tabs = gui.add_tab_group()
    with tabs.add_tab("Scene"):
        scene = ScenePanel(gui, viewer)
    with tabs.add_tab("Patch"):
        patch = PatchPanel(gui, viewer)
    with tabs.add_tab("Sweep"):
        sweep = SweepPanel(gui, viewer)
    with tabs.add_tab("Victims"):
        victims = VictimsPanel(gui, viewer)
    with tabs.add_tab("Runs"):
        runs = RunsPanel(gui, viewer)
    gui.main_panel.dock_left()
    gui.main_panel.set_width(LEFT_WIDTH)

    top = gui.add_panel()
    map_tab = top.add_tab("Envelope", viser.Icon.GRID_DOTS)
    curve_tab = top.add_tab("Curves", viser.Icon.CHART_LINE)
    envelope = EnvelopePanel(map_tab, curve_tab, gui, viewer)
    top.dock_right()
    top.set_width(RIGHT_WIDTH)
    below = gui.add_panel()
    with below.add_tab("What the victim sees", viser.Icon.EYE):
        renders = VictimViewPanel(gui, viewer.session)
    below.dock_below(top)
    return Layout(scene, patch, sweep, victims, runs, envelope, renders)
