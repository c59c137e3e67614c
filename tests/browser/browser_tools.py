"""Small helpers that all browser tests share: waiting, tabs, fields, menus."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from viewer_fakes import load_red_finder, small_scene

from app.embedding import EmbedOrder
from app.session import Session
from app.victim_desk import VictimDesk
from patching.patch import Patch
from scene.scene import save_scene

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--no-sandbox --use-gl=angle --use-angle=swiftshader --enable-unsafe-swiftshader "
    "--ignore-gpu-blocklist --disable-background-networking --disable-component-update "
    "--disable-sync --no-first-run"
).split()
WAIT_MS = 120_000
AGAIN_S = 15.0
"""After so long without an effect a click is taken for lost and made again."""
VIEW = {"width": 1200, "height": 700}

MARKS = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None, reason="no chromium is installed (apt-get install chromium)"
    ),
    pytest.mark.timeout(600),
]


def embedded_session(folder: Path) -> Session:
    """The small scene with a patch embedded in it and a stand-in victim chosen."""
    save_scene(small_scene(), folder / "street.ply")
    session = Session.open(folder / "street.ply", folder / "runs")
    session.victims = VictimDesk("stop sign", load_red_finder)
    session.victims.choose("red-finder")
    colors = np.random.default_rng(3).random((8, 8, 3)).repeat(4, 0).repeat(4, 1)
    session.gallery.add(Patch.from_rgb(colors, "squares"))
    session.patchwork.choose("squares")
    session.patchwork.place_at([0.0, 3.0, 2.0], 0.5, 0.0)
    session.embed(EmbedOrder(iterations=4, figures=False))
    return session


def new_page(browser, viewer, size=None):
    """A page of its own on the viewer; script errors are kept in `page.errors`."""
    page = browser.new_page(viewport=size or VIEW)
    page.set_default_timeout(WAIT_MS)
    page.errors = []
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    open_page(page, viewer)
    return page


def open_page(page, viewer) -> None:
    """Load the viewer's page, or load it again."""
    page.goto(f"http://127.0.0.1:{viewer.server.get_port()}")
    page.wait_for_selector("canvas[data-engine]")
    until(lambda: viewer.server.get_clients())
    page.get_by_role("tab", name="Sweep", exact=True).wait_for()


def until(read, timeout_s: float = WAIT_MS / 1000, found=lambda: ""):
    """What `read` returns, as soon as it is true; `found` says what there is instead."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if value := read():
            return value
        time.sleep(0.05)
    raise AssertionError(f"not within {timeout_s} s {found()}")


def again_until(act, came):
    """What `came` returns once it is true, acting again whenever nothing has come of it.

    On a busy machine a page can move under the mouse between press and release, and the click is
    lost; whoever sits before it clicks again. `act` must do no harm when done twice.
    """
    end = time.monotonic() + WAIT_MS / 1000
    while time.monotonic() < end:
        act()
        try:
            return until(came, AGAIN_S)
        except AssertionError:
            continue
    raise AssertionError(f"nothing came of it within {WAIT_MS / 1000} s")


def press(page, name: str, came):
    """What `came` returns once a button of that name was pressed; gone, it is not pressed again."""
    button = page.get_by_role("button", name=name, exact=True)
    button.wait_for()
    return again_until(lambda: button.is_visible() and button.click(), came)


def open_folder(page, name: str, inside) -> None:
    """Open a folder of the current tab; `inside` is something that shows when it is open."""

    def act() -> None:
        if not inside.is_visible():
            page.get_by_text(name, exact=True).first.click()

    again_until(act, inside.is_visible)


def upload(page, label: str, path: Path) -> None:
    """Give a file to an upload button through the browser's file chooser."""
    button = page.get_by_role("button", name=label)
    choosers: list = []

    def opened(chooser) -> None:
        choosers.append(chooser)

    page.on("filechooser", opened)
    again_until(button.click, lambda: page.wait_for_timeout(50) or choosers)
    page.remove_listener("filechooser", opened)
    choosers[0].set_files(path)


def tab(page, name: str) -> None:
    """Open a tab."""
    page.get_by_role("tab", name=name, exact=True).click()


def row(page, label: str):
    """The row of a labelled input."""
    return page.get_by_text(label, exact=True).first.locator(
        "xpath=ancestor::*[.//input or .//textarea][1]"
    )


def text_of(page, label: str) -> str:
    """What a labelled line says."""
    return row(page, label).locator("input, textarea").first.input_value()


def choose(page, label: str, option: str) -> None:
    """Pick an option of a drop-down menu by clicks."""
    wanted = page.get_by_role("option", name=option)
    again_until(row(page, label).locator("input").first.click, wanted.is_visible)
    wanted.click()
