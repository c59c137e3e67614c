"""The viewer in a real headless Chromium, on a small scene with a stand-in victim."""

from __future__ import annotations

import io
import time

import numpy as np
import pytest
from browser_tools import (
    MARKS,
    VIEW,
    WAIT_MS,
    again_until,
    choose,
    embedded_session,
    new_page,
    open_folder,
    open_page,
    press,
    tab,
    text_of,
    until,
    upload,
)
from viewer_fakes import SIGN, small_scene

from app.scoring import SweepChoice
from app.viewer import serve
from envelope.condition import Condition
from scene.gaussians import quaternions_to_matrices
from scene.scene import save_scene

pytestmark = MARKS


@pytest.fixture(scope="module")
def viewer(tmp_path_factory):
    """A served session with an embedded patch and a swept dome of 3 x 3 cells."""
    session = embedded_session(tmp_path_factory.mktemp("browser"))
    session.scoring.start(SweepChoice({"azimuth_deg": 3, "radius": 3}, 1).plan())
    assert session.scoring.service.wait(120)
    shown = serve(session, port=18400, display_budget=3000, block=False)
    yield shown
    shown.stop()


@pytest.fixture(scope="module")
def page(browser, viewer):
    page = new_page(browser, viewer)
    yield page
    page.close()


def _pixels(page, clip) -> np.ndarray:
    from PIL import Image

    picture = page.screenshot(clip=clip, timeout=WAIT_MS)
    return np.asarray(Image.open(io.BytesIO(picture)).convert("RGB"))


def _slider(page, label: str):
    """The slider in the row that carries `label`."""
    return page.get_by_role("slider").nth(list(_rows(page)).index(label))


def _rows(page) -> list[str]:
    from app.panels.sweep import LABELS

    return list(LABELS.values())


def _field(page, label: str) -> str:
    """The number beside a slider of the Sweep tab."""
    row = page.get_by_text(label, exact=True).first.locator("xpath=ancestor::*[.//input][1]")
    return row.locator("input").last.input_value()


def test_the_page_shows_the_tabs_and_the_docks(page):
    for name in ("Scene", "Patch", "Sweep", "Victims", "Runs", "Envelope", "Curves"):
        assert page.get_by_role("tab", name=name, exact=True).count() == 1
    assert page.get_by_text("What the victim sees").count() == 1
    assert page.get_by_text("small street").count() + page.locator("input").count() > 0


def test_the_canvas_shows_the_red_sign(page, viewer):
    clip = {"x": 345, "y": 160, "width": 400, "height": 500}

    def red() -> bool:
        picture = _pixels(page, clip).astype(int)
        red = (picture[..., 0] > picture[..., 1] + 60) & (picture[..., 0] > picture[..., 2] + 60)
        return len(np.unique(picture.reshape(-1, 3), axis=0)) > 200 and red.sum() > 300

    (client,) = viewer.server.get_clients().values()
    assert until(red, found=lambda: _where(page, client))


def test_the_heat_map_is_drawn(page):
    page.get_by_role("tab", name="Envelope", exact=True).click()
    page.locator(".js-plotly-plot .heatmaplayer image, .js-plotly-plot .hm").first.wait_for()


def test_yaw_by_keyboard_brings_a_new_scored_render(page, viewer):
    page.get_by_role("tab", name="Sweep", exact=True).click()
    slider = _slider(page, "yaw °")
    slider.focus()
    before = page.locator("img").evaluate_all(
        "all => all.map(i => i.src.length + i.src.slice(-60))"
    )
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    until(lambda: viewer.session.condition == Condition(yaw_deg=2.0))

    def scored():
        view = viewer.session.view
        return view is not None and view.complete and view.condition.yaw_deg == 2.0 and view.said

    assert until(scored)
    assert until(
        lambda: (
            page.locator("img").evaluate_all("all => all.map(i => i.src.length + i.src.slice(-60))")
            != before
        )
    )


def test_a_dome_marker_that_is_clicked_sets_every_slider(page, viewer):
    page.get_by_role("tab", name="Sweep", exact=True).click()
    (client,) = viewer.server.get_clients().values()
    index, x, y = until(
        lambda: _clickable_marker(page, viewer, client), found=lambda: _where(page, client)
    )
    wanted = viewer.viewport.dome.conditions[index]
    again_until(lambda: page.mouse.click(x, y), lambda: viewer.session.condition == wanted)
    shown = {"azimuth °": wanted.azimuth_deg, "radius ×": wanted.radius, "yaw °": 0.0}
    until(lambda: all(abs(float(_field(page, k)) - v) < 0.006 for k, v in shown.items()))
    # and the browser flew there
    center = viewer.session.camera(wanted).center
    until(lambda: np.allclose(client.camera.position, center, atol=1e-3))


