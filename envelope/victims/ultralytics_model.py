"""ultralytics' detectors: YOLOv8, YOLO11, YOLO26, RT-DETR; its ONNX files in `ultralytics_export`.

ultralytics is AGPL-3.0 and an extra: it is imported when one of these victims is loaded, never
before. Pictures are laid into the input here, with ultralytics' own resampling, and undone exactly.
Checkpoints are read with `weights_only`, so that a file cannot run code.
"""

from __future__ import annotations

import logging
import math
import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch.nn import functional

from envelope.victims.boxes import require_finite
from envelope.victims.hashes import files_sha256
from envelope.victims.letterbox import Letterbox, fit_inside, stretch_to
from envelope.victims.names import find_class
from envelope.victims.protocols import (
    KEPT_CONFIDENCE,
    Detections,
    Images,
    VictimInfo,
    check_images,
)
from envelope.victims.roster import cache_folder, install_command
from envelope.victims.torch_tools import frozen, torch_threads
from scene.errors import InputError

Head = Literal["dense", "end2end", "rtdetr"]
"""dense: boxes that want non-maximum suppression. end2end: YOLO26's and YOLOv10's, which must not
get one. rtdetr: queries with normalised boxes, none either."""

LICENCE = "AGPL-3.0"
_FILL = 114
_MAX_BOXES = 100
_SUPPRESSED_CELLS = 20
BAD_FILE = (TypeError, ValueError, RuntimeError, KeyError, AttributeError, OSError, ImportError,
             EOFError, pickle.UnpicklingError)  # fmt: skip


@dataclass(frozen=True)
class Options:
    """size: long side of the input, pixels. nms_iou: of dense heads."""

    size: int = 640
    nms_iou: float = 0.7


class UltralyticsDetector:
    """Follows the Detector protocol."""

    def __init__(
        self, run: Callable[[torch.Tensor], Any], head: Head, box: Callable[[int, int], Letterbox],
        info: VictimInfo, threads: int = 1,
    ) -> None:  # fmt: skip
        """run: (B, 3, h, w) RGB in [0, 1] -> raw output. box: (width, height) -> its place."""
        self._run = run
        self._head = head
        self._box = box
        self.info = info
        self.threads = threads

    def predict(self, images: Images) -> list[Detections]:
        """images: (B, H, W, 3) uint8 RGB -> B answers in those pictures' pixels."""
        images = check_images(images)
        if len(images) == 0:
            return []
        box = self._box(images.shape[2], images.shape[1])
        # not inference_mode: the networks keep tensors of this call, and a gradient may follow
        with torch_threads(self.threads), torch.no_grad():
            raw = self._run(_input(images, box))
            rows = raw[0] if isinstance(raw, tuple | list) else raw
            require_finite(self.info.name, rows)
            return [self._picture(row.float(), box) for row in rows]

    def _picture(self, rows: torch.Tensor, box: Letterbox) -> Detections:
        boxes, confidences, classes = _READ[self._head](rows, box)
        if self._head == "dense":
            from torchvision.ops import batched_nms

            overlap = float(self.info.settings["nms_iou"])
            best = batched_nms(boxes, confidences, classes, overlap)
        else:
            best = confidences.argsort(descending=True)
        best = best[:_MAX_BOXES]
        return Detections(
            box.to_source(boxes[best].numpy()),
            confidences[best].numpy(),
            tuple(self._name(int(number)) for number in classes[best]),
        )

    def _name(self, number: int) -> str:
        return self.info.labels[number]


class WhiteUltralyticsDetector(UltralyticsDetector):
    """One with its network at hand: also a white box for patch making."""

    def __init__(
        self, model: Any, head: Head, box: Callable[[int, int], Letterbox], info: VictimInfo,
        threads: int = 1,
    ) -> None:  # fmt: skip
        self.model: Any = frozen(model)
        super().__init__(self.model, head, box, info, threads)

    def suppression_loss(self, images: torch.Tensor, label: str) -> torch.Tensor:
        """How visible the class still is to the detector; an attack makes it small.

        images: (B, 3, H, W) float RGB in [0, 1], gradients pass. Returns (B,): the mean of
        -log(1 - confidence) over the most confident places of the class.
        """
        index = find_class(label, self.info.labels, self.info.name)
        return self._suppression(images, index)

    def _suppression(self, images: torch.Tensor, index: int) -> torch.Tensor:
        box = self._box(images.shape[3], images.shape[2])
        logits = _logits(self._run(_placed(images, box))[1], self._head)[..., index]
        count = min(_SUPPRESSED_CELLS, logits.shape[1])
        return functional.softplus(logits).topk(count, dim=1).values.mean(dim=1)


