"""InternVL3, the checkpoints whose names end in -hf."""

from __future__ import annotations

from envelope.victims.conventions import Frame
from envelope.victims.grammars import Reading, Scale, read_written
from envelope.victims.vlm.family import Box, Family, Prompts, Written, thousandths


def _reads(text: str, frame: Frame) -> Reading:
    return read_written(text, frame.width, frame.height, "tagged", Scale())


def _writes(label: str, box: Box, frame: Frame) -> Written:
    values = ", ".join(map(str, thousandths(box, frame)))
    return Written(f"<ref>{label}</ref>", f"<box>[[{values}]]</box>")


INTERNVL3 = Family(
    name="internvl3",
    title="InternVL3",
    model_types=("internvl",),
    prompts=Prompts(
        "Please provide the bounding box coordinate of the region this sentence describes: "
        "<ref>{label}</ref>",
        (
            "Where is the <ref>{label}</ref> in this picture? Answer with its bounding box.",
            "Give the bounding box of the <ref>{label}</ref>.",
            "Find the <ref>{label}</ref> and write the coordinates of the box around it.",
        ),
    ),
    reads=_reads,
    writes=_writes,
    convention="<box>[[x1, y1, x2, y2]]</box>, 0-1000 of the whole picture's width and height",
    evidence="the model's grounding examples; the tiles that its processor cuts have no part in it",
    gated=True,
    max_new_tokens=96,
)
