"""Capture cameras on the page, views that none of them saw, and what the Scene tab's commands do."""

from __future__ import annotations

import json

import numpy as np
import pytest
from viewer_fakes import SIGN, small_scene

from app.captures import MOST_THUMBNAILS, extrapolated, far_views, memory_text, thumbnails
from app.opening import recent_paths, remember_path
from app.panels.common import typed_path
from app.panels.scene import notes_text
from app.session import Session
from app.viewer import serve
from scene.camera import Camera
from scene.errors import InputError
from scene.scene import save_scene


def _looking(angle_deg: float, distance: float) -> Camera:
    a = np.radians(angle_deg)
    eye = SIGN + distance * np.array([np.sin(a), -np.cos(a), 0.0])
    return Camera.look_at(eye, SIGN, [0, 0, 1], 320, 240, 35)


@pytest.mark.parametrize(
    ("angle", "distance", "far"),
    [
        # the photos stand at -50, -25, 4, 30 and 55 degrees, 3 m away
        (4, 3.0, False),
        (80, 3.0, False),
        (-78, 3.0, False),
        (90, 3.0, True),
        (-85, 3.0, True),
        (4, 5.8, False),
        (4, 6.4, True),
        (4, 0.8, False),
    ],
)
def test_a_view_is_extrapolated_beyond_30_degrees_or_twice_the_distance(angle, distance, far):
    scene = small_scene(60)
    assert extrapolated(scene, _looking(angle, distance), SIGN) is far
    assert far_views(scene, [_looking(angle, distance)], SIGN).tolist() == [far]


def test_thumbnails_show_what_the_cameras_see_and_are_bounded():
    from scene.render.api import make_renderer

    scene = small_scene()
    renderer = make_renderer(scene.gaussians)
    made = dict(thumbnails(renderer, scene.cameras, scene.background))
    assert sorted(made) == [0, 1, 2, 3, 4]
    picture = made[2].astype(int)
    assert picture.shape == (72, 96, 3)
    red = (picture[..., 0] > picture[..., 1] + 60) & (picture[..., 0] > picture[..., 2] + 60)
    rows, columns = np.nonzero(red)
    assert red.sum() > 200 and abs(columns.mean() - 48) < 4 and abs(rows.mean() - 36) < 4
    many = scene.cameras * 80
    indices = [i for i, _ in thumbnails(_Nothing(), many, scene.background)]
    assert len(indices) == MOST_THUMBNAILS and indices[0] == 0 and indices[-1] == len(many) - 1


class _Nothing:
    def render(self, camera, background):
        from types import SimpleNamespace

        return SimpleNamespace(rgb=np.zeros((2, 2, 3)))


def test_memory_is_stated():
    text = memory_text(small_scene(60))
    assert text.startswith("scene ") and text.endswith(" GB")


def test_what_a_file_left_out_and_was_not_used_is_in_words():
    dropped = {"not_finite": 1200, "zero_quaternion": 0, "bad_scale": 1}
    notes = ["a.scene.json is not used:\nwritten for <b>another</b>", "2 cameras are from x.json"]
    assert notes_text({"dropped": dropped, "notes": notes}).splitlines() == [
        "1\u2009201 Gaussians are left out: 1\u2009200 with NaN or infinity, 1 without a size",
        "a.scene.json is not used: written for <b>another</b>",
        "2 cameras are from x.json",
    ]
    one = notes_text({"dropped": {"zero_quaternion": 1}})
    assert one == "1 Gaussian is left out: 1 with a rotation of length zero"
    assert notes_text({"dropped": {"not_finite": 0}, "notes": []}) == notes_text({}) == ""


def test_a_typed_path_may_begin_at_home_but_is_not_empty(monkeypatch):
    monkeypatch.setenv("HOME", "/somewhere")
    assert str(typed_path(" ~/a b.ply ")) == "/somewhere/a b.ply"
    assert str(typed_path("~no-such-user/a.ply")) == "~no-such-user/a.ply"
    with pytest.raises(InputError, match="found an empty field"):
        typed_path("  ")


def test_recent_paths_are_kept_newest_first_and_a_damaged_file_is_none(tmp_path):
    for name in ("a", "b", "a"):
        remember_path(tmp_path / name, tmp_path / "runs")
    assert recent_paths(tmp_path / "runs") == [str(tmp_path / "a"), str(tmp_path / "b")]
    (tmp_path / "runs" / "recent.json").write_text("{")
    assert recent_paths(tmp_path / "runs") == []


@pytest.fixture(scope="module")
def viewer(scene_file, tmp_path_factory):
    session = Session.open(scene_file, tmp_path_factory.mktemp("desk") / "runs")
    for spec in session.victims.chosen:
        session.victims.leave_out(spec)
    shown = serve(session, port=18650, block=False)
    yield shown
    shown.stop()


