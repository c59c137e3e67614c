from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from patching.optimize.eot import Background, as_picture, cropped, draw_warp, transformed
from patching.optimize.paste import averaged_down, centered_square, paste
from patching.optimize.photograph import (
    blurred,
    coarser,
    jpeg,
    photographed,
    quantised,
    straight_through,
)
from patching.optimize.settings import COMPONENTS, LEVELS, EotSettings, MakeSettings
from patching.patch import Patch
from patching.placement import Placement, place_by_numbers
from patching.raycast import averaged_down as averaged_down_by_pillow
from patching.raycast import composite
from scene.camera import Camera
from scene.errors import InputError

UP = (0.0, -1.0, 0.0)


def noise(height: int, width: int, seed: int = 0) -> torch.Tensor:
    values = np.random.default_rng(seed).random((3, height, width), dtype=np.float32)
    return torch.from_numpy(values)


def background_of(placement: Placement, camera: Camera) -> Background:
    """A non-square noise picture with a placed patch's homography."""
    return Background(noise(camera.height, camera.width, 5), placement.homography(camera))


def oblique(camera: Camera) -> Camera:
    """From the left, below and nearer, rolled."""
    return Camera.look_at((-1.9, 0.9, 1.9), (0.1, -0.05, 4.0), (0.25, -1.0, 0.0), 150, 110, 40)


@pytest.mark.parametrize("view", ["front", "oblique", "far"])
def test_pasting_equals_the_attacked_anchor_view(placed, front_camera, view) -> None:  # type: ignore[no-untyped-def]
    camera = {
        "front": front_camera,
        "oblique": oblique(front_camera),
        # a few pixels wide: the texture must be averaged down, rows and columns differently
        "far": Camera.look_at((-6, 0.5, -8), (0.1, -0.05, 4.0), UP, 150, 110, 40),
    }[view]
    patch = Patch.from_rgb(noise(21, 50, 2).permute(1, 2, 0).numpy(), "noise")
    clean = noise(camera.height, camera.width, 3)
    wanted, coverage, _ = composite(placed, patch, camera, clean.permute(1, 2, 0).numpy())
    assert (coverage > 0.5).sum() > 8
    rgb = torch.from_numpy(patch.rgb.transpose(2, 0, 1).copy())
    found = paste(clean, rgb, placed.homography(camera)).permute(1, 2, 0).numpy()
    np.testing.assert_allclose(found, wanted, atol=2e-5)
    assert np.abs(found - clean.permute(1, 2, 0).numpy()).max() > 0.3


@pytest.mark.parametrize("size", [(50.0, 21.0), (37.2, 13.0), (7.1, 2.5), (0.3, 0.2)])
def test_averaging_down_equals_pillows(size: tuple[float, float]) -> None:
    texture = noise(21, 50)
    wanted = averaged_down_by_pillow(texture.permute(1, 2, 0).numpy(), size)
    found = averaged_down(texture, size).permute(1, 2, 0).numpy()
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_what_is_hidden_stays_hidden(placed, front_camera) -> None:  # type: ignore[no-untyped-def]
    clean = torch.zeros(3, 120, 160)
    shown = torch.ones(120, 160)
    shown[:, :87] = 0
    found = paste(clean, torch.ones(3, 8, 8), placed.homography(front_camera), shown)
    assert found[:, :, :87].max() == 0 and found[:, 50, 90].min() == 1


def test_beside_or_behind_the_camera_nothing_is_pasted(placed, front_camera) -> None:  # type: ignore[no-untyped-def]
    clean = noise(120, 160)
    for camera in (
        Camera.look_at((0, 0, 0), (0, 0, -4), UP, 160, 120, 45),
        Camera.look_at((0, 0, 0), (4, 0, 1), UP, 160, 120, 45),
    ):
        found = paste(clean, torch.ones(3, 8, 8), placed.homography(camera))
        assert torch.equal(found, clean)


def test_a_patch_that_passes_the_camera_is_pasted_where_it_is_in_front() -> None:
    floor = place_by_numbers(
        (0, 1, 1), (0, -1, 0), 1.0, 6.0, Camera.look_at((0, 0, 0), (0, 0.4, 4), UP, 64, 48, 60), UP
    )
    camera = floor.camera
    patch = Patch.from_rgb(np.ones((8, 8, 3)), "white")
    clean = np.zeros((48, 64, 3), np.float32)
    wanted = composite(floor, patch, camera, clean)[0]
    found = paste(torch.zeros(3, 48, 64), torch.ones(3, 8, 8), floor.homography(camera))
    np.testing.assert_allclose(found.permute(1, 2, 0).numpy(), wanted, atol=1e-5)
    assert 0.05 < wanted.mean() < 0.95


