"""The street corner: its truth, its cameras, its files, and photos of random ones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("embreex")

from PIL import Image

from scene.camera import Camera
from scene.captures import load_capture
from scene.worlds import random_photos
from scene.worlds.cameras import orbit_camera
from scene.worlds.capture_files import CaptureSettings, write_capture
from scene.worlds.settings import SignPose, StreetSettings, random_settings
from scene.worlds.street import StreetWorld

CHEAP = replace(StreetSettings(), bake_rays=2, bake_bounces=1)


@pytest.fixture(scope="module")
def street() -> StreetWorld:
    return StreetWorld(CHEAP)


@pytest.fixture(scope="module")
def crooked() -> StreetWorld:
    pose = SignPose(width=0.9, yaw_deg=14, tilt_deg=-7, roll_deg=9, height=2.3)
    return StreetWorld(replace(CHEAP, sign=pose))


def sign_samples(street: StreetWorld, camera: Camera, samples: int) -> np.ndarray:
    """(n, 2) pixel positions of samples that see the sign's face."""
    surfaces = street.world.surface_map(camera, samples)
    rows, columns = np.nonzero(surfaces == street.world.names.index(street.sign.surface))
    return np.stack([columns + 0.5, rows + 0.5], axis=1) / samples


@pytest.mark.parametrize("azimuth", [-50, 0, 40])
def test_the_outline_bounds_what_is_seen_of_the_sign(
    street: StreetWorld, crooked: StreetWorld, azimuth: float
) -> None:
    for world in (street, crooked):
        camera = orbit_camera(world.sign.center, 2.5, azimuth, 1.9, (240, 180))
        seen = sign_samples(world, camera, 4)
        corners, _ = camera.project(world.outline())
        assert np.abs(seen.min(axis=0) - corners.min(axis=0)).max() < 0.3
        assert np.abs(seen.max(axis=0) - corners.max(axis=0)).max() < 0.3


def test_the_target_box_encloses_the_sign_and_little_more(crooked: StreetWorld) -> None:
    box = crooked.target_box(margin=0.015)
    assert box.label == "stop sign"
    assert np.allclose(box.axes @ box.axes.T, np.eye(3))
    local = (crooked.outline() - box.center) @ box.axes.T
    assert (np.abs(local) <= box.half_sizes).all()
    assert np.abs(local).max(axis=0)[:2] == pytest.approx([0.45, 0.45], abs=0.01)
    camera = orbit_camera(crooked.sign.center, 2.2, 10, 2.0, (240, 180))
    signs = np.array([[a, b, c] for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)])
    corners, _ = camera.project(box.center + (signs * box.half_sizes) @ box.axes)
    seen = sign_samples(crooked, camera, 3)
    assert (seen >= corners.min(axis=0)).all() and (seen <= corners.max(axis=0)).all()
    grown = np.ptp(corners, axis=0) / np.ptp(seen, axis=0)
    assert grown.max() < 1.2  # a square around an octagon that is rolled by 9 degrees


def test_the_sign_frame_reads_left_to_right(street: StreetWorld) -> None:
    sign = street.sign
    assert sign.width == 0.75 and sign.center[2] == pytest.approx(2.1)
    assert np.allclose(np.cross(sign.right, sign.down), -sign.normal)
    assert sign.normal @ (np.array([0, -3, 2.1]) - sign.center) > 0
    camera = orbit_camera(sign.center, 2.0, 0, 2.1, (160, 120))
    x, _ = camera.project(np.stack([sign.center, sign.center + 0.1 * sign.right]))
    assert x[1, 0] > x[0, 0]


def test_a_sign_decal_lies_on_the_sign(crooked: StreetWorld) -> None:
    decal = crooked.sign_decal(np.zeros((10, 20, 3), np.float32), 0.3, 0.1, -0.05)
    corners = decal.corners()
    assert np.allclose((corners - crooked.sign.center) @ crooked.sign.normal, 0, atol=1e-12)
    assert np.linalg.norm(corners[1] - corners[0]) == pytest.approx(0.3)
    assert np.linalg.norm(corners[3] - corners[0]) == pytest.approx(0.15)
    camera = orbit_camera(crooked.sign.center, 2.0, 15, 2.0, (160, 120))
    clean, patched = crooked.photo_pair(camera, decal, 2)
    rows, columns = np.nonzero(np.abs(clean - patched).max(axis=2) > 0)
    projected, _ = camera.project(corners)
    found = np.array([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])
    wanted = np.concatenate([projected.min(axis=0), projected.max(axis=0)])
    assert np.abs(found - wanted).max() <= 1.0


def test_capture_cameras_stand_in_the_open_and_see_the_sign(street: StreetWorld) -> None:
    cameras = street.capture_cameras((96, 72))
    assert len(cameras) == 60 and len({name for name, _, _ in cameras}) == 60
    held_out = [camera for _, camera, flag in cameras if flag]
    assert 6 <= len(held_out) <= 8
    for name, camera, _ in cameras:
        depth = street.world.depth(camera)
        assert depth.min() > 0.6, name
        box = sign_samples(street, camera, 1)
        assert len(box) > 20, name
    # the sweep's range lies inside what was photographed
    center = street.sign.center
    offsets = np.array([camera.center - center for _, camera, _ in cameras])
    azimuths = np.degrees(np.arctan2(offsets[:, 0], -offsets[:, 1]))
    distances = np.linalg.norm(offsets, axis=1)
    assert azimuths.min() < -65 and azimuths.max() > 65
    assert distances.min() < 1.6 and distances.max() > 6.5
    held = np.array([camera.center - center for camera in held_out])
    assert np.abs(np.degrees(np.arctan2(held[:, 0], -held[:, 1]))).max() < 65


