"""The viewer's state without a viewer: open, place, embed, score, undo, run folders."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace

import numpy as np
import pytest

from app.embedding import EmbedOrder
from app.opening import list_runs, new_run_folder, open_scene_or_run
from app.scoring import SweepChoice
from app.session import Session
from app.victim_desk import VictimDesk
from app.viewer import serve
from envelope.condition import ANCHOR, Condition, condition_camera
from envelope.sweep import SweepPlan, all_axes
from patching.patch import Patch
from scene.errors import InputError

SIGN = [0.0, 3.0, 2.0]


def _patch() -> Patch:
    rng = np.random.default_rng(3)
    return Patch.from_rgb(rng.random((8, 8, 3)).repeat(4, 0).repeat(4, 1), "squares")


def _session(scene_file, runs, loader) -> Session:
    session = Session.open(scene_file, runs)
    session.victims = VictimDesk("stop sign", loader)
    session.victims.choose("red-finder")
    session.gallery.add(_patch())
    session.patchwork.choose("squares")
    return session


@pytest.fixture
def session(scene_file, tmp_path, red_finder_loader):
    made = _session(scene_file, tmp_path / "runs", red_finder_loader)
    yield made
    made.close()


@pytest.fixture(scope="module")
def embedded_run(scene_file, tmp_path_factory):
    """A run folder with a patch on the sign, embedded with few iterations, without scores."""

    def nobody(spec, label):
        raise InputError("not in this test")

    session = _session(scene_file, tmp_path_factory.mktemp("embedded") / "runs", nobody)
    session.patchwork.place_at(SIGN, 0.5, 0.0)
    steps = []
    session.embed(EmbedOrder(iterations=8), lambda step: steps.append(step) is None)
    folder = session.scoring.run.folder
    session.close()
    return folder, steps


def test_a_scene_opens_at_the_capture_camera_that_faces_the_sign(session):
    assert session.label == "stop sign"
    assert session.kinds() == ("clean",)
    # of -50, -25, 4, 30, 55 degrees the 4 degree one is the most frontal
    assert session.anchor_camera.center[0] == pytest.approx(3 * np.sin(np.radians(4)), abs=1e-6)
    assert max(session.anchor_camera.width, session.anchor_camera.height) == 640
    assert session.pivot == pytest.approx(SIGN)
    camera = session.camera()
    assert camera.camera_from_world == pytest.approx(session.anchor_camera.camera_from_world)


def test_without_a_patch_a_view_shows_the_clean_render_and_says_that_nobody_scores(session):
    seen = []
    session.on_view = lambda: seen.append(session.view)
    session.look(Condition(azimuth_deg=20))
    (view,) = seen
    assert set(view.pictures) == {"clean"} and not view.scored
    assert view.condition == Condition(azimuth_deg=20)
    red = view.pictures["clean"].astype(int)
    assert ((red[..., 0] > red[..., 1] + 60).mean()) > 0.01


def test_another_anchor_leaves_no_picture_of_the_old_one(session):
    session.look(Condition())
    assert session.view is not None
    session.set_anchor_camera(session.scene.cameras[0].camera)
    assert session.view is None
    session.look(Condition())
    session.set_up((0.0, 1.0, 0.0))
    assert session.view is None


def test_placing_sets_size_angle_and_place(session):
    work = session.patchwork
    work.place_at(SIGN, 0.5, 30.0)
    assert work.placement.center == pytest.approx(SIGN, abs=0.03)
    # half of the target's width as the anchor sees it, which is 0.8 m across
    assert work.placement.width == pytest.approx(0.4, rel=0.05)
    assert work.width_share() == pytest.approx(0.5)
    assert work.placement.in_plane_deg == pytest.approx(30)
    assert "cm" in work.placement_text() and "not embedded" in work.placement_text()
    work.resize(0.25, 0.0)
    assert work.placement.width == pytest.approx(0.2, rel=0.05)
    assert work.placement.right @ [1, 0, 0] == pytest.approx(1.0, abs=0.05)
    before = work.placement.center
    work.nudge("right")
    assert work.placement.center - before == pytest.approx(0.02 * work.placement.right, abs=0.002)


def test_a_click_through_the_sign_places_there(session):
    camera = session.anchor_camera
    session.patchwork.place_along_ray(camera.center, np.array(SIGN) - camera.center, 0.4, 0.0)
    assert session.patchwork.placement.center == pytest.approx(SIGN, abs=0.05)


@pytest.mark.parametrize(
    ("origin", "direction", "words"),
    [
        ([0, 0, 2], [0, 0, 1], "nothing solid"),
        ([0, 0, 2], [0, -1, 5], "nothing solid"),
        # the wall behind the sign: the anchor sees the sign there
        ([0.1, 4.5, 2.0], [-0.05, 1, 0], "something stands between"),
    ],
)
def test_a_click_that_cannot_be_used_is_one_sentence_and_changes_nothing(
    session, origin, direction, words
):
    with pytest.raises(InputError, match=words):
        session.patchwork.place_along_ray(origin, direction, 0.4, 0.0)
    assert session.patchwork.placement is None


def test_undo_goes_back_step_by_step(session):
    work = session.patchwork
    work.place_at(SIGN, 0.5, 0.0)
    work.resize(0.25, 0.0)
    session.undo()
    assert work.width_share() == pytest.approx(0.5)
    session.undo()
    assert work.placement is None and work.patch.name == "squares"
    while work.can_undo:
        session.undo()
    with pytest.raises(InputError, match="nothing to take back"):
        session.undo()


def test_embedding_before_placing_or_without_a_target_is_refused(session):
    with pytest.raises(InputError, match="place one first"):
        session.embed(EmbedOrder(2))
    assert session.target_text() == "stop sign"
    session.scene = replace(session.scene, target=None)
    assert session.target_text() == "none yet"
    with pytest.raises(InputError, match="no target"):
        session.embed(EmbedOrder(2))


def test_drawing_the_target_selects_the_sign(session):
    camera = session.anchor_camera
    (x, y), _ = camera.project(np.array(SIGN))
    session.set_target(camera, (x - 90, y - 90, x + 90, y + 90))
    box = session.scene.target
    assert box.label == "stop sign"
    assert box.center == pytest.approx(SIGN, abs=0.06)
    size = np.sort(box.half_sizes)
    assert size[2] == pytest.approx(0.39, abs=0.06) and size[0] < 0.15


def test_a_run_whose_scene_file_knows_no_target_says_whose_it_is(embedded_run):
    folder, _ = embedded_run
    session = Session.open(folder, folder.parent)
    session.scene = replace(session.scene, target=None)
    rows = len(session.scoring.run.target)
    assert rows > 100
    assert session.target_text() == f"stop sign, {rows} Gaussians, as the run was made"
    session.close()


def test_another_up_axis_turns_the_orbit(session):
    session.set_up((1.0, 0.0, 0.0))
    camera = session.camera(Condition(azimuth_deg=90))
    assert camera.center[0] == pytest.approx(session.anchor_camera.center[0], abs=1e-6)
    session.set_up(None)
    assert session.scene.up == (0.0, 0.0, 1.0) and session.scene.up_source != "chosen here"


def test_embedding_reports_both_kinds_with_pictures(embedded_run):
    _, steps = embedded_run
    assert [step.kind for step in steps] == ["adversarial"] * 8 + ["gray"] * 8
    fractions = [step.fraction for step in steps]
    assert fractions == sorted(fractions) and fractions[-1] == pytest.approx(1.0)
    shown = [step.pictures for step in steps if step.pictures is not None]
    assert shown and all(a.shape == b.shape for a, b in shown)
    assert steps[7].loss < steps[0].loss


def test_an_opened_run_shares_what_kinds_have_in_common(embedded_run, red_finder_loader):
    folder, _ = embedded_run
    session = Session.open(folder, folder.parent)
    try:
        assert session.kinds() == ("clean", "adversarial", "gray")
        parts = session.patchwork.display_parts()
        total = len(session.scene.gaussians)
        assert len(parts["shared"]) + len(parts["clean"]) == total
        assert len(parts["adversarial"]) > len(parts["clean"])
        assert session.pivot == pytest.approx(session.patchwork.placement.center)
        camera = condition_camera(ANCHOR, session.anchor_camera, session.pivot, session.scene.up)
        assert camera.center == pytest.approx(session.camera().center)
        assert session.patchwork.up_to_date and not session.patchwork.can_undo
    finally:
        session.close()


def test_the_looked_at_view_is_scored_and_a_sweep_fills_the_dome(embedded_run, red_finder_loader):
    folder, _ = embedded_run
    session = Session.open(folder, folder.parent)
    session.victims = VictimDesk("stop sign", red_finder_loader)
    session.victims.choose("red-finder")
    try:
        session.victims_changed()
        session.condition = Condition(yaw_deg=3)
        session.look(session.condition)
        view = _wait(lambda: session.view, lambda v: v is not None and v.complete and v.said)
        assert view.condition == Condition(yaw_deg=3)
        assert set(view.pictures) == {"clean", "gray", "adversarial", "overlay"}
        clean = view.said["red-finder", "clean"]
        assert clean.success is False and "found the stop sign" in clean.verdict
        assert view.ground_truth is not None and view.footprint is not None
        session.scoring.start(SweepChoice({"azimuth_deg": 3}, 1).plan())
        assert session.scoring.service.wait(60)
        states = dict(session.readings.states())
        assert len(states) == 3 and set(states.values()) <= {"works", "holds"}
        assert "3 of 3 conditions scored" in session.readings.summary().text
        assert session.readings.shown_victim() == "red-finder"
        status = session.scoring.status()
        assert status.state == "idle" and status.done == status.total == 12
        estimate = session.scoring.estimate
        assert estimate(SweepChoice({"azimuth_deg": 3}, 1).plan()) == (
            "3 conditions x 1 x 4 kinds, all 12 pictures scored or not observable"
        )
        more = estimate(SweepChoice({"azimuth_deg": 5}, 1).plan())  # three of them are there
        assert "5 conditions x 1 x 4 kinds, 8 of 20 pictures remain, about" in more
        assert ", 4 pictures, about" in estimate(
            SweepChoice({"azimuth_deg": 1}, 1).plan(Condition(roll_deg=7))
        )
    finally:
        session.close()
    again = Session.open(folder, folder.parent)
    try:
        assert dict(again.readings.states()) == states
        assert again.victims.chosen == ("red-finder",)
    finally:
        again.close()


def test_a_sweep_that_no_victim_can_score_is_refused_with_the_reason(embedded_run):
    """It ran through at once, "finished: 189 of 189 views", without a single score."""

    def lost(spec, label):
        raise InputError(f"{spec}: no weights here")

    folder, _ = embedded_run
    session = Session.open(folder, folder.parent)
    session.victims = VictimDesk("stop sign", lost)
    session.victims.choose("red-finder")
    try:
        session.victims_changed()
        _wait(session.readings.troubles, lambda text: "does not score" in text)
        assert session.readings.troubles() == "red-finder does not score: no weights here"
        status = session.scoring.status()
        assert status.state == "idle" and status.done == 0
        assert status.text == "no victim scores; red-finder: no weights here"
        with pytest.raises(InputError, match="nothing would be scored: red-finder: no weights"):
            session.scoring.start(SweepChoice({"azimuth_deg": 3}, 1).plan())
    finally:
        session.close()


def test_thresholds_read_stored_rows_again_without_scoring(embedded_run, red_finder_loader):
    folder, _ = embedded_run
    session = Session.open(folder, folder.parent)
    try:
        table = session.readings.table()
        if table is None:
            pytest.skip("the sweep of the test before has not run")
        before = session.scoring.store.counts()
        assert table.rate("red-finder", "asr", "clean").value == 0.0
        session.set_thresholds(None, 0.99)
        strict = session.readings.table()
        assert strict.rate("red-finder", "asr", "clean").value > 0.0
        assert session.scoring.store.counts() == before
        session.set_thresholds(None, 0.5)
    finally:
        session.close()


def test_a_run_folder_is_described(embedded_run):
    from app.export import describe_run

    folder, _ = embedded_run
    assert "small street" in describe_run(folder) and "squares" in describe_run(folder)
    assert "wanted a run folder" in describe_run(folder.parent)


def test_a_placement_goes_through_its_file(session):
    work = session.patchwork
    with pytest.raises(InputError, match="no placement to save"):
        work.placement_file()
    work.place_at(SIGN, 0.5, 10.0)
    content, placed = work.placement_file(), work.placement
    session.undo()
    assert work.placement is None
    session.load_placement(content)
    assert work.placement.to_dict() == placed.to_dict()
    assert session.anchor_camera.camera_from_world == pytest.approx(placed.camera.camera_from_world)
    for bad in (b"{", b"[]", b'{"format": "advscene-placement", "version": 1}'):
        with pytest.raises(InputError):
            session.load_placement(bad)
    assert work.placement is not None


def test_a_bad_path_leaves_the_session_as_it_was(session, tmp_path):
    bad = tmp_path / "bad.ply"
    bad.write_bytes(b"not a ply")
    for path in (bad, tmp_path / "absent.ply", tmp_path):
        with pytest.raises(InputError):
            session.reopen(path)
    assert session.scene.name == "small street" and session.anchor_camera is not None


def test_run_folders_get_free_names_and_are_listed_newest_first(tmp_path, embedded_run):
    runs = tmp_path / "runs"
    assert list_runs(runs) == []
    assert new_run_folder("my scene/../x", runs) == runs / "my-scene-..-x"
    (runs / "a").mkdir(parents=True)
    assert new_run_folder("a", runs) == runs / "a-2"
    folder, _ = embedded_run
    assert list_runs(folder.parent) == [folder]
    opened = open_scene_or_run(folder, runs)
    assert opened.run is not None and opened.path.name == "street.ply"
    opened.run.close()


def _wait(read, good, timeout_s=60.0):
    until = time.monotonic() + timeout_s
    while time.monotonic() < until:
        value = read()
        if good(value):
            return value
        time.sleep(0.02)
    raise AssertionError(f"not within {timeout_s} s: {value}")


@pytest.mark.parametrize(
    "choice",
    [
        SweepChoice({"azimuth_deg": 9, "radius": 7}, 2),
        SweepChoice({"radius": 7, "azimuth_deg": 9}, 3, ("clean", "gray", "adversarial")),
        SweepChoice({"roll_deg": 4}, 1),
    ],
)
def test_the_choice_behind_a_plan_is_found_again(choice):
    assert SweepChoice.of(choice.plan(Condition(pitch_deg=5))) == choice


def test_plans_that_the_tab_cannot_ask_for_are_of_no_choice():
    assert SweepChoice.of(SweepPlan({"azimuth_deg": (-10, 0, 10)})) is None
    assert SweepChoice.of(SweepPlan({"azimuth_deg": (-60, 0, 60)})) is not None
    assert SweepChoice.of(SweepPlan({"azimuth_deg": (-60, 0, 60)}, mode="each")) is None
    every = SweepChoice.of(all_axes(2))
    assert every is not None and every.every_axis and every.plan() == all_axes(2)


def test_the_sweep_tab_stands_at_the_opened_runs_sweep(embedded_run, scene_file, tmp_path):
    """Start replaced the map of a reopened run by that of the tab's own default."""
    folder = tmp_path / "run"
    shutil.copytree(embedded_run[0], folder)
    session = Session.open(folder, scene_path=scene_file)
    run = session.scoring.run
    plan = SweepChoice({"roll_deg": 5}, 2, ("clean", "gray", "adversarial", "noise")).plan()
    run.update(replace(run.settings, sweep=plan))
    session.close()
    shown = serve(Session.open(folder, scene_path=scene_file), port=18670, block=False)
    try:
        panel = shown.panels.sweep
        assert (panel._x.value, panel._x_count.value) == ("roll °", 5)
        assert (panel._y.value, panel._variants.value) == ("none", 2)
        assert {kind: box.value for kind, box in panel._kinds.items()} == {
            "overlay": False, "noise": True, "shuffled": False,
        }  # fmt: skip
        assert panel._choice().axes == {"roll_deg": 5}
    finally:
        shown.stop()
