"""Who may connect: the Origin check that viser's web server lacks.

viser accepts a websocket from any page that the same browser has open, and a websocket can drive
everything in the viewer, so a handshake is let through only when its `Origin` header is one of the
viewer's own addresses or was named with `--allow-origin`. The header is compared with a fixed list,
never with the request's own `Host`: a page whose name was re-pointed at 127.0.0.1 (DNS rebinding)
agrees with itself.
"""

from __future__ import annotations

import contextlib
import http
import io
import logging
import socket
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from scene.errors import InputError

log = logging.getLogger(__name__)

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
EVERYWHERE = ("0.0.0.0", "::", "")


@dataclass(frozen=True)
class OriginRule:
    """The origins that may open a websocket, as `scheme://host[:port]`, lower case."""

    allowed: frozenset[str]

    @classmethod
    def for_server(cls, host: str, port: int, extra: Sequence[str] = ()) -> OriginRule:
        """The viewer's own addresses at `port`, plus the origins a person allowed."""
        hosts = set(LOOPBACK)
        if host in EVERYWHERE:
            hosts.add(socket.gethostname().lower())
        else:
            hosts.add(f"[{host}]" if ":" in host else host.lower())
        own = {f"http://{name}:{port}" for name in hosts}
        if port == 80:
            own |= {f"http://{name}" for name in hosts}
        return cls(frozenset(own | {normal_origin(origin) for origin in extra}))

    def accepts(self, origin: str | None) -> bool:
        """Whether a handshake with this `Origin` header may go on; a missing one may not."""
        if origin is None:
            return False
        return origin.strip().lower() in self.allowed


def normal_origin(text: str) -> str:
    """`https://Tunnel.example/` as browsers send it: `https://tunnel.example`.

    Raises InputError when the text is not an origin.
    """
    parts = urlsplit(text.strip())
    try:
        port = parts.port
    except ValueError:
        port = 0
    if (
        port == 0
        or parts.scheme not in ("http", "https")
        or not parts.hostname
        or parts.path not in ("", "/")
    ):
        raise InputError(
            f"--allow-origin {text!r}: wanted scheme://host[:port], such as https://tunnel.example"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    usual = {"http": 80, "https": 443}[parts.scheme]
    return f"{parts.scheme}://{host}" + (f":{port}" if port not in (None, usual) else "")


def guarded_server(host: str, port: int, extra: Sequence[str], **options: Any) -> Any:
    """A running `viser.ViserServer` whose websocket handshakes pass the OriginRule.

    viser offers no hook for this, so the function that it starts its server with is wrapped while
    the server is built. A server that came up without the check is stopped again.
    """
    import viser

    _check_host(host)
    extra = [normal_origin(origin) for origin in extra]
    with _checked_handshakes(host, extra) as started, _quiet():
        server = viser.ViserServer(host=host, port=port, verbose=False, **options)
    if not started:
        server.stop()
        raise RuntimeError("this version of viser starts its server without the Origin check")
    _drop_share_tunnel(server)
    logging.getLogger("websockets.server").addFilter(was_spoken_to)
    # to a browser that leaves while it is being drawn to; viser forgets it a moment later
    warnings.filterwarnings("ignore", message="Queued a .* on a closed connection")
    return server


def was_spoken_to(record: logging.LogRecord) -> bool:
    """Whether a log record is not about a connection that closed before it asked for anything.

    Browsers open spare connections and drop them; websockets logs each as an error with traceback.
    """
    from websockets.exceptions import InvalidMessage

    error = record.exc_info[1] if record.exc_info else None
    return not (isinstance(error, InvalidMessage) and isinstance(error.__cause__, EOFError))


def _check_host(host: str) -> None:
    """Viser retries a thousand ports when the address itself is wrong; find out first."""
    try:
        family = socket.getaddrinfo(host or None, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family[0], family[1]) as probe:
            probe.bind(family[4])
    except OSError as error:
        raise InputError(
            f"--host {host}: cannot listen on this address ({error.strerror or error}); "
            "127.0.0.1 always works"
        ) from error


@contextlib.contextmanager
def _checked_handshakes(host: str, extra: Sequence[str]) -> Iterator[list[int]]:
    """While open, every websockets server that viser starts checks the Origin."""
    import websockets.asyncio.server as asyncio_server

    plain_serve = asyncio_server.serve
    started: list[int] = []

    def serve(
        handler: Any,
        bind_host: str,
        bind_port: int,
        *,
        process_request: Callable[[Any, Any], Any] | None,
        **options: Any,
    ) -> Any:
        def checked(connection: Any, request: Any) -> Any:
            port = connection.local_address[1]
            rule = OriginRule.for_server(host, port, extra)
            return _refusal(rule, connection, request) or (
                process_request(connection, request) if process_request else None
            )

        started.append(bind_port)
        return plain_serve(handler, bind_host, bind_port, process_request=checked, **options)

    asyncio_server.serve = serve  # type: ignore[misc, assignment]
    try:
        yield started
    finally:
        asyncio_server.serve = plain_serve  # type: ignore[misc]


def _refusal(rule: OriginRule, connection: Any, request: Any) -> Any:
    """A 403 for a handshake (anything that asks for an upgrade) of a foreign page, else None."""
    if "Upgrade" not in request.headers:
        return None
    origins = request.headers.get_all("Origin")
    if len(origins) == 1 and rule.accepts(origins[0]):
        return None
    found = ", ".join(origins) or "none"
    log.warning(
        "refused a connection from the page %s; start with --allow-origin to let it in", found[:200]
    )
    return connection.respond(http.HTTPStatus.FORBIDDEN, "This page may not drive the viewer.\n")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Viser prints its own address box; ours is the only address line."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield


def _drop_share_tunnel(server: Any) -> None:
    """Hiding the share button leaves its message: forget how to open a tunnel to the outside."""
    from viser import _messages

    connection = server._websock_server
    for message in (_messages.ShareUrlRequest, _messages.ShareUrlDisconnect):
        with contextlib.suppress(AssertionError):
            connection.unregister_handler(message)
