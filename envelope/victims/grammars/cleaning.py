"""What stands around an answer and is not part of it: control words, thoughts, code fences."""

from __future__ import annotations

import re

_CONTROL = re.compile(
    r"<(eos|bos|pad|unk|end_of_turn|start_of_turn|/s|s)>|"
    r"<\|(?!box_|object_ref_)[a-z0-9_]{1,40}\|>"
)
_THOUGHT = re.compile(r"^.*?</think>", re.DOTALL)
_FENCE = re.compile(r"```[ \t]*[A-Za-z0-9_+-]{0,20}")


def without_controls(text: str) -> str:
    """The text without beginnings and ends of turns, padding and the like."""
    return _CONTROL.sub("", text)


def cleaned(text: str) -> tuple[str, tuple[str, ...]]:
    """The answer alone, and notes on what was left out; "" when it ends inside a thought."""
    notes = []
    text = without_controls(text)
    if "</think>" in text:
        if _THOUGHT.match(text).group().replace("<think>", "").replace("</think>", "").strip():  # type: ignore[union-attr]
            notes.append("thoughts left out")
        text = _THOUGHT.sub("", text, count=1)
    elif "<think>" in text:
        return "", ("cut off while thinking",)
    if "```" in text:
        text = _FENCE.sub("", text)
        notes.append("a code fence")
    return text.strip(), tuple(notes)
