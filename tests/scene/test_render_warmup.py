"""The warm-up compiles everything that a render needs; compiled code follows its sources."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from render_scenes import camera, random_scene

from scene.render import warmup
from scene.render.cpu import cache
from scene.render.cpu.renderer import CpuRenderer


def test_progress_names_every_stage_and_ends_at_one(monkeypatch):
    ran: list[str] = []
    stages = tuple(
        warmup.Stage(label, f"{__name__}:unused", seconds)
        for label, seconds in (("first", 1.0), ("second", 3.0))
    )
    monkeypatch.setattr(warmup, "STAGES", stages)
    monkeypatch.setattr(warmup.Stage, "run", lambda stage: ran.append(stage.label))
    seen: list[tuple[str, float]] = []
    warmup.warmup(lambda label, share: seen.append((label, share)))
    assert ran == ["first", "second"]
    assert seen == [("first", 0.0), ("second", 0.25), ("done", 1.0)]


def test_stages_name_functions_that_exist():
    for stage in warmup.STAGES:
        module, _, name = stage.function.partition(":")
        assert callable(getattr(importlib.import_module(module), name)), stage.label


def test_forward_stages_leave_nothing_to_compile():
    for stage in warmup.STAGES:
        if "warm_forward" in stage.function:
            stage.run()
    from scene.render.cpu import binning, blend, depth_sort, project

    kernels = [
        project.project, depth_sort.depth_order, depth_sort.gather_records, binning.list_pairs,
        binning.tile_starts, binning.scatter_pairs, blend.blend_color, blend.blend_depths,
    ]  # fmt: skip
    compiled = [len(kernel.signatures) for kernel in kernels]
    assert min(compiled) == 1
    for degree in (0, 1, 2, 3):
        shared = CpuRenderer(random_scene(50, degree), threads=2)
        shared.render(camera(), outputs=frozenset({"median_depth"}))
        shared.recolored(shared.packed.colors[:, 0:3].reshape(-1, 3)[:50] * 0).render(camera())
    assert [len(kernel.signatures) for kernel in kernels] == compiled


def test_an_edit_in_an_imported_module_changes_the_folder(monkeypatch, tmp_path: Path):
    copy = tmp_path / "scene" / "render" / "cpu"
    shutil.copytree(Path(cache.__file__).parent, copy)
    monkeypatch.setattr(cache, "_ROOT", tmp_path)
    hash_now = cache.source_hash.__wrapped__
    names = ("scene.render.cpu.blend", "scene.render.cpu.binning")
    blend_before, binning_before = (hash_now(name) for name in names)
    # blend imports simd_blend; binning does not, and keeps its code
    (copy / "simd_blend.py").write_text((copy / "simd_blend.py").read_text() + "\nNEW = 1\n")
    assert hash_now(names[0]) != blend_before
    assert hash_now(names[1]) == binning_before
    # both work on the record layout
    (copy / "records.py").write_text((copy / "records.py").read_text() + "\nNEW = 1\n")
    assert hash_now(names[1]) != binning_before


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"NUMBA_CACHE_DIR": "/a/b"}, "/a/b"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/advscene/kernels"),
    ],
)
def test_cache_folder_follows_the_environment(monkeypatch, variables, folder):
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache.cache_root() == Path(folder)


def test_compiled_code_is_found_again_by_another_process(tmp_path: Path):
    program = (
        "from scene.render.cpu import binning\n"
        "import numpy as np\n"
        "binning.tile_starts(np.ones((1, 3), np.int32), np.empty(4, np.int64))\n"
        "print(sum(binning.tile_starts.stats.cache_hits.values()))\n"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    hits = [
        int(subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True,
            check=True, cwd=Path(__file__).parents[2],
        ).stdout)
        for _ in range(2)
    ]  # fmt: skip
    assert hits == [0, 1]
    assert [folder.name.rpartition("-")[0] for folder in tmp_path.iterdir()] == ["binning"]
