"""Hashes of weights' files."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path


def files_sha256(paths: Sequence[Path]) -> str:
    """One sha256, hex, over the files' contents in the given order."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()
