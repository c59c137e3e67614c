"""Sliders may drop values, commands may not; errors reach the page and end no thread."""

from __future__ import annotations

import threading
import time

import pytest

from app.jobs import Job, JobDesk, LatestSlot, Worker, one_line
from scene.errors import InputError


def test_slot_keeps_only_the_newest():
    slot: LatestSlot[int] = LatestSlot()
    assert slot.take() == (False, None)
    for value in range(5):
        slot.put(value)
    assert slot.take() == (True, 4)
    assert slot.take() == (False, None)


def test_worker_skips_stale_slider_values_and_ends_on_the_last():
    seen: list[int] = []
    busy = threading.Event()
    go_on = threading.Event()

    def look(value: int) -> None:
        seen.append(value)
        busy.set()
        go_on.wait(5)

    worker = Worker(look, print)
    worker.post_latest(0)
    assert busy.wait(5)
    for value in range(1, 100):
        worker.post_latest(value)
    go_on.set()
    assert worker.wait_idle()
    assert seen == [0, 99]
    worker.stop()


def test_queue_drops_nothing_and_keeps_order():
    seen: list[int] = []
    worker = Worker(lambda value: time.sleep(0.001), print)
    threads = [
        threading.Thread(
            target=lambda k=k: [worker.post(lambda i=i: seen.append(i)) or worker.post_latest(i)
                                for i in range(k * 100, k * 100 + 100)]
        )
        for k in range(4)
    ]  # fmt: skip
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert worker.wait_idle(30)
    worker.stop()
    assert sorted(seen) == list(range(400))
    for k in range(4):
        mine = [i for i in seen if i // 100 == k]
        assert mine == sorted(mine)


def test_commands_go_before_the_slot():
    order: list[str] = []
    gate = threading.Event()
    worker = Worker(lambda value: order.append("slider"), print)
    worker.post(lambda: gate.wait(5))
    worker.post_latest(1)
    worker.post(lambda: order.append("click"))
    gate.set()
    assert worker.wait_idle()
    worker.stop()
    assert order == ["click", "slider"]


def test_an_error_is_one_sentence_at_its_place_and_the_worker_goes_on():
    page: list[str] = []
    elsewhere: list[str] = []

    def fail() -> None:
        raise InputError("wanted a picture, found a song")

    def crash() -> None:
        raise KeyError("multi\nline")

    worker = Worker(lambda value: None, elsewhere.append)
    worker.post(fail, page.append)
    worker.post(crash, page.append)
    worker.post(fail)
    done = threading.Event()
    worker.post(done.set)
    assert done.wait(5)
    worker.stop()
    assert page[0] == "wanted a picture, found a song"
    assert "KeyError" in page[1] and "\n" not in page[1]
    assert elsewhere == ["wanted a picture, found a song"]


def test_worker_finishes_its_queue_before_it_stops():
    seen: list[int] = []
    worker = Worker(lambda value: None, print)
    for i in range(50):
        worker.post(lambda i=i: seen.append(i))
    worker.stop()
    assert seen == list(range(50))


def test_job_reports_cancels_and_ends():
    progress, errors, ended = [], [], threading.Event()
    started = threading.Event()

    def work(job: Job) -> None:
        step = 0
        while not job.cancelled:
            step += 1
            job.report(step / 10, f"step {step}")
            started.set()
            time.sleep(0.005)

    desk = JobDesk()
    job = desk.start(Job("embedding", work, progress.append, errors.append, ended.set))
    assert started.wait(5)
    with pytest.raises(InputError, match="embedding is still running"):
        desk.start(Job("loading", work, progress.append, errors.append, ended.set))
    desk.cancel()
    job.join(5)
    assert ended.is_set() and not errors and desk.current is None
    assert all(0 <= p.fraction <= 1 for p in progress)
    desk.start(Job("loading", lambda job: None, progress.append, errors.append, ended.set)).join(5)


def test_a_failing_job_says_so_and_still_ends():
    errors, ended = [], threading.Event()

    def work(job: Job) -> None:
        raise InputError("the mask is 3x3, wanted 640x480")

    Job("embedding", work, print, errors.append, ended.set).start().join(5)
    assert errors == ["the mask is 3x3, wanted 640x480"] and ended.is_set()


def test_one_line_is_one_line():
    assert one_line("a\n  b\tc") == "a b c"
    assert len(one_line("x" * 1000)) == 300
