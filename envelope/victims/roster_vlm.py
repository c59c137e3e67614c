"""Grounding models from a folder."""

from __future__ import annotations

from pathlib import Path

from envelope.victims.protocols import Victim
from envelope.victims.roster import Entry, Request


def _paligemma(request: Request) -> Victim:
    from envelope.victims.paligemma import load_paligemma

    return load_paligemma(Path(request.location), name=request.spec, threads=request.threads)


ENTRIES = (
    Entry(
        "paligemma", "grounder", "Gemma licence for Google's weights", _paligemma, takes="FOLDER",
        convention="y0 x0 y1 x1 over 1024", evidence="the model card", white_box=True,
    ),
)  # fmt: skip
