"""What the command line prints: plain lines, JSON, and one progress line."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping
from typing import Any


def say(text: str = "") -> None:
    """Print a result line to standard output."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def say_json(value: Any) -> None:
    """Print a value as indented JSON: numpy values become plain ones, undefined numbers null."""
    say(json.dumps(_defined(value), indent=2, allow_nan=False))


def progress_line(title: str) -> Callable[[str, float], None]:
    """A callback (what, fraction in [0, 1]) that keeps one line on standard error up to date.

    Where standard error is no terminal, a line is written at every tenth.
    """
    terminal = sys.stderr.isatty()
    shown: dict[str, Any] = {"text": "", "tenth": -1}

    def update(what: str, fraction: float) -> None:
        text = f"{title}: {what} {100 * fraction:3.0f} %"
        if text == shown["text"]:
            return
        shown["text"] = text
        if terminal:
            sys.stderr.write(f"\r\033[K{text}" + ("\n" if fraction >= 1 else ""))
        elif (tenth := int(10 * fraction)) != shown["tenth"]:
            shown["tenth"] = tenth
            sys.stderr.write(text + "\n")
        sys.stderr.flush()

    return update


def _defined(value: Any) -> Any:
    """Plain JSON values; NaN and infinity become None."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _defined(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_defined(item) for item in value]
    return str(value) if hasattr(value, "__fspath__") else value
