"""Boxes written with digits: every noise that models make, and none that changes a number."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envelope.victims.conventions import Frame
from envelope.victims.grammars import Reading, Scale, is_complete, read_written
from envelope.victims.grammars.forms import Form
from envelope.victims.vlm.families import FAMILIES

# a picture of 1000 x 500: thousandths are pixels along x and half pixels along y
W, H = 1000, 500
BOX = (100.0, 100.0, 300.0, 450.0)  # written 100 200 300 900
FOUR = "100, 200, 300, 900"


def read(text: str, own: Form = "keyed", scale: Scale | None = None) -> Reading:
    return read_written(text, W, H, own, scale or Scale())


@pytest.mark.parametrize(
    ("own", "text", "noted"),
    [
        # as each family writes
        ("tagged", f"<ref>person</ref><box>[[{FOUR}]]</box>", ""),
        ("tagged", f"<box>[[{FOUR}]]</box>", ""),  # without <ref>
        ("tagged", "<box>100 200 300 900</box>", ""),  # MiniCPM-V
        ("tagged", "<box>100,200,300,900</box>", ""),  # with commas
        ("tagged", "<|box_start|>(100,200),(300,900)<|box_end|><|im_end|>", ""),
        ("keyed", f'[{{"bbox_2d": [{FOUR}], "label": "person"}}]', ""),
        ("keyed", f'[{{"label": "person", "bbox": [{FOUR}]}}]', ""),
        # fences, prose, trailing text
        ("keyed", f'```json\n[\n\t{{"bbox_2d": [{FOUR}], "label": "p"}}\n]\n```', "code fence"),
        ("keyed", f'```\n{{"bbox_2d": [{FOUR}]}}', "code fence"),
        ("keyed", f'Here it is: {{"bbox_2d": [{FOUR}]}}', "text before"),
        ("keyed", f'{{"bbox_2d": [{FOUR}]}} I hope this helps.', "text after"),
        ("tagged", f"The person is at <box>[[{FOUR}]]</box>.", "text before"),
        ("keyed", f'The picture is [640, 480] wide. {{"bbox_2d": [{FOUR}]}}', "text before"),
        ("keyed", f'<think>perhaps [1, 2, 3, 4]</think>{{"bbox_2d": [{FOUR}]}}', "thoughts"),
        ("keyed", f'<think>\n\n</think>\n\n{{"bbox_2d": [{FOUR}]}}', ""),  # an empty thought
        # single quotes, strings, nesting, other containers
        ("keyed", f"[{{'bbox_2d': [{FOUR}], 'label': 'person'}}]", "single quotes"),
        ("keyed", '{"bbox_2d": ["100", "200", "300", "900"]}', "numbers as strings"),
        ("keyed", f'{{"bbox_2d": "{FOUR}"}}', "numbers as strings"),
        ("keyed", f'{{"bbox_2d": "[{FOUR}]"}}', "numbers as strings"),
        ("keyed", f'{{"bbox_2d": [[{FOUR}]]}}', ""),
        ("keyed", '{"bbox_2d": [[100, 200], [300, 900]]}', ""),  # corner points
        ("keyed", "bbox: (100, 200), (300, 900)", ""),
        ("keyed", f'{{"objects": [{{"bbox": [{FOUR}]}}]}}', ""),
        ("keyed", f'{{"box": {{"coordinates": [{FOUR}]}}}}', ""),
        ("keyed", '{"box": {"x1": 100, "y1": 200, "x2": 300, "y2": 900}}', "corners by name"),
        ("keyed", '{"ymin": 200, "xmin": 100, "ymax": 900, "xmax": 300}', "corners by name"),
        ("keyed", '{"bbox_2d": [100.0, 2e2, 300., 900]}', ""),
        ("keyed", '{"bbox_2d" : [ 100 ,200,\n300 , 900 ] }', ""),
        # another form than the family's own
        ("keyed", f"<box>[[{FOUR}]]</box>", "in place of JSON"),
        ("tagged", f'{{"bbox_2d": [{FOUR}]}}', "in place of tags"),
        ("tagged", f"person[[{FOUR}]]", "a bare list"),
        ("keyed", f"[{FOUR}]", "a bare list"),
        ("keyed", "The person is at (100, 200), (300, 900).", "a bare list"),
        ("keyed", f"Bounding box coordinates: the person is at [{FOUR}].", "a bare list"),
        # several boxes, loops, a cut behind the first
        ("keyed", f'[{{"bbox_2d": [{FOUR}]}}, {{"bbox_2d": [1, 2, 3, 4]}}]', "2 boxes, the first"),
        ("tagged", f"<box>[[{FOUR}], [1, 2, 3, 4]]</box>", "2 boxes, the first"),
        ("keyed", f'{{"bbox_2d": [{FOUR}]}}\n' * 40, "40 boxes, the first"),
        ("keyed", f'[{{"bbox_2d": [{FOUR}]}}, {{"bbox_2d": [1, 2', "incomplete box follows"),
        ("tagged", f"<box>[[{FOUR}]], [[1, 2", "cut off after the box"),
        ("tagged", f"<box>[[{FOUR}]]", "no closing tag"),
        ("keyed", f'[{{"bbox_2d": [{FOUR}], "lab', ""),
        # corners
        ("keyed", '{"bbox_2d": [300, 900, 100, 200]}', "swapped"),
        ("keyed", '{"bbox_2d": [300, 200, 100, 900]}', "swapped"),
    ],
)
def test_tolerated(own: Form, text: str, noted: str) -> None:
    reading = read(text, own)
    assert reading.status == "ok", reading
    assert reading.box == pytest.approx(BOX)
    assert noted in "; ".join(reading.notes)
    if not noted and '"lab' not in text[-6:]:
        assert reading.notes == ()


@pytest.mark.parametrize(
    ("text", "box"),
    [
        ('{"bbox_2d": [100, 200, 300, 1000]}', (100, 100, 300, 500)),  # the edge itself
        ('{"bbox_2d": [100, 200, 300, 1020]}', (100, 100, 300, 500)),  # 2 % out
        ('{"bbox_2d": [-20, -20, 300, 900]}', (0, 0, 300, 450)),
        ('{"bbox_2d": [-20.1, 200, 300, 900]}', None),
        ('{"bbox_2d": [100, 200, 300, 1021]}', None),
    ],
)
def test_two_percent_outside_is_clipped_and_noted(text: str, box: tuple | None) -> None:
    reading = read(text)
    if box is None:
        assert (reading.status, reading.notes[-1]) == ("malformed", "outside the picture")
    else:
        assert reading.box == pytest.approx(box)
        assert ("clipped to the picture" in reading.notes) == ("1000" not in text)


@pytest.mark.parametrize(
    ("own", "text", "status", "noted"),
    [
        ("keyed", '{"bbox_2d": [NaN, 200, 300, 900]}', "malformed", "not a number"),
        ("keyed", '{"bbox_2d": [100, null, 300, 900]}', "malformed", "not a number"),
        ("keyed", '{"bbox_2d": [100, 200, Infinity, 900]}', "malformed", "not a number"),
        ("keyed", '{"bbox_2d": [100, 200, 1e999, 900]}', "malformed", "not a number"),
        ("keyed", '{"bbox_2d": [100, 200, 100, 900]}', "malformed", "without area"),
        ("keyed", '{"bbox_2d": [0, 0, 0, 0]}', "malformed", "without area"),
        ("keyed", '{"bbox_2d": [100, 200, 300]}', "malformed", "3 of 4"),
        ("keyed", '{"bbox_2d": [100, 200, 300, 900, 5]}', "malformed", "5 values in place of 4"),
        ("keyed", '{"bbox_2d": [1, 2, 3, 4, 5, 6, 7, 8]}', "malformed", "8 values"),  # a polygon
        ("keyed", '{"bbox_2d": [100, 200, 300, 90', "malformed", "cut off"),  # 90 or 900?
        ("keyed", '{"bbox_2d": [[100, 200], [300, 900', "malformed", "2 of 4"),
        ("keyed", '[{"label": "person", "bbox": ', "malformed", "cut off"),
        ("keyed", '[{"', "malformed", "cut off"),
        ("tagged", "<box>100 200 300 90", "malformed", "cut off"),
        ("tagged", "<box>[[100, 200, 300, 900", "malformed", "cut off"),
        ("tagged", "<box>100 200 300</box>", "malformed", "3 of 4"),
        ("tagged", "<box>left side</box>", "malformed", "no numbers"),
        ("keyed", '{"bbox_2d": "on the left"}', "malformed", "words"),
        ("keyed", '{"bbox_2d": [10px, 20px, 30px, 40px]}', "malformed", "something else"),
        # the first counts: a good second one does not make up for it
        ("keyed", '[{"bbox_2d": [1, 2, 3]}, {"bbox_2d": [1, 2, 3, 4]}]', "malformed", "3 of 4"),
        ("keyed", "<think>where is it", "malformed", "thinking"),
        ("keyed", "The person stands on the left.", "malformed", "no box"),
        ("keyed", "", "empty", ""),
        ("keyed", "<|im_end|>", "empty", ""),
        ("keyed", "[]", "empty", ""),
        ("keyed", "```json\n[]\n```", "empty", ""),
        ("keyed", "{}", "empty", ""),
        ("keyed", '{"objects": []}', "empty", ""),
        ("keyed", '{"bbox_2d": null, "label": "person"}', "empty", ""),
        ("keyed", '{"bbox_2d": []}', "empty", ""),
        ("keyed", '{"bbox_2d": "none"}', "empty", ""),
        ("tagged", "<box></box>", "empty", ""),
        ("tagged", "<box>[[]]</box>", "empty", ""),
        ("keyed", "None", "empty", ""),
        ("keyed", "There is no person in the image.", "empty", ""),
        ("keyed", "No stop sign is visible.", "empty", ""),
        ("keyed", "I can't see a stop sign here.", "empty", ""),
        ("keyed", "I'm sorry, but I cannot assist with that.", "refused", "refusal"),
        ("keyed", "I cannot identify people in pictures.", "refused", "refusal"),
    ],
)
def test_no_box(own: Form, text: str, status: str, noted: str) -> None:
    reading = read(text, own)
    assert (reading.status, reading.box) == (status, None)
    assert noted in "; ".join(reading.notes)


def test_the_raw_text_is_no_html() -> None:
    assert read('<img src=x onerror="alert(1)">').status == "malformed"
    assert read(f'<script>{{"bbox_2d": [{FOUR}]}}</script>').box == pytest.approx(BOX)


def test_order_and_scale_are_declared() -> None:
    rows_first = Scale(order="yxyx")
    assert read("[200, 100, 900, 300]", "bare", rows_first).box == pytest.approx(BOX)
    # names say more than the order
    named = '{"x1": 100, "y1": 200, "x2": 300, "y2": 900}'
    assert read(named, "keyed", rows_first).box == pytest.approx(BOX)
    shares = Scale(1, 1)
    assert read('{"bbox": [0.1, 0.2, 0.3, 0.9]}', "keyed", shares).box == pytest.approx(BOX)
    resized = Scale(504, 252)
    assert read('{"bbox": [50.4, 50.4, 151.2, 226.8]}', "keyed", resized).box == pytest.approx(BOX)


def test_numbers_of_another_scale_are_remarked_on() -> None:
    found = read('{"bbox_2d": [0.1, 0.2, 0.3, 0.9]}')
    assert "perhaps shares" in "; ".join(found.notes)
    found = read('{"bbox": [100, 200, 300, 900]}', "keyed", Scale(1, 1))
    assert found.status == "malformed"
    assert "perhaps thousandths or pixels" in "; ".join(found.notes)


def test_only_so_much_is_read() -> None:
    found = read(f'{{"bbox_2d": [{FOUR}]}}' + "[" * 100_000)
    assert found.box == pytest.approx(BOX)
    assert "only the first 20000 characters were read" in found.notes


WRAPPINGS = (
    "{}", "```json\n{}\n```", "Sure, here you are:\n{}", "{}\nAnything else?", "<think>a [1]</think>{}",
    "{}<|im_end|>", "\n\n {} \n", "[{}]", "Answer: {}, as asked.", "{} {}",
)  # fmt: skip
WRITINGS: tuple[tuple[Form, str], ...] = (
    ("tagged", "<ref>x</ref><box>[[A, B, C, D]]</box>"), ("tagged", "<box>A B C D</box>"),
    ("tagged", "<box>A,B,C,D</box>"), ("tagged", "<box>(A, B), (C, D)</box>"),
    ("keyed", '{"bbox_2d": [A, B, C, D], "label": "x"}'), ("keyed", "{'bbox': ['A', 'B', 'C', 'D']}"),
    ("keyed", '{"label": "x", "bbox": [[A, B, C, D]]}'), ("keyed", '{"box": "A, B, C, D"}'),
    ("corners", '{"x1": A, "y1": B, "x2": C, "y2": D}'), ("bare", "[A, B, C, D]"),
    ("bare", "[[A,B,C,D]]"), ("bare", "(A, B, C, D)"),
)  # fmt: skip


@settings(max_examples=300)
@given(
    st.tuples(*[st.integers(0, 1000)] * 4),
    st.sampled_from(WRAPPINGS),
    st.sampled_from(WRITINGS),
    st.sampled_from(["tagged", "keyed", "bare"]),
)
def test_round_trip_in_any_tolerated_noise(
    four: tuple[int, ...], wrapping: str, writing: tuple[Form, str], own: Form
) -> None:
    text = writing[1]
    for letter, value in zip("ABCD", four, strict=True):
        text = text.replace(letter, str(value), 1)
    reading = read(wrapping.replace("{}", text), own)
    x0, x1 = sorted((four[0], four[2]))
    y0, y1 = sorted((four[1], four[3]))
    if x0 == x1 or y0 == y1:
        assert reading.status == "malformed"
    else:
        assert reading.status == "ok", (text, reading)
        assert reading.box == pytest.approx((x0, y0 / 2, x1, y1 / 2))


@given(
    st.tuples(*[st.floats(0, 1)] * 4),
    st.sampled_from(sorted(FAMILIES)),
    st.integers(1, 2000),
    st.integers(1, 2000),
)
def test_every_family_reads_what_it_writes(
    shares: tuple[float, ...], name: str, width: int, height: int
) -> None:
    """Within one step of the family's own grid."""
    family = FAMILIES[name]
    x0, x1 = sorted((shares[0] * width, shares[2] * width))
    y0, y1 = sorted((shares[1] * height, shares[3] * height))
    frame = Frame(width, height, 448, 420)
    written = family.writes("stop sign", (x0, y0, x1, y1), frame)
    reading = family.reads(written.opening + written.box + written.closing, frame)
    if reading.status == "malformed":
        assert reading.notes[-1] == "a box without area"
        return
    step = 1 / 420
    assert reading.box == pytest.approx((x0, y0, x1, y1), abs=max(width, height) * step)
    assert set(reading.notes) <= {
        "a code fence", "all values are within 0..1: perhaps shares of the picture",
    }  # fmt: skip


