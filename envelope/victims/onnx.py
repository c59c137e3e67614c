"""Detectors in ONNX files, through onnxruntime, with a decode preset per family of exports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from envelope.victims import decode_fastestdet, decode_nanodet, decode_yolov8, decode_yolox
from envelope.victims.boxes import Candidates, FloatArray, require_finite, suppress
from envelope.victims.coco_names import COCO_NAMES
from envelope.victims.hashes import files_sha256
from envelope.victims.letterbox import Letterbox, fit_inside, stretch_to
from envelope.victims.names import find_class
from envelope.victims.onnx_session import (
    input_size,
    model_files,
    one_by_one,
    open_session,
    picture_input,
    read_labels,
)
from envelope.victims.protocols import (
    KEPT_CONFIDENCE,
    Detections,
    Images,
    VictimInfo,
    check_images,
)
from envelope.victims.resampling import Resampling, resampled
from scene.errors import InputError

if TYPE_CHECKING:
    from envelope.victims.onnx_torch import TorchTwin

_ROUNDED = 0.02
"""How far beyond 0..1 scores may be: those of quantised files."""

Fit = Callable[[int, int, int, int], Letterbox]


@dataclass(frozen=True)
class Preset:
    """How one family of exports wants its pictures and gives its answers.

    bgr: channel order of the input. mean, deviation: per channel in that order, on 0..255.
    fit: how a picture is laid into the input; fill: the padding's gray level. resampling: as the
    program beside the family's exports does it.
    decode: one picture's outputs (batch left out), width, height -> Candidates.
    """

    decode: Callable[[Sequence[FloatArray], int, int], Candidates]
    fits: Callable[[Sequence[tuple[int, ...]], int, int], bool]
    bgr: bool = True
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)
    deviation: tuple[float, float, float] = (1.0, 1.0, 1.0)
    fit: Fit = fit_inside
    fill: int = 114
    resampling: Resampling = "linear"
    nms_iou: float = 0.45
    side: int = 416  # used when the file leaves its input's size open


def _centered(width: int, height: int, input_width: int, input_height: int) -> Letterbox:
    return fit_inside(width, height, input_width, input_height, centered=True)


PRESETS: Mapping[str, Preset] = {
    "yolox": Preset(decode_yolox.decode, decode_yolox.fits),
    "yolox-decoded": Preset(decode_yolox.decode_decoded, decode_yolox.fits),
    "nanodet": Preset(
        decode_nanodet.decode,
        decode_nanodet.fits,
        mean=(103.53, 116.28, 123.675),
        deviation=(57.375, 57.12, 58.395),
        fit=_centered,
        fill=0,
        nms_iou=0.6,
    ),
    "fastestdet": Preset(
        decode_fastestdet.decode,
        decode_fastestdet.fits,
        deviation=(255.0, 255.0, 255.0),
        fit=stretch_to,
        resampling="area",
        side=352,
    ),
    "yolov8": Preset(
        decode_yolov8.decode,
        decode_yolov8.fits,
        bgr=False,
        deviation=(255.0, 255.0, 255.0),
        fit=_centered,
        nms_iou=0.7,
        side=640,
    ),
}


@dataclass(frozen=True)
class OnnxOptions:
    """preset: of PRESETS, None to recognise it by the outputs. labels: a file, one name a line.

    size: side of the input where the file leaves it open. confidence: lowest that is kept.
    iou: of the non-maximum suppression, None for the preset's.
    """

    preset: str | None = None
    labels: Path | None = None
    size: int | None = None
    confidence: float = KEPT_CONFIDENCE
    iou: float | None = None
    spec: str = field(default="onnx", compare=False)

    @classmethod
    def from_query(cls, query: Mapping[str, str], spec: str) -> OnnxOptions:
        """From the part of a spec after the question mark."""
        preset = query.get("preset") or None
        if preset is not None and preset not in PRESETS:
            known = ", ".join(PRESETS)
            raise InputError(f"victim {spec!r}: no preset {preset!r}; the presets are: {known}")
        return cls(
            preset=preset,
            labels=Path(query["labels"]) if query.get("labels") else None,
            size=int(_number(query, "size", spec, 32, 4096)) if query.get("size") else None,
            confidence=_number(query, "confidence", spec, 0, KEPT_CONFIDENCE)
            if "confidence" in query
            else KEPT_CONFIDENCE,
            iou=_number(query, "iou", spec, 0, 1) if "iou" in query else None,
            spec=spec,
        )


def _number(query: Mapping[str, str], name: str, spec: str, low: float, high: float) -> float:
    try:
        value = float(query[name])
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        raise InputError(
            f"victim {spec!r}: {name} wants a number in {low:g}..{high:g}, found {query[name]!r}"
        )
    return value


class OnnxDetector:
    """Follows the Detector protocol; with onnx2torch also a white box for patch making."""

    def __init__(
        self, session: Any, preset: Preset, info: VictimInfo, path: Path | None = None
    ) -> None:
        self.path = path
        self.session = session
        self.preset = preset
        self.info = info
        self._input_name = session.get_inputs()[0].name
        self._one_by_one = one_by_one(session, path)

    def predict(self, images: Images) -> list[Detections]:
        """images: (B, H, W, 3) uint8 RGB -> B answers in those pictures' pixels."""
        images = check_images(images)
        if len(images) == 0:
            return []
        width, height = self.info.input_size
        box = self.preset.fit(images.shape[2], images.shape[1], width, height)
        inputs = self._tensor(images, box)
        batches = [inputs[i : i + 1] for i in range(len(inputs))] if self._one_by_one else [inputs]
        answers = []
        for batch in batches:
            outputs = self.session.run(None, {self._input_name: batch})
            require_finite(self.info.name, *outputs)
            for row in range(len(batch)):
                decoded = self.preset.decode([output[row] for output in outputs], width, height)
                answers.append(self._chosen(decoded, box))
        return answers

    @cached_property
    def twin(self) -> TorchTwin:
        """The same network in torch, converted when first asked for. Raises InputError."""
        from envelope.victims.onnx_torch import torch_twin

        if self.path is None:
            raise InputError(f"{self.info.name}: wanted a detector from a file")
        return torch_twin(self.path, self.session, self.preset, self.info.settings["preset"])

    @property
    def suppression_loss(self) -> Callable[[Any, str], Any]:
        """(images, label) -> (B,) how visible the class still is; an attack makes it small.

        images: (B, 3, H, W) float RGB torch tensor in [0, 1], gradients pass. Raises InputError
        here, before any work is done, when the file cannot be turned into a torch network.
        """
        twin = self.twin

        def loss(images: Any, label: str) -> Any:
            index = find_class(label, self.info.labels, self.info.name)
            box = self.preset.fit(images.shape[3], images.shape[2], *self.info.input_size)
            return twin.suppression(images, index, box)

        return loss

    def _tensor(self, images: Images, box: Letterbox) -> FloatArray:
        pictures = resampled(images, box, self.preset.fill, self.preset.resampling)
        ordered = pictures[..., ::-1] if self.preset.bgr else pictures
        mean = np.asarray(self.preset.mean, np.float32)
        deviation = np.asarray(self.preset.deviation, np.float32)
        scaled = (ordered.astype(np.float32) - mean) / deviation
        return np.ascontiguousarray(scaled.transpose(0, 3, 1, 2))

    def _chosen(self, candidates: Candidates, box: Letterbox) -> Detections:
        labels = self.info.labels
        if candidates.scores.shape[1] != len(labels):
            raise InputError(
                f"{self.info.name} answers {candidates.scores.shape[1]} classes, but its labels "
                f"file names {len(labels)}"
            )
        require_finite(self.info.name, candidates.scores, candidates.xyxy)
        low, high = (float(f(candidates.scores, initial=0)) for f in (np.min, np.max))
        if low < -_ROUNDED or high > 1 + _ROUNDED:
            raise InputError(
                f"{self.info.name}: class scores want 0..1, found {low:g}..{high:g}; the file is "
                f"of another family than {self.info.settings['preset']}, or lacks its last sigmoid"
            )
        classes = candidates.scores.argmax(axis=1)
        confidences = candidates.scores.max(axis=1)
        keep = confidences >= self.info.settings["kept_confidence"]
        boxes, confidences, classes = candidates.xyxy[keep], confidences[keep], classes[keep]
        best = suppress(boxes, confidences, classes, self.info.settings["nms_iou"])
        return Detections(
            box.to_source(boxes[best]),
            confidences[best],
            tuple(labels[int(index)] for index in classes[best]),
        )


