"""When a rate would be misread: the victim fails without any patch, or much is not scored yet."""

from __future__ import annotations

from collections.abc import Mapping

LEAST_RIGHT = 0.5
"""Share of observable conditions that a victim must get right without the patch for its ASR to
say much about the patch."""


def asr_caution(right: Mapping[str, float | None]) -> str:
    """One sentence where ASR mostly counts the victim's own misses, else "".

    right: share of right answers on the kinds without an attack (clean, gray), None without any.
    """
    low = {kind: share for kind, share in right.items() if share is not None}
    low = {kind: share for kind, share in low.items() if share < LEAST_RIGHT}
    if not low:
        return ""
    kinds = " and ".join(f"{share:.2f} of {kind} renders" for kind, share in low.items())
    return f"caution: right on only {kinds}, so ASR counts its own misses; read gain or cASR"


def partial_caution(unscored: int, cells: int) -> str:
    """One sentence where a sweep is not through, else "".

    unscored: conditions of the plan without a score yet, of `cells`. A sweep begins at the anchor,
    where a patch works best: what is there is no random part of the plan.
    """
    if not 0 < unscored < cells:
        return ""
    return (
        f"caution: {unscored} of {cells} conditions are not scored yet; those near the anchor (or "
        f"the view looked at) come first, so rates over all of them lean towards it"
    )
