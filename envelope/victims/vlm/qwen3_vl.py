"""Qwen3-VL."""

from __future__ import annotations

from envelope.victims.conventions import Frame
from envelope.victims.grammars import Reading, Scale, read_written
from envelope.victims.vlm.family import Box, Family, Prompts, Written, thousandths

QWEN_PROMPTS = Prompts(
    "Locate the {label}, report the bbox coordinates in JSON format.",
    (
        "Where is the {label}? Answer with one bbox_2d in JSON.",
        "Find the {label} in the picture and output its bounding box as JSON.",
        "Detect the {label}. Return its bbox_2d coordinates and label as JSON.",
    ),
)


def qwen_answer(label: str, values: str) -> Written:
    """The fenced JSON that the models write."""
    return Written('```json\n[\n\t{"bbox_2d": ', f"[{values}]", f', "label": "{label}"}}\n]\n```')


def _reads(text: str, frame: Frame) -> Reading:
    return read_written(text, frame.width, frame.height, "keyed", Scale())


def _writes(label: str, box: Box, frame: Frame) -> Written:
    values = ", ".join(map(str, thousandths(box, frame)))
    return qwen_answer(label, values)


QWEN3_VL = Family(
    name="qwen3-vl",
    title="Qwen3-VL",
    model_types=("qwen3_vl", "qwen3_vl_moe"),
    prompts=QWEN_PROMPTS,
    reads=_reads,
    writes=_writes,
    convention='[{"bbox_2d": [x1, y1, x2, y2]}], 0-1000 of the picture\'s width and height',
    evidence="the model's grounding cookbook (Qwen2.5-VL wrote pixels of the resized picture)",
)
