"""Uploads are refused by their announced size, before anything is gathered."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from app.uploads import limit_uploads, refusal


class _Connection:
    def __init__(self) -> None:
        self.handlers: dict[type, list] = {}

    def register_handler(self, kind, handler) -> None:
        self.handlers.setdefault(kind, []).append(handler)

    def unregister_handler(self, kind, handler) -> None:
        self.handlers[kind].remove(handler)

    def send(self, message) -> None:
        for handler in self.handlers[type(message)]:
            handler(7, message)


class _Gui:
    """The two handlers of viser's GuiApi, as far as they matter here."""

    def __init__(self, connection: _Connection) -> None:
        from viser import _messages

        self._websock_interface = connection
        self._current_file_upload_states: dict[str, dict] = {}
        connection.register_handler(
            _messages.FileTransferStartUpload, self._handle_file_transfer_start
        )
        connection.register_handler(_messages.FileTransferPart, self._handle_file_transfer_part)

    def _handle_file_transfer_start(self, client_id, message) -> None:
        state = {"total_bytes": message.size_bytes, "transferred_bytes": 0}
        self._current_file_upload_states[message.transfer_uuid] = state

    def _handle_file_transfer_part(self, client_id, message) -> None:
        if message.transfer_uuid in self._current_file_upload_states:
            state = self._current_file_upload_states[message.transfer_uuid]
            state["transferred_bytes"] += len(message.content)


@pytest.fixture
def server():
    told: list[str] = []
    client = SimpleNamespace(add_notification=lambda title, body, **_: told.append(body))
    connection = _Connection()
    gui = _Gui(connection)
    return SimpleNamespace(
        gui=gui, told=told, connection=connection, get_clients=lambda: {7: client}
    )


def _start(size: int):
    from viser import _messages

    return _messages.FileTransferStartUpload("button", "t", "a.ply", "x/y", 1, size)


def _part(content: bytes):
    from viser import _messages

    return _messages.FileTransferPart("button", "t", 0, content)


@pytest.mark.parametrize(
    ("limit", "size", "taken"),
    [(100, 100, True), (100, 101, False), (0, 0, False), (100, -1, False)],
)
def test_an_upload_is_taken_only_within_the_limit(server, limit, size, taken):
    limit_uploads(server, limit)
    server.connection.send(_start(size))
    assert ("t" in server.gui._current_file_upload_states) is taken
    assert len(server.told) == (0 if taken else 1)


def test_an_upload_that_sends_more_than_it_announced_is_dropped(server):
    limit_uploads(server, 100)
    server.connection.send(_start(10))
    server.connection.send(_part(b"123456"))
    assert server.gui._current_file_upload_states["t"]["transferred_bytes"] == 6
    server.connection.send(_part(b"12345"))
    assert server.gui._current_file_upload_states == {}


def test_the_refusal_says_what_to_do():
    assert "open the file by its path" in refusal(700_000_000, 512_000_000)
    assert "presents" in refusal(1, 0)
