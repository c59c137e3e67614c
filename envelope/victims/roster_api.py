"""Any grounding model behind an OpenAI-compatible address."""

from __future__ import annotations

from envelope.victims.protocols import Victim
from envelope.victims.roster import Entry, Request
from envelope.victims.vlm.families import FAMILIES


def _api(request: Request) -> Victim:
    from envelope.victims.api.victim import load_api

    return load_api(request)


def _check(request: Request) -> None:
    """A password or a key must not reach a run's file: refused before anything is stored."""
    from envelope.victims.api.address import KEY_VARIABLE, key_of, parse_address

    key_of(request.options.get("key", KEY_VARIABLE), parse_address(request.location))


ENTRIES = (
    Entry(
        "api", "grounder", "the provider's terms", _api, check=_check,
        takes="ADDRESS?model=NAME&profile=" + "|".join(FAMILIES),
        options=(
            "model", "profile", "prompt", "size", "tokens", "timeout", "tries", "concurrency",
            "units", "order", "penalty", "key", "price_in", "price_out",
        ),
        input_size=(448, 448),
        convention="as the profile says; units and order are declared for the profile json",
        evidence="declared, not known: probe it",
        source="pictures are sent to the address, which must be this machine or be named in "
        "ADVSCENE_API_HOSTS; the key is read from ADVSCENE_API_KEY",
        in_process=True,
    ),
)  # fmt: skip
