"""Start points: matches that obey the known poses, tracks triangulated, first Gaussians."""

import sys
from dataclasses import replace

import numpy as np
import pytest

from scene.camera import Camera
from scene.capture import Capture, Frame
from scene.captures.load import load_capture
from scene.errors import InputError
from scene.reconstruct.matching import (
    Features,
    epipolar_distances,
    match_all,
    match_pair,
    photo_pairs,
)
from scene.reconstruct.photos import load_photos
from scene.reconstruct.settings import ReconstructSettings
from scene.reconstruct.start import StartPoints, colors_in_photos, first_parameters, start_points
from scene.reconstruct.tracks import triangulate
from scene.reconstruct.train import reconstruct


def _cameras(count: int = 6) -> list[Camera]:
    """On an arc of 30 degrees around the origin; not square, principal point off centre."""
    cameras = []
    for i in range(count):
        a = np.radians(-15 + 30 * i / (count - 1))
        eye = [4 * np.sin(a), 0.5 * i / count, -4 * np.cos(a)]
        camera = Camera.look_at(eye, [0, 0, 0], [0, -1, 0], 320, 200, 40.0)
        K = camera.K.copy()
        K[:2, 2] += [7.0, -5.0]
        cameras.append(replace(camera, K=K))
    return cameras


def _features(points: np.ndarray, noise_px: float = 0.0) -> list[Features]:
    """All points seen by all cameras, each with a descriptor of its own, in another order."""
    rng = np.random.default_rng(0)
    descriptors = rng.random((len(points), 128)).astype(np.float32) ** 4
    descriptors /= np.linalg.norm(descriptors, axis=1, keepdims=True)
    found = []
    for camera in _cameras():
        order = rng.permutation(len(points))
        xy, _ = camera.project(points[order])
        xy = xy + rng.normal(0, noise_px, xy.shape)
        colors = np.stack([order, order, order], axis=1).astype(np.float32)
        found.append(Features(camera, xy, descriptors[order], colors))
    return found


@pytest.fixture
def points() -> np.ndarray:
    return np.random.default_rng(1).uniform(-0.6, 0.6, (60, 3))


def test_epipolar_distance_is_the_shift_across_the_line(points):
    first, second = _cameras()[0], _cameras()[4]
    a, _ = first.project(points)
    b, _ = second.project(points)
    assert epipolar_distances(first, second, a, b).max() < 1e-9
    # cameras almost side by side: epipolar lines are nearly level, so a shift of 6 px down
    # is shared between both pictures as 6 / sqrt(2)
    moved = epipolar_distances(first, second, a, b + np.array([0.0, 6.0]))
    np.testing.assert_allclose(moved, 6 / np.sqrt(2), rtol=0.05)


def test_matches_are_the_same_points(points):
    first, second = _features(points)[:2]
    pairs = match_pair(first, second)
    assert len(pairs) == len(points)
    np.testing.assert_array_equal(first.colors[pairs[:, 0]], second.colors[pairs[:, 1]])
    # one keypoint moved off its epipolar line is not matched
    shifted = second.xy.copy()
    shifted[pairs[0, 1]] += [0.0, 9.0]
    assert len(match_pair(first, replace(second, xy=shifted))) == len(points) - 1
    none = replace(second, xy=second.xy[:0], descriptors=second.descriptors[:0])
    assert match_pair(first, none).shape == (0, 2)


def test_look_alikes_are_not_matched(points):
    first, second = _features(points)[:2]
    twice = second.descriptors.copy()
    twice[1] = twice[0]
    pairs = match_pair(first, replace(second, descriptors=twice))
    assert not np.isin(pairs[:, 1], [0, 1]).any()


def test_tracks_become_the_points_they_were(points):
    features = _features(points, noise_px=0.2)
    result = triangulate(features, match_all(features))
    numbers = result.colors[:, 0].astype(int)
    assert sorted(numbers) == list(range(len(points)))
    # 0.2 px of noise at a focal length of 275 px, rays 30 degrees apart: about 3 mm, 10 in depth
    np.testing.assert_allclose(result.points, points[numbers], atol=0.03)
    assert np.abs(result.points - points[numbers]).mean() < 0.005
    assert 0.1 < result.errors.mean() < 0.4


