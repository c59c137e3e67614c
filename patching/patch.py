"""A printed patch as one frozen value, its file, and the patches that serve as its controls."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scene.errors import InputError

FloatArray = NDArray[np.float32]

GRAY = 0.5
"""The flat control's sRGB value in every channel."""

MAX_SIDE_PX = 4096
"""Larger pictures are refused: no anchor view resolves them, and they are seldom patches."""


@dataclass(frozen=True, eq=False)
class Patch:
    """A flat picture that is printed and stuck onto a surface.

    rgba: (h, w, 4) float32 in [0, 1], sRGB with straight alpha; alpha is the printed shape.
    name: short name that figures and files carry.
    side_m: physical width in metres, None where unknown.
    provenance: where it comes from (file hash, who made it, for which victim); JSON values only.
    """

    rgba: FloatArray
    name: str
    side_m: float | None = None
    provenance: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rgba = np.array(self.rgba, dtype=np.float32)
        if rgba.ndim != 3 or rgba.shape[2] != 4 or 0 in rgba.shape:
            raise ValueError(f"rgba: wanted shape (h, w, 4), found {rgba.shape}")
        if not np.isfinite(rgba).all() or rgba.min() < 0 or rgba.max() > 1:
            raise ValueError("rgba: wanted finite values in [0, 1]")
        if self.side_m is not None and not self.side_m > 0:
            raise ValueError(f"side_m: wanted > 0, found {self.side_m}")
        rgba.flags.writeable = False
        object.__setattr__(self, "rgba", rgba)

    @classmethod
    def from_rgb(cls, rgb: NDArray[Any], name: str, **fields: Any) -> Patch:
        """An opaque rectangular patch from (h, w, 3) sRGB in [0, 1]."""
        rgb = np.asarray(rgb, dtype=np.float32)
        opaque = np.ones((*rgb.shape[:2], 1), dtype=np.float32)
        return cls(np.concatenate([rgb, opaque], axis=2), name, **fields)

    @property
    def rgb(self) -> FloatArray:
        """(h, w, 3) sRGB in [0, 1]."""
        return self.rgba[..., :3]

    @property
    def alpha(self) -> FloatArray:
        """(h, w) coverage of the printed shape in [0, 1]."""
        return self.rgba[..., 3]

    @property
    def aspect(self) -> float:
        """Height over width."""
        return self.rgba.shape[0] / self.rgba.shape[1]


def load_patch(path: str | Path, side_m: float | None = None) -> Patch:
    """Read a patch picture (any that Pillow reads) and its provenance, `<stem>.json`, if beside it.

    Raises InputError with one sentence for what is no picture, too large or wholly transparent.
    """
    from PIL import Image, UnidentifiedImageError

    path = Path(path)
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such patch picture") from error
    except OSError as error:
        raise InputError(f"{path}: the patch picture cannot be read ({error.strerror})") from error
    try:
        with Image.open(path) as picture:
            if max(picture.size) > MAX_SIDE_PX:
                raise InputError(
                    f"{path}: wanted a patch picture of at most {MAX_SIDE_PX} px a side, found "
                    f"{picture.width}x{picture.height}; scale it down first"
                )
            rgba = np.asarray(picture.convert("RGBA")).astype(np.float32) / np.float32(255)
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError, SyntaxError) as error:
        raise InputError(
            f"{path}: wanted a patch picture (PNG, JPEG or WebP), found a file that is none or "
            f"is damaged; save it again as PNG"
        ) from error
    if not (rgba[..., 3] > 0.5).any():
        raise InputError(f"{path}: the patch picture is wholly transparent; give it an opaque part")
    provenance = _read_provenance(path.with_suffix(".json"))
    provenance["sha256"] = hashlib.sha256(data).hexdigest()
    provenance["file"] = path.name
    return Patch(rgba, path.stem, side_m or provenance.get("side_m"), provenance)


def _read_provenance(path: Path) -> dict[str, Any]:
    """The fields of a provenance file; empty when there is none."""
    if not path.is_file():
        return {}
    try:
        fields = json.loads(path.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: wanted a JSON file about the patch, found {error}") from error
    if not isinstance(fields, dict):
        raise InputError(f"{path}: wanted a JSON object about the patch, found a {type(fields)}")
    return fields


def save_patch(patch: Patch, path: str | Path) -> None:
    """Write the picture (8-bit PNG) and its provenance `<stem>.json`; each appears whole or not."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = np.rint(patch.rgba * 255).astype(np.uint8)
    if (picture[..., 3] == 255).all():
        picture = np.ascontiguousarray(picture[..., :3])
    write_png(picture, path)
    about = {k: v for k, v in patch.provenance.items() if k not in ("sha256", "file")}
    if patch.side_m is not None:
        about["side_m"] = patch.side_m
    if about:
        partial = path.with_suffix(".json.part")
        partial.write_text(json.dumps(about, indent=1))
        os.replace(partial, path.with_suffix(".json"))


def write_png(picture: NDArray[np.uint8], path: Path) -> None:
    """Write an (H, W), (H, W, 3) or (H, W, 4) 8-bit picture atomically."""
    from PIL import Image

    partial = path.with_name(path.name + ".part")
    Image.fromarray(picture).save(partial, format="PNG", optimize=True)
    os.replace(partial, path)


def gray_like(patch: Patch) -> Patch:
    """A flat mid-gray patch of the same shape: the occlusion control that cASR uses."""
    return _recolored(patch, np.full_like(patch.rgb, GRAY), "gray", {})


def noise_like(patch: Patch, seed: int, cells: int = 32) -> Patch:
    """A patch of the same shape filled with random colored cells.

    cells: cells along the wider side. At single-pixel size noise would average to plain gray at
    any distance from which a patch is seen, and would control for nothing that gray does not.
    """
    height, width = patch.rgb.shape[:2]
    size = max(1, round(max(height, width) / cells))
    rows, columns = -(-height // size), -(-width // size)
    colors = np.random.default_rng(seed).random((rows, columns, 3), dtype=np.float32)
    rgb = colors.repeat(size, axis=0).repeat(size, axis=1)[:height, :width]
    return _recolored(patch, rgb, "noise", {"seed": seed, "cell_px": size})


def shuffled(patch: Patch, seed: int) -> Patch:
    """The patch with its opaque pixels in random order: the same colors, no structure."""
    rgb = patch.rgb.copy()
    opaque = patch.alpha > 0.5
    rgb[opaque] = np.random.default_rng(seed).permutation(rgb[opaque], axis=0)
    return _recolored(patch, rgb, "shuffled", {"seed": seed})


def _recolored(patch: Patch, rgb: FloatArray, kind: str, extra: dict[str, Any]) -> Patch:
    rgba = np.concatenate([rgb, patch.rgba[..., 3:]], axis=2)
    provenance = {"control": kind, "of": patch.name, **extra}
    if "sha256" in patch.provenance:
        provenance["of_sha256"] = patch.provenance["sha256"]
    return replace(patch, rgba=rgba, name=f"{patch.name}-{kind}", provenance=provenance)
