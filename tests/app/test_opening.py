"""The demo run that ships stays as it is; work goes on in a copy, which later starts take up."""

from __future__ import annotations

import numpy as np
import pytest

from app import opening
from app.opening import open_scene_or_run, upload_path
from scene.errors import InputError

shipped = pytest.mark.skipif(
    not (opening.DEMO_RUN / "run.toml").is_file(), reason="the demo run is not in assets"
)


@shipped
def test_the_demo_opens_in_a_copy_that_is_taken_up_again(tmp_path):
    before = (opening.DEMO_RUN / "run.toml").read_bytes()
    files = sorted(p.name for p in opening.DEMO_RUN.iterdir())
    first = open_scene_or_run(None, tmp_path)
    assert first.run.folder == tmp_path / "demo"
    first.run.close()
    again = open_scene_or_run(None, tmp_path)
    assert again.run.folder == tmp_path / "demo"
    again.run.close()
    by_name = open_scene_or_run(tmp_path / "demo", tmp_path)
    assert by_name.path.samefile(opening.DEMO_SCENE)
    by_name.run.close()
    assert (opening.DEMO_RUN / "run.toml").read_bytes() == before
    assert sorted(p.name for p in opening.DEMO_RUN.iterdir()) == files
    # a copy of an older demo is left alone and a new one made
    about = tmp_path / "demo" / "run.toml"
    text = about.read_text()
    line = next(line for line in text.splitlines() if line.startswith("created"))
    # a run whose scene moved opens where the scene is named
    about.write_text(text.replace("street.compressed.ply", "gone.ply"))
    with pytest.raises(InputError, match="--scene"):
        open_scene_or_run(tmp_path / "demo", tmp_path)
    moved = open_scene_or_run(tmp_path / "demo", tmp_path, opening.DEMO_SCENE)
    assert moved.path.samefile(opening.DEMO_SCENE)
    moved.run.close()
    with pytest.raises(InputError, match="goes with a run folder"):
        open_scene_or_run(opening.DEMO_SCENE, tmp_path, opening.DEMO_SCENE)
    about.write_text(text.replace(line, 'created = "2020-01-01T00:00:00Z"'))
    other = open_scene_or_run(None, tmp_path)
    assert other.run.folder == tmp_path / "demo-2"
    other.run.close()


def test_a_missing_demo_names_the_command(monkeypatch, tmp_path):
    monkeypatch.setattr(opening, "DEMO_SCENE", tmp_path / "absent.ply")
    with pytest.raises(InputError, match="advscene make-demo"):
        open_scene_or_run(None, tmp_path)


def test_uploads_keep_their_name_and_stay_apart(tmp_path):
    first = upload_path("../../etc/my street.compressed.ply", tmp_path)
    assert first.name == "my street.compressed.ply"
    assert tmp_path / "uploads" in first.parents and first.parent.is_dir()
    assert upload_path("my street.compressed.ply", tmp_path).parent != first.parent


@pytest.mark.real
def test_a_scene_that_is_a_folder_opens_and_carries_a_run(real_data, tmp_path):
    from app.embedding import EmbedOrder
    from app.session import Session
    from patching.patch import Patch

    session = Session.open(real_data / "splats" / "playbot_sog", tmp_path / "runs")
    for spec in session.victims.chosen:
        session.victims.leave_out(spec)
    assert len(session.scene.gaussians) == 31_000 and session.scoring is None
    camera = session.anchor_camera
    session.set_target(
        camera, (0.3 * camera.width, 0.2 * camera.height, 0.7 * camera.width, 0.8 * camera.height)
    )
    session.gallery.add(Patch.from_rgb(np.random.default_rng(0).random((16, 16, 3)), "dots"))
    session.patchwork.choose("dots")
    direction = camera.rays(np.array([camera.width / 2, camera.height / 2]))
    session.patchwork.place_along_ray(camera.center, direction, 0.2, 0.0)
    session.embed(EmbedOrder(iterations=2, figures=False))
    folder = session.scoring.run.folder
    session.close()
    again = Session.open(folder, tmp_path / "runs")
    assert again.kinds() == ("clean", "adversarial", "gray") and again.scene.name == "playbot_sog"
    again.close()


@pytest.mark.real
def test_a_folder_that_is_neither_scene_nor_run_is_one_sentence(real_data, tmp_path):
    for folder in (real_data / "splats" / "hamburger", tmp_path):
        with pytest.raises(InputError, match="is a folder"):
            open_scene_or_run(folder, tmp_path / "runs")
