"""A victim that fails without a patch makes every ASR high: that is said."""

from __future__ import annotations

import pytest

from envelope.caution import asr_caution


@pytest.mark.parametrize("right", [{}, {"clean": 1.0, "gray": 0.5}, {"clean": None}])
def test_nothing_to_say(right: dict[str, float | None]) -> None:
    assert asr_caution(right) == ""


def test_names_the_kinds_and_their_shares() -> None:
    said = asr_caution({"clean": 0.9, "gray": 0.25})
    assert "0.25 of gray renders" in said and "clean" not in said
    both = asr_caution({"clean": 0.0, "gray": 0.125})
    assert "0.00 of clean renders and 0.12 of gray renders" in both
