"""Models from files that name no family: ONNX exports, and a person's own Python module."""

from __future__ import annotations

from pathlib import Path

from envelope.victims.protocols import Victim
from envelope.victims.roster import Entry, Request


def _onnx(request: Request) -> Victim:
    from envelope.victims.onnx import OnnxOptions, load_onnx

    options = OnnxOptions.from_query(request.options, request.spec)
    return load_onnx(Path(request.location), options, threads=request.threads)


def _onnx_classifier(request: Request) -> Victim:
    from envelope.victims.onnx_classifier import load_onnx_classifier

    return load_onnx_classifier(request)


def _user_model(request: Request) -> Victim:
    from envelope.victims.user_model import load_user_model

    return load_user_model(request)


USER_MODEL = Entry(
    "MODULE", "detector", "the model's own", _user_model, takes="FACTORY",
    convention="as its code says", evidence="`advscene victim probe`", white_box=True,
)  # fmt: skip

ENTRIES = (
    Entry(
        "onnx", "detector", "the file's own", _onnx,
        takes="FILE?preset=yolox|nanodet|fastestdet|yolov8&labels=FILE",
        options=("preset", "labels", "size", "confidence", "iou"), threshold=0.5,
        convention="as the preset decodes it", evidence="each preset against real weights",
        white_box=True,
    ),
    Entry(
        "onnx-classifier", "classifier", "the file's own", _onnx_classifier,
        takes="FILE?labels=FILE&output=logits|probabilities",
        options=("labels", "output", "size", "fit", "mean", "std", "bgr"),
    ),
    USER_MODEL,
)  # fmt: skip
