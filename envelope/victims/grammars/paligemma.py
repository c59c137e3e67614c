"""PaliGemma's location words."""

from __future__ import annotations

import re

from envelope.victims.grammars.cleaning import without_controls
from envelope.victims.grammars.reading import Reading, finished, without_box

LOC_RANGE = 1024
"""PaliGemma's <locNNNN> counts 1024ths of the picture."""

_LOC_RUN = re.compile(r"<loc(-?\d+)>")
_LOC_CUT = re.compile(r"<loc[^>]*$|<lo?$")


def read_paligemma(text: str, width: int, height: int) -> Reading:
    """PaliGemma: `<loc0123><loc0456><loc0789><loc1000> label`, y0 x0 y1 x1 in 1024ths."""
    written = without_controls(text).strip()
    values = [float(digits) for digits in _LOC_RUN.findall(written)]
    if not values:
        if _LOC_CUT.search(written):
            return Reading("malformed", notes=("cut off inside the first location",))
        return without_box(written)
    notes = []
    if len(values) < 4:
        return Reading("malformed", notes=(f"{len(values)} of 4 locations",))
    if not re.match(r"\s*(<loc-?\d+>\s*){4}", written):
        notes.append("text before or between the locations")
    boxes, left_over = divmod(len(values), 4)
    if boxes > 1:
        notes.append(f"{boxes} boxes, the first counts")
    if left_over or _LOC_CUT.search(written):
        notes.append("an incomplete box follows")
    y0, x0, y1, x1 = (value / LOC_RANGE for value in values[:4])
    return finished((x0, y0, x1, y1), width, height, notes)