def _run(viewer, command) -> str:
    """A command as a press runs it: on the worker, jobs awaited; the sentence that it ended in."""
    said: list[str] = []
    viewer.post(command, said.append)
    assert viewer.worker.wait_idle(60)
    while (job := viewer.desk.current) is not None:
        job.join(60)
    assert viewer.worker.wait_idle(60)
    return said[0] if said else ""


def test_the_scene_tab_shows_the_notes_of_the_scene_and_hides_the_line_without_any(
    viewer, tmp_path
):
    field = viewer.panels.scene._notes._field
    assert not field.visible and field.value == ""
    path = tmp_path / "street.ply"
    save_scene(small_scene(60), path)
    raw = path.read_bytes()
    body = raw.index(b"end_header\n") + len(b"end_header\n")
    # the first Gaussian's x; the sidecar, written for the file as it was, no longer fits
    path.write_bytes(raw[:body] + np.float32(np.nan).tobytes() + raw[body + 4 :])
    before = viewer.session.path
    assert _run(viewer, lambda: viewer.actions.scene.open_path(path)) == ""
    assert field.visible and field.disabled and field.multiline
    head, note = field.value.splitlines()
    assert head == "1 Gaussian is left out: 1 with NaN or infinity"
    assert note.startswith("street.scene.json is not used")
    assert _run(viewer, lambda: viewer.actions.scene.open_path(before)) == ""
    assert not field.visible


def test_a_capture_camera_becomes_the_anchor(viewer):
    wanted = viewer.session.scene.cameras[3].camera
    assert _run(viewer, lambda: viewer.actions.scene.anchor_at_capture(3)) == ""
    assert viewer.session.anchor_camera.center == pytest.approx(wanted.center)
    assert "no such capture camera" in _run(
        viewer, lambda: viewer.actions.scene.anchor_at_capture(5)
    )
    assert _run(viewer, lambda: viewer.actions.scene.show_captures(True)) == ""
    frustums = viewer.viewport._nodes["captures"]
    assert len(frustums) == 5 and all(node.image is not None for node in frustums)
    viewer.actions.scene.show_captures(False)


def test_a_candidate_of_the_data_becomes_the_target(viewer):
    from scene.candidates import TargetCandidate
    from scene.scene import TargetBox

    box = TargetBox(SIGN, np.eye(3), np.array([0.3, 0.1, 0.3]), "board")
    viewer.actions.scene.candidates = [TargetCandidate("board", "box of a sign", box, 900)]
    viewer.panels.scene.show_candidates()
    assert viewer.panels.scene._candidates.value == "1: board"
    assert _run(viewer, lambda: viewer.actions.scene.take_candidate(0)) == ""
    target = viewer.session.scene.target
    assert target.half_sizes == pytest.approx([0.3, 0.1, 0.3]) and target.label == "stop sign"
    assert "no candidate" in _run(viewer, lambda: viewer.actions.scene.take_candidate(4))
    problem: list[str] = []
    viewer.actions.scene.find_candidates(viewer.session.path.parent / "absent", problem.append)
    while (job := viewer.desk.current) is not None:
        job.join(30)
    assert len(problem) == 1 and "absent" in problem[0]


def test_a_list_of_scenes_keeps_a_placement_for_each(viewer, tmp_path):
    for name in ("one", "two"):
        save_scene(small_scene(), tmp_path / f"{name}.ply")
    (tmp_path / "list.txt").write_text("one.ply\ntwo.ply\nabsent.ply\n")
    lists, work = viewer.actions.lists, lambda: viewer.session.patchwork
    said: list[str] = []
    assert _run(viewer, lambda: lists.open_list(tmp_path / "list.txt", said.append)) == ""
    assert viewer.session.path == tmp_path / "one.ply"
    work().place_at(SIGN, 0.5, 12.0)
    assert _run(viewer, lambda: lists.step_scene(1, said.append)) == ""
    assert viewer.session.path == tmp_path / "two.ply" and work().placement is None
    assert _run(viewer, lists.toggle_done) == ""
    assert _run(viewer, lambda: lists.step_scene(-1, said.append)) == ""
    assert work().placement.in_plane_deg == 12.0
    assert work().placement.center == pytest.approx(SIGN, abs=0.05)
    kept = json.loads((tmp_path / "list.txt.progress.json").read_text())["scenes"]
    assert kept["two.ply"] == {"done": True} and "placement" in kept["one.ply"]
    assert _run(viewer, lambda: lists.go_to_scene(2, said.append)) == "" and "absent.ply" in said[0]
    assert viewer.session.path == tmp_path / "one.ply"
    # the list stands at a scene that did not open: what is placed now is not kept for it
    _run(viewer, lambda: lists.toggle_done())
    kept = json.loads((tmp_path / "list.txt.progress.json").read_text())["scenes"]
    assert kept["absent.ply"] == {"done": True}


def test_nothing_is_done_without_a_list(scene_file, tmp_path):
    from types import SimpleNamespace

    from app.actions import ListActions

    lists = ListActions(SimpleNamespace(session=None, present=False))
    with pytest.raises(InputError, match="no list of scenes is open"):
        lists.toggle_done()
