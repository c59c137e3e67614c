from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from patching.anchor import anchor_from_files, anchor_from_placement
from patching.patch import Patch
from patching.placement import Placement, place_by_numbers
from scene.camera import Camera
from scene.errors import InputError
from scene.gaussians import Gaussians
from scene.render.api import Renderer, make_renderer
from scene.surface import HeightField, Plane, fit_surface

UP = (0.0, -1.0, 0.0)


@pytest.fixture
def renderer(wall: Gaussians) -> Renderer:
    return make_renderer(wall, "cpu", threads=1)


def test_paste_on_known_quad(renderer, placed: Placement, stripes: Patch) -> None:  # type: ignore[no-untyped-def]
    anchor = anchor_from_placement(renderer, placed, stripes)
    # the patch spans x 73.5..100.5, y 47.5..65.5; quadrants red, green, blue, yellow clockwise
    np.testing.assert_allclose(anchor.image[50, 77], [1, 0, 0], atol=1e-5)
    np.testing.assert_allclose(anchor.image[50, 97], [0, 1, 0], atol=1e-5)
    np.testing.assert_allclose(anchor.image[62, 97], [0, 0, 1], atol=1e-5)
    np.testing.assert_allclose(anchor.image[62, 77], [1, 1, 0], atol=1e-5)
    # an edge pixel is half patch, half clean
    half = 0.5 * np.array([1, 0, 0]) + 0.5 * anchor.clean[50, 73]
    np.testing.assert_allclose(anchor.image[50, 73], half, atol=1e-5)
    assert anchor.mask.shape == (120, 160)
    rows, columns = np.nonzero(anchor.mask)
    assert columns.min() == 74 and columns.max() == 99 and rows.min() == 48 and rows.max() == 64


def test_outside_the_patch_the_anchor_is_the_clean_render(renderer, placed, stripes) -> None:  # type: ignore[no-untyped-def]
    anchor = anchor_from_placement(renderer, placed, stripes, (0.2, 0.3, 0.4))
    clean = renderer.render(placed.camera, (0.2, 0.3, 0.4)).rgb
    np.testing.assert_array_equal(anchor.clean, clean)
    outside = np.ones((120, 160), bool)
    outside[47:66, 73:101] = False
    np.testing.assert_array_equal(anchor.image[outside], clean[outside])


def test_turned_patch_on_a_tilted_plane_follows_the_homography(renderer, stripes) -> None:  # type: ignore[no-untyped-def]
    camera = Camera.look_at((1.2, -0.4, 0.5), (0, 0, 4), UP, 160, 120, 50)
    placement = place_by_numbers((0, 0, 4), (0.3, 0.1, -1), 1.2, 2 / 3, camera, UP, 25.0)
    anchor = anchor_from_placement(renderer, placement, stripes)
    for uv, color in [((0.2, 0.2), [1, 0, 0]), ((0.8, 0.2), [0, 1, 0]), ((0.8, 0.8), [0, 0, 1])]:
        x, y, w = placement.homography(camera) @ [*uv, 1.0]
        np.testing.assert_allclose(anchor.image[int(y / w), int(x / w)], color, atol=1e-4)


def test_fine_print_is_averaged_not_aliased(renderer, placed) -> None:  # type: ignore[no-untyped-def]
    # a 1-texel checkerboard, 10 texels per pixel: mid gray everywhere
    board = (np.indices((180, 270)).sum(axis=0) % 2).astype(np.float32)
    patch = Patch.from_rgb(np.repeat(board[..., None], 3, axis=2), "board")
    anchor = anchor_from_placement(renderer, placed, patch)
    np.testing.assert_allclose(anchor.image[50:63, 76:98], 0.5, atol=0.02)


def test_anchor_of_twice_the_resolution(renderer, placed, stripes) -> None:  # type: ignore[no-untyped-def]
    anchor = anchor_from_placement(renderer, placed, stripes, scale=2.0)
    assert anchor.image.shape == (240, 320, 3)
    np.testing.assert_allclose(anchor.image[101, 155], [1, 0, 0], atol=1e-5)
    assert anchor.mask.sum() == pytest.approx(4 * 27 * 18, rel=0.03)


def test_patch_behind_or_too_small_is_refused(renderer, front_camera, stripes) -> None:  # type: ignore[no-untyped-def]
    small = place_by_numbers((0, 0, 4), (0, 0, -1), 0.05, 1.0, front_camera, UP)
    with pytest.raises(InputError, match="pixels of the patch"):
        anchor_from_placement(renderer, small, stripes)
    behind = place_by_numbers((0, 0, -4), (0, 0, -1), 1.0, 1.0, front_camera, UP)
    with pytest.raises(InputError, match="pixels of the patch"):
        anchor_from_placement(renderer, behind, stripes)


