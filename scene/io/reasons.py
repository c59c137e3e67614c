"""What a library said about a damaged file, short enough to stand in our one sentence."""

from __future__ import annotations

_MOST = 120


def reason(error: BaseException) -> str:
    """The first line of an error's text, printable and at most 120 characters; else its type."""
    text = "".join(c if c.isprintable() else "?" for c in (str(error).splitlines() or [""])[0])
    text = text.strip() or type(error).__name__
    return text if len(text) <= _MOST else text[: _MOST - 3] + "..."
