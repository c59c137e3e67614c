"""Foreign pages must not be able to open a websocket to the viewer."""

from __future__ import annotations

import asyncio
import socket

import pytest

from app.origin import OriginRule, guarded_server, normal_origin
from scene.errors import InputError


@pytest.mark.parametrize(
    ("origin", "accepted"),
    [
        ("http://127.0.0.1:8080", True),
        ("http://localhost:8080", True),
        ("HTTP://LocalHost:8080", True),
        ("http://[::1]:8080", True),
        ("https://tunnel.example", True),
        ("http://127.0.0.1:8081", False),  # another program's page on this machine
        ("http://127.0.0.1", False),
        ("https://127.0.0.1:8080", False),
        ("http://evil.example:8080", False),  # DNS rebinding: its Host would agree with it
        ("http://127.0.0.1:8080.evil.example", False),
        ("https://tunnel.example.evil.example", False),
        ("null", False),  # sandboxed frames and file:// pages
        ("", False),
        (None, False),
    ],
)
def test_only_own_and_named_origins_pass(origin, accepted):
    rule = OriginRule.for_server("127.0.0.1", 8080, ["https://Tunnel.example/"])
    assert rule.accepts(origin) is accepted


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("https://Tunnel.Example/", "https://tunnel.example"),
        ("https://tunnel.example:443", "https://tunnel.example"),
        ("http://box:8080", "http://box:8080"),
        ("http://[fe80::1]:8080", "http://[fe80::1]:8080"),
    ],
)
def test_origins_are_brought_to_the_form_browsers_send(text, origin):
    assert normal_origin(text) == origin


@pytest.mark.parametrize("text", ["*", "tunnel.example", "ftp://a", "http://a/page", "http://a:x"])
def test_what_is_no_origin_is_refused(text):
    with pytest.raises(InputError, match="allow-origin"):
        normal_origin(text)


def _handshake(port: int, *headers: str) -> int:
    """Status code of a raw websocket handshake with these header lines."""
    import viser

    lines = [
        "GET / HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Protocol: viser-v{viser.__version__}",
        *headers,
    ]
    with socket.create_connection(("127.0.0.1", port), timeout=10) as raw:
        raw.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        return int(raw.recv(4096).split()[1])


@pytest.fixture(scope="module")
def port():
    server = guarded_server("127.0.0.1", 18310, ["https://tunnel.example"])
    yield server.get_port()
    server.stop()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (("Origin: http://127.0.0.1:{port}",), 101),
        (("Origin: http://localhost:{port}",), 101),
        (("Origin: https://tunnel.example",), 101),
        (("Origin: http://evil.example",), 403),
        (("Origin: http://evil.example:{port}", "Host: evil.example:{port}"), 403),
        (("Origin: null",), 403),
        ((), 403),
        # two Origin headers: one good one must not carry the other
        (("Origin: http://127.0.0.1:{port}", "Origin: http://evil.example"), 403),
    ],
)
def test_real_handshakes(port, headers, status):
    assert _handshake(port, *(line.format(port=port) for line in headers)) == status


def test_a_refused_handshake_leaves_the_page_served(port):
    async def first_line() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        line = await reader.readline()
        writer.close()
        return line

    assert _handshake(port, "Origin: http://evil.example") == 403
    assert b"200" in asyncio.run(first_line())


def test_two_servers_do_not_share_a_port(port):
    second = guarded_server("127.0.0.1", port, ())
    try:
        assert second.get_port() != port
        assert _handshake(second.get_port(), f"Origin: http://127.0.0.1:{port}") == 403
    finally:
        second.stop()


def test_an_address_that_is_not_ours_is_one_sentence():
    with pytest.raises(InputError, match="--host"):
        guarded_server("203.0.113.7", 8080, ())


def test_the_share_tunnel_is_gone():
    from viser import _messages

    server = guarded_server("127.0.0.1", 18330, ())
    try:
        handlers = server._websock_server._incoming_handlers
        assert not handlers.get(_messages.ShareUrlRequest)
    finally:
        server.stop()


def test_spare_connections_are_no_errors_in_the_log():
    """Chromium opens sockets that it never uses; websockets logged a traceback for each."""
    import logging

    from websockets.exceptions import InvalidMessage

    from app.origin import was_spoken_to

    def record(cause) -> logging.LogRecord:
        error = InvalidMessage("did not receive a valid HTTP request")
        error.__cause__ = cause
        info = (type(error), error, None)
        return logging.LogRecord("websockets.server", 40, "", 0, "failed", None, info)

    assert not was_spoken_to(record(EOFError("connection closed while reading the request")))
    assert was_spoken_to(record(ValueError("invalid HTTP request line")))
    assert was_spoken_to(logging.LogRecord("websockets.server", 40, "", 0, "x", None, None))
    server = guarded_server("127.0.0.1", 18640, [], label="t")
    server.stop()
    assert was_spoken_to in logging.getLogger("websockets.server").filters