NOISE = st.lists(
    st.sampled_from([*'[](){}<>,:;"\'`-+.eE0123456789 \n\tabx_|/', "bbox_2d", "<box>", "</box>",
                              "NaN", "null", "<think>", "</think>", "```", "x1", "é", "\x00", "🙂"]),
    max_size=80,
).map("".join)  # fmt: skip


@settings(max_examples=400)
@given(NOISE, st.sampled_from(sorted(FAMILIES)), st.integers(1, 4000), st.integers(1, 4000))
def test_any_text_gives_a_consistent_reading(text: str, name: str, width: int, height: int) -> None:
    reading = FAMILIES[name].reads(text, Frame(width, height, 448, 448))
    assert (reading.box is not None) == (reading.status == "ok")
    if reading.box is not None:
        x0, y0, x1, y1 = reading.box
        assert 0 <= x0 < x1 <= width
        assert 0 <= y0 < y1 <= height
    elif reading.status == "malformed":
        assert reading.notes
    is_complete(text)


@given(st.text(max_size=200))
def test_text_of_any_script(text: str) -> None:
    assert read(text).status in ("ok", "empty", "malformed", "refused")


def test_hostile_texts_are_read_quickly() -> None:
    for text in ("[" * 20_000, "(" * 20_000, '{"bbox":' * 2500, "<box>" * 4000, "[1," * 6000,
                 '"x1": 1, ' * 2000, "9" * 20_000, "[x" * 10_000, "no " * 6000,
                 "<think>" * 3000, "```" * 6000, "{'" * 9000):  # fmt: skip
        assert read(text).status in ("empty", "malformed")
        assert read(text, "tagged").box is None


