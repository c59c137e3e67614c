"""A victim that fails without a patch makes every ASR high: that is said."""

from __future__ import annotations

import pytest

from envelope.caution import asr_caution, partial_caution


@pytest.mark.parametrize("right", [{}, {"clean": 1.0, "gray": 0.5}, {"clean": None}])
def test_nothing_to_say(right: dict[str, float | None]) -> None:
    assert asr_caution(right) == ""


def test_names_the_kinds_and_their_shares() -> None:
    said = asr_caution({"clean": 0.9, "gray": 0.25})
    assert "0.25 of gray renders" in said and "clean" not in said
    both = asr_caution({"clean": 0.0, "gray": 0.125})
    assert "0.00 of clean renders and 0.12 of gray renders" in both


def test_a_sweep_that_is_not_through_says_where_its_rates_lean() -> None:
    assert partial_caution(25, 63).startswith("caution: 25 of 63 conditions are not scored yet")
    assert partial_caution(0, 63) == partial_caution(63, 63) == ""