def test_surface_points_lie_on_surfaces_or_on_the_sky(street: StreetWorld) -> None:
    points, colors = street.surface_points(600, seed=1)
    assert points.shape == colors.shape == (600, 3)
    assert colors.min() >= 0 and colors.max() <= 1
    far = np.linalg.norm(points, axis=1) > 120
    assert 0.02 < far.mean() < 0.5
    near = points[~far]
    assert (near[:, 2] > -0.1).all() and (near[:, 2] < 45).all()
    again, _ = street.surface_points(600, seed=1)
    assert np.array_equal(points, again)


def test_a_capture_is_written_read_and_resumed(tmp_path: Path) -> None:
    settings = CaptureSettings(size=(40, 30), samples_per_axis=1, points=200, processes=1)
    seen: list[tuple[int, int]] = []
    file = write_capture(tmp_path, CHEAP, settings, lambda done, total: seen.append((done, total)))
    assert seen[0] == (1, 60) and seen[-1] == (60, 60)
    capture = load_capture(file)
    truth = json.loads((tmp_path / "truth.json").read_text())
    assert len(capture.frames) == 60 and len(capture.points) == 200
    assert capture.up == pytest.approx((0, 0, 1), abs=0.02)
    for frame in capture.frames:
        name = Path(frame.name).stem
        wanted = Camera.from_dict(truth["cameras"][name])
        assert np.allclose(frame.camera.camera_from_world, wanted.camera_from_world, atol=1e-9)
        assert np.allclose(frame.camera.K, wanted.K)
    world = StreetWorld(CHEAP, np.load(tmp_path / "light.npy"))
    frame = capture.frames[7]
    assert np.abs(frame.load_image() - world.photo(frame.camera, 1)).max() < 0.5 / 255 + 1e-6
    # a photo that is missing is taken again; the others are left alone
    photos = sorted((tmp_path / "images").iterdir())
    photos[3].unlink()
    photos[5].write_bytes(photos[6].read_bytes())
    seen.clear()
    write_capture(tmp_path, CHEAP, settings, lambda done, total: seen.append((done, total)))
    assert seen == [(60, 60)]
    assert photos[3].exists() and photos[5].read_bytes() == photos[6].read_bytes()
    # another recipe starts over
    other = replace(CHEAP, sign=SignPose(width=0.6))
    seen.clear()
    write_capture(tmp_path, other, settings, lambda done, total: seen.append((done, total)))
    assert len(seen) == 60
    assert photos[5].read_bytes() != photos[6].read_bytes()
    assert Image.open(photos[5]).size == (40, 30)


@pytest.fixture
def cheap_random_streets(monkeypatch: pytest.MonkeyPatch) -> None:
    made: dict[int, StreetWorld] = {}

    def make(seed: int) -> StreetWorld:
        if seed not in made:
            made[seed] = StreetWorld(replace(random_settings(seed), bake_rays=1, bake_bounces=1))
        return made[seed]

    monkeypatch.setattr(random_photos, "make_street", make)


@pytest.mark.usefixtures("cheap_random_streets")
def test_random_photos_are_functions_of_seed_and_index_with_tight_boxes() -> None:
    size = (96, 72)
    first = {i: random_photos.random_street_photo(5, i, size) for i in range(12)}
    again, boxes = random_photos.random_street_photo(5, 7, size)
    assert np.array_equal(again, first[7][0]) and boxes == first[7][1]
    assert not np.array_equal(first[0][0], first[1][0])
    labels = [label for _, found in first.values() for label, _ in found]
    assert labels.count("stop sign") >= 5
    for photo, found in first.values():
        assert photo.shape == (72, 96, 3) and photo.dtype == np.uint8
        for _, (x0, y0, x1, y1) in found:
            assert 0 <= x0 < x1 <= 96 and 0 <= y0 < y1 <= 72
            assert y1 - y0 >= 3


def test_boxes_bound_the_visible_part_only(street: StreetWorld) -> None:
    camera = orbit_camera(street.sign.center, 2.5, 0, 2.1, (160, 120))
    whole = random_photos.sign_boxes(street, camera, street.world.surface_map(camera, 4), 4)
    assert [label for label, _ in whole] == ["stop sign"]
    corners, _ = camera.project(street.outline())
    wanted = np.concatenate([corners.min(axis=0), corners.max(axis=0)])
    assert np.abs(np.array(whole[0][1]) - wanted).max() < 0.3
    # moved so that the picture's right edge cuts the sign: 40 % is left, then 10 %
    for share, count in ((0.4, 1), (0.1, 0)):
        K = camera.K.copy()
        K[0, 2] += 160 - (wanted[0] + share * (wanted[2] - wanted[0]))
        cut = Camera(camera.camera_from_world, K, 160, 120)
        boxes = random_photos.sign_boxes(street, cut, street.world.surface_map(cut, 4), 4)
        assert len(boxes) == count
        if count:
            assert boxes[0][1][2] == 160.0


def test_settings_are_functions_of_the_seed() -> None:
    assert random_settings(3) == random_settings(3)
    assert random_settings(3) != random_settings(4)
    labels = {sign.label for seed in range(40) for sign in random_settings(seed).other_signs}
    assert labels == {
        "yield sign", "speed limit sign", "no entry sign", "parking sign", "crossing sign"
    }  # fmt: skip
