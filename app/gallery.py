"""The patches that can be chosen: those that ship with the project, then uploaded ones."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from scene.errors import InputError

if TYPE_CHECKING:
    from patching.patch import Patch

FOLDER = Path(__file__).resolve().parents[1] / "assets" / "patches"
PICTURES = (".png", ".jpg", ".jpeg", ".webp")


class Gallery:
    """Patches by name: those that ship with the project, then uploaded ones."""

    def __init__(self, folder: Path = FOLDER) -> None:
        from patching.patch import load_patch

        paths = sorted(p for p in folder.glob("*") if p.suffix.lower() in PICTURES)
        self._patches: dict[str, Patch] = {}
        for path in paths:
            patch = load_patch(path)
            self._patches[patch.name] = patch

    def names(self) -> tuple[str, ...]:
        """All names, in the order of the gallery."""
        return tuple(self._patches)

    def patches(self) -> list[Patch]:
        """All patches, in the order of the gallery."""
        return list(self._patches.values())

    def get(self, name: str) -> Patch:
        """A patch by name. Raises InputError."""
        if name not in self._patches:
            raise InputError(f"patch {name!r}: not in the gallery; upload its picture first")
        return self._patches[name]

    def add(self, patch: Patch) -> None:
        """Put one more patch at the end."""
        self._patches[patch.name] = patch

    def add_upload(self, file_name: str, content: bytes) -> Patch:
        """Add an uploaded picture. Raises InputError when it is none."""
        from patching.patch import load_patch

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / (Path(file_name).name or "patch.png")
            path.write_bytes(content)
            try:
                patch = load_patch(path)
            except InputError as error:
                raise InputError(str(error).replace(str(path), path.name)) from error
        self.add(patch)
        return patch
