"""Keys and the command palette (ui.md's list, as far as viser lets keys be bound)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from envelope.condition import Condition

if TYPE_CHECKING:
    from app.viewer import Viewer

KINDS = ("clean", "gray", "adversarial", "overlay")
ANGLE_STEP_DEG = 2.0


def add_commands(viewer: Viewer) -> None:
    """Bind every key of the viewer; each is also in the palette that lists them."""
    sweep = viewer.panels.sweep

    def bind(label: str, key: Any, run: Callable[[Any], None], modifier: Any = None) -> None:
        command = viewer.server.gui.add_command(label, hotkey=key, modifier=modifier)
        command.on_trigger(run)

    for number, kind in enumerate(KINDS, start=1):
        bind(f"Show {kind}", str(number), lambda _, kind=kind: viewer.show_kind(kind))
    bind("Start or pause the sweep", "space", lambda _: viewer.post(sweep.toggle, sweep.notice.say))
    bind("Undo", "Z", lambda _: viewer.post(viewer.actions.undo), "cmd/ctrl")
    bind("Anchor view", "H", lambda event: viewer.fly_to_anchor(event.client))
    bind("Sliders back to the anchor", "R", lambda _: viewer.post(lambda: viewer.go_to(Condition())))
    bind("Victim's eye on or off", "V", lambda _: viewer.set_victims_eye(not viewer.victims_eye))
    for axis, key, sign in (
        ("yaw_deg", "L", 1), ("yaw_deg", "J", -1), ("pitch_deg", "I", 1), ("pitch_deg", "K", -1),
    ):  # fmt: skip
        words = axis.removesuffix("_deg") + (" +" if sign > 0 else " -")
        bind(
            f"{words}{ANGLE_STEP_DEG:g} degrees", key,
            lambda _, axis=axis, sign=sign: viewer.nudge_axis(axis, sign * ANGLE_STEP_DEG),
        )  # fmt: skip
