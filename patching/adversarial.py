"""One scene with its patches: clean, gray, adversarial and further controls share one base."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from patching.anchor import Anchor
from patching.edit import GaussianEdit, load_edit, save_edit
from patching.patch import write_png
from patching.placement import Placement
from patching.surface_json import surface_from_dict, surface_to_dict
from scene.camera import Camera
from scene.errors import InputError
from scene.gaussians import Gaussians
from scene.scene import Scene

FORMAT = "advscene-adversarial-1"
ABOUT = "adversarial.json"


@dataclass(frozen=True, eq=False)
class AdversarialScene:
    """Render kinds of one scene; each patch is a small edit, the clean Gaussians exist once.

    anchor: of the adversarial patch. edits: by kind ("gray", "adversarial", "noise", "shuffled").
    reports: by kind, what the embedding reported; JSON values only.
    """

    scene: Scene
    anchor: Anchor
    edits: Mapping[str, GaussianEdit]
    reports: Mapping[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The clean kind and every embedded patch."""
        return ("clean", *self.edits)

    def gaussians(self, kind: str) -> Gaussians:
        """The scene of one render kind; "clean" is the shared base itself."""
        if kind == "clean":
            return self.scene.gaussians
        if kind not in self.edits:
            raise InputError(
                f"render kind {kind!r}: this scene holds {', '.join(self.kinds)}; embed it first"
            )
        return self.edits[kind].apply(self.scene.gaussians)

    def with_edit(self, kind: str, edit: GaussianEdit, report: dict[str, Any]) -> AdversarialScene:
        """The same with one more (or another) embedded patch."""
        return AdversarialScene(
            self.scene, self.anchor, {**self.edits, kind: edit}, {**self.reports, kind: report}
        )

    def save(self, folder: str | Path) -> None:
        """Write edits (safetensors), the anchor's pictures (8-bit PNG) and adversarial.json last.

        A folder without adversarial.json is unfinished and refused by `load`.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for kind, edit in self.edits.items():
            save_edit(edit, folder / f"{kind}.safetensors")
        for name in ("image", "clean"):
            picture = np.clip(getattr(self.anchor, name), 0, 1)
            write_png(np.rint(picture * 255).astype(np.uint8), folder / f"anchor-{name}.png")
        write_png(self.anchor.mask.astype(np.uint8) * 255, folder / "anchor-mask.png")
        about = {
            "format": FORMAT,
            "kinds": list(self.edits),
            "anchor": _anchor_fields(self.anchor),
            "reports": dict(self.reports),
        }
        partial = folder / (ABOUT + ".part")
        partial.write_text(json.dumps(about, indent=1))
        partial.replace(folder / ABOUT)

    @classmethod
    def load(cls, folder: str | Path, scene: Scene) -> AdversarialScene:
        """Read what `save` wrote, over the same clean scene. Raises InputError."""
        folder = Path(folder)
        try:
            about = json.loads((folder / ABOUT).read_text())
        except FileNotFoundError as error:
            raise InputError(f"{folder}: wanted a folder with {ABOUT}, found none") from error
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{folder / ABOUT}: wanted JSON, found {error}") from error
        if not isinstance(about, dict) or about.get("format") != FORMAT:
            raise InputError(f"{folder / ABOUT}: wanted {FORMAT}, found other content")
        edits = {kind: load_edit(folder / f"{kind}.safetensors") for kind in about["kinds"]}
        anchor = _load_anchor(folder, about["anchor"])
        return cls(scene, anchor, edits, about.get("reports", {}))


def _anchor_fields(anchor: Anchor) -> dict[str, Any]:
    placement = anchor.placement
    return {
        "camera": anchor.camera.to_dict(),
        "surface": surface_to_dict(anchor.surface),
        "background": list(anchor.background),
        "placement": None if placement is None else placement.to_dict(),
    }


def _load_anchor(folder: Path, fields: dict[str, Any]) -> Anchor:
    from PIL import Image

    source = str(folder / ABOUT)

    def picture(name: str, mode: str) -> np.ndarray:
        path = folder / f"anchor-{name}.png"
        try:
            with Image.open(path) as file:
                return np.asarray(file.convert(mode)).astype(np.float32) / np.float32(255)
        except OSError as error:
            raise InputError(f"{path}: the anchor's picture is missing or damaged") from error

    placement = fields.get("placement")
    red, green, blue = (float(v) for v in fields["background"])
    return Anchor(
        camera=Camera.from_dict(fields["camera"], source),
        image=picture("image", "RGB"),
        mask=picture("mask", "L") > 0.5,
        clean=picture("clean", "RGB"),
        surface=surface_from_dict(fields["surface"], source),
        placement=None if placement is None else Placement.from_dict(placement, source),
        background=(red, green, blue),
    )
