"""`transformers serve` as the server of the API victim: a real one, on 127.0.0.1, that is killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from envelope_fakes import ColorDetector, slot, small_stage
from vlm_fakes import BOXES, LABEL, pictures, saved, teach

from envelope.engine.jobs import ServiceSettings, VictimSlot
from envelope.engine.local import ScoringService
from envelope.metrics import Sample
from envelope.outcome import Criterion, judge
from envelope.store import ScoreStore
from envelope.sweep import SweepPlan
from envelope.victims.registry import load_victim

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Qwen3-VL that has been taught one box of a 112 x 112 picture."""
    path = saved("qwen3-vl", tmp_path_factory.mktemp("served"))
    victim = load_victim(f"qwen3-vl:{path}?size=112")
    assert teach(victim, enough=0.01) < 0.01  # type: ignore[arg-type]
    victim.model.save_pretrained(path)  # type: ignore[union-attr]
    return path


@pytest.fixture
def server(folder: Path, tmp_path: Path) -> Iterator[tuple[subprocess.Popen, str]]:
    from transformers.utils.import_utils import is_serve_available

    if not is_serve_available():
        pytest.skip("needs pip install 'transformers[serving]'")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = Path(sys.executable).with_name("transformers")
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with (tmp_path / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [command, "serve", folder, "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"],
            env=environment, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        try:
            _wait(process, port, tmp_path / "server.log")
            yield process, f"http://127.0.0.1:{port}/v1"
        finally:
            if process.poll() is None:
                process.kill()
            process.wait(10)


def _wait(process: subprocess.Popen, port: int, log: Path) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until:
        assert process.poll() is None, log.read_text()[-2000:]
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2):
                return
        except OSError:
            time.sleep(0.5)
    raise AssertionError(f"the server did not start: {log.read_text()[-2000:]}")


def test_served_and_killed_in_mid_sweep(
    folder: Path, server: tuple[subprocess.Popen, str], tmp_path: Path
) -> None:
    process, address = server
    spec = f"api:{address}?model={folder}&profile=qwen3-vl&size=112&tokens=96&tries=2&timeout=30"
    remote = load_victim(spec)
    # it answers through the server as it does in this process
    (answer,) = remote.predict(pictures()[:1], remote.prompt_for(LABEL))  # type: ignore
    assert answer.box == pytest.approx(BOXES[0], abs=0.2), answer
    assert remote.usage.completion_tokens > 20  # type: ignore[union-attr]

    stage = small_stage()
    plan = SweepPlan({"azimuth_deg": (-30, -15, 0, 15, 30), "radius": (1.0, 1.3)}, variants=2)
    total = 5 * 2 * 2 * 4
    store = ScoreStore(tmp_path / "scores.sqlite")
    service = ScoringService(
        stage, [VictimSlot("remote", lambda: remote, "red board"), slot(ColorDetector())], store,
        settings=ServiceSettings(tries=2),
    )  # fmt: skip
    service.start(plan)
    until = time.monotonic() + 60
    while service.progress().victims["remote"].pictures < 8 and time.monotonic() < until:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    assert service.wait(120)
    progress = service.progress()
    service.close()

    rows = list(store.rows())
    store.close()
    mine = [row for row in rows if row.score.victim == "remote"]
    failed = [row for row in mine if row.score.answer.status == "error"]
    assert len(mine) == total
    assert 0 < len(failed) <= total - 4
    assert all("no connection to" in row.score.answer.error for row in failed)
    others = [row for row in rows if row.score.victim != "remote"]
    assert [row.score.answer.status for row in others] == ["ok"] * total
    criterion = Criterion(label="red board")
    for row in failed:
        outcome = judge(row.score.answer, criterion, row.view.observation.box, None)
        assert Sample.of(row.view.condition, row.view.nominal.variant, outcome) is None
    assert (progress.state, progress.left, progress.errors) == ("finished", 0, len(failed))
