"""Models behind an address: what is sent, what is read, what an error does, and what never leaks."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
import traceback
from collections.abc import Iterator

import numpy as np
import pytest
from api_fakes import FakeServer, completion, says, shown_picture
from envelope_fakes import ColorDetector, red_and_blue, slot, small_stage

from envelope.engine.jobs import ServiceSettings, VictimSlot
from envelope.engine.local import ScoringService
from envelope.outcome import Criterion, judge
from envelope.store import ScoreStore
from envelope.sweep import SweepPlan
from envelope.victims.api.address import Address, allowed_hosts, key_of, parse_address
from envelope.victims.api.client import ApiError, Client, Patience
from envelope.victims.api.usage import Meter, Prices
from envelope.victims.api.victim import ApiVictim
from envelope.victims.protocols import Grounder
from envelope.victims.registry import load_victim
from scene.errors import InputError

KEY = "sk-very-secret-123"
BOX = '[{"bbox_2d": [100, 200, 300, 900], "label": "red board"}]'


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ADVSCENE_API_KEY", "ADVSCENE_API_HOSTS", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def victim_at(address: str, options: str = "", profile: str = "qwen3-vl") -> ApiVictim:
    found = load_victim(f"api:{address}?model=tiny&profile={profile}{options}")
    assert isinstance(found, ApiVictim)
    return found


def picture(count: int = 1, height: int = 60, width: int = 100) -> np.ndarray:
    rng = np.random.default_rng(2)
    return rng.integers(0, 256, (count, height, width, 3)).astype(np.uint8)


def quick(
    address: str, tries: int = 5, timeout_s: float = 5.0
) -> tuple[Client, Meter, list[float]]:
    """A client whose pauses are only written down."""
    meter, pauses = Meter(Prices()), []
    client = Client(parse_address(address), "", Patience(timeout_s, tries), meter, pauses.append)
    return client, meter, pauses


def test_what_is_sent_and_read() -> None:
    with FakeServer(says(BOX)) as server:
        victim = victim_at(server.address, "&size=native")
        assert isinstance(victim, Grounder)
        images = picture()
        (answer,) = victim.predict(images, victim.prompt_for("Red-Board"))
        # 100-300 of 1000 on 100 px, 200-900 of 1000 on 60 px
        assert answer.box == pytest.approx((10, 12, 30, 54))
        assert (answer.status, answer.raw_text) == ("ok", BOX)
        assert victim.info.seconds_per_picture > 0
        (body,) = server.bodies
        assert server.paths == ["/v1/chat/completions"]
        assert (body["model"], body["temperature"], body["stream"]) == ("tiny", 0, False)
        assert body["max_tokens"] == 256
        assert body["messages"][0]["content"][1]["text"] == victim.prompt_for("red board")
        np.testing.assert_array_equal(shown_picture(body), images[0])
        assert "Authorization" not in server.headers[0]
        assert "repetition_penalty" not in body
        # by default pictures are stretched to the size of the paper; the box does not move
        square = victim_at(server.address)
        assert square.predict(images, "x")[0].box == pytest.approx((10, 12, 30, 54))
        assert shown_picture(server.bodies[1]).shape == (448, 448, 3)
        assert victim.usage.prompt_tokens == 100
        # a server's own penalty would change digits
        victim_at(server.address, "&penalty=1").predict(images, "x")
        assert server.bodies[2]["repetition_penalty"] == 1


def test_colors_and_rows_arrive_the_right_way_round() -> None:
    images = np.zeros((1, 60, 100, 3), np.uint8)
    images[0, :20, 50:, 0] = 255  # red, top right
    with FakeServer(says(BOX)) as server:
        victim_at(server.address).predict(images, "x")
        shown = shown_picture(server.bodies[0])
    assert tuple(shown[20, 400]) == (255, 0, 0)
    assert shown[300:].max() == 0 and shown[:, :200].max() == 0


@pytest.mark.parametrize(
    ("profile", "options", "text", "box"),
    [
        ("internvl3", "", "<ref>x</ref><box>[[100, 200, 300, 900]]</box>", (10, 12, 30, 54)),
        ("minicpm-v", "", "<box>100 200 300 900</box>", (10, 12, 30, 54)),
        ("lfm2.5-vl", "", '[{"label": "x", "bbox": [0.1, 0.2, 0.3, 0.9]}]', (10, 12, 30, 54)),
        ("lfm2.5-vl-3b", "", '[{"label": "x", "bbox": [100, 200, 300, 900]}]', (10, 12, 30, 54)),
        ("paligemma", "", "<loc0256><loc0512><loc0768><loc1000> x", (50, 15, 97.65625, 45)),
        # sent as 448 x 448, which is a multiple of 28
        ("qwen2.5-vl", "", '{"bbox_2d": [44.8, 89.6, 134.4, 403.2]}', (10, 12, 30, 54)),
        # sent as 100 x 60: the server's processor makes 112 x 56 of it
        ("qwen2.5-vl", "&size=native", '{"bbox_2d": [11.2, 11.2, 33.6, 50.4]}', (10, 12, 30, 54)),
        ("json", "", '{"box": [100, 200, 300, 900]}', (10, 12, 30, 54)),
        ("json", "&units=1", '{"box": [0.1, 0.2, 0.3, 0.9]}', (10, 12, 30, 54)),
        ("json", "&units=1000&order=yxyx", '{"box": [200, 100, 900, 300]}', (10, 12, 30, 54)),
        ("json", "&units=pixels", '{"box": [44.8, 89.6, 134.4, 403.2]}', (10, 12, 30, 54)),
        ("json", "&units=pixels&size=native", '{"box": [10, 12, 30, 54]}', (10, 12, 30, 54)),
    ],
)  # fmt: skip
def test_profiles_state_the_grammar(profile: str, options: str, text: str, box: tuple) -> None:
    with FakeServer(says(text)) as server:
        (answer,) = victim_at(server.address, options, profile).predict(picture(), "x")
    assert answer.status == "ok", answer
    assert answer.box == pytest.approx(box)


def test_the_prompt_of_the_profile_json_says_what_is_wanted() -> None:
    victim = victim_at("http://127.0.0.1:9/v1", "&units=1&order=yxyx&prompt=p2", "json")
    prompt = victim.prompt_for("Stop_Sign")
    assert "stop sign" in prompt and "[y1, x1, y2, x2]" in prompt and "shares from 0 to 1" in prompt
    assert victim.info.settings["prompt_variant"] == "p2"


@pytest.mark.parametrize(
    ("answer", "status", "noted"),
    [
        (completion(""), "empty", ""),
        (completion(None), "empty", ""),
        (completion("[]"), "empty", ""),
        (completion(None, message={"refusal": "I won't."}), "refused", "by the server"),
        (completion("", finish_reason="content_filter"), "refused", "by the server"),
        (completion('[{"bbox_2d": [100, 2', finish_reason="length"), "malformed", "token limit"),
        (completion("I'm sorry, I cannot help."), "refused", ""),
    ],
)
def test_answers_without_a_box(answer: dict, status: str, noted: str) -> None:
    with FakeServer(lambda body, number: (200, {}, answer)) as server:
        (found,) = victim_at(server.address).predict(picture(), "x")
    assert (found.status, found.box) == (status, None)
    assert noted in "; ".join(found.notes)


def test_content_in_parts() -> None:
    parts = [{"type": "text", "text": BOX[:20]}, {"type": "text", "text": BOX[20:]}]
    with FakeServer(lambda body, number: (200, {}, completion(parts))) as server:
        assert victim_at(server.address).predict(picture(), "x")[0].status == "ok"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((200, {}, b"<html>"), "not JSON"),
        ((200, {}, b"[1]"), "no object"),
        ((200, {}, b"[" * 200_000), "not JSON"),
        ((200, {}, {"choices": []}), r"no choices\[0\].message"),
        ((200, {}, {"error": {"message": "upstream is away"}}), "upstream is away"),
        ((401, {}, {"error": "wrong key"}), "HTTP 401"),
        ((404, {}, b""), "HTTP 404"),
        ((302, {"Location": "http://127.0.0.1:1/"}, b""), "redirects, which is not followed"),
        ((200, {}, b"x" * 5_000_000), "larger than 4 MB"),
    ],
)
def test_what_is_no_answer_is_an_error_and_not_asked_again(answer: tuple, message: str) -> None:
    with FakeServer(lambda body, number: answer) as server:
        victim = victim_at(server.address, "&tries=1")
        with pytest.raises(ApiError, match=message) as caught:
            victim.predict(picture(), "x")
        assert "\n" not in str(caught.value)
        assert len(server.bodies) == 1


def test_pauses_double_and_are_capped_and_end() -> None:
    with FakeServer(lambda body, number: (503, {}, b"busy")) as server:
        client, meter, pauses = quick(server.address, tries=7, timeout_s=100)
        with pytest.raises(ApiError, match="HTTP 503"):
            client.post("/chat/completions", {})
    assert pauses == [0.5, 1, 2, 4, 8, 8]
    usage = meter.usage
    assert (usage.requests, usage.retries, usage.failures) == (7, 6, 1)


def test_the_server_may_ask_for_more_patience_up_to_the_cap() -> None:
    def answer(body: dict, number: int):
        if number < 3:
            return 429, {"Retry-After": "3" if number == 1 else "3600"}, b""
        return 200, {}, completion(BOX)

    with FakeServer(answer) as server:
        client, meter, pauses = quick(server.address, timeout_s=100)
        client.post("/chat/completions", {})
    assert pauses == [3, 8]
    assert meter.usage.failures == 0


def test_a_pause_that_would_end_after_the_limit_is_not_begun() -> None:
    with FakeServer(lambda body, number: (500, {}, b"")) as server:
        client, _, pauses = quick(server.address, timeout_s=0.4)
        with pytest.raises(ApiError, match="HTTP 500"):
            client.post("/chat/completions", {})
    assert pauses == []


def test_time_limit() -> None:
    with FakeServer(says(BOX, delay_s=1.5)) as server:
        victim = victim_at(server.address, "&timeout=0.3")
        start = time.monotonic()
        with pytest.raises(ApiError, match=r"no answer within 0\.3 s"):
            victim.predict(picture(), "x")
        assert time.monotonic() - start < 1.2


def test_an_answer_that_is_too_long_is_final_and_says_nothing_about_the_server() -> None:
    """It was asked for five times, and later pictures got one try, as behind a dead server."""

    def answer(body: dict, number: int):
        return (200, {}, b"x" * 5_000_000) if number == 1 else (503, {}, b"busy")

    with FakeServer(answer) as server:
        client, meter, pauses = quick(server.address)
        with pytest.raises(ApiError, match="larger than 4 MB"):
            client.post("/chat/completions", {})
        assert (len(server.bodies), pauses) == (1, [])
        with pytest.raises(ApiError, match="HTTP 503"):
            client.post("/chat/completions", {})
    assert meter.usage.requests == 1 + 5


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"])
def test_dripping_bytes_do_not_stretch_the_limit(head: bytes) -> None:
    """A header or a body, a byte each 50 ms: no single wait is long."""

    def drip() -> None:
        found, _ = listening.accept()
        with found, contextlib.suppress(OSError):
            found.recv(65536)
            found.sendall(head)
            for letter in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"y" * 70:
                found.sendall(bytes([letter]))
                time.sleep(0.05)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=drip)
        thread.start()
        client, _, pauses = quick(f"http://127.0.0.1:{listening.getsockname()[1]}", timeout_s=0.4)
        start = time.monotonic()
        with pytest.raises(ApiError, match=r"no answer within 0\.4 s"):
            client.post("/chat/completions", {})
        assert time.monotonic() - start < 1.5
        assert pauses == []
        thread.join()


def test_a_dead_server_costs_its_patience_once() -> None:
    with FakeServer(says(BOX)) as server:
        client, meter, pauses = quick(server.address, tries=4, timeout_s=100)
        client.post("/chat/completions", {})
    for _ in range(3):
        with pytest.raises(ApiError, match=r"no connection to http://127\.0\.0\.1"):
            client.post("/chat/completions", {})
    assert pauses == [0.5, 1, 2]
    assert meter.usage.requests == 1 + 4 + 1 + 1


def test_concurrency_is_limited() -> None:
    with FakeServer(says(BOX, delay_s=0.15)) as server:
        victim = victim_at(server.address, "&concurrency=3")
        victim.predict(picture(8), "x")
        assert server.most_at_once == 3
        assert victim.concurrency == 3


def test_a_failed_batch_keeps_its_good_answers() -> None:
    images = picture(3)

    def answer(body: dict, number: int):
        bad = (shown_picture(body) == images[1]).all()
        return (400, {}, b"no") if bad and number <= 3 else (200, {}, completion(BOX))

    with FakeServer(answer) as server:
        victim = victim_at(server.address, "&size=native")
        with pytest.raises(ApiError, match="HTTP 400"):
            victim.predict(images, "x")
        assert len(server.bodies) == 3
        answers = [victim.predict(images[i : i + 1], "x")[0] for i in range(3)]
        # only the one that failed was asked again; an answer is used once
        assert len(server.bodies) == 4
        assert {a.status for a in answers} == {"ok"}
        victim.predict(images[:1], "x")
        assert len(server.bodies) == 5


def test_cost() -> None:
    with FakeServer(says(BOX)) as server:
        victim = victim_at(server.address, "&price_in=2&price_out=10")
        victim.predict(picture(2), "x")
        # 2 x (100 x 2 + 20 x 10) / 1e6
        assert victim.usage.cost == pytest.approx(0.0008)
        assert str(victim.usage).endswith("200 + 40 tokens, cost 0.0008")
        assert victim_at(server.address).usage.cost is None
    with FakeServer(says(BOX, usage={"cost": 0.25, "prompt_tokens": "many"})) as server:
        victim = victim_at(server.address)
        victim.predict(picture(2), "x")
        assert (victim.usage.cost, victim.usage.prompt_tokens) == (0.5, 0)


def test_the_key_is_sent_and_never_shown(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    echo = {"error": f"the key {KEY} is wrong"}
    with FakeServer(lambda body, number: (503 if number < 2 else 401, {}, echo)) as server:
        victim = victim_at(server.address, "&key=MY_KEY")
        with pytest.raises(ApiError, match=r"the key \[key\] is wrong") as caught:
            victim.predict(picture(), "x")
        assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    shown = f"{caught.value!r} {victim.info} {victim._client!r} {victim.usage} {caplog.text}"
    assert KEY not in shown
    assert "again in" in caplog.text


def test_an_answer_that_repeats_the_key_is_stored_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    with FakeServer(says(f"you sent {KEY}, {BOX}")) as server:
        (answer,) = victim_at(server.address, "&key=MY_KEY").predict(picture(), "x")
    assert answer.status == "ok"
    assert answer.raw_text == f"you sent [key], {BOX}"


def test_an_answer_without_text_counts_as_a_failed_picture() -> None:
    with FakeServer(lambda body, number: (200, {}, {"error": "no"})) as server:
        victim = victim_at(server.address)
        with pytest.raises(ApiError, match="holds no text"):
            victim.predict(picture(), "x")
        assert (victim.usage.requests, victim.usage.failures) == (1, 1)


def test_keys_that_are_not_ours_stay_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with FakeServer(says(BOX)) as server:
        victim_at(server.address).predict(picture(), "x")
        assert "Authorization" not in server.headers[0]


def test_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    here = parse_address("http://localhost:8000/v1")
    with pytest.raises(InputError, match="NAME of an environment variable") as caught:
        key_of(KEY, here)
    assert KEY not in str(caught.value)
    with pytest.raises(InputError, match="NO_SUCH_KEY is not set"):
        key_of("NO_SUCH_KEY", here)
    monkeypatch.setenv("ADVSCENE_API_KEY", KEY)
    assert key_of("ADVSCENE_API_KEY", here) == KEY
    with pytest.raises(InputError, match="only sent to an https address"):
        key_of("ADVSCENE_API_KEY", Address(False, "10.0.0.4", 80, ""))
    assert key_of("ADVSCENE_API_KEY", Address(True, "10.0.0.4", 443, "")) == KEY


def test_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    assert str(parse_address("http://127.0.0.1:8000/v1/")) == "http://127.0.0.1:8000/v1"
    assert str(parse_address("http://[::1]/v1")) == "http://[::1]:80/v1"
    with pytest.raises(InputError, match=r"only be sent to 127.0.0.1.*ADVSCENE_API_HOSTS=openr"):
        parse_address("https://openrouter.ai/api/v1")
    monkeypatch.setenv("ADVSCENE_API_HOSTS", "openrouter.ai, 10.0.0.4")
    assert allowed_hosts()[-2:] == ("openrouter.ai", "10.0.0.4")
    assert str(parse_address("https://OpenRouter.ai/api/v1")) == "https://openrouter.ai:443/api/v1"
    with pytest.raises(InputError, match="may only be sent"):
        parse_address("https://openrouter.ai.evil.example/v1")
    for bad in ("openrouter.ai/v1", "ftp://127.0.0.1/", "http://:80/", "http://127.0.0.1:x/v1", ""):
        with pytest.raises(InputError, match="wanted an address"):
            parse_address(bad)
    with pytest.raises(InputError, match="without a name or password") as caught:
        parse_address(f"http://me:{KEY}@127.0.0.1/v1")
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        f"http://127.0.0.1:me:{KEY}@x/v1",  # a port that is no number
        f"http://me@127.0.0.1:{KEY}/v1",
        f"http://me:{KEY}@[127.0.0.1/v1",  # brackets that do not close
        f"http://me:{KEY}@\u2100.example/v1",  # a character that would become a/c
        f"me:{KEY}@127.0.0.1/v1",  # without http
        f"ftp:///me:{KEY}@127.0.0.1/v1",
    ],
)
def test_a_password_in_an_address_is_never_repeated(text: str) -> None:
    with pytest.raises(InputError, match="wanted an address") as caught:
        parse_address(text)
    assert KEY not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("profile=qwen3-vl", "wanted the model's name"),
        ("model=m&profile=gpt", "no profile 'gpt'; there are: paligemma, internvl3"),
        ("model=m&prompt=p7", "prompt wants native, p1, p2, p3"),
        ("model=m&units=percent", "units: wanted 1000, 1, pixels"),
        ("model=m&concurrency=0", "concurrency wants a number in 1..64"),
        ("model=m&colour=1", "unknown option 'colour'"),
    ],
)
def test_bad_specs(options: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_victim(f"api:http://127.0.0.1:9/v1?{options}")


@pytest.fixture
def store(tmp_path) -> Iterator[ScoreStore]:
    opened = ScoreStore(tmp_path / "scores.sqlite")
    yield opened
    opened.close()


def test_a_server_that_dies_in_mid_sweep_leaves_error_rows_and_the_sweep_goes_on(
    store: ScoreStore,
) -> None:
    """Nothing of the dead one is counted; the other victim is scored to the end."""

    def answer(body: dict, number: int):
        if number > 12:
            return 503, {}, b"dying"
        red, _ = red_and_blue(shown_picture(body))
        rows, columns = np.flatnonzero(red.any(axis=1)), np.flatnonzero(red.any(axis=0))
        four = [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]
        return 200, {}, completion(f'{{"bbox_2d": {[round(v / 448 * 1000) for v in four]}}}')

    stage = small_stage()
    plan = SweepPlan({"azimuth_deg": (-30, -15, 0, 15, 30)}, variants=2)
    with FakeServer(answer) as server:
        remote = VictimSlot("remote", lambda: victim_at(server.address, "&tries=1"), "red board")
        service = ScoringService(
            stage, [remote, slot(ColorDetector())], store, settings=ServiceSettings(tries=3)
        )
        service.start(plan)
        assert service.wait(60)
        progress = service.progress()
        service.close()
    scores = [score for view in store.views(stage.geometry) for score in store.scores(view)]
    answers = [score.answer for score in scores if score.victim == "remote"]
    failed = [answer for answer in answers if answer.status == "error"]
    assert len(answers) == 5 * 2 * 4
    assert len(failed) == 40 - 12
    assert all("HTTP 503" in answer.error and "dying" in answer.error for answer in failed)
    assert all(
        judge(a, Criterion(label="red board"), (0, 0, 9, 9), None).success is None for a in failed
    )
    good = [answer for answer in answers if answer.status == "ok"]
    assert len(good) == 12
    others = [score for score in scores if score.victim != "remote"]
    assert len(others) == 40
    assert {score.answer.status for score in others} == {"ok"}
    assert (progress.state, progress.errors, progress.left) == ("finished", 28, 0)
    # the client's own tries are all: the engine does not multiply them
    assert progress.victims["remote"].usage.startswith(
        "40 requests (0 retries, 28 pictures failed)"
    )
    assert {score.predict_ms for score in scores if score.answer.status == "error"} == {None}
    assert progress.victims["colors"].usage == ""
    prompts = {score.prompt for score in scores if score.victim == "remote"}
    assert prompts == {"Locate the red board, report the bbox coordinates in JSON format."}


def test_the_engine_waits_as_long_as_the_victim_does(store: ScoreStore) -> None:
    """Its own shorter limit gave up on calls whose threads went on sending, three times each."""
    settings = ServiceSettings(call_timeout_s=0.2, tries=3)
    with FakeServer(says(BOX, delay_s=0.6)) as server:
        spec = "&timeout=30&concurrency=1"
        service = ScoringService(
            small_stage(), [VictimSlot("slow", lambda: victim_at(server.address, spec), "red board")],
            store, settings=settings,
        )  # fmt: skip
        service.start(SweepPlan({"radius": (1.0,)}, variants=1, kinds=("clean", "adversarial")))
        assert service.wait(60)
        service.close()
        assert len(server.bodies) == 2
    assert {score.answer.status for score in store.scores()} == {"ok"}


def test_nothing_is_sent_after_the_limit_of_a_call() -> None:
    """Six pictures, two at a time, 0.4 s each with its tries: three rounds, then silence."""
    with FakeServer(lambda body, number: (503, {}, b"busy")) as server:
        victim = victim_at(server.address, "&timeout=0.4&tries=20&concurrency=2")
        assert victim.call_limit_s(6) == pytest.approx(3 * 0.4 + 10)
        assert victim.call_limit_s(5) == victim.call_limit_s(6) > victim.call_limit_s(4)
        with pytest.raises(ApiError, match="HTTP 503") as caught:
            victim.predict(picture(6), "x")
        assert [type(answer) for answer in caught.value.answers] == [ApiError] * 6
        sent = len(server.bodies)
        with pytest.raises(ApiError, match="no answer within"):
            victim._client.post("/chat/completions", {}, time.monotonic())
        assert len(server.bodies) == sent
