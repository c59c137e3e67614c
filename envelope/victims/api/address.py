"""Where pictures may be sent, and with which key."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from scene.errors import InputError

HOSTS_VARIABLE = "ADVSCENE_API_HOSTS"
KEY_VARIABLE = "ADVSCENE_API_KEY"
LOOPBACK = ("127.0.0.1", "localhost", "::1")

_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")


@dataclass(frozen=True)
class Address:
    """A checked base address. path: before `/chat/completions`, as in `/v1`."""

    secure: bool
    host: str
    port: int
    path: str

    @property
    def local(self) -> bool:
        """Whether it is this machine."""
        return self.host in LOOPBACK

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}{self.path}"


def allowed_hosts() -> tuple[str, ...]:
    """Hosts that may get pictures: this machine, and those that ADVSCENE_API_HOSTS lists."""
    named = os.environ.get(HOSTS_VARIABLE, "")
    return (*LOOPBACK, *(host.strip().lower() for host in named.split(",") if host.strip()))


def parse_address(text: str) -> Address:
    """An address as in `http://127.0.0.1:8000/v1`, if pictures may be sent there."""
    wanted = "wanted an address such as http://127.0.0.1:8000/v1"
    try:
        parts = urlsplit(text)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        # without the reason, which repeats parts of the text, such as a password
        raise InputError(f"api: {wanted}, found one whose host or port cannot be read") from None
    if parts.username is not None or parts.password is not None:
        raise InputError(f"api: {wanted}, without a name or password in it; see {KEY_VARIABLE}")
    if parts.scheme not in ("http", "https") or not host:
        found = "one with an @ in it" if "@" in text else repr(text)  # perhaps a password
        raise InputError(f"api: {wanted}, found {found}")
    if host not in allowed_hosts():
        raise InputError(
            f"api: pictures may only be sent to {', '.join(allowed_hosts())}; to allow {host}, set "
            f"{HOSTS_VARIABLE}={host}"
        )
    secure = parts.scheme == "https"
    return Address(secure, host, port or (443 if secure else 80), parts.path.rstrip("/"))


def key_of(variable: str, address: Address) -> str:
    """The key in an environment variable, "" without one. It is never stored, logged or shown."""
    if not _VARIABLE.fullmatch(variable):
        raise InputError(
            "api: key wants the NAME of an environment variable, in capitals, never a key itself"
        )
    key = os.environ.get(variable, "").strip()
    if not key and variable != KEY_VARIABLE:
        named = variable if "_" in variable else "that key= names"  # perhaps a key of capitals
        raise InputError(f"api: the environment variable {named} is not set")
    if key and not (address.secure or address.local):
        raise InputError(f"api: a key is only sent to an https address, found {address}")
    return key
