"""The CUDA back end's own code, on the CPU, with a stand-in for gsplat 1.5.3.

The stand-in takes and returns what gsplat's documentation and source say (argument names, leading
camera axis, tile lists, contributions listed pixel by pixel) and draws with our reference.
"""

from __future__ import annotations

import inspect
import types

import numpy as np
import pytest
import torch
from render_scenes import camera, one_gaussian, random_scene

from scene.camera import Camera
from scene.errors import InputError
from scene.render import api, cuda, reference
from scene.render.api import RenderSettings, make_renderer
from scene.render.cuda import CudaRenderer
from scene.render.reference import ReferenceRenderer, SplatTensors

EVERYTHING = frozenset({"rgb", "alpha", "expected_depth", "median_depth"})
TILE = 16


def rasterization(
    means, quats, scales, opacities, colors, viewmats, Ks, width, height, near_plane, eps2d,
    sh_degree, packed, tile_size, backgrounds, render_mode, rasterize_mode,
):  # fmt: skip
    n = len(means)
    assert means.shape == (n, 3)
    assert quats.shape == (n, 4)
    assert scales.shape == (n, 3)
    assert opacities.shape == (n,)
    assert viewmats.shape == (1, 4, 4)
    assert Ks.shape == (1, 3, 3)
    assert backgrounds.shape == (1, 3)
    assert not packed
    assert tile_size == TILE
    assert render_mode in ("RGB", "RGB+ED")
    assert rasterize_mode in ("classic", "antialiased")
    if sh_degree is None:
        assert colors.shape == (n, 3)
    else:
        assert colors.shape == (n, (sh_degree + 1) ** 2, 3)
    view = Camera(viewmats[0].numpy(), Ks[0].numpy(), width, height)
    splats = SplatTensors(
        means.double(), quats.double(), scales.double(), opacities.double(), colors.double(),
        colors=colors.double() if sh_degree is None else None,
    )  # fmt: skip
    settings = RenderSettings(near_plane, eps2d, rasterize_mode == "antialiased")
    images = reference.render_tensors(splats, view, settings)
    rgb = images.rgb + (1 - images.alpha)[..., None] * backgrounds[0]
    planes = [rgb] if render_mode == "RGB" else [rgb, images.expected_depth[..., None]]
    return (
        torch.cat(planes, dim=-1)[None].float(),
        images.alpha[None, :, :, None].float(),
        meta_of(reference.project(splats, view, settings), width, height),
    )


