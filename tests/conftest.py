"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
# The first example of a property pays for imports and compiling, more so on a busy machine; the
# examples are the same in every run (HYPOTHESIS_PROFILE=search looks for new ones).
settings.register_profile("advscene", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "advscene"))


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real files (ADVSCENE_REAL_DATA, default ../shared/data); skips when absent."""
    default = Path(__file__).resolve().parents[1] / ".." / "shared" / "data"
    folder = Path(os.environ.get("ADVSCENE_REAL_DATA", default)).resolve()
    if not (folder / "splats").is_dir():
        pytest.skip(f"real files are absent: set ADVSCENE_REAL_DATA (looked in {folder})")
    return folder
