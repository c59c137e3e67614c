"""Every shipped file is listed with its hash, origin and licence."""

from __future__ import annotations

from pathlib import Path

import pytest

from scene.errors import InputError
from scene.manifest import add_to_manifest, manifest_problems, read_manifest

ASSETS = Path(__file__).resolve().parents[1] / "assets"


def test_shipped_assets_are_listed_and_unchanged() -> None:
    assert manifest_problems(ASSETS) == []


def test_manifest_notices_changed_missing_and_new_files(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for name in ("a/one.bin", "two.bin", "three.bin"):
        (tmp_path / name).write_bytes(name.encode())
    add_to_manifest(tmp_path, ["a/one.bin", tmp_path / "two.bin"], "made by hand")
    assert [entry["file"] for entry in read_manifest(tmp_path)] == ["a/one.bin", "two.bin"]
    assert manifest_problems(tmp_path) == ["three.bin is not listed"]
    (tmp_path / "a/one.bin").write_bytes(b"changed")
    (tmp_path / "two.bin").unlink()
    assert manifest_problems(tmp_path) == [
        "a/one.bin differs from the listed sha256",
        "two.bin is listed but absent",
        "three.bin is not listed",
    ]
    (tmp_path / "two.bin").write_bytes(b"back")
    add_to_manifest(tmp_path, ["a/one.bin", "two.bin", "three.bin"], "again", "CC0-1.0")
    assert manifest_problems(tmp_path) == []


def test_broken_manifest_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "MANIFEST.json").write_text('{"files": [{"file": "x"}]}')
    with pytest.raises(InputError, match="wanted the fields file, sha256, origin, licence"):
        read_manifest(tmp_path)
