"""ONNX files that ultralytics exported, told apart by what they answer, not by their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from envelope.victims.onnx_session import quantised_by_call
from envelope.victims.ultralytics_model import (
    BAD_FILE,
    LICENCE,
    Head,
    Options,
    UltralyticsDetector,
    describe,
    first_line,
    import_ultralytics,
    place_for,
)
from scene.errors import InputError

_DECODER = "RTDETRDecoder"


def load_export(path: Path, name: str, options: Options, threads: int = 1) -> UltralyticsDetector:
    """A detector from an .onnx file. Raises InputError in one sentence."""
    import_ultralytics()
    from ultralytics.nn.autobackend import AutoBackend

    try:
        backend = AutoBackend(str(path), device=torch.device("cpu"))
        height, width = backend.imgsz
    except BAD_FILE as error:
        raise InputError(
            f"victim {name!r}: {path} cannot be read as a model that ultralytics exported: "
            f"{first_line(error)}"
        ) from error
    if height != width or backend.task != "detect":
        raise InputError(
            f"victim {name!r}: wanted a detector with a square input, found one to {backend.task} "
            f"of {width} x {height} pixels"
        )
    # those of dynamically quantised files would hang on the other pictures of the call
    singly = not getattr(backend, "dynamic", False) or quantised_by_call(path)

    def answers(batch: torch.Tensor) -> torch.Tensor:
        parts = batch.split(1) if singly else [batch]
        return torch.cat([torch.as_tensor(_first(backend(part))) for part in parts])

    probe = torch.rand((1, 3, height, width), generator=torch.Generator().manual_seed(0))
    raw = answers(probe)
    metadata = {"description": path.stem, **(getattr(backend, "metadata", None) or {})}
    head = head_of_export(raw, len(backend.names), metadata)
    if head is None:
        raise InputError(
            f"victim {name!r}: its output {list(raw.shape)} is not that of a detector of the "
            f"{len(backend.names)} classes that {path.name} names; wanted [1, 4 + classes, cells], "
            f"[1, boxes, 6] or [1, queries, 4 + classes]"
        )
    by_class = head == "rtdetr" and has_class_scores(raw, len(backend.names), metadata)

    def run(batch: torch.Tensor) -> torch.Tensor:
        rows = answers(batch)
        return _surest(rows) if by_class else rows

    info = describe(path, name, head, (width, height), backend.names, options)
    settings = {**info.settings, **({"scores": "of each class"} if by_class else {})}
    info = replace(info, licence=LICENCE, settings=settings)
    return UltralyticsDetector(run, head, place_for(head, width, square=True), info, threads)


def head_of_export(raw: torch.Tensor, classes: int, metadata: Mapping[str, Any]) -> Head | None:
    """Which kind of answer an export gives; None for one that is of no known kind.

    raw: what it answers to one picture of noise. The shape tells dense heads; of lists of boxes
    the metadata's own word (head, since 8.4), its end2end or its description tell RT-DETR's,
    which are normalised, from those in pixels; where all are silent, the numbers do.
    """
    if raw.dim() != 3:
        return None
    rows, columns = raw.shape[1:]
    if columns not in (6, 4 + classes):
        return "dense" if rows == 4 + classes else None
    if said := metadata.get("head"):
        return "rtdetr" if said == _DECODER else "end2end" if columns == 6 else None
    if columns == 4 + classes != 6:
        return "rtdetr"
    described = str(metadata.get("description", "")).lower().replace("-", "")
    if metadata.get("end2end"):
        return "end2end"
    reach = float(raw[..., :4].abs().max()) if raw.numel() else 0.0
    return "rtdetr" if "rtdetr" in described or 0 < reach <= 1.5 else "end2end"


def has_class_scores(raw: torch.Tensor, classes: int, metadata: Mapping[str, Any]) -> bool:
    """Whether RT-DETR's queries carry a score for each class, as before 8.4, not the best one's."""
    if raw.shape[2] != 6 or classes != 2:
        return raw.shape[2] != 6
    numbers = raw[..., 5]  # of classes: whole; or scores of the second class, which are not
    return "head" not in metadata and not bool((numbers == numbers.round()).all())


def _surest(rows: torch.Tensor) -> torch.Tensor:
    """(B, n, 4 + C) boxes and class scores -> (B, n, 6) boxes, best score, its class."""
    confidences, classes = rows[..., 4:].max(dim=-1, keepdim=True)
    return torch.cat([rows[..., :4], confidences, classes.to(rows.dtype)], dim=-1)


def _first(raw: Any) -> Any:
    return raw[0] if isinstance(raw, tuple | list) else raw