def test_height_field_bends_the_paste(renderer, front_camera, stripes) -> None:  # type: ignore[no-untyped-def]
    # a cylinder z = 4 - 0.5 + sqrt-like bump: heights of a parabola in x
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-1, 1, (2, 4000))
    points = np.stack([x, y, 3.6 + 0.5 * x**2], axis=1)
    surface = fit_surface(points, 0.01, rng, (0, 0, 0)).surface
    assert isinstance(surface, HeightField)
    placement = place_by_numbers(
        (0, 0, 3.6), (0, 0, -1), 1.6, 0.5, front_camera, UP, surface=surface
    )
    corners = placement.corners()
    # the surface recedes towards the patch's edges: z = 3.6 + 0.5 * 0.8^2
    np.testing.assert_allclose(corners[:, 2], 3.92, atol=0.01)
    np.testing.assert_allclose(np.abs(corners[:, 0]), 0.8, atol=0.01)
    anchor = anchor_from_placement(renderer, placement, stripes)
    columns = np.nonzero(anchor.mask)[1]
    wanted = 84 + 120 * 0.8 / 3.92
    assert columns.max() + 1 == pytest.approx(wanted, abs=1.0)


def _write_pair(folder, image, mask):  # type: ignore[no-untyped-def]
    Image.fromarray((np.clip(image, 0, 1) * 255).round().astype(np.uint8)).save(folder / "a.png")
    Image.fromarray(mask.astype(np.uint8) * 255).save(folder / "m.png")
    return folder / "a.png", folder / "m.png"


def test_outside_pair_finds_the_wall(renderer, placed, stripes, tmp_path) -> None:  # type: ignore[no-untyped-def]
    made = anchor_from_placement(renderer, placed, stripes)
    pair = _write_pair(tmp_path, made.image, made.mask)
    anchor = anchor_from_files(renderer, *pair, placed.camera)
    np.testing.assert_array_equal(anchor.mask, made.mask)
    np.testing.assert_allclose(anchor.image, np.clip(made.image, 0, 1), atol=0.5 / 255 + 1e-6)
    assert isinstance(anchor.surface, Plane) and anchor.fit is not None
    assert anchor.surface.normal @ [0, 0, -1] > 0.999
    # the wall stands at z = 4; the patch, 0.73 across, lies 4 % of that above it
    wall = np.array([0.1, -0.05, 4.0])
    assert anchor.fit.surface.distance(wall) == pytest.approx(0, abs=0.02)
    lift = anchor.fit.surface.distance(wall) - anchor.surface.distance(wall)
    assert lift == pytest.approx(0.04 * np.sqrt(0.54), rel=0.06)


def test_outside_pair_of_another_resolution_scales_the_camera(
    renderer, placed, stripes, tmp_path
) -> None:  # type: ignore[no-untyped-def]
    image, mask = np.full((240, 320, 3), 0.5), np.zeros((240, 320), bool)
    mask[100:130, 150:190] = True
    anchor = anchor_from_files(renderer, *_write_pair(tmp_path, image, mask), placed.camera)
    assert (anchor.camera.width, anchor.camera.height) == (320, 240)
    assert anchor.camera.K[0, 0] == 240


@pytest.mark.parametrize(
    ("image_shape", "mask_shape", "fill", "words"),
    [
        ((120, 160), (120, 150), True, "wanted a mask of 160x120"),
        ((120, 120), (120, 120), True, "aspect"),
        ((120, 160), (120, 160), False, "white patch pixels"),
    ],
)
def test_wrong_pairs_are_refused(
    renderer, front_camera, tmp_path, image_shape, mask_shape, fill, words
) -> None:  # type: ignore[no-untyped-def]
    pair = _write_pair(tmp_path, np.zeros((*image_shape, 3)), np.full(mask_shape, fill))
    with pytest.raises(InputError, match=words):
        anchor_from_files(renderer, *pair, front_camera)


def test_pair_that_is_no_picture_is_refused(renderer, front_camera, tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "a.png").write_bytes(b"text")
    with pytest.raises(InputError, match="attacked picture"):
        anchor_from_files(renderer, tmp_path / "a.png", tmp_path / "m.png", front_camera)


def test_mask_over_nothing_is_refused(renderer, front_camera, tmp_path) -> None:  # type: ignore[no-untyped-def]
    mask = np.zeros((120, 160), bool)
    mask[:8, :8] = True  # the wall does not reach the corner
    pair = _write_pair(tmp_path, np.zeros((120, 160, 3)), mask)
    with pytest.raises(InputError, match="solid"):
        anchor_from_files(renderer, *pair, front_camera)
