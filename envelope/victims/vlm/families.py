"""The table of families."""

from __future__ import annotations

from envelope.victims.vlm.any_json import any_json
from envelope.victims.vlm.family import Family
from envelope.victims.vlm.internvl3 import INTERNVL3
from envelope.victims.vlm.lfm25_vl import LFM25_VL, LFM25_VL_THOUSANDTHS
from envelope.victims.vlm.minicpm_v import MINICPM_V
from envelope.victims.vlm.paligemma2 import PALIGEMMA2
from envelope.victims.vlm.qwen3_vl import QWEN3_VL
from envelope.victims.vlm.qwen25_vl import QWEN25_VL

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        PALIGEMMA2, INTERNVL3, QWEN3_VL, QWEN25_VL, LFM25_VL, LFM25_VL_THOUSANDTHS, MINICPM_V,
        any_json(),
    )
}  # fmt: skip