def meta_of(projected, width, height):
    """Lists for every tile all Gaussians, nearest first, under shuffled ids as in a scene."""
    n = len(projected.depths)
    shuffle = torch.randperm(n, generator=torch.Generator().manual_seed(0))
    tiles = -(-height // TILE), -(-width // TILE)
    spread = {"means2d": projected.xy, "conics": projected.conics,
              "opacities": projected.opacities, "depths": projected.depths}  # fmt: skip
    meta = {}
    for name, values in spread.items():
        meta[name] = torch.zeros_like(values, dtype=torch.float32)[None]
        meta[name][0, shuffle] = values.float()
    meta["isect_offsets"] = (torch.arange(tiles[0] * tiles[1]) * n).reshape(1, *tiles).int()
    meta["flatten_ids"] = shuffle.repeat(tiles[0] * tiles[1]).int()
    return meta


def rasterize_to_indices_in_range(
    range_start, range_end, transmittances, means2d, conics, opacities,
    image_width, image_height, tile_size, isect_offsets, flatten_ids,
):  # fmt: skip
    assert transmittances.shape == (1, image_height, image_width)
    n = means2d.shape[1]
    assert means2d.shape == (1, n, 2)
    assert conics.shape == (1, n, 3)
    assert opacities.shape == (1, n)
    assert isect_offsets.shape == (1, -(-image_height // tile_size), -(-image_width // tile_size))
    offsets = [*isect_offsets.reshape(-1).tolist(), len(flatten_ids)]
    batch = tile_size * tile_size
    found: list[tuple[int, int]] = []
    for pixel in range(image_height * image_width):
        row, column = divmod(pixel, image_width)
        tile = row // tile_size * isect_offsets.shape[2] + column // tile_size
        first = offsets[tile] + range_start * batch
        last = min(offsets[tile] + range_end * batch, offsets[tile + 1])
        ids = flatten_ids[first:last].long()
        delta = means2d[0, ids] - torch.tensor([column + 0.5, row + 0.5])
        a, b, c = conics[0, ids].unbind(1)
        sigma = 0.5 * (a * delta[:, 0] ** 2 + c * delta[:, 1] ** 2) + b * delta[:, 0] * delta[:, 1]
        alphas = (opacities[0, ids] * torch.exp(-sigma)).clamp(max=0.999)
        left = float(transmittances[0, row, column])
        for gaussian, alpha in zip(ids.tolist(), alphas.tolist(), strict=True):
            if alpha < 1 / 255:
                continue
            if left * (1 - alpha) <= 1e-4:
                break
            left *= 1 - alpha
            found.append((gaussian, pixel))
    pairs = torch.tensor(found, dtype=torch.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1], torch.zeros(len(pairs), dtype=torch.int64)


@pytest.fixture
def stand_in(monkeypatch):
    module = types.SimpleNamespace(
        rasterization=rasterization, rasterize_to_indices_in_range=rasterize_to_indices_in_range
    )
    monkeypatch.setattr(cuda, "load_gsplat", lambda: module)
    return module


@pytest.mark.parametrize("antialiased", [False, True])
def test_all_outputs_come_back_in_their_places(stand_in, antialiased):
    scene = random_scene(400, 2, seed=1, size=0.2)
    view = camera(41, 27)
    settings = RenderSettings(antialiased=antialiased)
    ours = CudaRenderer(scene, settings, device="cpu").render(view, (0.2, 0.4, 0.8), EVERYTHING)
    wanted = ReferenceRenderer(scene, settings).render(view, (0.2, 0.4, 0.8), EVERYTHING)
    for name in ("rgb", "alpha", "expected_depth", "median_depth"):
        assert getattr(ours, name).shape == getattr(wanted, name).shape
        assert np.abs(getattr(ours, name) - getattr(wanted, name)).mean() < 1e-5, name
    assert (wanted.median_depth > 0).mean() > 0.3


@pytest.mark.parametrize("batches", [1, 3])
def test_median_depth_does_not_depend_on_how_the_batches_are_cut(stand_in, monkeypatch, batches):
    # 900 faint Gaussians a tile, four batches of 256: the crossing falls in a later batch
    scene = random_scene(900, 0, seed=2, size=0.3)
    scene = api.Gaussians(
        scene.means, scene.quats, scene.scales, scene.opacities * np.float32(0.1), scene.sh
    )
    view = camera(20, 18)
    wanted = ReferenceRenderer(scene).render(view, outputs=EVERYTHING).median_depth
    monkeypatch.setattr(cuda, "BATCHES_AT_ONCE", batches)
    ours = CudaRenderer(scene, device="cpu").render(view, outputs=EVERYTHING).median_depth
    assert np.abs(ours - wanted).mean() < 1e-5
    assert (wanted > 0).mean() > 0.2


def test_recolored_passes_final_colors(stand_in):
    scene = random_scene(200, 1, seed=3)
    colors = np.random.default_rng(0).random((200, 3)).astype(np.float32)
    ours = CudaRenderer(scene, device="cpu").recolored(colors).render(camera(33, 21))
    wanted = ReferenceRenderer(scene).recolored(colors).render(camera(33, 21))
    assert np.abs(ours.rgb - wanted.rgb).mean() < 1e-6


def test_only_what_is_asked_for_and_an_empty_scene(stand_in):
    renderer = CudaRenderer(random_scene(50), device="cpu")
    rendered = renderer.render(camera(20, 18))
    assert rendered.expected_depth is None
    assert rendered.median_depth is None
    nothing = one_gaussian((0, 0, 2)).select(np.zeros(1, bool))
    rendered = CudaRenderer(nothing, device="cpu").render(camera(20, 18), (0.5, 0.5, 0.5))
    assert np.all(rendered.rgb == 0.5)


def test_missing_device_or_package_is_one_clear_sentence(monkeypatch):
    cuda.load_gsplat.cache_clear()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="CUDA device"):
        make_renderer(one_gaussian((0, 0, 2)), "cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(cuda, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="gsplat"):
        make_renderer(one_gaussian((0, 0, 2)), "cuda")
    cuda.load_gsplat.cache_clear()


def test_auto_needs_both_device_and_package(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(api, "find_spec", lambda name: None)
    assert make_renderer(one_gaussian((0, 0, 2)), "auto").backend == "cpu"


def test_arguments_exist_in_the_real_gsplat():
    gsplat = pytest.importorskip("gsplat", reason="gsplat is not installed")
    real = inspect.signature(gsplat.rasterization).parameters
    assert set(inspect.signature(rasterization).parameters) <= set(real)
    names = list(inspect.signature(rasterize_to_indices_in_range).parameters)
    assert list(inspect.signature(gsplat.rasterize_to_indices_in_range).parameters) == names
