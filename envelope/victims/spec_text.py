"""A victim's spec as it may be shown, logged and stored beside scores: without what is secret."""

from __future__ import annotations

import re
from collections.abc import Collection

HIDDEN = "[hidden]"
_SECRET = re.compile(
    r"(key|token|secret|passw(or)?d|passphrase|pass|pwd|auth|authorization|bearer|credentials?|"
    r"signature)$",
    re.IGNORECASE,
)
_NAME = re.compile(r"[A-Za-z_]\w{0,31}")


def shown_spec(spec: str, known: Collection[str] | None = None) -> str:
    """The spec without passwords in its address and without values that may be secret.

    known: the options whose values are shown; None where a person's own code defines them, which
    hides those that are named like a key or password. What may be an address with an @ in it is
    cut at the first colon: where a password ends cannot be told.
    """
    head, colon, _ = spec.partition(":")
    in_address = "//" in spec or head == "api" or (known is not None and not known)
    if "@" in spec and in_address:
        return HIDDEN if "@" in head else f"{head}{colon}{HIDDEN}"
    name, mark, query = spec.partition("?")
    return name + mark + "&".join(_shown(part, known) for part in query.split("&"))


def shown_option(name: str) -> str:
    """An option's name; what does not look like one may be a key that was pasted."""
    return name if _NAME.fullmatch(name) else HIDDEN


def _shown(part: str, known: Collection[str] | None) -> str:
    name, equals, _ = part.partition("=")
    if known is None:
        return f"{name}={HIDDEN}" if equals and _SECRET.search(name) else part
    if not equals:
        return part if not part or name in known else HIDDEN
    return part if name in known and not _SECRET.search(name) else f"{shown_option(name)}={HIDDEN}"
