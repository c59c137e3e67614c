"""A small OpenAI-compatible server on 127.0.0.1 that answers as a test wants."""

from __future__ import annotations

import base64
import io
import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np


def shown_picture(body: dict[str, Any]) -> np.ndarray:
    """(H, W, 3) uint8: the picture that a request carries."""
    from PIL import Image

    url = body["messages"][0]["content"][0]["image_url"]["url"]
    assert url.startswith("data:image/png;base64,")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))))


def completion(text: str | None, **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, **more.pop("message", {})}
    choice = {"index": 0, "message": message, "finish_reason": more.pop("finish_reason", "stop")}
    return {
        "id": "x", "object": "chat.completion", "choices": [choice],
        "usage": {"prompt_tokens": 100, "completion_tokens": 20, **more.pop("usage", {})}, **more,
    }  # fmt: skip


Answer = tuple[int, dict[str, str], Any]


class FakeServer:
    """answer: (request's body, its number from 1) -> (status, headers, JSON value or bytes)."""

    def __init__(self, answer: Callable[[dict[str, Any], int], Answer]) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.at_once = self.most_at_once = 0
        self._lock = threading.Lock()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with fake._lock:
                    fake.bodies.append(body)
                    fake.headers.append(dict(self.headers))
                    fake.paths.append(self.path)
                    number = len(fake.bodies)
                    fake.at_once += 1
                    fake.most_at_once = max(fake.most_at_once, fake.at_once)
                try:
                    status, headers, value = answer(body, number)
                finally:
                    with fake._lock:
                        fake.at_once -= 1
                data = value if isinstance(value, bytes) else json.dumps(value).encode()
                try:
                    self.send_response(status)
                    for name, text in headers.items():
                        self.send_header(name, text)
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:
                    pass  # the client has left

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.address = f"http://127.0.0.1:{self.port}/v1"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def __enter__(self) -> FakeServer:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def says(text: str, delay_s: float = 0.0, **more: Any) -> Callable[[dict[str, Any], int], Answer]:
    """Always the same answer."""

    def answer(body: dict[str, Any], number: int) -> Answer:
        time.sleep(delay_s)
        return 200, {}, completion(text, **dict(more))

    return answer
