"""The list of shipped files: what each is, where it came from, under which licence.

`MANIFEST.json` holds {"files": [{"file", "sha256", "origin", "licence"}, ...]}, sorted by file;
paths are relative to its folder, with forward slashes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

from scene.errors import InputError

NAME = "MANIFEST.json"
FIELDS = ("file", "sha256", "origin", "licence")
_UNLISTED = (NAME, "__init__.py")


def read_manifest(folder: str | Path) -> list[dict[str, str]]:
    """Entries of the folder's manifest; empty where there is none. Raises InputError."""
    path = Path(folder) / NAME
    if not path.exists():
        return []
    try:
        entries = json.loads(path.read_text())["files"]
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise InputError(f'{path}: wanted {{"files": [...]}}, found {error!r}') from error
    for entry in entries:
        if not isinstance(entry, dict) or sorted(entry) != sorted(FIELDS):
            raise InputError(f"{path}: wanted the fields {', '.join(FIELDS)}, found {entry}")
    return list(entries)


def add_to_manifest(
    folder: str | Path, files: Iterable[str | Path], origin: str, licence: str = "Apache-2.0"
) -> None:
    """List `files` (paths inside `folder`), or bring their entries up to date.

    origin: how the file was made or where it is from, in one line (command, seed, source).
    """
    folder = Path(folder)
    entries = {entry["file"]: entry for entry in read_manifest(folder)}
    for file in files:
        path = Path(file) if Path(file).is_absolute() else folder / file
        name = path.resolve().relative_to(folder.resolve()).as_posix()
        entries[name] = {
            "file": name,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "origin": origin,
            "licence": licence,
        }
    partial = folder / (NAME + ".part")
    content = {"files": [entries[name] for name in sorted(entries)]}
    partial.write_text(json.dumps(content, indent=1) + "\n")
    os.replace(partial, folder / NAME)


def manifest_problems(folder: str | Path) -> list[str]:
    """One sentence per file that is missing, changed or not listed; empty when all is well."""
    folder = Path(folder)
    entries = {entry["file"]: entry for entry in read_manifest(folder)}
    problems = []
    for name, entry in entries.items():
        path = folder / name
        if not path.is_file():
            problems.append(f"{name} is listed but absent")
        elif hashlib.sha256(path.read_bytes()).hexdigest() != entry["sha256"]:
            problems.append(f"{name} differs from the listed sha256")
        if not entry["origin"].strip() or not entry["licence"].strip():
            problems.append(f"{name} has no origin or licence")
    present = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in _UNLISTED and "__pycache__" not in path.parts
    }
    problems += [f"{name} is not listed" for name in sorted(present - set(entries))]
    return problems