def load_ultralytics(
    path: Path, name: str, options: Options | None = None, threads: int = 1
) -> UltralyticsDetector:
    """A detector from a .pt checkpoint or an .onnx export. Raises InputError in one sentence."""
    options = options or Options()
    if not path.is_file():
        raise InputError(f"victim {name!r}: there is no file {path}")
    if path.suffix == ".pt":
        return _from_checkpoint(path, name, options, threads)
    if path.suffix == ".onnx":
        from envelope.victims.ultralytics_export import load_export

        return load_export(path, name, options, threads)
    raise InputError(f"victim {name!r}: wanted a .pt or .onnx file, found {path.name}")


@contextmanager
def _no_patches() -> Iterator[None]:
    """Undo what the package's import replaces in other libraries.

    Its `PIL.Image.open`, for one, answers a damaged picture with an import of pi_heif.
    """
    import cv2
    from PIL import Image

    patched = ((Image, ("open",)), (torch, ("save",)), (cv2, ("imread", "imwrite", "imshow")))
    before = [(module, name, getattr(module, name)) for module, names in patched for name in names]
    printing = np.get_printoptions()
    try:
        yield
    finally:
        for module, name, own in before:
            setattr(module, name, own)
        np.set_printoptions(**printing)
        torch.set_printoptions(profile="default")


def import_ultralytics() -> Any:
    """ultralytics, told to look nothing up, install nothing and run no code of checkpoints."""
    os.environ["YOLO_OFFLINE"] = "True"
    os.environ["YOLO_AUTOINSTALL"] = "False"
    os.environ["ULTRALYTICS_SAFE_LOAD"] = "True"
    os.environ.setdefault("YOLO_VERBOSE", "False")
    os.environ.setdefault("YOLO_CONFIG_DIR", str(cache_folder() / "ultralytics"))
    try:
        with _no_patches():
            import ultralytics
            from ultralytics.nn import tasks
    except ImportError as error:
        raise InputError(
            f"ultralytics is not installed: {install_command('yolo')} (its licence is {LICENCE})"
        ) from error
    tasks.SAFE_LOAD = True
    logging.getLogger("ultralytics").setLevel(logging.WARNING)  # it talks on standard output
    return ultralytics


def read_checkpoint(path: Path, name: str) -> Any:
    """The detection network of a .pt file, in eval mode. Raises InputError."""
    import_ultralytics()
    from ultralytics.nn.tasks import load_checkpoint

    try:
        model, _ = load_checkpoint(path.resolve())
    except BAD_FILE as error:
        raise InputError(
            f"victim {name!r}: {path} cannot be read as an ultralytics checkpoint without running "
            f"code from it: {first_line(error)}"
        ) from error
    if model.task != "detect":
        raise InputError(f"victim {name!r}: wanted a detector, found a model to {model.task}")
    return model


def describe(
    path: Path, name: str, head: Head, size: tuple[int, int], labels: Any, options: Options
) -> VictimInfo:
    """What a detector of this family says about itself. labels: index -> name."""
    ordered = [labels[index] for index in range(len(labels))]
    return VictimInfo(
        name=name,
        kind="detector",
        licence=f"{LICENCE}, or the checkpoint's own",
        source=path.name,
        input_size=size,
        threshold=0.5,
        weights_hash=files_sha256([path]),
        labels=tuple(str(label) for label in ordered),
        settings={
            "head": head,
            "nms_iou": options.nms_iou if head == "dense" else None,
            "kept_confidence": KEPT_CONFIDENCE,
            "padding": _FILL,
            "file": path.suffix,
        },
        extra="yolo",
        coordinates=CONVENTIONS[head],
    )


CONVENTIONS: dict[Head, str] = {
    "dense": "cxcywh pixels of the letterboxed input (ultralytics' decoding)",
    "end2end": "xyxy pixels of the letterboxed input, no suppression",
    "rtdetr": "cxcywh, 0-1 of the stretched input, no suppression",
}


def place_for(head: Head, size: int, square: bool = False) -> Callable[[int, int], Letterbox]:
    """How pictures are laid into the input.

    RT-DETR stretches them. The others keep the aspect: centred in a square where the file wants
    one, else in the smallest rectangle of whole strides.
    """
    if head == "rtdetr":
        return lambda width, height: stretch_to(width, height, size, size)
    if square:
        return lambda width, height: fit_inside(width, height, size, size, centered=True)

    def rectangle(width: int, height: int) -> Letterbox:
        ratio = size / max(width, height)
        whole = [math.ceil(max(1, round(v * ratio)) / 32) * 32 for v in (width, height)]
        return fit_inside(width, height, min(size, whole[0]), min(size, whole[1]), centered=True)

    return rectangle


