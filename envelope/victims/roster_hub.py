"""Detectors and classifiers of the Hugging Face hub, by name or from a folder."""

from __future__ import annotations

from collections.abc import Callable

from envelope.victims.hub_models import (
    HUB_WEIGHTS,
    HubWeights,
    cached_folder,
    hub_weights,
    local_folder,
    weights_folder,
)
from envelope.victims.protocols import Kind, Victim
from envelope.victims.roster import READY, Entry, Request, State

_OPTIONS = {"gdino": ("device", "size", "text")}
_COORDINATES = {
    "rtdetr": "cx, cy, w, h as shares of the whole picture",
    "gdino": "cx, cy, w, h as shares of the whole picture",
    "owlv2": "cx, cy, w, h as shares of a square of the longer side, padded right and below",
    "classifier": "",
}
_EVIDENCE = "the processor's own post-processing; a known box on a picture that is not square"


def _load(request: Request) -> Victim:
    """The victim of a name, or of a folder behind the name of a family."""
    from envelope.victims.hub_victim import HubRequest

    named = request.name in _NAMES
    row = hub_weights(request.name) if named and not request.location else None
    folder = weights_folder(row) if row else local_folder(request.location, request.spec)
    family = hub_weights(request.name).family if named else request.name
    wanted = HubRequest(request.spec, folder, request.options, request.threads, row)
    if family == "rtdetr":
        from envelope.victims.hub_detector import load_hub_detector

        return load_hub_detector(wanted)
    if family == "gdino":
        from envelope.victims.grounding_dino import load_grounding_dino

        return load_grounding_dino(wanted)
    if family == "owlv2":
        from envelope.victims.owlv2 import load_owlv2

        return load_owlv2(wanted)
    from envelope.victims.hub_classifier import load_hub_classifier
    from envelope.victims.timm_classifier import is_timm_folder, load_timm_classifier

    if is_timm_folder(folder):
        return load_timm_classifier(wanted)
    return load_hub_classifier(wanted)


def _state(row: HubWeights) -> Callable[[], State]:
    def now() -> State:
        return READY if cached_folder(row) else State("needs file", row.command)

    return now


def _named(row: HubWeights) -> Entry:
    return Entry(
        row.name, row.kind, row.licence, _load, _state(row), takes="FOLDER", optional=True,
        options=_OPTIONS.get(row.family, ("device",)), extra=row.extra, input_size=row.input_size,
        threshold=row.threshold if row.kind == "detector" else None,
        convention=_COORDINATES[row.family], evidence=_EVIDENCE if row.kind == "detector" else "",
        source=f"https://huggingface.co/{row.hub_id}", white_box=True,
    )  # fmt: skip


def _family(name: str) -> Entry:
    kind: Kind = "classifier" if name == "classifier" else "detector"
    return Entry(
        name, kind, "the checkpoint's own", _load, takes="FOLDER",
        options=_OPTIONS.get(name, ("device",)), convention=_COORDINATES[name],
        evidence=_EVIDENCE if kind == "detector" else "", white_box=True,
    )  # fmt: skip


def _torchvision(request: Request) -> Victim:
    from envelope.victims.torchvision_classifier import load_torchvision

    return load_torchvision(request)


_ROWS = tuple(row for row in HUB_WEIGHTS if row.family in _COORDINATES)
_NAMES = {row.name for row in _ROWS}

ENTRIES = (
    *(_named(row) for row in _ROWS),
    *(_family(name) for name in _COORDINATES if name not in _NAMES),
    Entry(
        "torchvision", "classifier", "BSD-3-Clause for torchvision's own files", _torchvision,
        takes="NAME?weights=FILE", options=("weights", "recipe", "device"),
        source="https://download.pytorch.org/models", white_box=True,
    ),
)  # fmt: skip
