"""What a person may choose when opening a capture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

WorldFrame = Literal["original", "file"]


@dataclass(frozen=True)
class CaptureOptions:
    """Choices that only some formats need; the others ignore them.

    sequence: which CO3D sequence or Waymo segment, where a folder holds several.
    frame: "original" undoes the normalisation that a transforms.json says was applied
    (applied_transform, applied_scale), so that lengths are the data's own: use it for measuring.
    "file" keeps the file's numbers, to go with Gaussians that were trained on them.
    matte: sRGB behind transparent pixels.
    """

    sequence: str | None = None
    frame: WorldFrame = "original"
    matte: tuple[float, float, float] = (1.0, 1.0, 1.0)
