"""How large an upload may be: refused when it begins, because viser gathers it in memory."""

from __future__ import annotations

import logging
from typing import Any

log = logging.getLogger(__name__)

MOST_UPLOAD_BYTES = 512 * 10**6


def limit_uploads(server: Any, most_bytes: int = MOST_UPLOAD_BYTES) -> None:
    """Refuse uploads that announce, or send, more than `most_bytes`; 0 refuses all.

    The browser that tried is told in one sentence.
    """
    from viser import _messages

    gui, connection = server.gui, server.gui._websock_interface
    begin, take = gui._handle_file_transfer_start, gui._handle_file_transfer_part

    def checked_begin(client_id: int, message: Any) -> None:
        if 0 <= message.size_bytes <= most_bytes and most_bytes > 0:
            begin(client_id, message)
            return
        log.warning("refused an upload of %d bytes", message.size_bytes)
        client = server.get_clients().get(client_id)
        if client is not None:
            words = refusal(message.size_bytes, most_bytes)
            client.add_notification("Problem", words, color="orange", auto_close_seconds=15)

    def checked_take(client_id: int, message: Any) -> None:
        under_way = gui._current_file_upload_states
        state = under_way.get(message.transfer_uuid)
        if state is not None:
            after = state["transferred_bytes"] + len(message.content)
            if after > state["total_bytes"]:
                log.warning("dropped an upload that sent more than it announced")
                under_way.pop(message.transfer_uuid, None)
        take(client_id, message)

    for kind, plain, checked in (
        (_messages.FileTransferStartUpload, begin, checked_begin),
        (_messages.FileTransferPart, take, checked_take),
    ):
        connection.unregister_handler(kind, plain)
        connection.register_handler(kind, checked)


def refusal(size: int, most_bytes: int) -> str:
    """Why an upload of `size` bytes is not taken."""
    if most_bytes == 0:
        return "This viewer only presents: uploading is switched off."
    return (
        f"{size / 1e6:.0f} MB are too many to upload (at most {most_bytes / 1e6:.0f}); open the "
        "file by its path instead."
    )