def _clickable_marker(page, viewer, client):
    """(index, x, y) of the dome marker nearest to the middle of the free part of the canvas."""
    dome = viewer.viewport.dome
    # a little inside the marker, which is a pyramid opening along the camera's view
    forward = quaternions_to_matrices(dome.wxyzs)[:, :, 2]
    pixels, depth = _on_page(page, client, dome.positions + 0.02 * viewer.viewport.unit * forward)
    free = (depth > 0.3 * viewer.viewport.unit) & (pixels[:, 0] > 360) & (pixels[:, 0] < 740)
    free &= (pixels[:, 1] > 170) & (pixels[:, 1] < 680)
    if not free.any():
        return None
    away = np.where(free, np.linalg.norm(pixels - [550, 400], axis=1), np.inf)
    index = int(np.argmin(away))
    return index, float(pixels[index, 0]), float(pixels[index, 1])


def _where(page, client) -> str:
    """What a browser's camera is, for the message of a failing test."""
    view = client.camera
    box = page.locator("canvas[data-engine]").bounding_box()
    return f"at {view.position}, to {view.look_at}, up {view.up_direction}, canvas {box}"


def _on_page(page, client, points) -> tuple[np.ndarray, np.ndarray]:
    """Where a browser shows world points (N, 3): page pixels (N, 2) and depths (N,)."""
    view = client.camera
    rotation = quaternions_to_matrices(np.asarray(view.wxyz, np.float32)[None])[0]
    local = (np.asarray(points) - view.position) @ rotation
    box = page.locator("canvas[data-engine]").bounding_box()
    focal = 0.5 * box["height"] / np.tan(view.fov / 2)
    middle = [box["x"] + box["width"] / 2, box["y"] + box["height"] / 2]
    return local[:, :2] / local[:, 2:] * focal + middle, local[:, 2]


def test_the_victims_eye_fills_the_canvas_with_the_scored_frame(page, viewer):
    viewer.go_to(Condition())
    until(lambda: viewer.session.view.complete and viewer.session.view.condition == Condition())
    clip = {"x": 345, "y": 160, "width": 400, "height": 500}
    viewer.set_victims_eye(True)
    # the frame is letterboxed: dark bars above and below, the red sign in the middle
    bar, middle = (slice(0, 15), slice(100, 300)), (slice(100, 300), slice(100, 300))

    def framed() -> bool:
        picture = _pixels(page, clip).astype(int)
        red = (picture[..., 0] > picture[..., 1] + 60) & (picture[..., 0] > picture[..., 2] + 60)
        return picture[bar].max() < 60 and red[middle].sum() > 300

    assert until(framed)
    viewer.set_victims_eye(False)
    until(lambda: _pixels(page, clip)[bar].max() > 100)


def test_a_click_places_the_patch_and_embed_embeds_it(page, viewer):
    work = viewer.session.patchwork
    before, first = work.placement, work.adversarial
    (client,) = viewer.server.get_clients().values()
    tab(page, "Patch")
    _fly_to_anchor(viewer, client)
    press(
        page, "Place by click", page.get_by_role("button", name="Click the surface now").is_visible
    )
    wanted = SIGN + np.array([0.12, 0.0, -0.08])
    ((x, y),), _ = _on_page(page, client, wanted[None])
    again_until(lambda: page.mouse.click(x, y), lambda: work.placement is not before)
    assert work.placement.center == pytest.approx(wanted, abs=0.02)
    assert not work.up_to_date
    page.get_by_role("button", name="Place by click").wait_for()
    choose(page, "Iterations", "120 (preview)")
    press(page, "Embed", page.get_by_role("button", name="Stop and keep").is_visible)
    until(lambda: work.adversarial is not first and work.up_to_date)
    page.get_by_role("button", name="Embed", exact=True).wait_for()
    page.get_by_role("cell", name="anchor patch", exact=True).wait_for()
    assert page.get_by_role("columnheader", name="gray", exact=True).count() == 1
    assert "not embedded yet" not in text_of(page, "Placed")


def test_handles_slide_the_patch_along_its_surface_and_undo_takes_it_back(page, viewer):
    work = viewer.session.patchwork
    (client,) = viewer.server.get_clients().values()
    tab(page, "Patch")
    _fly_to_anchor(viewer, client)
    page.get_by_text("Drag handles", exact=True).click()
    until(lambda: viewer.viewport.gizmo.enabled)
    before = work.placement
    reach = 0.9 * max(before.width, before.height)
    tip = before.center + 0.6 * reach * before.right
    (start, end), _ = _on_page(page, client, np.stack([tip, tip + 0.1 * before.right]))
    time.sleep(1.0)

    def drag() -> None:
        page.mouse.move(*start)
        page.mouse.down()
        page.mouse.move(*(0.5 * (start + end)), steps=4)
        page.mouse.move(*end, steps=4)
        page.mouse.up()

    after = again_until(drag, lambda: work.placement is not before and work.placement)
    moved = after.center - before.center
    assert moved @ before.right == pytest.approx(0.1, abs=0.03)
    assert abs(moved @ before.outward) < 1e-6
    assert after.in_plane_deg == pytest.approx(before.in_plane_deg, abs=1e-3)
    page.get_by_text("Drag handles", exact=True).click()
    page.get_by_role("button", name="Undo", exact=True).click()
    until(lambda: work.placement is before)


