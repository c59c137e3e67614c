"""The CPU renderer under odd scenes, full buffers and several threads."""

from __future__ import annotations

import re
import threading

import numba
import numpy as np
import pytest
from render_scenes import camera, flat_color, one_gaussian, random_scene, straight_camera

from scene.gaussians import Gaussians
from scene.render.cpu import blend, cache, renderer
from scene.render.cpu.records import pack_scene
from scene.render.cpu.renderer import CpuRenderer

EVERYTHING = frozenset({"rgb", "alpha", "expected_depth", "median_depth"})


def test_empty_view_is_background():
    behind = one_gaussian((0, 0, -2))
    rendered = CpuRenderer(behind, threads=2).render(straight_camera(), (0.1, 0.2, 0.3), EVERYTHING)
    assert rendered.rgb.shape == (31, 41, 3)
    assert np.all(rendered.rgb == np.array([0.1, 0.2, 0.3], np.float32))
    for plane in (rendered.alpha, rendered.expected_depth, rendered.median_depth):
        assert np.all(plane == 0.0)


def test_no_gaussians_at_all():
    nothing = one_gaussian((0, 0, 2)).select(np.zeros(1, bool))
    rendered = CpuRenderer(nothing, threads=2).render(straight_camera(), (1.0, 1.0, 1.0))
    assert np.all(rendered.rgb == 1.0)
    assert np.all(rendered.alpha == 0.0)


def test_rows_that_are_not_finite_are_invisible():
    scene = random_scene(200, 1, seed=4)
    wanted = CpuRenderer(scene, threads=1).render(camera(), outputs=EVERYTHING)
    bad = {name: [] for name in ("means", "quats", "scales", "opacities", "sh")}
    spoilt = [("means", np.nan), ("means", np.inf), ("quats", np.nan), ("scales", np.inf),
              ("opacities", np.nan), ("sh", np.nan), ("scales", 1e25)]  # fmt: skip
    for field, value in spoilt:
        for name in bad:
            row = np.array(getattr(scene, name)[:1])
            if name == field:
                row[:] = value
            bad[name].append(row)
    mixed = Gaussians(*(
        np.concatenate([*bad[name], getattr(scene, name)]) for name in bad
    ))  # fmt: skip
    ours = CpuRenderer(mixed, threads=1).render(camera(), outputs=EVERYTHING)
    for name in ("rgb", "alpha", "expected_depth", "median_depth"):
        assert np.isfinite(getattr(ours, name)).all()
        assert np.abs(getattr(ours, name) - getattr(wanted, name)).mean() < 1e-7


def test_extreme_but_finite_gaussians_give_finite_pictures():
    # needles, a ball around the camera, one far away, one at the near plane's edge
    scene = Gaussians(
        np.array([[0, 0, 2], [0, 0, 0.02], [1e6, 0, 1e6], [0.3, 0, 0.0101], [0, 0, 3]]),
        np.array([[0.9, 0.1, 0.3, 0.3], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]]),
        np.array([[5, 1e-6, 1e-6], [3, 3, 3], [1, 1, 1], [1, 1, 1], [1e-7, 1e-7, 1e-7]]),
        np.array([0.9, 0.2, 1.0, 0.5, 1.0]),
        flat_color((0.2, 0.4, 0.6), 5),
    )
    rendered = CpuRenderer(scene, threads=1).render(straight_camera(), outputs=EVERYTHING)
    for plane in (rendered.rgb, rendered.alpha, rendered.expected_depth, rendered.median_depth):
        assert np.isfinite(plane).all()


def test_full_pair_buffers_grow(monkeypatch):
    scene = random_scene(800, 0, seed=6, size=0.2)
    wanted = CpuRenderer(scene, threads=2).render(camera(), outputs=EVERYTHING)
    monkeypatch.setattr(renderer, "_FIRST_PAIRS", 16)
    small = CpuRenderer(scene, threads=2)
    for _ in range(2):
        ours = small.render(camera(), outputs=EVERYTHING)
        assert np.array_equal(ours.rgb, wanted.rgb)
        assert np.array_equal(ours.median_depth, wanted.median_depth)
    assert len(small._free[0].pairs[0]) > 16


