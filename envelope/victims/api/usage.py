"""What calls to an address have cost."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from scene.io.json_file import finite_number


@dataclass(frozen=True)
class Usage:
    """Counters of one victim since it was loaded.

    requests: sent. retries: of them, repeated ones. failures: pictures without an answer.
    prompt_tokens, completion_tokens: as the server counts. cost: in the provider's currency, None
    when neither the server nor the user says what tokens cost.
    """

    requests: int = 0
    retries: int = 0
    failures: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None

    def __str__(self) -> str:
        cost = "cost unknown" if self.cost is None else f"cost {self.cost:.4f}"
        return (
            f"{self.requests} requests ({self.retries} retries, {self.failures} pictures failed), "
            f"{self.prompt_tokens} + {self.completion_tokens} tokens, {cost}"
        )


@dataclass(frozen=True)
class Prices:
    """Per million tokens, None: not said."""

    prompt: float | None = None
    completion: float | None = None


class Meter:
    """Adds up; safe to use from many threads."""

    def __init__(self, prices: Prices) -> None:
        self._prices = prices
        self._usage = Usage()
        self._lock = threading.Lock()

    @property
    def usage(self) -> Usage:
        """The counters now."""
        return self._usage

    def request(self, retry: bool) -> None:
        """One request goes out."""
        with self._lock:
            now = self._usage
            self._usage = replace(now, requests=now.requests + 1, retries=now.retries + retry)

    def failure(self) -> None:
        """One picture got no answer."""
        with self._lock:
            self._usage = replace(self._usage, failures=self._usage.failures + 1)

    def answer(self, said: Any) -> None:
        """The `usage` object of a server's answer, whatever of it is there."""
        fields: Mapping[str, Any] = said if isinstance(said, Mapping) else {}
        asked, written = (
            int(finite_number(fields.get(name)) or 0)
            for name in ("prompt_tokens", "completion_tokens")
        )
        cost = finite_number(fields.get("cost"))
        if cost is None and self._prices.prompt is not None:
            cost = (asked * self._prices.prompt + written * (self._prices.completion or 0.0)) / 1e6
        with self._lock:
            now = self._usage
            total = now.cost if cost is None else (now.cost or 0.0) + cost
            self._usage = replace(
                now,
                prompt_tokens=now.prompt_tokens + asked,
                completion_tokens=now.completion_tokens + written,
                cost=total,
            )
