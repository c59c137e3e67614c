"""A presentation refuses, on the server, everything that is more than looking."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from app.actions import Actions, ListActions
from app.embedding import EmbedOrder
from app.presenting import guarded_methods
from app.session import Session
from app.viewer import serve
from envelope.condition import Condition
from patching.patch import Patch
from scene.errors import InputError

ONLY_LOOKING = {"go_to_view", "step_view", "show_captures", "fly_to_capture"}


@pytest.fixture(scope="module")
def shown(scene_file, tmp_path_factory):
    session = Session.open(scene_file, tmp_path_factory.mktemp("present") / "runs")
    for spec in session.victims.chosen:
        session.victims.leave_out(spec)
    session.gallery.add(Patch.from_rgb(np.random.default_rng(3).random((16, 16, 3)), "squares"))
    session.patchwork.place_at([0.0, 3.0, 2.0], 0.4, 0.0)
    session.saved_views.add(Condition(azimuth_deg=20), "aside")
    viewer = serve(session, port=18600, block=False, present=True)
    yield viewer
    viewer.stop()


def _groups(actions: Actions) -> dict[str, object]:
    return dict(vars(actions))


def _state(session) -> tuple:
    """What commands could change."""
    work = session.patchwork
    return (
        session.scene, work.placement, work.patch, session.victims.chosen, session.label,
        session.saved_views.names(), session.condition,
    )  # fmt: skip


def test_every_command_is_guarded_except_those_that_only_look(shown):
    found = set()
    for group in _groups(shown.actions).values():
        names = {
            n
            for n, _ in inspect.getmembers(type(group), inspect.isfunction)
            if not n.startswith("_")
        }
        found |= names - set(guarded_methods(type(group))) - {"start_job"}
    assert found == ONLY_LOOKING


def test_the_handlers_refuse_and_nothing_changes(shown, tmp_path):
    session = shown.session
    before = _state(session)
    calls = 0
    for group in _groups(shown.actions).values():
        for name in guarded_methods(type(group)):
            method = getattr(group, name)
            wanted = list(inspect.signature(method).parameters)
            with pytest.raises(InputError, match="this viewer only presents"):
                method(*[None] * len(wanted))
            calls += 1
    assert calls >= 25
    assert _state(session) == before
    assert not session.run_folders() and shown.desk.current is None
    shown.set_display_budget(5_000_000)
    assert shown.viewport.display_budget == 200_000


def test_a_press_that_reaches_the_server_is_told_why_in_its_panel(shown, tmp_path):
    shown.post(
        lambda: shown.actions.patch.embed(EmbedOrder(2), print), shown.panels.patch.notice.say
    )
    assert shown.worker.wait_idle(10)
    assert (
        shown.panels.patch.notice._field.value
        == "this viewer only presents: embedding is switched off"
    )


def test_views_may_still_be_looked_at(shown):
    shown.actions.lists.go_to_view("aside", None)
    assert shown.session.condition == Condition(azimuth_deg=20)
    shown.slider_moved("yaw_deg", 5)
    assert shown.session.condition == Condition(azimuth_deg=20, yaw_deg=5)


def test_uploads_are_refused_when_they_begin(shown):
    from viser import _messages

    gui = shown.server.gui
    connection = gui._websock_interface
    button = shown.panels.patch._embed._impl.uuid
    message = _messages.FileTransferStartUpload(button, "t", "a.ply", "x/y", 1, 10)
    for handler in connection._incoming_handlers[_messages.FileTransferStartUpload]:
        handler(0, message)
    assert gui._current_file_upload_states == {}


def test_lists_know_no_unguarded_way_to_files():
    assert set(guarded_methods(ListActions)) >= {
        "open_list",
        "step_scene",
        "go_to_scene",
        "toggle_done",
    }
