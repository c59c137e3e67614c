"""LFM2.5-VL: one way of writing, two scales, depending on the checkpoint."""

from __future__ import annotations

from functools import partial

from envelope.victims.conventions import Frame
from envelope.victims.grammars import Reading, Scale, read_written
from envelope.victims.vlm.family import Box, Family, Prompts, Written, thousandths

_FORMAT = 'Response must be a JSON array: [{"label": ..., "bbox": [x1, y1, x2, y2]}, ...].'
_SHARES = "Coordinates are normalized to [0,1]."
_PROMPTS = Prompts(
    f"Detect all instances of: {{label}}. {_FORMAT} {_SHARES}",
    (
        f"Find the {{label}}. {_FORMAT} {_SHARES}",
        f"Where is the {{label}}? {_SHARES} {_FORMAT}",
        f"Locate the {{label}} in this picture. {_FORMAT} {_SHARES}",
    ),
)


def _reads(unit: float, text: str, frame: Frame) -> Reading:
    return read_written(text, frame.width, frame.height, "keyed", Scale(unit, unit))


def _writes(unit: float, label: str, box: Box, frame: Frame) -> Written:
    whole = thousandths(box, frame)
    values = whole if unit > 1 else tuple(value / 1000 for value in whole)
    return Written(f'[{{"label": "{label}", "bbox": ', f"[{', '.join(map(str, values))}]", "}]")


def _family(name: str, unit: float, scale: str) -> Family:
    return Family(
        name=name,
        title="LFM2.5-VL",
        model_types=("lfm2_vl",),
        prompts=_PROMPTS,
        reads=partial(_reads, unit),
        writes=partial(_writes, unit),
        convention=f'[{{"label": ..., "bbox": [x1, y1, x2, y2]}}], {scale} of the picture',
        evidence="others' probes: 450M and 1.6B answer in 0-1, 3B in 0-1000 whatever is asked; "
        "check with `advscene victim probe`",
    )


LFM25_VL = _family("lfm2.5-vl", 1.0, "0-1")
"""The 450M and 1.6B checkpoints."""

LFM25_VL_THOUSANDTHS = _family("lfm2.5-vl-3b", 1000.0, "0-1000")
"""The 3B checkpoint; the prompt asks for 0-1 all the same, being the native one."""
