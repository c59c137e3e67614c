"""The change of frame: a known point, the same pixel, the same colors, and back."""

from __future__ import annotations

import json

import numpy as np
import pytest

from scene.camera import Camera
from scene.errors import InputError
from scene.gaussians import Gaussians
from scene.harmonics import harmonics, rotate_harmonics
from scene.io.frames import read_normalisation
from scene.normalisation import Normalisation

# a quarter turn about z, then moved by (10, 0, 0), then halved
QUARTER = Normalisation(np.array([[0, -1, 0, 10], [1, 0, 0, 0], [0, 0, 1, 0.0]]), 0.5)


def tilted() -> Normalisation:
    rotation, _ = np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))
    rotation *= np.sign(np.linalg.det(rotation))
    return Normalisation(np.column_stack([rotation, [1, -2, 0.5]]), 0.3)


def some_gaussians(n: int = 5) -> Gaussians:
    rng = np.random.default_rng(1)
    quats = rng.normal(size=(n, 4))
    return Gaussians(
        rng.normal(size=(n, 3)), quats / np.linalg.norm(quats, axis=1, keepdims=True),
        rng.uniform(0.1, 1, (n, 3)), rng.uniform(0, 1, n), rng.normal(size=(n, 16, 3)),
    )  # fmt: skip


def test_a_point_by_hand_both_ways():
    np.testing.assert_allclose(QUARTER.apply_to_points([1, 2, 3]), [4, 0.5, 1.5])
    np.testing.assert_allclose(QUARTER.inverse().apply_to_points([4, 0.5, 1.5]), [1, 2, 3])
    np.testing.assert_allclose(QUARTER.apply_to_direction([1, 0, 0]), [0, 1, 0])


@pytest.mark.parametrize("change", [QUARTER, tilted()])
def test_a_known_point_stays_on_its_pixel(change):
    camera = Camera.look_at([4, 3, 1], [0, 0, 0], [0, 0, 1], 640, 360, 50)
    points = np.random.default_rng(0).uniform(-1, 1, (20, 3))
    before, depth = camera.project(points)
    after, scaled = change.apply_to_camera(camera).project(change.apply_to_points(points))
    np.testing.assert_allclose(after, before, atol=1e-8)
    np.testing.assert_allclose(scaled, depth * change.scale)
    there_and_back = change.inverse().apply_to_camera(change.apply_to_camera(camera))
    np.testing.assert_allclose(
        there_and_back.camera_from_world, camera.camera_from_world, atol=1e-9
    )


@pytest.mark.parametrize("change", [QUARTER, tilted()])
def test_gaussians_keep_shape_and_color(change):
    g = some_gaussians()
    changed = change.apply_to_gaussians(g)
    np.testing.assert_allclose(changed.means, change.apply_to_points(g.means), atol=1e-6)
    for i in range(len(g)):
        axes, axes_changed = g.rotations()[i], changed.rotations()[i]
        covariance = axes @ np.diag(g.scales[i] ** 2) @ axes.T
        wanted = change.scale**2 * change.rotation @ covariance @ change.rotation.T
        found = axes_changed @ np.diag(changed.scales[i] ** 2) @ axes_changed.T
        np.testing.assert_allclose(found, wanted, atol=1e-6)
    directions = np.random.default_rng(2).normal(size=(30, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    seen = np.einsum("dk,nkc->ndc", harmonics(directions), g.sh)
    seen_changed = np.einsum("dk,nkc->ndc", harmonics(directions @ change.rotation.T), changed.sh)
    np.testing.assert_allclose(seen_changed, seen, atol=1e-5)
    back = change.inverse().apply_to_gaussians(changed)
    np.testing.assert_allclose(back.sh, g.sh, atol=1e-5)
    np.testing.assert_allclose(back.means, g.means, atol=1e-5)


def test_harmonics_are_the_renderers():
    """Against the reference renderer's own evaluation."""
    torch = pytest.importorskip("torch")
    from scene.render.reference import view_colors

    rng = np.random.default_rng(0)
    sh = rng.normal(size=(6, 16, 3))
    directions = rng.normal(size=(6, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    drawn = view_colors(torch.tensor(sh), torch.tensor(directions)).numpy()
    ours = np.einsum("nk,nkc->nc", harmonics(directions), sh) + 0.5
    np.testing.assert_allclose(np.clip(ours, 0, None), drawn, atol=1e-9)


def test_degree_zero_does_not_turn():
    sh = np.ones((2, 1, 3), dtype=np.float32)
    np.testing.assert_array_equal(rotate_harmonics(sh, tilted().rotation), sh)


def test_nerfstudios_file(tmp_path):
    path = tmp_path / "dataparser_transforms.json"
    path.write_text(json.dumps({"transform": QUARTER.transform.tolist(), "scale": 0.5}))
    np.testing.assert_allclose(read_normalisation(path).apply_to_points([1, 2, 3]), [4, 0.5, 1.5])


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"scale": 1}, "transform and scale"),
        ({"transform": [[1, 0], [0, 1]], "scale": 1}, "3x4"),
        ({"transform": [[2, 0, 0, 0], [0, 2, 0, 0], [0, 0, 2, 0]], "scale": 1}, "shear"),
        ({"transform": [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, -1, 0]], "scale": 1}, "mirror"),
        ({"transform": np.eye(4)[:3].tolist(), "scale": 0}, "> 0"),
        ({"transform": np.eye(4)[:3].tolist(), "scale": "big"}, "> 0"),
        ({"transform": "no", "scale": 1}, "could not convert"),
    ],
)
def test_a_bad_file_is_one_sentence(tmp_path, fields, sentence):
    path = tmp_path / "dataparser_transforms.json"
    path.write_text(json.dumps(fields))
    with pytest.raises(InputError, match=sentence) as caught:
        read_normalisation(path)
    assert str(path) in str(caught.value)
