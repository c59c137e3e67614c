"""Import and first call of every victim with the network cut: no look-up, no telemetry."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest


def test_the_cut_is_one(no_network: list[str]) -> None:
    with pytest.raises(AssertionError, match="network is cut"):
        socket.create_connection(("example.org", 80))
    with pytest.raises(AssertionError, match="network is cut"):
        socket.getaddrinfo("example.org", 80)
    with socket.socket() as plain, pytest.raises(AssertionError, match="network is cut"):
        plain.connect(("10.0.0.1", 80))
    assert len(no_network) == 3
    no_network.clear()
    one, two = socket.socketpair()
    one.send(b"here")
    assert two.recv(4) == b"here"
    one.close()
    two.close()


def test_the_cut_of_a_fresh_interpreter(run_offline: Callable[..., str]) -> None:
    swallowed = "import socket\ntry: socket.create_connection(('10.0.0.1', 80), 1)\nexcept OSError: pass"
    with pytest.raises(AssertionError, match=r"reached outside.*10\.0\.0\.1"):
        run_offline(swallowed)
    assert run_offline("print('fine')") == "fine\n"
