"""`advscene reconstruct` from the command line, and the page that shows a growing scene."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from app.commands.reconstruct import Reconstruct
from app.growing import GrowingPage
from scene.camera import Camera
from scene.capture import Capture, Frame
from scene.errors import InputError
from scene.gaussians import Gaussians
from scene.reconstruct.capture_folder import write_capture_folder
from scene.reconstruct.quality import Quality
from scene.reconstruct.train import Preview, Progress
from scene.render.api import make_renderer
from scene.scene import load_scene


def _place(n: int = 300) -> Gaussians:
    rng = np.random.default_rng(2)
    means = np.stack([rng.uniform(-2, 2, n), rng.uniform(-1.5, 1.5, n), rng.normal(0, 0.05, n)], 1)
    colors = np.sin(means[:, :1] * [2.0, 3.0, 1.0] + means[:, 1:2] * [1.0, -2.0, 2.0])
    return Gaussians(
        means, np.tile([1.0, 0, 0, 0], (n, 1)), np.full((n, 3), 0.15), np.full(n, 0.95),
        colors[:, None],
    )  # fmt: skip


@pytest.fixture(scope="module")
def capture() -> Capture:
    renderer = make_renderer(_place(), "cpu")
    frames = []
    for i in range(6):
        eye = [3 * np.sin(0.15 * i), 0.1 * i, -3 * np.cos(0.15 * i)]
        camera = Camera.look_at(eye, [0, 0, 0], [0, -1, 0], 64, 48, 50.0)
        rgb = np.clip(renderer.render(camera, (0.5, 0.5, 0.5)).rgb, 0, 1)
        pixels = np.round(rgb * 255).astype(np.uint8)
        frames.append(Frame(f"{i}", camera, pixels=pixels, held_out=i == 3))
    points = _place().means.astype(np.float64)
    return Capture(tuple(frames), points=points, point_colors=np.full((300, 3), 0.5, np.float32))


@pytest.fixture(scope="module")
def transforms(capture, tmp_path_factory):
    folder = tmp_path_factory.mktemp("capture")
    return write_capture_folder(capture, folder, 64, capture.points, capture.point_colors)


def _command(transforms, out, **options) -> Reconstruct:
    return Reconstruct(transforms, out, iterations=60, long_side=64, threads=1, **options)


def test_a_scene_with_its_cameras_and_both_decibels(transforms, tmp_path, capsys):
    out = tmp_path / "scene.ply"
    _command(transforms, out, json=True, exposure=True, sky_points=200).run()
    report = json.loads(capsys.readouterr().out)
    assert (report["photos"], report["held out"], report["iterations"]) == (5, 1, 60)
    trainer = report["held-out PSNR, trainer (dB)"]
    assert report["held-out PSNR, saved file (dB)"] == pytest.approx(trainer, abs=0.02)
    assert "held-out PSNR with exposure fitted to the held-out photos themselves (dB)" in report
    assert "of them sky" in report["start"] and report["hidden"].endswith("kept")
    scene = load_scene(out)
    assert len(scene.gaussians) == report["Gaussians"] and len(scene.cameras) == 6
    assert not out.with_name("scene.ply.checkpoint").exists()


def test_stopped_by_the_page_and_taken_up_again(transforms, tmp_path, capsys, monkeypatch):
    out, pages = tmp_path / "scene.ply", []

    class Pressed(GrowingPage):
        """Its stop button is pressed from the start."""

        def __init__(self, capture, port):
            super().__init__(capture, port=port)
            pages.append(self)
            self._stop.set()

        def wait(self):
            pass

    monkeypatch.setattr("app.growing.GrowingPage", Pressed)
    _command(transforms, out, view=True, port=8497).run()
    said = capsys.readouterr().out
    assert "stopped: at 20 of 60; the same command goes on from there" in said
    assert f"the growing scene: http://127.0.0.1:{pages[0].port}" in said
    assert out.with_name("scene.ply.checkpoint").exists()
    assert len(load_scene(out).gaussians) > 0
    _command(transforms, out, json=True).run()
    report = json.loads(capsys.readouterr().out)
    assert report["iterations"] == 60 and "stopped" not in report
    assert not out.with_name("scene.ply.checkpoint").exists()


def test_the_page_shows_what_there_is(capture):
    page = GrowingPage(capture, port=8497)
    try:
        page.tell(Progress(40, 100, 300, 0.1234, 3.4))
        page.show(Preview(40, _place(), Quality(21.5, 0.8, (("3", 21.5),))))
        page.show(Preview(80, _place(), Quality(23.25, 0.8, (("3", 23.25),))))
        assert page._status.value == "iteration 40 of 100, 300 Gaussians, loss 0.1234, 3 s"
        assert page._shown.value == "300 of 300 Gaussians"
        trace = page._plot.figure.data[0]
        assert list(trace.x) == [40, 80] and list(trace.y) == [21.5, 23.25]
        assert page._plot.figure.layout.title.text == "Held-out photos (1): 23.25 dB"
        assert not page.stop_wanted
        page._stop_clicked(SimpleNamespace())
        assert page.stop_wanted
        page.finish("saved")
        assert page._closer.visible and not page._button.visible
    finally:
        page.close()


def test_without_held_out_photos_no_decibels_are_shown(capture):
    frames = tuple(replace(frame, held_out=False) for frame in capture.frames)
    page = GrowingPage(replace(capture, frames=frames), port=8497)
    try:
        page.show(Preview(40, _place(), Quality(float("nan"), float("nan"), ())))
        assert len(page._plot.figure.data[0].x or ()) == 0
    finally:
        page.close()


def test_what_cannot_be_is_one_sentence(transforms, tmp_path):
    out = tmp_path / "scene.ply"
    with pytest.raises(InputError, match="wanted nerfstudio=PATH, found gsplat"):
        _command(transforms, out, with_="gsplat").run()
    with pytest.raises(InputError, match="wanted a Python environment with ns-train"):
        _command(transforms, out, with_=f"nerfstudio={tmp_path}").run()
    with pytest.raises(InputError, match=r"wanted \.ply"):
        _command(transforms, tmp_path / "scene.obj").run()
