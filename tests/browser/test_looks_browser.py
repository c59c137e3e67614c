"""What must be in sight on small screens, and what several browsers must not lose."""

from __future__ import annotations

import logging
import threading
import time

import numpy as np
import pytest
from browser_tools import MARKS, embedded_session, new_page, open_page, tab, text_of, until
from viewer_fakes import RedFinder, load_red_finder

from app.client_markers import VANISHED
from app.scoring import SweepChoice
from app.viewer import serve
from envelope.condition import Condition
from scene.errors import InputError

pytestmark = MARKS
SMALL = {"width": 1280, "height": 720}


class _Blind(RedFinder):
    """Hardly ever finds the sign, patch or no patch."""

    def predict(self, images):
        found = super().predict(images)
        from envelope.victims.protocols import Detections

        return [
            one if self.calls % 4 == 0 else Detections(np.zeros((0, 4)), np.zeros(0), ())
            for one in found
        ]


HURRY = threading.Event()


class _Slow(RedFinder):
    """Takes its time until told to hurry, so that a sweep lasts."""

    def predict(self, images):
        HURRY.wait(0.5 * len(images))
        return super().predict(images)


def _load(spec: str, label: str):
    if spec == "blind":
        return _Blind("blind")
    if spec == "slow":
        return _Slow("slow")
    if spec == "lost":
        raise InputError("lost: its weights are not here; get them by: fetch lost")
    return load_red_finder(spec, label)


@pytest.fixture(scope="module")
def viewer(tmp_path_factory):
    """A served run, scored by a victim that fails without any patch."""
    session = embedded_session(tmp_path_factory.mktemp("looks"))
    session.victims._loader = _load
    session.victims.leave_out("red-finder")
    session.victims.choose("blind")
    session.victims_changed()
    session.scoring.start(SweepChoice({"azimuth_deg": 3, "radius": 3}, 1).plan())
    assert session.scoring.service.wait(120)
    shown = serve(session, port=18440, display_budget=1000, block=False)
    yield shown
    shown.stop()


@pytest.fixture(scope="module")
def page(browser, viewer):
    page = new_page(browser, viewer, SMALL)
    yield page
    page.close()


def _in_sight(page, words: str) -> bool:
    """Whether the line that holds `words` is wholly inside its scrolling panel, unscrolled."""
    line = page.locator(f'div:has-text("{words}")').last
    return line.count() == 1 and line.evaluate(
        """line => {
            const box = line.getBoundingClientRect();
            const middle = [box.left + 5, (box.top + box.bottom) / 2];
            const there = document.elementFromPoint(...middle);
            let panel = line.parentElement;
            while (panel && !/auto|scroll/.test(getComputedStyle(panel).overflowY))
                panel = panel.parentElement;
            const frame = panel ? panel.getBoundingClientRect() : {top: 0, bottom: innerHeight};
            return box.height > 5 && box.top >= frame.top && box.bottom <= frame.bottom
                && box.bottom <= innerHeight && (line === there || line.contains(there));
        }"""
    )


def test_the_rate_its_counts_and_the_caution_are_in_sight_on_a_small_screen(page, viewer):
    summary = viewer.session.readings.summary()
    assert summary.caution and "ASR" in summary.value
    until(lambda: _in_sight(page, summary.value))
    assert summary.basis.split(";")[0] in page.locator("body").inner_text()
    assert _in_sight(page, summary.caution)
    assert _in_sight(page, summary.lines[0])
    for name in ("Start", "Stop"):
        tab(page, "Sweep")
        button = page.get_by_role("button", name=name, exact=True).bounding_box()
        assert button["y"] + button["height"] <= SMALL["height"]


def test_a_victim_without_its_weights_is_named_in_the_dock(page, viewer):
    viewer.session.victims.choose("lost")
    viewer.session.victims_changed()
    words = "lost does not score: its weights are not here; get them by: fetch lost"
    until(lambda: words in _lines(page))
    top = page.locator("textarea", has_text="").evaluate_all(
        "all => all.find(one => one.value.includes('lost does not')).getBoundingClientRect().top"
    )
    assert top < SMALL["height"] / 2
    viewer.session.victims.leave_out("lost")
    viewer.session.victims_changed()
    until(lambda: words not in _lines(page))


def _lines(page) -> list[str]:
    """What the plain text fields of the page say."""
    said = page.locator("textarea").evaluate_all("all => all.map(one => one.value)")
    return "\n".join(said).splitlines()


def test_each_browser_loses_only_the_marker_that_it_stands_in(browser, page, viewer):
    other = new_page(browser, viewer, SMALL)
    try:
        clients = until(lambda: len(c := viewer.server.get_clients()) == 2 and c)
        first, second = (clients[i] for i in sorted(clients))
        index = 4
        dome, markers = viewer.viewport.dome, viewer.viewport._markers
        viewer.go_to(dome.conditions[index], second)
        nodes = markers._nodes
        until(lambda: nodes[second.client_id].batched_scales[index] == np.float32(VANISHED))
        assert nodes[first.client_id].batched_scales[index] > 0.5
        # nor does the sliders' picture cover the viewport of the one who flew to it
        views = markers._views
        until(lambda: not views[second.client_id].visible)
        assert views[first.client_id].visible
        viewer.go_to(Condition(radius=2.0), second)
        until(lambda: nodes[second.client_id].batched_scales[index] > 0.5)
    finally:
        other.close()


def test_two_tabs_one_reloaded_in_a_sweep_lose_nothing_and_log_no_error(
    browser, page, viewer, caplog
):
    session = viewer.session
    session.victims.leave_out("blind")
    session.victims.choose("slow")
    session.victims_changed()
    panel = viewer.panels.sweep
    panel._x_count.value, panel._y_count.value, panel._variants.value = 3, 3, 2
    other = new_page(browser, viewer, SMALL)
    with caplog.at_level(logging.WARNING):
        try:
            tab(page, "Sweep")
            page.get_by_role("button", name="Start", exact=True).click()
            until(lambda: session.scoring.status().state == "running")
            for wanted in (Condition(azimuth_deg=20), Condition(azimuth_deg=-20, roll_deg=5)):
                viewer.go_to(wanted)
                open_page(other, viewer)
                assert session.condition == wanted
            tab(other, "Sweep")
            until(lambda: "running" in text_of(other, "State"))
            # a press on Stop shows in both tabs at once, long before a view is through
            other.get_by_role("button", name="Stop", exact=True).click()
            start = time.monotonic()
            until(lambda: text_of(page, "State").startswith(("stopp", "idle")), 10)
            assert time.monotonic() - start < 5
            before = session.scoring.store.counts()["scores"]
            page.get_by_role("button", name="Start", exact=True).click()
            HURRY.set()
            until(lambda: session.scoring.status().state == "running")
            assert session.scoring.service.wait(120)
            until(lambda: session.scoring.status().done == session.scoring.status().total)
        finally:
            other.close()
        until(lambda: len(viewer.server.get_clients()) == 1)
        until(lambda: len(viewer.viewport._markers._nodes) == 1)
    plan = session.scoring.plan
    table = session.readings.table()
    assert len(table.samples("slow", "adversarial")) == len(plan.views())
    assert session.scoring.store.counts()["scores"] >= before
    assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []
    assert page.errors == [] and other.errors == []
