"""Reads the box out of what a grounding model wrote. Pure: no torch, no pictures, no model.

Tolerant reading, strict result: a box is accepted only when it is complete. Everything that was
put right or dropped is noted; the raw text is never changed (and is shown as text, never HTML).

`paligemma` reads location words, `written` all that models write with digits: `forms` finds the
box in its tags, under its JSON key or in bare brackets, `values` reads brackets full of numbers,
`reading` checks corners. `complete` tells when a model may stop writing.
"""

from envelope.victims.grammars.complete import is_complete
from envelope.victims.grammars.paligemma import LOC_RANGE, read_paligemma
from envelope.victims.grammars.reading import Reading, finished, without_box
from envelope.victims.grammars.written import Scale, read_written

__all__ = [
    "LOC_RANGE",
    "Reading",
    "Scale",
    "finished",
    "is_complete",
    "read_paligemma",
    "read_written",
    "without_box",
]
