"""ultralytics' detectors. The package is AGPL-3.0, an extra, imported only when one is loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from envelope.victims.protocols import Victim
from envelope.victims.roster import (
    READY,
    Entry,
    Request,
    State,
    cache_folder,
    find_weights,
    needs_packages,
    number_option,
)
from scene.errors import InputError

LICENCE = "AGPL-3.0 (weights and package)"
_ADDRESS = "https://github.com/ultralytics/assets/releases/download/v8.4.0"
_SIZE = (640, 640)
_STRIDE = 32

_OPTIONS = ("size", "iou")


def fetch_command(file_name: str) -> str:
    """Gets a published weights' file to where it is looked for."""
    folder = cache_folder() / "weights"
    return f"curl -L --create-dirs -o {folder / file_name} {_ADDRESS}/{file_name}"


def _package() -> State:
    return needs_packages("yolo", "ultralytics")


def _state(file_name: str) -> Callable[[], State]:
    def look() -> State:
        package = _package()
        if package.status != "ready":
            return package
        there = find_weights(file_name) is not None
        return READY if there else State("needs file", fetch_command(file_name))

    return look


def _load(file_name: str) -> Callable[[Request], Victim]:
    def load(request: Request) -> Victim:
        from envelope.victims.ultralytics_model import Options, load_ultralytics

        options = Options(_size(request), number_option(request, "iou", 0.7, 0, 1))
        path = _path(request, file_name)
        return load_ultralytics(path, request.spec, options, request.threads)

    return load


def _load_world(file_name: str) -> Callable[[Request], Victim]:
    def load(request: Request) -> Victim:
        from envelope.victims.ultralytics_model import Options
        from envelope.victims.ultralytics_world import load_world

        options = Options(_size(request), number_option(request, "iou", 0.7, 0, 1))
        clip = Path(request.options["clip"]) if request.options.get("clip") else None
        path = _path(request, file_name)
        return load_world(path, request.spec, options, clip, request.label, request.threads)

    return load


def _size(request: Request) -> int:
    """The long side of the input, in whole strides: the networks add maps of different strides."""
    size = number_option(request, "size", 640, _STRIDE, 4096)
    if size % _STRIDE:
        near = round(size / _STRIDE) * _STRIDE
        raise InputError(
            f"victim {request.spec!r}: size wants a multiple of {_STRIDE}, found {size:g}; "
            f"{near} is near"
        )
    return int(size)


def _path(request: Request, file_name: str) -> Path:
    if request.location:
        return Path(request.location)
    return find_weights(file_name) or Path(file_name)


def _named(name: str, file_name: str, convention: str) -> Entry:
    return Entry(
        name, "detector", LICENCE, _load(file_name), _state(file_name), options=_OPTIONS,
        extra="yolo", input_size=_SIZE, threshold=0.5, convention=convention,
        evidence="the package's own decoder, compared", source=f"{_ADDRESS}/{file_name}",
        white_box=True,
    )  # fmt: skip


_DENSE = "cxcywh pixels of the letterboxed input"

ENTRIES = (
    *(_named(f"yolov8{size}", f"yolov8{size}.pt", _DENSE) for size in "nsmlx"),
    _named("yolo11s", "yolo11s.pt", _DENSE),
    _named("yolo26s", "yolo26s.pt", "xyxy pixels of the letterboxed input, no suppression"),
    _named("rtdetr-l", "rtdetr-l.pt", "cxcywh, 0-1 of the stretched input, no suppression"),
    Entry(
        "yolo-world", "detector", LICENCE, _load_world("yolov8s-worldv2.pt"),
        _state("yolov8s-worldv2.pt"), takes="FILE?clip=FOLDER", optional=True,
        options=(*_OPTIONS, "clip"), extra="yolo", input_size=_SIZE, threshold=0.3,
        convention=_DENSE, evidence="the package's own decoder, compared",
        source=f"{_ADDRESS}/yolov8s-worldv2.pt", white_box=True,
    ),
    Entry(
        "ultralytics", "detector", LICENCE, _load(""), _package, takes="FILE", options=_OPTIONS,
        extra="yolo", threshold=0.5, convention="as the file's head says",
        evidence="the package's own decoder, compared", white_box=True,
    ),
)  # fmt: skip
