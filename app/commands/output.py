"""What the command line prints: plain lines, JSON, and one progress line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any


def say(text: str = "") -> None:
    """Print a result line to standard output."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def say_json(value: Any) -> None:
    """Print a value as indented JSON (numpy scalars and arrays become plain numbers and lists)."""
    say(json.dumps(value, indent=2, default=_plain, allow_nan=False))


def progress_line(title: str) -> Callable[[str, float], None]:
    """A callback (what, fraction in [0, 1]) that keeps one line on standard error up to date."""
    terminal = sys.stderr.isatty()
    shown = {"text": ""}

    def update(what: str, fraction: float) -> None:
        text = f"{title}: {what} {100 * fraction:3.0f} %"
        if text == shown["text"]:
            return
        shown["text"] = text
        if terminal:
            sys.stderr.write(f"\r\033[K{text}" + ("\n" if fraction >= 1 else ""))
        elif fraction >= 1 or fraction == 0:
            sys.stderr.write(text + "\n")
        sys.stderr.flush()

    return update


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "__fspath__"):
        return str(value)
    raise TypeError(f"cannot write {type(value).__name__} as JSON")
