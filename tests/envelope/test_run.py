from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from envelope_fakes import small_adversarial

from envelope.outcome import Criterion
from envelope.run import Reading, Run, RunSettings, VictimChoice, create_run, is_run, open_run
from envelope.settings import short_name
from envelope.stage import StageSettings
from envelope.sweep import SweepPlan
from scene.errors import InputError
from scene.render.api import RenderSettings
from scene.scene import load_scene, save_scene

SETTINGS = RunSettings(
    StageSettings(
        up=(0, 1, 0), pivot=(0.1, 0, 0.5), seed=9, long_side=200, background=(0.2, 0.3, 0.4),
        render=RenderSettings(near=0.02, antialiased=True),
    ),
    Reading("red board", tau=0.6, gamma=0.4),
    (
        VictimChoice("demo-detector", gamma=0.3, task="vanishing"),
        VictimChoice("onnx:/m/yolox.onnx?preset=yolox", prompt="x"),
    ),
    SweepPlan({"azimuth_deg": (-10, 0, 10)}, variants=2),
)  # fmt: skip


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Run]:
    adversarial, target, patch = small_adversarial()
    save_scene(adversarial.scene, tmp_path / "small.ply")
    scene = load_scene(tmp_path / "small.ply")
    run = create_run(
        tmp_path / "run", replace(adversarial, scene=scene), tmp_path / "small.ply", SETTINGS,
        patch, target, "advscene embed small.ply",
    )  # fmt: skip
    yield run
    run.close()


def test_a_run_holds_everything_to_repeat_it(made: Run, tmp_path: Path) -> None:
    again = open_run(made.folder)
    assert again.settings == SETTINGS
    fields = tomllib.loads((made.folder / "run.toml").read_text())
    assert fields["scene"]["path"] == "../small.ply"
    assert len(fields["scene"]["sha256"]) == 64
    assert fields["command"] == "advscene embed small.ply"
    assert fields["versions"]["numpy"] == np.__version__
    assert set(fields["embedding"]) == {"gray", "adversarial"}
    # the stage of an opened run is the one of the run that was made: same views, same pictures
    first, second = made.stage(threads=1), again.stage(threads=1)
    assert first.geometry == second.geometry
    for kind in ("clean", "gray", "adversarial", "overlay"):
        assert first.picture_fields(kind) == second.picture_fields(kind)
    assert second.pivot == (0.1, 0, 0.5)
    again.close()


def test_an_opened_run_looks_at_its_scene_as_it_was_made(made: Run) -> None:
    """Up axis and background may have been chosen for the run; the splat file knows neither."""
    again = open_run(made.folder)
    assert load_scene(again.scene_path).background != (0.2, 0.3, 0.4)
    assert again.scene.background == (0.2, 0.3, 0.4)
    assert again.scene.up == (0, 1, 0)
    assert again.adversarial.scene.background == (0.2, 0.3, 0.4)
    again.settings = replace(SETTINGS, stage=replace(SETTINGS.stage, up=(0, -1, 0)))
    again.__dict__.pop("scene")
    assert again.scene.up == (0, -1, 0)
    again.close()


def test_the_folder_can_move_with_its_scene(made: Run, tmp_path: Path) -> None:
    made.close()
    (tmp_path / "moved").mkdir()
    made.folder.rename(tmp_path / "moved" / "run")
    (tmp_path / "small.ply").rename(tmp_path / "moved" / "small.ply")
    run = open_run(tmp_path / "moved" / "run")
    assert len(run.scene.gaussians) == run.about["scene"]["gaussians"]
    run.close()


def test_a_changed_scene_is_refused_unless_told(made: Run, tmp_path: Path) -> None:
    path = tmp_path / "small.ply"
    path.write_bytes(path.read_bytes()[:-4] + b"\x00\x00\x00\x3f")
    run = open_run(made.folder)
    with pytest.raises(InputError, match="not the scene"):
        _ = run.scene
    run.close()
    allowed = open_run(made.folder, allow_changed_scene=True)
    changed = allowed.stage(threads=1)
    allowed.close()
    # scores of the changed scene have other keys than those of the old one
    assert changed.picture_fields("clean")["scene"] != made.about["scene"]["sha256"]


def test_a_missing_scene_is_named(made: Run, tmp_path: Path) -> None:
    (tmp_path / "small.ply").rename(tmp_path / "elsewhere.ply")
    run = open_run(made.folder)
    with pytest.raises(InputError, match=r"small\.ply is not there"):
        _ = run.scene
    run.close()
    found = open_run(made.folder, scene_path=tmp_path / "elsewhere.ply")
    assert found.scene.name
    found.close()