def test_a_wrong_observation_is_dropped_from_its_track(points):
    features = _features(points)
    matches = match_all(features)
    xy = features[3].xy.copy()
    xy[5] += [40.0, 0.0]
    features[3] = replace(features[3], xy=xy)
    result = triangulate(features, matches)
    numbers = result.colors[:, 0].astype(int)
    np.testing.assert_allclose(result.points, points[numbers], atol=1e-6)


def test_pairs_are_neighbours_that_look_the_same_way():
    cameras = _cameras(3)
    back = Camera.look_at([0, 0, 4], [0, 0, 0], [0, -1, 0], 320, 200, 40.0)
    assert photo_pairs([*cameras, back]) == [(0, 1), (0, 2), (1, 2)]


def _capture(points=None, colors=None) -> Capture:
    """Photos whose color is known everywhere: left half red, right half blue."""
    frames = []
    for i, camera in enumerate(_cameras()):
        pixels = np.zeros((200, 320, 3), np.uint8)
        pixels[:, :160, 0] = 255
        pixels[:, 160:, 2] = 255
        frames.append(Frame(f"{i}", camera, pixels=pixels))
    return Capture(tuple(frames), points=points, point_colors=colors)


def test_points_without_colors_take_them_from_the_photos():
    photos = load_photos(_capture(), 160)
    assert photos.training[0].pixels.shape == (3, 100, 160)
    assert photos.half[0].pixels.shape == (3, 50, 80)
    colors = colors_in_photos(
        np.array([[-0.8, 0, 0], [0.9, 0, 0], [0, 0, 900.0], [0, 0, -900.0]]), photos
    )
    np.testing.assert_allclose(colors[:2], [[1, 0, 0], [0, 0, 1]], atol=0.01)
    # seen nowhere: gray
    np.testing.assert_allclose(colors[3], 0.5)


def test_given_points_are_used_and_thinned(points):
    rng = np.random.default_rng(0)
    many = np.vstack([rng.uniform(-1, 1, (500, 3)), [[np.nan, 0, 0]]])
    colors = rng.random((501, 3)).astype(np.float32)
    capture = _capture(many, colors)
    photos = load_photos(capture, 160)
    settings = ReconstructSettings(start_points=200)
    start = start_points(capture, photos, settings, np.random.default_rng(1))
    assert start.points.shape == (200, 3) and np.isfinite(start.points).all()
    few = replace(settings, most_gaussians=150)
    assert len(start_points(capture, photos, few, np.random.default_rng(1)).points) == 150
    same = start_points(capture, photos, settings, np.random.default_rng(1))
    np.testing.assert_array_equal(start.points, same.points)
    index = [int(np.flatnonzero((many == p).all(axis=1))[0]) for p in start.points[:20]]
    np.testing.assert_array_equal(start.colors[:20], colors[index])


def test_first_gaussians_are_as_large_as_points_are_apart():
    # a grid of spacing 0.1: the three nearest neighbours are all 0.1 away
    line = np.arange(8) * 0.1
    grid = np.stack(np.meshgrid(line, line, line), axis=-1).reshape(-1, 3)
    capture = _capture(grid)
    photos = load_photos(capture, 160)
    colors = np.full((len(grid), 3), [0.2, 0.5, 0.9], np.float32)
    rows = first_parameters(StartPoints(grid, colors, ""), photos, 4)
    assert rows.shape == (512, 24)
    np.testing.assert_allclose(np.exp(rows[:, 3:6]), 0.1, rtol=1e-4)
    np.testing.assert_allclose(1 / (1 + np.exp(-rows[:, 10])), 0.1, rtol=1e-5)
    np.testing.assert_allclose(0.5 + 0.28209479 * rows[:, 11:14], colors, rtol=1e-5)
    assert not rows[:, 14:].any()


def test_without_points_and_without_opencv_the_user_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(InputError, match=r"needs OpenCV: pip install"):
        reconstruct(_capture(), ReconstructSettings(iterations=1))


@pytest.mark.slow
@pytest.mark.real
def test_fox_comes_back(real_data):
    """25 photos of a fox with a lens and no points; about three minutes of CPU."""
    pytest.importorskip("cv2")
    capture = load_capture(real_data / "captures" / "fox").hold_out(5, 2)
    assert len(capture.held_out) == 5
    result = reconstruct(capture, ReconstructSettings(most_gaussians=40_000))
    assert result.held_out_psnr > 29.0
    assert result.start.endswith("(SIFT with the capture's poses)")
