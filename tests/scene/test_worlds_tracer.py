"""The ray tracer's photos against what can be worked out by hand."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("embreex")

from scene.camera import Camera
from scene.errors import InputError
from scene.worlds.bake import BakeSettings
from scene.worlds.decal import Decal
from scene.worlds.light import Daylight
from scene.worlds.surfaces import Material, ball, box, cylinder, disc, quad
from scene.worlds.textures import Texture, TextureAtlas, linear_to_srgb, srgb_to_linear
from scene.worlds.tracer import Tracer
from scene.worlds.world import Exposure, World

NIGHT = Daylight(
    sun=(0, 0, 0), zenith=(0, 0, 0), horizon=(0, 0, 0), clouds=0, overcast=0, haze_m=1e9
)
WHITE = Material(Texture.flat((1.0, 1.0, 1.0)), glow=(np.pi, np.pi, np.pi))
BLACK = Material(Texture.flat((0.0, 0.0, 0.0)))
ONCE = BakeSettings(rays=4, bounces=1)
UNEXPOSED = Exposure(1.0)


def off_centre(camera: Camera, width: int = 160, height: int = 120) -> Camera:
    """The same pose with unequal focal lengths and a principal point off the middle."""
    K = np.array([[143.0, 0, 77.3], [0, 139.0, 63.6], [0, 0, 1]])
    return Camera(camera.camera_from_world, K, width, height)


def look(eye: tuple[float, float, float], at: tuple[float, float, float] = (0, 0, 1)) -> Camera:
    return off_centre(Camera.look_at(eye, at, (0, 0, 1), 160, 120, 50))


def test_edges_of_a_white_sheet_lie_where_they_are_projected() -> None:
    # a sheet that faces the camera: coverage summed along a row or column is the sheet's size
    sheet = quad("sheet", (-0.31, 0, 0.84), (0.52, 0, 0), (0, 0, 0.37), WHITE)
    world = World([sheet], NIGHT, bake=ONCE)
    pose = np.array([[1, 0, 0, 0], [0, 0, -1, 1.0], [0, 1, 0, 2], [0, 0, 0, 1]], float)
    camera = off_centre(Camera(pose, np.eye(3), 160, 120))
    light = srgb_to_linear(world.photo(camera, 8, UNEXPOSED))[..., 0]
    corners, _ = camera.project(sheet.vertices[[0, -1]])
    (x0, y1), (x1, y0) = corners
    rows = light[int(y0) + 2 : int(y1) - 2]
    spacing = 1 / 8 + 0.005  # of the samples, whose count alone can be wrong by one
    assert np.abs(rows.sum(axis=1) - (x1 - x0)).max() < spacing
    columns = light[:, int(x0) + 2 : int(x1) - 2]
    assert np.abs(columns.sum(axis=0) - (y1 - y0)).max() < spacing
    middle = (light * (np.arange(160) + 0.5)).sum() / light.sum()
    assert middle == pytest.approx((x0 + x1) / 2, abs=0.07)
    middle = (light * (np.arange(120) + 0.5)[:, None]).sum() / light.sum()
    assert middle == pytest.approx((y0 + y1) / 2, abs=0.07)


@pytest.mark.parametrize("eye", [(0.0, -2.2, 1.2), (1.3, -2.0, 1.6), (-1.2, -1.9, 0.7)])
def test_checkerboard_corners_are_found_where_they_are_projected(
    eye: tuple[float, float, float],
) -> None:
    cv2 = pytest.importorskip("cv2")
    columns, rows, square = 8, 6, 0.11
    y, x = np.mgrid[: rows * 40, : columns * 40] // 40
    board = np.where(((x + y) % 2)[..., None], 0.88, 0.12) * np.ones(3)
    u, v = np.array([np.cos(0.3), np.sin(0.3), 0]), np.array([0, 0, 1.0])
    origin = np.array([-0.44, 0, 0.65])
    material = Material(Texture.from_srgb(board.astype(np.float32)))
    sheet = quad("board", origin, u * columns * square, v * rows * square, material)
    world = World([sheet], Daylight(overcast=1.0, clouds=0), bake=ONCE)
    camera = Camera.look_at(eye, (0, 0, 1), (0, 0, 1), 480, 360, 45)
    K = camera.K.copy()
    K[:2, 2] += (7.3, -4.2)
    camera = Camera(camera.camera_from_world, K, 480, 360)
    photo = world.photo(camera, 4, Exposure(1.2))
    inner = np.array(
        [
            origin + u * square * (i + 1) + v * square * (j + 1)
            for j in range(rows - 1)
            for i in range(columns - 1)
        ]
    )
    wanted, _ = camera.project(inner)
    start = (wanted - 0.5).astype(np.float32).reshape(-1, 1, 2)
    gray = np.round(photo.mean(axis=2) * 255).astype(np.uint8)
    stop = (cv2.TERM_CRITERIA_EPS + cv2.TERM_CRITERIA_MAX_ITER, 100, 1e-4)
    found = cv2.cornerSubPix(gray, start.copy(), (4, 4), (-1, -1), stop).reshape(-1, 2) + 0.5
    off = found - wanted
    assert np.sqrt((off**2).sum(axis=1).mean()) < 0.10
    assert np.abs(off.mean(axis=0)).max() < 0.03


def sign_like_world() -> tuple[World, Decal]:
    tone = np.random.default_rng(0).random((64, 64, 3)).astype(np.float32)
    wall = quad("wall", (-2, 0, 0), (4, 0, 0), (0, 0, 3), Material(Texture.from_srgb(tone), 1.0))
    ground = quad(
        "ground", (-4, -4, 0), (8, 0, 0), (0, 8, 0), Material(Texture.flat((0.5, 0.5, 0.5)))
    )
    picture = np.random.default_rng(1).random((6, 8, 3)).astype(np.float32)
    center = np.array([0.2, 0.0, 1.1])
    decal = Decal(picture, "wall", center, np.array([1.0, 0, 0]), np.array([0, 0, -1.0]), 0.8, 0.6)
    return World([wall, ground], Daylight(), bake=ONCE), decal


@pytest.mark.parametrize("eye", [(0.0, -2.2, 1.2), (1.6, -1.4, 1.8), (-1.5, -1.6, 0.6)])
def test_a_decal_changes_only_what_its_projected_corners_enclose(
    eye: tuple[float, float, float],
) -> None:
    cv2 = pytest.importorskip("cv2")
    world, decal = sign_like_world()
    camera = look(eye)
    clean, patched = world.photo_pair(camera, decal, 3)
    assert np.array_equal(clean, world.photo(camera, 3))
    changed = np.abs(clean - patched).max(axis=2) > 0
    corners, _ = camera.project(decal.corners())
    scale = 16
    mask = np.zeros((120 * scale, 160 * scale), np.uint8)
    cv2.fillConvexPoly(mask, np.round((corners * scale - 0.5) * 16).astype(np.int32), 255, shift=4)
    coverage = (mask / 255.0).reshape(120, scale, 160, scale).mean(axis=(1, 3))
    assert not (changed & (cv2.dilate(coverage, np.ones((3, 3))) == 0)).any()
    assert changed[coverage == 1].mean() > 0.99


def test_a_decal_shows_its_picture_the_right_way_round() -> None:
    world, decal = sign_like_world()
    # the four quarters of the picture: red, green, blue, white from TL, TR, BL, BR
    picture = np.zeros((40, 40, 3), np.float32)
    picture[:20, :20, 0] = picture[:20, 20:, 1] = picture[20:, :20, 2] = 1
    picture[20:, 20:] = 1
    decal = Decal(picture, "wall", decal.center, decal.right, decal.down, 0.8, 0.8)
    camera = look((0.2, -2.0, 1.1), (0.2, 0, 1.1))
    _, patched = world.photo_pair(camera, decal, 2)
    tl, tr, br, bl = decal.corners()
    for corner, brightest in ((tl, [0]), (tr, [1]), (bl, [2]), (br, [0, 1, 2])):
        spot = decal.center + 0.5 * (corner - decal.center)
        (x, y), _ = camera.project(spot)
        color = patched[int(y), int(x)]
        dark = [k for k in range(3) if k not in brightest]
        assert color[brightest].min() > 0.25
        assert len(dark) == 0 or color[dark].max() < 0.06  # some haze


def test_transparent_pixels_of_a_decal_leave_the_surface_alone() -> None:
    world, decal = sign_like_world()
    rgba = np.ones((8, 8, 4), np.float32)
    rgba[:, :4, 3] = 0
    decal = Decal(rgba, "wall", decal.center, decal.right, decal.down, 0.8, 0.8)
    camera = look((0.2, -2.0, 1.1), (0.2, 0, 1.1))
    clean, patched = world.photo_pair(camera, decal, 2)
    (x, y), _ = camera.project(decal.center)
    changed = np.abs(clean - patched).max(axis=2) > 0
    assert not changed[:, : int(x) - 6].any()
    assert changed[int(y), int(x) + 8 : int(x) + 18].all()


def test_the_sun_casts_a_soft_shadow_where_it_must() -> None:
    daylight = Daylight(sun_azimuth_deg=180, sun_elevation_deg=45, sun_diameter_deg=4, clouds=0)
    gray = Material(Texture.flat((0.6, 0.6, 0.6)))
    ground = quad("ground", (-4, -4, 0), (8, 0, 0), (0, 8, 0), gray, 0.2)
    post = box("post", (0, 0, 0.5), (0.4, 2.0, 1.0), gray)
    world = World([ground, *post], daylight, bake=BakeSettings(rays=16, bounces=1))
    camera = Camera.look_at((0.5, -4.0, 5.0), (0.5, 0, 0), (0, 0, 1), 160, 120, 50)

    def brightness(x: float, y: float = 0.0) -> float:
        (column, row), _ = camera.project((x, y, 0.0))
        return float(srgb_to_linear(photo[int(row) - 1 : int(row) + 2, int(column)]).mean())

    photo = world.photo(camera, 4, Exposure(0.4))
    # the sun stands at -x, 45 degrees: a post 1 m high, its far face at x = 0.2, shades x < 1.2
    lit, dark, edge = brightness(2.2), brightness(0.8), brightness(1.2)
    assert dark < 0.5 * lit
    assert dark * 1.2 < edge < lit * 0.9


def test_more_light_under_the_open_sky_than_in_a_corner() -> None:
    gray = Material(Texture.flat((0.3, 0.3, 0.3)))
    ground = quad("ground", (-4, -4, 0), (8, 0, 0), (0, 8, 0), gray, 0.25)
    walls = box("wall", (0, 1.25, 1.5), (8, 0.5, 3), gray)
    daylight = Daylight(overcast=1.0, clouds=0)
    world = World([ground, *walls], daylight, bake=BakeSettings(rays=64, bounces=1))
    at = world._merged.vertices
    light = world.baked[:, 0]
    open_sky = light[(np.abs(at[:, 0]) < 2) & (at[:, 1] < -3) & (at[:, 2] == 0)].mean()
    corner = light[
        (np.abs(at[:, 0]) < 2) & (np.abs(at[:, 1] - 0.75) < 0.13) & (at[:, 2] == 0)
    ].mean()
    # a wall takes away nearly half of the sky at its foot; a gray one gives a little of it back
    assert 0.45 < corner / open_sky < 0.75


def test_photos_are_equal_in_another_process() -> None:
    script = (
        "import hashlib, sys; sys.path.insert(0, sys.argv[1])\n"
        "from test_worlds_tracer import look, sign_like_world\n"
        "world, decal = sign_like_world()\n"
        "clean, patched = world.photo_pair(look((1.6, -1.4, 1.8)), decal, 2)\n"
        "print(hashlib.sha256(clean.tobytes() + patched.tobytes()).hexdigest())\n"
    )
    folder = __file__.rsplit("/", 1)[0]
    run = subprocess.run(
        [sys.executable, "-c", script, folder], capture_output=True, text=True, check=True
    )
    world, decal = sign_like_world()
    clean, patched = world.photo_pair(look((1.6, -1.4, 1.8)), decal, 2)
    here = hashlib.sha256(clean.tobytes() + patched.tobytes()).hexdigest()
    assert run.stdout.strip() == here


def test_depth_and_surface_map_of_a_known_sheet() -> None:
    sheet = quad("sheet", (-1, 0, 0), (2, 0, 0), (0, 0, 2), WHITE)
    far = quad("far", (-9, 3, -9), (18, 0, 0), (0, 0, 18), BLACK)
    world = World([far, sheet], NIGHT, bake=ONCE)
    camera = Camera.look_at((0, -2, 1), (0, 0, 1), (0, 0, 1), 40, 30, 60)
    depth = world.depth(camera)
    assert depth[15, 20] == pytest.approx(2.0, abs=1e-5)
    assert depth[0, 0] == pytest.approx(5.0, abs=1e-5)  # z, not the length of the ray
    surfaces = world.surface_map(camera, 2)
    assert surfaces.shape == (60, 80)
    assert world.names[surfaces[30, 40]] == "sheet" and world.names[surfaces[0, 0]] == "far"
    away = Camera.look_at((0, -2, 1), (0, -4, 1), (0, 0, 1), 40, 30, 60)
    assert np.isinf(world.depth(away)).all() and (world.surface_map(away) == -1).all()


@pytest.mark.parametrize(
    "solid",
    [
        box("box", (0.3, 0.2, 0.1), (1, 2, 0.5), BLACK, ("+x", "-x", "+y", "-y", "+z", "-z")),
        [ball("ball", (0.3, 0.2, 0.1), (0.5, 0.7, 0.4), BLACK)],
        [cylinder("post", (0.3, 0.2, -0.4), 0.2, 1.0, BLACK, 0.1)],
        [cylinder("lying", (-0.2, 0.2, 0.1), 0.2, 1.0, BLACK, axis="x")],
        [cylinder("lying y", (0.3, -0.3, 0.1), 0.2, 1.0, BLACK, axis="y")],
    ],
    ids=["box", "ball", "cylinder", "cylinder x", "cylinder y"],
)
def test_solids_face_outwards(solid: list) -> None:
    for surface in solid:
        corners = surface.vertices[surface.faces]
        middles = corners.mean(axis=1)
        flat = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        real = np.linalg.norm(flat, axis=1) > 1e-12
        outward = middles - (0.3, 0.2, 0.1)
        assert ((flat * outward).sum(axis=1)[real] > 0).all()
        smooth = surface.normals[surface.faces].mean(axis=1)
        assert ((smooth * flat).sum(axis=1)[real] > 0).all()
        assert np.allclose(np.linalg.norm(surface.normals, axis=1), 1, atol=1e-6)


def test_an_octagon_is_fitted_by_its_texture() -> None:
    octagon = disc(
        "sign", (0, 0, 2), (1, 0, 0), (0, 0, 1), 0.5 / np.cos(np.pi / 8), BLACK, 8, np.pi / 8
    )
    assert octagon.vertices[:, 0].min() == pytest.approx(-0.5)
    assert octagon.vertices[:, 2].max() == pytest.approx(2.5)
    assert octagon.uv.min() == pytest.approx(0) and octagon.uv.max() == pytest.approx(1)
    assert np.allclose(octagon.normals, (0, -1, 0))


def test_texture_sampling_by_hand() -> None:
    # 2 x 2 texels, linear light; u = 0.5, v = 0.75 lies between the upper two
    texels = np.zeros((2, 2, 3), np.float32)
    texels[0, 0], texels[0, 1], texels[1, 0], texels[1, 1] = 0.0, 1.0, 0.2, 0.6
    atlas = TextureAtlas([Texture.flat((1, 1, 1)), Texture((texels,))])
    one = np.ones(1, np.int64)

    def at(u: float, v: float, repeat: bool = True) -> float:
        uv = np.array([[u, v]], np.float32)
        return float(atlas.sample(one, uv, np.ones(1, np.float32), repeat=repeat)[0, 0])

    assert at(0.25, 0.75) == pytest.approx(0.0)
    assert at(0.5, 0.75) == pytest.approx(0.5)
    assert at(0.75, 0.25) == pytest.approx(0.6)
    assert at(0.5, 0.5) == pytest.approx(0.45)
    assert at(1.0, 0.75) == pytest.approx(0.5)  # repeats: between the right and the left column
    assert at(1.0, 0.75, repeat=False) == pytest.approx(1.0)


def test_mips_keep_the_mean_of_linear_light() -> None:
    picture = np.random.default_rng(3).random((64, 32, 3)).astype(np.float32)
    texture = Texture.from_srgb(picture)
    assert [mip.shape[:2] for mip in texture.mips] == [(64, 32), (32, 16), (16, 8), (8, 4), (4, 2)]
    for mip in texture.mips:
        assert np.allclose(
            mip.mean(axis=(0, 1)), srgb_to_linear(picture).mean(axis=(0, 1)), atol=1e-5
        )


def test_srgb_and_back() -> None:
    values = np.linspace(0, 1, 1001)
    assert np.allclose(linear_to_srgb(srgb_to_linear(values)), values, atol=2e-6)
    assert srgb_to_linear(np.array([0.5]))[0] == pytest.approx(0.21404, abs=1e-5)
    assert linear_to_srgb(np.array([-0.5, 2.0])) == pytest.approx([0.0, 1.0], abs=1e-6)


def test_missing_embreex_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "embreex", None)
    with pytest.raises(InputError, match=r"advscene-inspector\[worlds\]"):
        Tracer(np.zeros((3, 3)), np.array([[0, 1, 2]]))
