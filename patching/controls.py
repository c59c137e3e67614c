"""The patches that an adversarial patch is compared with, by kind."""

from __future__ import annotations

from typing import Literal, get_args

from patching.patch import Patch, gray_like, noise_like, shuffled

PatchKind = Literal["gray", "adversarial", "noise", "shuffled"]
"""What can lie at the placement. "clean" (nothing there) and "overlay" are render kinds only."""

PATCH_KINDS: tuple[str, ...] = get_args(PatchKind)

NOISE_SEED = 11
SHUFFLE_SEED = 12


def patch_of_kind(kind: str, patch: Patch, seed: int = 0) -> Patch:
    """The adversarial patch itself or one of its controls; `seed` varies the random ones."""
    if kind == "adversarial":
        return patch
    if kind == "gray":
        return gray_like(patch)
    if kind == "noise":
        return noise_like(patch, NOISE_SEED + seed)
    if kind == "shuffled":
        return shuffled(patch, SHUFFLE_SEED + seed)
    raise ValueError(f"kind: wanted one of {', '.join(PATCH_KINDS)}, found {kind!r}")