def test_one_and_two_and_three_threads_draw_the_same_bits():
    scene = random_scene(1000, 2, seed=7)
    pictures = [
        CpuRenderer(scene, threads=threads).render(camera(), (0.3, 0.3, 0.3), EVERYTHING)
        for threads in (1, 2, 3)
    ]
    for other in pictures[1:]:
        for name in ("rgb", "alpha", "expected_depth", "median_depth"):
            assert np.array_equal(getattr(other, name), getattr(pictures[0], name))


def test_rgb_does_not_depend_on_the_outputs_asked_for():
    shared = CpuRenderer(random_scene(500, 1, seed=8), threads=1)
    plain, full = shared.render(camera()), shared.render(camera(), outputs=EVERYTHING)
    assert np.array_equal(plain.rgb, full.rgb)
    assert plain.expected_depth is None
    assert plain.median_depth is None
    median = shared.render(camera(), outputs=frozenset({"median_depth"}))
    assert median.expected_depth is None
    assert np.array_equal(median.median_depth, full.median_depth)


def test_four_python_threads_share_a_renderer():
    shared = CpuRenderer(random_scene(2000, 1, seed=10), threads=2)
    views = [camera(turn_deg=turn) for turn in (-20.0, -5.0, 5.0, 20.0)]
    wanted = [shared.render(view, outputs=EVERYTHING) for view in views]
    different: list[str] = []

    def draw(index: int) -> None:
        for _ in range(15):
            ours = shared.render(views[index], outputs=EVERYTHING)
            for name in ("rgb", "expected_depth", "median_depth"):
                if not np.array_equal(getattr(ours, name), getattr(wanted[index], name)):
                    different.append(f"view {index}: {name}")

    workers = [threading.Thread(target=draw, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert different == []


def test_pack_puts_every_gaussian_in_one_place():
    scene = random_scene(333, 1, seed=11)
    packed = pack_scene(scene)
    assert sorted(packed.order) == list(range(333))
    assert np.array_equal(packed.order[packed.position_of], np.arange(333))
    # block 3, lane 5 is packed position 53
    original = packed.order[53]
    assert np.array_equal(packed.geometry[3, 0:3, 5], scene.means[original])
    # plane = channel * K + coefficient
    assert packed.colors[3, 2 * 4 + 1, 5] == scene.sh[original, 1, 2]
    assert packed.ids[53] == original
    # the last block is filled up with invisible ones
    assert np.all(packed.geometry[-1, 10, 333 % 16 :] <= 0)


@pytest.mark.parametrize("name", ["blend_color", "blend_depths"])
def test_blend_is_compiled_to_packed_fused_multiply_adds(name):
    """Without them (an index that could wrap, a scalar fallback) pictures take six times longer."""
    CpuRenderer(one_gaussian((0, 0, 2)), threads=1).render(straight_camera(), outputs=EVERYTHING)
    CpuRenderer(one_gaussian((0, 0, 2)), threads=1).render(straight_camera())
    cached = getattr(blend, name)
    fresh = numba.njit(**{**cache._OPTIONS, "cache": False})(cached.py_func)
    fresh.compile(cached.signatures[0])  # code from the cache cannot be inspected
    assembly = "\n".join(fresh.inspect_asm().values())
    x86 = re.findall(r"vfn?m(?:add|sub)\d+ps\s+.*%[yz]mm", assembly)
    arm = re.findall(r"fml[as]\s+v\d+\.4s", assembly)
    sse = re.findall(r"mulps\s", assembly)  # machines without FMA
    assert max(len(x86), len(arm), len(sse)) >= 20
