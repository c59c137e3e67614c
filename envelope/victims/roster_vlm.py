"""Grounding models, by name or from a folder."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from envelope.victims.hub_models import (
    HUB_WEIGHTS,
    HubWeights,
    cached_folder,
    local_folder,
    weights_folder,
)
from envelope.victims.protocols import Victim
from envelope.victims.roster import READY, Entry, Request, State
from envelope.victims.vlm.families import FAMILIES
from envelope.victims.vlm.family import Family
from scene.errors import InputError
from scene.io.json_file import read_json_object

_ROWS = {row.name: row for row in HUB_WEIGHTS if row.kind == "grounder"}
_OPTIONS = ("prompt", "size", "tokens", "device")
_LFM = "lfm2.5-vl"
_FOLDERS = ("paligemma", "internvl3", "qwen3-vl", _LFM, "minicpm-v")
"""Families whose name is no row's name; each loads a folder."""
_LFM_DEPTHS = {16: "1", 30: "1000"}
"""Layers of the text model (LFM2-350M and 1.2B: 16, LFM2-2.6B: 30) -> its scale."""


def _load(request: Request) -> Victim:
    """The victim of a name, or of a folder behind the name of a family."""
    row = _ROWS.get(request.name) if not request.location else None
    folder = weights_folder(row) if row else local_folder(request.location, request.spec)
    family = _family(request, row, folder)
    if family.name == "paligemma":
        from envelope.victims.paligemma import load_paligemma

        variant, device = (
            request.options.get(name, default)
            for name, default in (("prompt", "native"), ("device", "auto"))
        )
        return load_paligemma(folder, request.spec, request.threads, variant, row, device)
    from envelope.victims.hub_victim import HubRequest
    from envelope.victims.vlm.load import load_vlm

    wanted = HubRequest(request.spec, folder, request.options, request.threads, row)
    return load_vlm(wanted, family)


def _family(request: Request, row: HubWeights | None, folder: Path) -> Family:
    if row is not None:
        return FAMILIES[row.family]
    if not request.name.startswith(_LFM):
        return FAMILIES[request.name]
    return _lfm(request, folder)


def _lfm(request: Request, folder: Path) -> Family:
    """LFM2.5-VL's scale depends on the checkpoint, which its depth and the folder's name tell."""
    by_scale = {"1": FAMILIES[_LFM], "1000": FAMILIES[f"{_LFM}-3b"]}
    said = request.options.get("coordinates")
    if said in by_scale:
        return by_scale[said]
    scales = {*_lfm_scale_by_name(f"{request.name} {folder.name}"), *_lfm_scale_by_depth(folder)}
    if said is not None or len(scales) != 1:
        raise InputError(
            f"victim {request.spec!r}: LFM2.5-VL's 450M and 1.6B answer in 0-1, its 3B in 0-1000; "
            "say which behind the folder: ?coordinates=1 or ?coordinates=1000"
        )
    return by_scale[scales.pop()]


def _lfm_scale_by_name(name: str) -> set[str]:
    sizes = set(re.findall(r"(?<![\w.])(450m|1\.6b|3b)(?![\w.])", name.lower().replace("_", "-")))
    return {"1000" if size == "3b" else "1" for size in sizes}


def _lfm_scale_by_depth(folder: Path) -> set[str]:
    """Of a released checkpoint's text model: none when the depth is nobody's."""
    file = folder / "config.json"
    text: Any = read_json_object(file).get("text_config") if file.is_file() else None
    depth = text.get("num_hidden_layers") if isinstance(text, dict) else None
    return {_LFM_DEPTHS[depth]} if depth in _LFM_DEPTHS else set()


def _state(row: HubWeights) -> Callable[[], State]:
    login = "hf auth login && " if row.gated else ""
    return lambda: READY if cached_folder(row) else State("needs file", login + row.command)


def _options(family: str) -> tuple[str, ...]:
    if family == "paligemma":
        return ("prompt", "device")
    return (*_OPTIONS, "coordinates") if family == _LFM else _OPTIONS


def _named(row: HubWeights) -> Entry:
    family = FAMILIES[row.family]
    folder = "FOLDER" if row.name == row.family == "qwen2.5-vl" else ""
    return Entry(
        row.name, "grounder", row.licence, _load, _state(row), takes=folder, optional=True,
        options=_options("" if row.family == _LFM else row.family), extra=row.extra,
        input_size=row.input_size,
        convention=family.convention, evidence=family.evidence,
        source=f"https://huggingface.co/{row.hub_id}", white_box=True,
    )  # fmt: skip


def _folder(name: str) -> Entry:
    family = FAMILIES[name]
    return Entry(
        name, "grounder", "the checkpoint's own", _load, takes="FOLDER", options=_options(name),
        convention=family.convention, evidence=family.evidence, white_box=True,
    )  # fmt: skip


ENTRIES = (*map(_named, _ROWS.values()), *map(_folder, _FOLDERS))
