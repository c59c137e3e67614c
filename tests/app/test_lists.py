"""Saved views and lists of scenes: kept in small files, taken up again, never half-written."""

from __future__ import annotations

import json

import pytest

from app.annotation import AnnotationList
from app.saved_views import MOST_VIEWS, SavedViews, name_of
from envelope.condition import Condition
from scene.errors import InputError


def test_views_are_stepped_through_round_and_round(tmp_path):
    views = SavedViews(tmp_path / "v.json")
    with pytest.raises(InputError, match="no view is saved yet"):
        views.step(1)
    for azimuth in (0, 30, -45):
        views.add(Condition(azimuth_deg=azimuth))
    assert views.names() == ("anchor", "azimuth 30", "azimuth -45")
    # the newest is where one stands
    assert [views.step(1).name for _ in range(4)] == [
        "anchor",
        "azimuth 30",
        "azimuth -45",
        "anchor",
    ]
    assert [views.step(-1).name for _ in range(2)] == ["azimuth -45", "azimuth 30"]
    views.get("anchor")
    assert views.step(1).name == "azimuth 30"


def test_views_are_there_again_with_all_nine_numbers(tmp_path):
    wanted = Condition(1, 2, 0.75, 3, 4, 5, 1.5, 0.1, -0.2)
    SavedViews(tmp_path / "v.json").add(wanted, "  the \n one ")
    again = SavedViews(tmp_path / "v.json")
    assert [(v.name, v.condition) for v in again.views] == [("the one", wanted)]
    assert again.step(1).condition == wanted
    again.add(wanted, "the one")
    assert again.names() == ("the one", "the one (2)")
    again.remove("the one")
    assert SavedViews(tmp_path / "v.json").names() == ("the one (2)",)
    with pytest.raises(InputError):
        again.remove("the one")


def test_a_name_is_made_of_what_moved():
    assert name_of(Condition()) == "anchor"
    assert (
        name_of(Condition(azimuth_deg=30, radius=1.5, focal=2)) == "azimuth 30, radius 1.5, focal 2"
    )


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"format": "x"}',
        '{"format": "advscene-views", "version": 1, "views": [{"name": 1}]}',
    ],
)
def test_a_foreign_file_is_said_and_left_alone(tmp_path, content):
    path = tmp_path / "v.json"
    path.write_text(content)
    views = SavedViews(path)
    assert views.names() == () and str(path) in views.problem
    for call in (lambda: views.add(Condition()), lambda: views.step(1)):
        with pytest.raises(InputError, match=r"v\.json"):
            call()
    assert path.read_text() == content


def test_there_is_an_end_to_saved_views(tmp_path):
    path = tmp_path / "v.json"
    row = {"name": "a", "condition": Condition().to_dict()}
    path.write_text(
        json.dumps({"format": "advscene-views", "version": 1, "views": [row] * (MOST_VIEWS + 7)})
    )
    views = SavedViews(path)
    assert len(views.views) == MOST_VIEWS
    with pytest.raises(InputError, match="remove some first"):
        views.add(Condition())


@pytest.mark.parametrize(
    "text",
    [
        "a.ply\n\n# a remark\n  sub/b.ply  # the second\nc.ply\na.ply\n",
        '["a.ply", "sub/b.ply", "c.ply"]',
        '{"scenes": ["a.ply", "sub/b.ply", "c.ply"]}',
    ],
)
def test_a_list_is_text_or_json_and_keeps_marks_and_placements_beside_it(tmp_path, text):
    path = tmp_path / "scenes.txt"
    path.write_text(text)
    scenes = AnnotationList(path)
    assert scenes.scenes == ("a.ply", "sub/b.ply", "c.ply") and scenes.scene == tmp_path / "a.ply"
    scenes.keep_placement(b'{"width": 0.4}')
    scenes.mark(True)
    assert scenes.step(1) == tmp_path / "sub/b.ply" and scenes.placement is None
    assert scenes.labels() == ("1 ✓ a.ply", "2 · b.ply", "3 · c.ply")
    assert scenes.text() == "2 of 3, not done; 1 done in all"
    assert path.read_text() == text
    again = AnnotationList(path)
    assert again.index == 1  # the first that is not done
    again.step(-1)
    assert again.done and json.loads(again.placement) == {"width": 0.4}
    again.mark(False)
    assert not AnnotationList(path).done
    with pytest.raises(InputError, match="first scene"):
        again.step(-1)
    again.go_to(2)
    with pytest.raises(InputError, match="last scene"):
        again.step(1)


@pytest.mark.parametrize(
    "content", [b"", b"# only words\n", b"[1, 2]", b'{"scenes": "a.ply"}', b"[", b"\xff\xfe\x00"]
)
def test_a_list_that_is_none_is_one_sentence(tmp_path, content):
    path = tmp_path / "list.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"list\.txt"):
        AnnotationList(path)
    with pytest.raises(InputError, match="cannot be read"):
        AnnotationList(tmp_path / "absent.txt")


def test_anothers_progress_file_is_not_overwritten(tmp_path):
    path = tmp_path / "list.txt"
    path.write_text("a.ply")
    (tmp_path / "list.txt.progress.json").write_text('{"mine": 1}')
    with pytest.raises(InputError, match="progress"):
        AnnotationList(path)