@pytest.mark.parametrize(
    ("text", "done"),
    [
        ("<ref>x</ref><box>[[1, 2, 3, 4]]", False),
        ("<ref>x</ref><box>[[1, 2, 3, 4]]</box>", True),
        ("x[[1, 2, 3, 4]]", True),
        ('```json\n[{"bbox_2d": [1, 2, 3, 4]', False),
        ('```json\n[{"bbox_2d": [1, 2, 3, 4], "label": "a ]} b"', False),
        ('```json\n[{"bbox_2d": [1, 2, 3, 4], "label": "x"}]', True),
        ("In picture [1] the", False),
        ("[]", False),  # the model ends by itself
        ("", False),
    ],
)
def test_when_a_model_may_stop(text: str, done: bool) -> None:
    assert is_complete(text) is done


def test_a_box_in_a_thought_is_not_yet_the_answer() -> None:
    """Decoding ended inside the thought, so that the answer was malformed."""
    thought = "<think>\nPerhaps [10, 20, 30, 40]. Or"
    assert not is_complete(thought)
    assert not is_complete(f"{thought} rather {{a}}.</think> In short")
    assert is_complete(f"{thought} not.</think> [{FOUR}]")
    assert is_complete(f"no tag in the prompt's part.</think> [{FOUR}]")
