"""Fixtures of the viewer's tests that need no browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from viewer_fakes import load_red_finder, small_scene

from scene.scene import save_scene


@pytest.fixture(scope="session")
def scene_file(tmp_path_factory) -> Path:
    """The small scene as a PLY with its sidecar."""
    path = tmp_path_factory.mktemp("scene") / "street.ply"
    save_scene(small_scene(), path)
    return path


@pytest.fixture
def red_finder_loader():
    """A loader for VictimDesk that knows `red-finder` and `other`."""
    return load_red_finder