def test_other_settings_are_written(made: Run) -> None:
    made.update(replace(SETTINGS, reading=Reading("red board", tau=0.7)))
    again = open_run(made.folder)
    assert again.settings.reading.tau == 0.7
    again.close()
    quiet = open_run(made.folder, read_only=True)
    with pytest.raises(InputError, match="read-only"):
        quiet.update(SETTINGS)
    quiet.close()


def test_another_embedding_changes_pictures_not_views(made: Run, tmp_path: Path) -> None:
    before = made.stage(threads=1)
    edits = dict(made.adversarial.edits)
    edits["adversarial"] = replace(edits["adversarial"], added=edits["gray"].added)
    other = create_run(
        tmp_path / "other", replace(made.adversarial, edits=edits), tmp_path / "small.ply", SETTINGS,
        made.patch, made.target,
    )  # fmt: skip
    after = other.stage(threads=1)
    other.close()
    assert after.geometry == before.geometry
    kinds = after.kinds
    changed = {kind for kind in kinds if after.picture_fields(kind) != before.picture_fields(kind)}
    assert changed == {"adversarial"}


def test_creating_refuses_what_would_be_half_a_run(made: Run, tmp_path: Path) -> None:
    adversarial, target, patch = small_adversarial()
    with pytest.raises(InputError, match="new or empty folder"):
        create_run(made.folder, adversarial, tmp_path / "small.ply", SETTINGS, patch, target)
    bare = replace(adversarial, scene=replace(adversarial.scene, target=None))
    with pytest.raises(InputError, match="no target"):
        create_run(tmp_path / "other", bare, tmp_path / "small.ply", SETTINGS, patch)
    assert not (tmp_path / "other").exists()
    assert is_run(made.folder)
    assert not is_run(tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("not = toml = at all", "wanted a run file"),
        ("schema = 99", "found 99"),
        ("schema = 1\ncreated = ''\ncommand = ''\n", "missing or wrong field"),
    ],
)
def test_bad_run_files_are_one_sentence(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "run.toml").write_text(content)
    with pytest.raises(InputError, match=words) as caught:
        open_run(tmp_path)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "scores.sqlite").exists()


def test_no_run_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="found none"):
        open_run(tmp_path / "nothing")


def test_how_answers_are_read() -> None:
    reading = Reading("red board", tau=0.6)
    assert reading.criterion(None, "detector", 0.3) == Criterion(
        "localization", "red board", 0.3, 0.6
    )
    # a grounder states no confidence; its threshold is 0 and gamma plays no part
    assert reading.criterion(None, "grounder", 0.0).gamma == 0.5
    assert reading.criterion(None, "classifier").task == "untargeted"
    targeted = Reading("red board", target_label="wall")
    assert targeted.criterion(None, "classifier").task == "targeted"
    choice = SETTINGS.victims[0]
    both = SETTINGS.reading.criterion(choice, "detector", 0.5)
    assert (both.task, both.gamma) == ("vanishing", 0.3)
    assert SETTINGS.reading.criterion(SETTINGS.victims[1], "detector", 0.5).gamma == 0.4
    for wrong in (0.0, -1.0):  # was read as if nothing had been asked: with the victim's own
        with pytest.raises(InputError, match=r"gamma: wanted 0\.05 to 1"):
            Reading("red board", gamma=wrong).criterion(None, "detector", 0.3)


def test_victim_names() -> None:
    assert short_name("demo-detector") == "demo-detector"
    assert short_name("onnx:/a/b/yolox_nano.onnx?preset=yolox&labels=c.txt") == "yolox_nano"
    assert short_name("paligemma:/models/pg2") == "pg2"
    # all models of one server were called v1, and all factories make
    assert (
        short_name("api:http://127.0.0.1:8000/v1?model=Qwen/Qwen3-VL-2B&size=448") == "Qwen3-VL-2B"
    )
    assert short_name("api:http://127.0.0.1:8000/v1") == "v1"
    assert short_name("/a/b/models.py:make?size=3") == "models.make"
    assert short_name("pkg.models:make") == "pkg.models.make"
    with pytest.raises(InputError, match="two are called"):
        replace(SETTINGS, victims=(VictimChoice("a"), VictimChoice("b", name="a")))