def test_the_gradient_reaches_every_texel_that_is_seen() -> None:
    rgb = noise(16, 16).requires_grad_()
    square = centered_square((10.0, 4.0, 50.0, 36.0), 0.5)  # 16 px wide at (22, 12)
    picture = paste(torch.zeros(3, 40, 60), rgb, square)
    picture.sum().backward()
    assert rgb.grad is not None
    # one texel is one pixel here: each counts once
    torch.testing.assert_close(rgb.grad, torch.ones(3, 16, 16), atol=1e-4, rtol=0)


def test_square_in_a_box_by_hand() -> None:
    # box 40 x 32, half its smaller side = 16, about (30, 20)
    square = centered_square((10.0, 4.0, 50.0, 36.0), 0.5)
    np.testing.assert_allclose(square @ [0, 0, 1], [22, 12, 1])
    np.testing.assert_allclose(square @ [1, 1, 1], [38, 28, 1])


def test_level_none_is_the_plain_paste(placed, front_camera) -> None:  # type: ignore[no-untyped-def]
    background = replace(background_of(placed, front_camera), box_xyxy=(50.0, 30.0, 130.0, 90.0))
    rgb = noise(10, 15)
    settings = EotSettings.of("none")
    assert settings == EotSettings() and settings.views == 1
    picture, box = transformed(background, rgb, settings, np.random.default_rng(1))
    assert torch.equal(picture, paste(background.picture, rgb, background.pixel_from_uv))
    assert box == background.box_xyxy
    np.testing.assert_allclose(draw_warp(settings, np.random.default_rng(1)), np.eye(3), atol=1e-15)


def test_levels_have_the_papers_views_and_grow() -> None:
    levels = [EotSettings.of(level) for level in LEVELS]
    assert [settings.views for settings in levels] == [1, 4, 8, 16]
    for field in ("rotation_deg", "scale", "shift", "perspective", "brightness", "crop", "blur_px"):
        values = [getattr(settings, field) for settings in levels]
        assert values == sorted(values) and values[0] == 0 and len(set(values)) == 4
    assert EotSettings.of("strong", ()) == EotSettings(views=8)
    geometry = EotSettings.of("strong", ("geometry",))
    assert (geometry.blur_px, geometry.jpeg, geometry.downscale, geometry.bits) == (0, 0, 1, 0)
    assert geometry.rotation_deg > 0 and COMPONENTS == ("geometry", "blur", "camera")


def test_rotation_is_clockwise_and_about_the_middle() -> None:
    class Highest:
        def uniform(self, low=0.0, high=1.0, size=None):  # type: ignore[no-untyped-def]
            return high if size is None else np.full(size, high)

    quarter = draw_warp(EotSettings(rotation_deg=90), Highest())  # type: ignore[arg-type]
    np.testing.assert_allclose(quarter @ [0.5, 0.5, 1], [0.5, 0.5, 1], atol=1e-12)
    # the print's top left corner lies at the top right of its place
    np.testing.assert_allclose(quarter @ [0, 0, 1], [1, 0, 1], atol=1e-12)
    larger = draw_warp(EotSettings(scale=0.5, shift=0.25), Highest())  # type: ignore[arg-type]
    # from 0.5 +- 0.75, a quarter right and down
    np.testing.assert_allclose(larger @ [0, 1, 1], [0.0, 1.5, 1], atol=1e-12)


def test_perspective_moves_corners_by_at_most_its_share() -> None:
    rng = np.random.default_rng(4)
    for _ in range(20):
        warp = draw_warp(EotSettings(perspective=0.1), rng)
        corners = np.array([[0.0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]])
        moved = corners @ warp.T
        away = np.abs(moved[:, :2] / moved[:, 2:] - corners[:, :2])
        assert 0.01 < away.max() <= 0.1 + 1e-12


def test_crop_keeps_patch_and_box_and_takes_them_along(placed, front_camera) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(2)
    height, width = 120, 160
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    ramps = torch.from_numpy(np.stack([(x + 0.5) / width, (y + 0.5) / height, 0 * x]))
    view = Background(ramps, placed.homography(front_camera), (60.0, 40.0, 120.0, 80.0))
    shares = []
    for _ in range(10):
        cut = cropped(view, 0.3, rng)
        assert cut.picture.shape == ramps.shape and cut.box_xyxy is not None
        corner = cut.pixel_from_uv @ [0.0, 0, 1]
        at = corner[:2] / corner[2]
        assert 0 <= at[0] < width and 0 <= at[1] < height
        # the colors tell where a pixel was: the patch's corner was at (73.5, 47.5)
        color = cut.picture[:, round(at[1] - 0.5), round(at[0] - 0.5)]
        assert float(color[0]) * width == pytest.approx(73.5, abs=0.8)
        assert float(color[1]) * height == pytest.approx(47.5, abs=0.8)
        shares.append((cut.box_xyxy[2] - cut.box_xyxy[0]) / 60)
        x0, y0, x1, y1 = cut.box_xyxy
        assert x0 >= 0 and y0 >= 0 and x1 <= width + 1e-9 and y1 <= height + 1e-9
    assert min(shares) >= 1 and max(shares) <= 1 / 0.69 and max(shares) > 1.1


