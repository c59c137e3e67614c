"""Fixtures for the victims' tests."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scene.render.cpu.cache import cache_root


@pytest.fixture(autouse=True)
def own_timings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds a picture that tests measure stay out of the user's own file."""
    own = tmp_path / "victim-seconds.json"
    monkeypatch.setattr("envelope.victims.timings.timings_file", lambda: own)


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The network is cut: look-ups and connections fail, are listed, and fail the test at its end.

    Sockets between threads or processes of this machine (AF_UNIX, socketpair) still work.
    The list that the test gets holds what was tried so far, even when the caller swallowed it.
    """
    tried: list[str] = []

    def refuse(what: str) -> Any:
        def refused(*args: Any, **_: Any) -> Any:
            shown = [part for part in args if isinstance(part, str | tuple | bytes | int)]
            tried.append(f"{what}{tuple(shown)}")
            raise AssertionError(f"the network is cut: {tried[-1]}")

        return refused

    def connect(self: socket.socket, address: Any) -> Any:
        if self.family == socket.AF_UNIX:
            return _CONNECT(self, address)
        return refuse("connect")(address)

    for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr"):
        monkeypatch.setattr(socket, name, refuse(name))
    monkeypatch.setattr(socket, "create_connection", refuse("create_connection"))
    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket.socket, "connect_ex", connect)
    monkeypatch.setattr(socket.socket, "sendto", refuse("sendto"))
    yield tried
    assert not tried, f"the network was used: {tried}"


_CONNECT = socket.socket.connect

_PREAMBLE = """
import os
import sys

_HERE = ("127.0.0.1", int(os.environ.get("TEST_LOOPBACK_PORT", 0)))

def _watch(event, args):
    if event in ("subprocess.Popen", "os.system"):
        words = {str(word).rsplit("/", 1)[-1] for part in args[:2]
                 for word in (part.split() if isinstance(part, str) else part or ())}
        if not words & {"pip", "pip3", "uv", "git", "curl", "wget", "conda", "apt", "apt-get"}:
            return  # ctypes asks the linker where a library is
    elif event not in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname",
                       "socket.gethostbyaddr", "socket.sendto"):
        return
    elif event == "socket.connect" and isinstance(args[1], str | bytes):
        return
    elif _HERE[1] and (args[1] if event == "socket.connect" else args[:2]) == _HERE:
        return  # the one server that a test runs itself, by its number: nothing is looked up
    print("OUTSIDE", event, args[:2], file=sys.stderr, flush=True)
    raise OSError("the network is cut")

sys.addaudithook(_watch)
"""


@pytest.fixture
def run_offline(tmp_path: Path) -> Callable[..., str]:
    """Runs Python code in a fresh interpreter without network; its standard output.

    Any look-up, connection or call of an installer raises OSError there and fails the test, even
    when it is swallowed. Settings of packages start empty: HOME is a new folder. TEST_LOOPBACK_PORT:
    of the one server on 127.0.0.1 that may be reached.
    """

    def run(code: str, **environment: str) -> str:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("YOLO_", "HF_"))}
        kernels = str(cache_root())
        clean |= {"HOME": str(tmp_path), "NUMBA_CACHE_DIR": kernels, **environment}
        done = subprocess.run(
            [sys.executable, "-c", _PREAMBLE + code], env=clean, capture_output=True, text=True,
            timeout=200, cwd=Path(__file__).resolve().parents[2], check=False,
        )  # fmt: skip
        outside = [line for line in done.stderr.splitlines() if line.startswith("OUTSIDE")]
        assert not outside, f"reached outside: {outside}"
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    return run
