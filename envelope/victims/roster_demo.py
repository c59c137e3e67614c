"""The three victims that ship with the tool."""

from __future__ import annotations

from pathlib import Path

from envelope.victims.protocols import Victim
from envelope.victims.roster import READY, Entry, Request, State
from scene.errors import InputError

ASSETS = Path(__file__).resolve().parents[2] / "assets" / "victims"
MAKE_DEMO = "advscene train-demo"


def _folder(name: str) -> Path:
    folder = ASSETS / name
    if not (folder / "config.json").is_file():
        raise InputError(f"the victim {name} has no weights in {folder}; run `{MAKE_DEMO}`")
    return folder


def _state(name: str) -> State:
    there = (ASSETS / name / "config.json").is_file()
    return READY if there else State("needs file", MAKE_DEMO)


def _detector(request: Request) -> Victim:
    from envelope.victims.demo.detector import load_detector

    return load_detector(_folder(request.name), threads=request.threads)


def _classifier(request: Request) -> Victim:
    from envelope.victims.demo.classifier import load_classifier

    return load_classifier(_folder(request.name), threads=request.threads)


def _grounder(request: Request) -> Victim:
    from envelope.victims.paligemma import load_paligemma

    return load_paligemma(_folder(request.name), name=request.spec, threads=request.threads)


_SOURCE = "in the repository; made by `advscene train-demo` on pictures that it draws"

ENTRIES = (
    Entry(
        "demo-detector", "detector", "Apache-2.0", _detector, lambda: _state("demo-detector"),
        input_size=(320, 320), threshold=0.5, convention="xyxy pixels of its letterboxed input",
        evidence="trained here", source=_SOURCE, white_box=True, in_process=True,
    ),
    Entry(
        "demo-classifier", "classifier", "Apache-2.0", _classifier,
        lambda: _state("demo-classifier"), input_size=(224, 224), source=_SOURCE, white_box=True,
        in_process=True,
    ),
    Entry(
        "demo-grounder", "grounder", "Apache-2.0", _grounder, lambda: _state("demo-grounder"),
        input_size=(224, 224), convention="y0 x0 y1 x1 over 1024", evidence="trained here",
        source=_SOURCE, white_box=True, in_process=True,
    ),
)  # fmt: skip