def test_straight_through_values_and_gradients() -> None:
    values = torch.tensor([0.1, 0.4, 0.9], requires_grad=True)
    changed = straight_through(values, quantised(values, 1))
    torch.testing.assert_close(changed.detach(), torch.tensor([0.0, 0.0, 1.0]))
    (changed * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    torch.testing.assert_close(values.grad, torch.tensor([1.0, 2.0, 3.0]))


def test_jpeg_changes_the_value_and_passes_the_gradient() -> None:
    picture = noise(40, 56).requires_grad_()
    settings = EotSettings(jpeg=60, bits=5)
    found = photographed(picture, settings, np.random.default_rng(0))
    assert 0.02 < float((found - picture).detach().abs().mean()) < 0.3
    weights = noise(40, 56, 1)
    (found * weights).sum().backward()
    torch.testing.assert_close(picture.grad, weights)


def test_jpeg_keeps_a_smooth_picture_and_the_channels_order() -> None:
    flat = torch.tensor([0.8, 0.3, 0.1])[:, None, None].expand(3, 24, 40)
    torch.testing.assert_close(jpeg(flat, 95), flat.contiguous(), atol=0.012, rtol=0)


def test_quantised_by_hand() -> None:
    # 2 bits: levels 0, 1/3, 2/3, 1
    found = quantised(torch.tensor([0.1, 0.2, 0.5, 0.6, 0.9]), 2)
    torch.testing.assert_close(found, torch.tensor([0, 1, 2, 2, 3]) / 3)


def test_blur_keeps_the_mean_and_has_its_sd() -> None:
    picture = torch.zeros(3, 31, 41)
    picture[:, 15, 20] = 1
    found = blurred(picture, 1.5)
    assert float(found[0].sum()) == pytest.approx(1, abs=1e-5)
    columns = torch.arange(41) - 20.0
    variance = float((found[1].sum(dim=0) * columns**2).sum())
    assert variance == pytest.approx(1.5**2, rel=0.05)
    assert torch.equal(blurred(picture, 0.0), picture)


def test_coarser_removes_detail_only() -> None:
    stripes = (torch.arange(40) % 2).to(torch.float32).expand(3, 30, 40)
    torch.testing.assert_close(
        coarser(stripes, 0.5)[:, 5:-5, 5:-5], torch.full((3, 20, 30), 0.5), atol=0.01, rtol=0
    )
    assert torch.equal(coarser(stripes, 1.0), stripes)


def test_a_views_size_changes_with_its_homography(placed, front_camera) -> None:  # type: ignore[no-untyped-def]
    view = replace(background_of(placed, front_camera), box_xyxy=(50.0, 30.0, 130.0, 90.0))
    half = view.resized(80, 30)
    assert half.picture.shape == (3, 30, 80) and half.box_xyxy == (25.0, 7.5, 65.0, 22.5)
    corner = half.pixel_from_uv @ [0, 0, 1]
    np.testing.assert_allclose(corner[:2] / corner[2], [73.5 / 2, 47.5 / 4])


def test_same_seed_same_view(placed, front_camera) -> None:  # type: ignore[no-untyped-def]
    background, rgb = background_of(placed, front_camera), noise(10, 15)
    settings = EotSettings.of("very strong")
    first, again, other = (
        transformed(background, rgb, settings, np.random.default_rng(seed))[0] for seed in (3, 3, 4)
    )
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert float(first.min()) >= 0 and float(first.max()) <= 1


def test_pictures_turn_to_channels_first() -> None:
    rgb = np.arange(24, dtype=np.float32).reshape(2, 4, 3) / 24
    assert float(as_picture(rgb)[2, 1, 3]) == rgb[1, 3, 2]


@pytest.mark.parametrize("wrong", [{"views": 0}, {"jpeg": 99}, {"downscale": 0}, {"crop": 1}])
def test_ranges_out_of_bounds_are_refused(wrong) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=next(iter(wrong))):
        EotSettings(**wrong)


def test_presets() -> None:
    paper = MakeSettings.advscene()
    assert (paper.restarts, paper.eot.views, paper.parameters) == (3, 8, "logits")
    edge = MakeSettings.edge_vlm(pictures=20)
    assert (edge.size_px, edge.rate, edge.parameters) == (160, 0.01, "pixels")
    assert edge.steps == 500 * 3  # 20 pictures are 3 batches of 8
    assert edge.eot == EotSettings(views=8, rotation_deg=20, brightness=0.1)
    assert (edge.weights.printability, edge.weights.variation) == (0.01, 0.01)
    with pytest.raises(InputError, match="steps"):
        MakeSettings(steps=0)
    with pytest.raises(InputError, match="level"):
        EotSettings.of("odd")  # type: ignore[arg-type]
