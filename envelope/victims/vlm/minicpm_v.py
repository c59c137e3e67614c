"""MiniCPM-V 4.6."""

from __future__ import annotations

from envelope.victims.conventions import Frame
from envelope.victims.grammars import Reading, Scale, read_written
from envelope.victims.vlm.family import Box, Family, Prompts, Written, thousandths


def _reads(text: str, frame: Frame) -> Reading:
    return read_written(text, frame.width, frame.height, "tagged", Scale())


def _writes(label: str, box: Box, frame: Frame) -> Written:
    values = " ".join(map(str, thousandths(box, frame)))
    return Written("<box>", f"{values}</box>")


MINICPM_V = Family(
    name="minicpm-v",
    title="MiniCPM-V 4.6",
    model_types=("minicpmv4_6",),
    prompts=Prompts(
        "Please provide the bounding box of the {label} in the format <box>x1 y1 x2 y2</box>.",
        (
            "Where is the {label}? Answer as <box>x1 y1 x2 y2</box>.",
            "Locate the {label} and write its box as <box>x1 y1 x2 y2</box>.",
            "Give one bounding box around the {label}: <box>x1 y1 x2 y2</box>.",
        ),
    ),
    reads=_reads,
    writes=_writes,
    convention="<box>x1 y1 x2 y2</box>, 0-1000 of the whole picture's width and height",
    evidence="the series' grounding examples, unchecked for 4.6; slices have no part in it",
    max_new_tokens=64,
)