def _fly_to_anchor(viewer, client) -> None:
    viewer.fly_to_anchor(client)
    center = viewer.session.anchor_camera.center
    until(lambda: np.allclose(client.camera.position, center, atol=1e-3))


def test_capture_cameras_are_flown_through_and_one_becomes_the_anchor(page, viewer):
    (client,) = viewer.server.get_clients().values()
    cameras = viewer.session.scene.cameras
    tab(page, "Scene")
    onwards = page.get_by_role("button", name="next", exact=True)
    open_folder(page, "Cameras", onwards)
    again_until(
        lambda: text_of(page, "Camera") == "1: photo_0" and onwards.click(),
        lambda: text_of(page, "Camera") == "2: photo_1",
    )
    center = cameras[1].camera.center
    until(
        lambda: np.allclose(client.camera.position, center, atol=1e-3),
        found=lambda: f"{_where(page, client)}, {text_of(page, 'Camera')}",
    )
    before = viewer.session.anchor_camera
    wanted = pytest.approx(cameras[1].camera.center, abs=1e-6)
    press(page, "Use as anchor", lambda: viewer.session.anchor_camera.center == wanted)
    tab(page, "Patch")
    page.get_by_role("button", name="Undo", exact=True).click()
    until(lambda: viewer.session.anchor_camera.center == pytest.approx(before.center, abs=1e-9))
    until(lambda: viewer.session.scoring is not None)


def test_a_view_is_saved_and_gone_back_to(page, viewer):
    viewer.go_to(Condition(azimuth_deg=15, yaw_deg=-4))
    tab(page, "Sweep")
    press(page, "save", lambda: viewer.session.saved_views.names() == ("azimuth 15, yaw -4",))
    viewer.go_to(Condition())
    page.get_by_role("button", name="next", exact=True).click()
    until(lambda: viewer.session.condition == Condition(azimuth_deg=15, yaw_deg=-4))
    until(lambda: _field(page, "azimuth °") == "15")


def test_a_reload_loses_nothing(page, viewer):
    viewer.go_to(Condition(azimuth_deg=-30, elevation_deg=10, focal=1.5))
    open_page(page, viewer)
    page.get_by_role("tab", name="Sweep", exact=True).click()
    until(lambda: _field(page, "azimuth °") == "-30")
    assert _field(page, "elevation °") == "10" and _field(page, "focal ×") == "1.5"
    assert page.get_by_role("tab", name="Envelope", exact=True).count() == 1


def test_a_second_browser_keeps_its_own_camera(browser, page, viewer):
    (first,) = viewer.server.get_clients().values()
    second_page = browser.new_page(viewport=VIEW)
    second_page.set_default_timeout(WAIT_MS)
    try:
        second_page.goto(f"http://127.0.0.1:{viewer.server.get_port()}")
        clients = until(
            lambda: len(viewer.server.get_clients()) == 2 and viewer.server.get_clients()
        )
        second = next(c for i, c in clients.items() if i != first.client_id)
        before = np.array(first.camera.position)
        viewer.fly_to_anchor(second)
        until(
            lambda: np.allclose(
                second.camera.position, viewer.session.anchor_camera.center, atol=1e-3
            )
        )
        assert np.allclose(first.camera.position, before)
    finally:
        second_page.close()


def test_an_uploaded_scene_opens_and_a_bad_one_is_one_sentence(page, viewer, tmp_path):
    run = viewer.session.scoring.run.folder
    save_scene(small_scene(200), tmp_path / "brought along.ply")
    (tmp_path / "bad.ply").write_bytes(b"ply\nformat ascii 1.0\nend_header\n")
    tab(page, "Scene")
    open_folder(page, "Open", page.get_by_role("button", name="Upload a splat file"))
    upload(page, "Upload a splat file", tmp_path / "bad.ply")
    until(lambda: "bad.ply" in text_of(page, "Problem"))
    assert viewer.session.scoring.run.folder == run
    upload(page, "Upload a splat file", tmp_path / "brought along.ply")
    until(lambda: len(viewer.session.scene.gaussians) == 600)
    until(lambda: text_of(page, "Scene") == "brought along")
    assert viewer.session.path.parent.parent.name == "uploads"


def test_no_script_failed_on_the_page(page):
    assert page.errors == []
