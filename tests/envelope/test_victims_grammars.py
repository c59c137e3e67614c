"""The PaliGemma grammar: what is accepted, what is mended, what is refused, and why."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelope.victims.grammars import finished, read_paligemma

# a picture of 512 x 256: 1024ths are half pixels along x and quarter pixels along y
W, H = 512, 256
BOX = (256.0, 64.0, 500.0, 192.0)  # y0 256, x0 512, y1 768, x1 1000
LOCS = "<loc0256><loc0512><loc0768><loc1000>"


@pytest.mark.parametrize(
    ("text", "box", "noted"),
    [
        (f"{LOCS} stop sign", BOX, ""),  # as the model cards show it
        ("<loc0256> <loc0512> <loc0768> <loc1000> stop sign", BOX, ""),  # a tokenizer with blanks
        (f"{LOCS} stop sign<eos>", BOX, ""),  # control words kept by the decoder
        (f"<bos>{LOCS}", BOX, ""),  # no label
        (f"{LOCS} stop sign ; <loc0000><loc0000><loc0100><loc0100> stop sign", BOX, "2 boxes"),
        (f"{LOCS} stop sign ; <loc0000><loc00", BOX, "incomplete box"),  # cut off in the second
        (f"Here it is: {LOCS}", BOX, "before"),  # prose first
        ("<loc0768><loc1000><loc0256><loc0512> x", BOX, "swapped"),  # bottom right corner first
        (
            "<loc0256><loc0512><loc0768><loc1024>",
            (256.0, 64.0, 512.0, 192.0),
            "",
        ),  # 1024 = the edge
        (
            "<loc0256><loc0512><loc0768><loc1040>",
            (256.0, 64.0, 512.0, 192.0),
            "clipped",
        ),  # 1.6 % out
    ],
)
def test_boxes(text: str, box: tuple[float, ...], noted: str) -> None:
    reading = read_paligemma(text, W, H)
    assert reading.status == "ok"
    assert reading.box == pytest.approx(box)
    assert noted in "; ".join(reading.notes)
    assert bool(reading.notes) == bool(noted)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("", "empty"),
        ("  \n", "empty"),
        ("<eos>", "empty"),
        ("none", "empty"),
        ("There is no stop sign in the image.", "empty"),
        ("I'm sorry, I cannot help with that.", "refused"),
        ("unable to determine", "refused"),
        ("stop sign", "malformed"),  # words in place of a box
        ("<loc0256><loc0512><loc0768>", "malformed"),  # three of four
        ("<loc0256><loc0512><loc0768><loc10", "malformed"),  # truncated in the fourth
        ("<loc02", "malformed"),
        ("<loc0256><loc0512><loc0768><loc1100>", "malformed"),  # 7 % outside
        ("<loc0256><loc0512><loc0256><loc1000>", "malformed"),  # no height
        ("<loc-256><loc0512><loc0768><loc1000>", "malformed"),
        ("<seg001><seg002><seg003><seg004>", "malformed"),
    ],
)
def test_no_box(text: str, status: str) -> None:
    reading = read_paligemma(text, W, H)
    assert (reading.status, reading.box) == (status, None)
    assert reading.notes or status == "empty"


def test_not_a_number_is_malformed() -> None:
    assert finished((0.1, float("nan"), 0.5, 0.5), 10, 10).status == "malformed"
    assert finished((0.1, 0.1, float("inf"), 0.5), 10, 10).status == "malformed"


@given(st.text(alphabet="<>loc0123456789 seg;\nabc{}[]", max_size=80), st.integers(1, 4000))
def test_any_text_gives_a_consistent_reading(text: str, width: int) -> None:
    reading = read_paligemma(text, width, 100)
    assert (reading.box is not None) == (reading.status == "ok")
    if reading.box is not None:
        x0, y0, x1, y1 = reading.box
        assert 0 <= x0 < x1 <= width
        assert 0 <= y0 < y1 <= 100


@given(st.lists(st.integers(0, 1023), min_size=4, max_size=4))
def test_round_trip(values: list[int]) -> None:
    y0, x0, y1, x1 = values
    text = "".join(f"<loc{value:04d}>" for value in values)
    reading = read_paligemma(text, 1024, 2048)
    if x0 == x1 or y0 == y1:
        assert reading.status == "malformed"
    else:
        assert reading.box == pytest.approx(
            (min(x0, x1), 2 * min(y0, y1), max(x0, x1), 2 * max(y0, y1))
        )
