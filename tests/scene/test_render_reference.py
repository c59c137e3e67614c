"""The reference itself: its harmonics, its gradients, its independence of how it cuts a picture."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from render_scenes import camera, one_gaussian, random_scene, straight_camera

from scene.camera import Camera
from scene.render.api import RenderSettings
from scene.render.reference import (
    ReferenceRenderer,
    SplatTensors,
    project,
    render_tensors,
    view_colors,
)


def test_harmonics_are_orthonormal_over_the_sphere():
    # Gauss-Legendre in z times a uniform grid in azimuth integrates degree 6 exactly
    z, weight = np.polynomial.legendre.leggauss(8)
    azimuth = np.arange(16) * 2 * np.pi / 16
    z, azimuth = np.meshgrid(z, azimuth, indexing="ij")
    radius = np.sqrt(1 - z**2)
    directions = np.stack([radius * np.cos(azimuth), radius * np.sin(azimuth), z], -1)
    area = np.broadcast_to(weight[:, None] * 2 * np.pi / 16, z.shape).reshape(-1)
    flat = torch.tensor(directions.reshape(-1, 3))
    values = []
    for i in range(16):
        # 0.25 + basis_i / 8 stays in (0, 1) after the + 0.5: no clamping
        sh = torch.zeros(len(flat), 16, 3, dtype=torch.float64)
        sh[:, i] = 0.125
        values.append((view_colors(sh, flat)[:, 0] - 0.5).numpy() * 8)
    basis = np.stack(values)
    assert basis * area @ basis.T == pytest.approx(np.eye(16), abs=1e-12)


@pytest.mark.parametrize(
    ("index", "direction", "value"),
    [
        # 3DGS's signs: degree 1 is (-y, z, -x)
        (1, (0, 1, 0), -0.4886025),
        (2, (0, 0, 1), 0.4886025),
        (3, (1, 0, 0), -0.4886025),
        (6, (0, 0, 1), 2 * 0.3153916),
        (8, (1, 0, 0), 0.5462742),
        (12, (0, 0, 1), 2 * 0.3731763),
        (15, (1, 0, 0), -0.5900436),
    ],
)
def test_harmonics_have_the_3dgs_signs(index, direction, value):
    sh = torch.zeros(1, 16, 3, dtype=torch.float64)
    sh[0, index, 1] = 0.5
    color = view_colors(sh, 7.0 * torch.tensor([direction], dtype=torch.float64))
    assert float(color[0, 1] - 0.5) * 2 == pytest.approx(value, abs=1e-6)
    assert float(color[0, 0]) == 0.5


def test_projection_by_hand():
    # x = 1, y = -0.5, z = 4; focal 80 and 100; principal point (30, 20)
    view = Camera(np.eye(4), np.array([[80, 0, 30], [0, 100, 20], [0, 0, 1.0]]), 64, 48)
    projected = project(
        SplatTensors.of(one_gaussian((1, -0.5, 4), scale=0.2)), view, RenderSettings()
    )
    assert projected.xy[0].tolist() == pytest.approx([50, 7.5], abs=1e-5)
    # Jacobian (20, 0, -5) and (0, 25, 3.125), covariance 0.04 of its product plus 0.3
    xx, xy, yy = 0.04 * 425 + 0.3, 0.04 * -15.625, 0.04 * (625 + 9.765625) + 0.3
    inverse = np.linalg.inv([[xx, xy], [xy, yy]])
    wanted = [inverse[0, 0], inverse[0, 1], inverse[1, 1]]
    assert projected.conics[0].tolist() == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("piece", [8, 31, 200])
def test_pieces_do_not_matter(piece):
    splats = SplatTensors.of(random_scene(300, 1, seed=1))
    wanted, ours = render_tensors(splats, camera()), render_tensors(splats, camera(), piece=piece)
    for name in ("rgb", "alpha", "expected_depth", "median_depth"):
        assert torch.allclose(getattr(ours, name), getattr(wanted, name), atol=1e-12)


@pytest.mark.parametrize("antialiased", [False, True])
def test_gradients_agree_with_finite_differences(antialiased):
    scene = random_scene(14, 1, seed=13, size=0.3)
    keep = np.flatnonzero(scene.means[:, 2] > 1.0)[:6]
    scene = scene.select(keep)
    settings = RenderSettings(antialiased=antialiased)
    view = camera(10, 8, focal=(9.0, 8.0))
    weights = torch.randn(8, 10, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    start = SplatTensors.of(scene)
    leaves = [start.means, start.quats, start.scales, start.opacities * 0.9, start.sh]
    for leaf in leaves:
        leaf.requires_grad_(True)

    def loss(means, quats, scales, opacities, sh):
        images = render_tensors(SplatTensors(means, quats, scales, opacities, sh), view, settings)
        planes = torch.cat(
            [images.rgb, images.alpha[..., None], images.expected_depth[..., None]], dim=-1
        )
        return (planes * weights).sum()

    assert torch.autograd.gradcheck(loss, leaves, eps=1e-7, atol=1e-4, rtol=1e-3)


def test_opaque_wall_hides_what_is_behind_it():
    wall = one_gaussian((0, 0, 1), scale=5.0, opacity=1.0, rgb=(0.0, 1.0, 0.0))
    rendered = ReferenceRenderer(wall).render(straight_camera(), (1.0, 0.0, 0.0))
    assert rendered.rgb[15, 20] == pytest.approx([0.001, 0.999, 0.0], abs=1e-6)
