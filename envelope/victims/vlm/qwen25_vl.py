"""Qwen2.5-VL: boxes are pixels of the picture as its processor has resized it."""

from __future__ import annotations

import math

from envelope.victims.conventions import Frame
from envelope.victims.grammars import Reading, Scale, read_written
from envelope.victims.vlm.family import Box, Family, Written, scaled
from envelope.victims.vlm.qwen3_vl import QWEN_PROMPTS, qwen_answer

_STEP = 28  # patches of 14 pixels, merged by two
_LEAST, _MOST = 4 * 28 * 28, 16384 * 28 * 28  # pixels, the released processor's limits


def resized(size: tuple[int, int]) -> tuple[int, int]:
    """(width, height) to which the released processor resizes a picture of that size.

    Whole multiples of 28 near the picture's own size, between 3 136 and 12 845 056 pixels. A
    server may be run with other limits; pictures of 448 x 448 stay as they are under all of them.
    """
    width, height = size
    across, down = (max(_STEP, round(side / _STEP) * _STEP) for side in size)
    if across * down > _MOST:
        shrink = math.sqrt(width * height / _MOST)
        across, down = (max(_STEP, math.floor(s / shrink / _STEP) * _STEP) for s in size)
    elif across * down < _LEAST:
        grow = math.sqrt(_LEAST / (width * height))
        across, down = (math.ceil(side * grow / _STEP) * _STEP for side in size)
    return across, down


def _reads(text: str, frame: Frame) -> Reading:
    scale = Scale(frame.input_width, frame.input_height)
    return read_written(text, frame.width, frame.height, "keyed", scale)


def _writes(label: str, box: Box, frame: Frame) -> Written:
    values = ", ".join(map(str, scaled(box, frame, frame.input_width, frame.input_height)))
    return qwen_answer(label, values)


QWEN25_VL = Family(
    name="qwen2.5-vl",
    title="Qwen2.5-VL",
    model_types=("qwen2_5_vl",),
    prompts=QWEN_PROMPTS,
    reads=_reads,
    writes=_writes,
    convention='[{"bbox_2d": [x1, y1, x2, y2]}], pixels of the picture as resized',
    evidence="the model's grounding cookbook; the size is read from the processor's own output",
    seen=resized,
)
