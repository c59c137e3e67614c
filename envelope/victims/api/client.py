"""One POST with a time limit, repeated with growing pauses while that may help."""

from __future__ import annotations

import http.client
import json
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from envelope.victims.api.address import Address
from envelope.victims.api.usage import Meter

logger = logging.getLogger(__name__)

_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
_MOST_BYTES = 4_000_000
_SHOWN = 200


class ApiError(RuntimeError):
    """No answer, in one line without the key. passing: another try may help."""

    def __init__(self, message: str, passing: bool = False, wait_s: float | None = None) -> None:
        super().__init__(message)
        self.passing = passing
        self.wait_s = wait_s


@dataclass(frozen=True)
class Patience:
    """timeout_s: limit of one picture, all tries and pauses together. tries: at most.

    Pauses begin with first_wait_s, double, and never exceed longest_wait_s.
    """

    timeout_s: float = 60.0
    tries: int = 5
    first_wait_s: float = 0.5
    longest_wait_s: float = 8.0

    def wait_before(self, retry: int, asked_for: float | None) -> float:
        """Seconds before retry 1, 2, ...; asked_for: the server's Retry-After."""
        wait = self.first_wait_s * 2.0 ** (retry - 1)
        return min(max(wait, asked_for or 0.0), self.longest_wait_s)


class Client:
    """Posts to one address."""

    def __init__(
        self,
        address: Address,
        key: str,
        patience: Patience,
        meter: Meter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.address = address
        self.patience = patience
        self._key = key
        self._meter = meter
        self._sleep = sleep
        self._down = False

    def __repr__(self) -> str:
        return f"Client({self.address})"

    def post(
        self, path: str, body: Mapping[str, Any], latest: float = float("inf")
    ) -> dict[str, Any]:
        """The server's JSON answer. Raises ApiError when there is none in time.

        latest: of time.monotonic(); nothing is sent after it, however long the limit would be.
        While the last call ended without reaching the server, only one try is made: a dead server
        shall not hold everybody up.
        """
        until = min(time.monotonic() + self.patience.timeout_s, latest)
        sent = json.dumps(body).encode()
        tries = 1 if self._down else self.patience.tries
        for number in range(1, tries + 1):
            self._meter.request(retry=number > 1)
            try:
                answer = self._once(path, sent, until)
            except ApiError as error:
                wait = self.patience.wait_before(number, error.wait_s)
                if not error.passing or number == tries or time.monotonic() + wait > until:
                    self._meter.failure()
                    raise
                logger.info("%s: %s; again in %.1f s", self.address, error, wait)
                self._sleep(wait)
                continue
            self._down = False
            return answer
        raise AssertionError("unreachable: the last try returns or raises")

    def _once(self, path: str, sent: bytes, until: float) -> dict[str, Any]:
        connection = self._connection(until - time.monotonic())
        try:
            connection.connect()
            with _ended_at(until, connection.sock):
                connection.request("POST", self.address.path + path, sent, self._headers())
                response = connection.getresponse()
                self._down = False
                data = _all_of(response, connection, until)
            if time.monotonic() >= until:  # cut off, so that the rest may be lacking
                raise TimeoutError
        except (OSError, http.client.HTTPException) as error:
            self._down = True
            if isinstance(error, TimeoutError) or time.monotonic() >= until:
                raise ApiError(f"no answer within {self.patience.timeout_s:g} s") from error
            said = self.cleaned(error)
            raise ApiError(f"no connection to {self.address}: {said}", True) from error
        finally:
            connection.close()
        if response.status != 200:
            raise self._refused(response, data)
        return self._parsed(data)

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        timeout_s = max(timeout_s, 0.001)
        host, port = self.address.host, self.address.port
        if self.address.secure:
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)
        return http.client.HTTPConnection(host, port, timeout=timeout_s)

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        return headers

    def _refused(self, response: http.client.HTTPResponse, data: bytes) -> ApiError:
        status = response.status
        if 300 <= status < 400:
            return ApiError(f"HTTP {status}: {self.address} redirects, which is not followed")
        said = self.cleaned(data.decode(errors="replace"))
        text = f"HTTP {status} from {self.address}: {said or self.cleaned(response.reason)}"
        return ApiError(text, status in _PASSING, _seconds(response.getheader("Retry-After")))

    def _parsed(self, data: bytes) -> dict[str, Any]:
        try:
            answer = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ApiError(f"{self.address} answered something that is not JSON") from error
        if not isinstance(answer, dict):
            raise ApiError(f"{self.address} answered JSON that is no object")
        return answer

    def cleaned(self, said: object) -> str:
        """One short line without the key."""
        return self.without_key(" ".join(str(said).split()))[:_SHOWN]

    def without_key(self, text: str) -> str:
        """The text itself, unless a server repeats the key in it."""
        return text.replace(self._key, "[key]") if self._key else text


@contextmanager
def _ended_at(until: float, sock: socket.socket) -> Iterator[None]:
    """A socket's own limit begins anew with each byte; this one ends the exchange for good."""

    def end() -> None:
        with suppress(OSError):
            socket.socket.shutdown(sock, socket.SHUT_RDWR)  # below TLS, whose state is another's

    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    timer = threading.Timer(left, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _all_of(
    response: http.client.HTTPResponse, connection: http.client.HTTPConnection, until: float
) -> bytes:
    """The body, within the time. Raises ApiError beyond 4 MB: asking again would not shorten it."""
    data = b""
    while True:
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        if connection.sock is not None:
            connection.sock.settimeout(left)
        part = response.read1(65536)
        if not part:
            return data
        data += part
        if len(data) > _MOST_BYTES:
            raise ApiError("the answer is larger than 4 MB")


def _seconds(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None
