"""Fixtures of the browser tests: one Chromium for all of them."""

from __future__ import annotations

import pytest
from browser_tools import CHROMIUM, FLAGS


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium with software WebGL."""
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()
