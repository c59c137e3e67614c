"""PaliGemma and PaliGemma 2: location words."""

from __future__ import annotations

from envelope.victims.conventions import Frame
from envelope.victims.grammars import LOC_RANGE, Reading, read_paligemma
from envelope.victims.vlm.family import Box, Family, Prompts, Written, scaled


def _reads(text: str, frame: Frame) -> Reading:
    return read_paligemma(text, frame.width, frame.height)


def _writes(label: str, box: Box, frame: Frame) -> Written:
    x0, y0, x1, y1 = (min(v, LOC_RANGE - 1) for v in scaled(box, frame, LOC_RANGE, LOC_RANGE))
    return Written("", "".join(f"<loc{value:04d}>" for value in (y0, x0, y1, x1)), f" {label}")


PALIGEMMA2 = Family(
    name="paligemma",
    title="PaliGemma 2",
    model_types=("paligemma",),
    prompts=Prompts(
        "detect {label}",
        ("detect the {label}", "detect one {label}", "find and detect {label}"),
    ),
    reads=_reads,
    writes=_writes,
    convention="<locYMIN><locXMIN><locYMAX><locXMAX>, 1024ths of the picture",
    evidence="the model card; special tokens are kept when the answer is decoded",
    gated=True,
    max_new_tokens=24,
)