def load_onnx(path: Path, options: OnnxOptions, threads: int = 1) -> OnnxDetector:
    """A detector from an ONNX file; a file that is not one is refused in one sentence."""
    session = open_session(path, threads)
    entry = picture_input(session, path)
    name = options.preset or "yolox"
    width, height = input_size(entry.shape, options.size or PRESETS[name].side)
    outputs = _outputs(session, width, height)
    shapes = [tuple(output.shape) for output in outputs]
    name = options.preset or _recognised(path, shapes, width, height)
    preset = PRESETS[name]
    if not preset.fits(shapes, width, height):
        raise InputError(
            f"{path}: its outputs {shapes} are not those of the preset {name!r}; choose another "
            f"of: {', '.join(PRESETS)}"
        )
    if name.startswith("yolox"):  # of either form the shapes are the same
        name = "yolox-decoded" if decode_yolox.is_decoded(outputs[0], width, height) else "yolox"
        preset = PRESETS[name]
    info = VictimInfo(
        name=options.spec,
        kind="detector",
        licence="the file's own",
        source=path.name,
        input_size=(width, height),
        threshold=0.5,
        weights_hash=files_sha256(model_files(path)),
        labels=COCO_NAMES if options.labels is None else read_labels(options.labels),
        settings={
            "preset": name,
            "kept_confidence": options.confidence,
            "nms_iou": options.iou if options.iou is not None else preset.nms_iou,
            "resampling": preset.resampling,
            **({} if options.labels is None else {"labels_hash": files_sha256([options.labels])}),
        },
    )
    return OnnxDetector(session, preset, info, path)


def _outputs(session: Any, width: int, height: int) -> list[FloatArray]:
    """One picture's outputs, found by running the model once on zeros."""
    entry = session.get_inputs()[0]
    outputs = session.run(None, {entry.name: np.zeros((1, 3, height, width), np.float32)})
    return [np.asarray(output)[0] for output in outputs]


def _recognised(path: Path, shapes: list[tuple[int, ...]], width: int, height: int) -> str:
    for name, preset in PRESETS.items():
        if preset.fits(shapes, width, height):
            return name
    raise InputError(
        f"{path}: its outputs {shapes} are of no known family; the presets are: "
        f"{', '.join(PRESETS)}"
    )
