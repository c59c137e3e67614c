"""When a model has written its one box and may stop."""

from __future__ import annotations

import re

_OPENING_TAG = re.compile(r"<box>|<\|box_start\|>")
_CLOSING_TAG = re.compile(r"</box>|<\|box_end\|>")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def is_complete(text: str) -> bool:
    """Whether the answer's first box and the brackets around it are closed.

    Where a tag opens the box only its closing tag ends it. Brackets inside double quotes do not
    count; a bracket with fewer than four numbers is not yet the answer ("In picture [1] ...").
    Nothing that stands in a thought is the answer.
    """
    text = text.rpartition("</think>")[2]
    if "<think>" in text:
        return False
    if _CLOSING_TAG.search(text):
        return True
    if _OPENING_TAG.search(text):
        return False
    depth, start, quoted = 0, 0, False
    for position, letter in enumerate(text):
        if letter == '"' and depth:
            quoted = not quoted
        elif quoted:
            continue
        elif letter in "[{":
            if depth == 0:
                start = position
            depth += 1
        elif letter in "]}" and depth:
            depth -= 1
            if depth == 0 and len(_NUMBER.findall(text[start:position])) >= 4:
                return True
    return False
