"""Read-only presentations: what a person may not do in a viewer that was started with `--present`.

The check is in the handlers, on the server: a page that was altered gets no further than one whose
buttons are hidden.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from scene.errors import InputError

P = ParamSpec("P")
R = TypeVar("R")


class Presents(Protocol):
    """Anything that knows whether it only presents."""

    @property
    def present(self) -> bool:
        """Whether changes are refused."""


H = TypeVar("H", bound=Presents)


def not_in_presentations(
    what: str,
) -> Callable[[Callable[Concatenate[H, P], R]], Callable[Concatenate[H, P], R]]:
    """Refuse the method with one sentence while its object presents. what: "opening files"."""

    def decorate(method: Callable[Concatenate[H, P], R]) -> Callable[Concatenate[H, P], R]:
        @wraps(method)
        def guarded(self: H, *args: P.args, **options: P.kwargs) -> R:
            if self.present:
                raise InputError(f"this viewer only presents: {what} is switched off")
            return method(self, *args, **options)

        guarded.refused_when_presenting = what  # type: ignore[attr-defined]
        return guarded

    return decorate


def guarded_methods(kind: type[Any]) -> list[str]:
    """Names of the methods of a class that presentations refuse."""
    return [
        name for name, member in vars(kind).items() if hasattr(member, "refused_when_presenting")
    ]
