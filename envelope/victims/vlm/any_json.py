"""Any model that answers in JSON as the prompt says: the scale is declared, not known."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from envelope.victims.conventions import Frame
from envelope.victims.grammars import Reading, Scale, read_written
from envelope.victims.vlm.family import Box, Family, Prompts, Written, scaled
from scene.errors import InputError

_UNITS = {
    "1000": "whole numbers from 0 to 1000 of the picture's width and height",
    "1": "shares from 0 to 1 of the picture's width and height",
    "pixels": "pixels of the picture",
}
_ORDERS = {"xyxy": "[x1, y1, x2, y2]", "yxyx": "[y1, x1, y2, x2]"}


def _scale(units: str, order: str, frame: Frame) -> Scale:
    far = {
        "1000": (1000.0, 1000.0),
        "1": (1.0, 1.0),
        "pixels": (float(frame.input_width), float(frame.input_height)),
    }
    return Scale(*far[units], order)  # type: ignore[arg-type]


def _reads(units: str, order: str, text: str, frame: Frame) -> Reading:
    return read_written(text, frame.width, frame.height, "keyed", _scale(units, order, frame))


def _writes(units: str, order: str, label: str, box: Box, frame: Frame) -> Written:
    scale = _scale(units, order, frame)
    values: tuple[float, ...] = scaled(box, frame, scale.x, scale.y)
    if units == "1":
        values = tuple(value / 1000 for value in scaled(box, frame, 1000, 1000))
    x0, y0, x1, y1 = values
    four = (x0, y0, x1, y1) if order == "xyxy" else (y0, x0, y1, x1)
    return Written('{"box": ', f"[{', '.join(map(str, four))}]", "}")


def any_json(units: str = "1000", order: str = "xyxy") -> Family:
    """The family of models that do as they are told.

    units: "1000", "1" or "pixels" (of the picture as it is sent). order: "xyxy" or "yxyx".
    """
    if units not in _UNITS:
        raise InputError(f"units: wanted {', '.join(_UNITS)}, found {units!r}")
    if order not in _ORDERS:
        raise InputError(f"order: wanted {', '.join(_ORDERS)}, found {order!r}")
    wanted = f'{{"box": {_ORDERS[order]}}}'
    rules = f"Answer only with JSON, {wanted}, in {_UNITS[units]}, or with {{}} when there is none."
    return replace(
        ANY_JSON,
        prompts=Prompts(
            f"Find the {{label}} in this picture and give its bounding box. {rules}",
            (
                f"Where is the {{label}}? {rules}",
                f"Locate the {{label}}. {rules}",
                f"Draw one box around the {{label}}. {rules}",
            ),
        ),
        reads=partial(_reads, units, order),
        writes=partial(_writes, units, order),
        convention=f"{wanted}, {_UNITS[units]}",
    )


ANY_JSON = Family(
    name="json",
    title="any model that answers in JSON",
    model_types=(),
    prompts=Prompts("", ("", "", "")),
    reads=partial(_reads, "1000", "xyxy"),
    writes=partial(_writes, "1000", "xyxy"),
    convention="",
    evidence="declared by the user and stated in the prompt; check with `advscene victim probe`",
)
