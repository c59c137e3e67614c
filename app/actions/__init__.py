"""What buttons do, one file per tab. Methods run on the viewer's worker and raise InputError.

Owns the way from a press to a change of the session; the panels own what is shown. Whatever a
presentation must not do is refused here (`app.presenting`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.actions.lists import ListActions
from app.actions.patch import PatchActions
from app.actions.runs import RunActions
from app.actions.scene import SceneActions
from app.actions.sweep import SweepActions
from app.actions.victims import VictimActions

if TYPE_CHECKING:
    from app.viewer import Viewer

__all__ = [
    "Actions",
    "ListActions",
    "PatchActions",
    "RunActions",
    "SceneActions",
    "SweepActions",
    "VictimActions",
]


class Actions:
    """The commands of one viewer, by tab."""

    def __init__(self, viewer: Viewer) -> None:
        self.scene = SceneActions(viewer)
        self.patch = PatchActions(viewer)
        self.sweep = SweepActions(viewer)
        self.victims = VictimActions(viewer)
        self.runs = RunActions(viewer)
        self.lists = ListActions(viewer)
