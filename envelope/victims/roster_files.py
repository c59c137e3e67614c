"""Models from files that name no family: ONNX exports."""

from __future__ import annotations

from pathlib import Path

from envelope.victims.protocols import Victim
from envelope.victims.roster import Entry, Request


def _onnx(request: Request) -> Victim:
    from envelope.victims.onnx import OnnxOptions, load_onnx

    options = OnnxOptions.from_query(request.options, request.spec)
    return load_onnx(Path(request.location), options, threads=request.threads)


ENTRIES = (
    Entry(
        "onnx", "detector", "the file's own", _onnx,
        takes="FILE?preset=yolox|nanodet|fastestdet&labels=FILE",
        options=("preset", "labels", "size", "confidence", "iou"), threshold=0.5,
        convention="as the preset decodes it", evidence="each preset against real weights",
    ),
)  # fmt: skip
