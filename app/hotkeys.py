"""Keys and the command palette (ui.md's list, as far as viser lets keys be bound)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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

    def post(run: Callable[[], None], on_error: Callable[[str], None] | None = None) -> Any:
        return lambda _event: viewer.post(run, on_error)

    for number, kind in enumerate(KINDS, start=1):
        bind(f"Show {kind}", str(number), post(partial(viewer.show_kind, kind)))
    bind("Start, pause or resume the sweep", "space", post(sweep.toggle, sweep.notice.say))
    bind("Undo", "Z", post(viewer.actions.patch.undo), "cmd/ctrl")
    bind("Anchor view", "H", lambda event: viewer.fly_to_anchor(event.client))
    bind("Sliders back to the anchor", "R", post(partial(viewer.go_to, Condition())))
    for words, key, step in (("Next", "pagedown", 1), ("Previous", "pageup", -1)):
        bind(
            f"{words} saved view", key,
            lambda event, step=step: viewer.post(  # type: ignore[misc]
                lambda: viewer.actions.lists.step_view(step, event.client), sweep.notice.say
            ),
        )  # fmt: skip
    bind("Victim's eye on or off", "V", post(viewer.toggle_victims_eye))
    for axis, key, degrees in (
        ("yaw_deg", "L", ANGLE_STEP_DEG), ("yaw_deg", "J", -ANGLE_STEP_DEG),
        ("pitch_deg", "I", ANGLE_STEP_DEG), ("pitch_deg", "K", -ANGLE_STEP_DEG),
    ):  # fmt: skip
        words = f"{axis.removesuffix('_deg')} {degrees:+g} degrees"
        bind(words, key, post(partial(viewer.nudge_axis, axis, degrees)))