def head_of(model: Any) -> Head:
    """Which kind of answer a network gives."""
    last = model.model[-1]
    if type(last).__name__ == "RTDETRDecoder":
        return "rtdetr"
    return "dense" if getattr(last, "one2one_cv2", None) is None else "end2end"


def _from_checkpoint(path: Path, name: str, options: Options, threads: int) -> UltralyticsDetector:
    model = read_checkpoint(path, name)
    head = head_of(model)
    if type(model).__name__ == "WorldModel":
        raise InputError(
            f"victim {name!r}: {path.name} is a YOLO-World model; write yolo-world:{path}"
        )
    info = describe(path, name, head, (options.size, options.size), model.names, options)
    if head == "end2end":
        model.end2end = True  # ultralytics itself would take the branch that wants suppression
    model = model.fuse(verbose=False)
    place = place_for(head, options.size)
    return WhiteUltralyticsDetector(model, head, place, info, threads)


def _input(images: Images, box: Letterbox) -> torch.Tensor:
    """(B, H, W, 3) uint8 -> (B, 3, h, w) float32 in [0, 1], resized as ultralytics resizes."""
    import cv2

    out = np.full((len(images), box.height, box.width, 3), _FILL, np.uint8)
    size = (box.inner_width, box.inner_height)
    rows = slice(box.top, box.top + box.inner_height)
    columns = slice(box.left, box.left + box.inner_width)
    for number, image in enumerate(images):
        same = image.shape[1::-1] == size
        out[number, rows, columns] = (
            image if same else cv2.resize(image, size, interpolation=cv2.INTER_LINEAR)
        )
    return torch.from_numpy(out).permute(0, 3, 1, 2).contiguous().float().div_(255)


def _placed(images: torch.Tensor, box: Letterbox) -> torch.Tensor:
    """The same with gradients: (B, 3, H, W) in [0, 1], bilinear without anti-aliasing."""
    size = (box.inner_height, box.inner_width)
    if images.shape[-2:] != size:
        images = functional.interpolate(images, size=size, mode="bilinear", align_corners=False)
    right = box.width - box.left - box.inner_width
    below = box.height - box.top - box.inner_height
    return functional.pad(images, (box.left, right, box.top, below), value=_FILL / 255)


Found = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""(n, 4) xyxy pixels of the input, (n,) confidences, (n,) class numbers."""


def _dense(rows: torch.Tensor, box: Letterbox) -> Found:
    confidences, classes = rows[4:].max(dim=0)
    keep = confidences >= KEPT_CONFIDENCE
    centers, sizes = rows[:2, keep].T, rows[2:4, keep].T
    boxes = torch.cat([centers - sizes / 2, centers + sizes / 2], dim=1)
    return boxes, confidences[keep], classes[keep]


def _end2end(rows: torch.Tensor, box: Letterbox) -> Found:
    rows = rows[rows[:, 4] >= KEPT_CONFIDENCE]
    return rows[:, :4], rows[:, 4], rows[:, 5].long()


def _rtdetr(rows: torch.Tensor, box: Letterbox) -> Found:
    rows = rows[rows[:, 4] >= KEPT_CONFIDENCE]
    scale = torch.tensor([box.width, box.height], dtype=rows.dtype)
    centers, sizes = rows[:, :2] * scale, rows[:, 2:4] * scale
    boxes = torch.cat([centers - sizes / 2, centers + sizes / 2], dim=1)
    return boxes, rows[:, 4], rows[:, 5].long()


_READ: dict[Head, Callable[[torch.Tensor, Letterbox], Found]] = {
    "dense": _dense,
    "end2end": _end2end,
    "rtdetr": _rtdetr,
}


def _logits(raw: Any, head: Head) -> torch.Tensor:
    """(B, n, C) class logits from what a network says beside its decoded answer."""
    if head == "rtdetr":
        return raw[1][-1] if raw[1].dim() == 4 else raw[1]
    branch = raw["one2one" if head == "end2end" else "one2many"] if "one2one" in raw else raw
    logits: torch.Tensor = branch["scores"]
    return logits.transpose(1, 2)


def first_line(error: BaseException) -> str:
    """What of an error of the package goes into our own sentence."""
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
