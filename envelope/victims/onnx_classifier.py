"""Classifiers in ONNX files, through onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from envelope.victims.hashes import files_sha256
from envelope.victims.onnx_session import (
    input_size,
    model_files,
    open_session,
    picture_input,
    read_labels,
)
from envelope.victims.protocols import Classification, Images, VictimInfo, check_images
from envelope.victims.roster import Request, number_option
from scene.errors import InputError

_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_CROP = 0.875  # torchvision's share of the resized picture that the middle square keeps


class OnnxClassifier:
    """Follows the Classifier protocol."""

    def __init__(self, session: Any, info: VictimInfo) -> None:
        self.session = session
        self.info = info
        entry = session.get_inputs()[0]
        self._input_name = entry.name
        self._one_by_one = entry.shape[0] == 1

    def predict(self, images: Images) -> list[Classification]:
        """images: (B, H, W, 3) uint8 RGB -> B answers."""
        images = check_images(images)
        if len(images) == 0:
            return []
        inputs = self._tensor(images)
        parts = [inputs[i : i + 1] for i in range(len(inputs))] if self._one_by_one else [inputs]
        rows = [self.session.run(None, {self._input_name: part})[0] for part in parts]
        scores = np.concatenate(rows).reshape(len(images), -1).astype(np.float64)
        return [Classification(self.info.labels, self._probabilities(row)) for row in scores]

    def _probabilities(self, row: np.ndarray) -> np.ndarray:
        if len(row) != len(self.info.labels):
            raise InputError(
                f"{self.info.name} answers {len(row)} classes, but its labels file names "
                f"{len(self.info.labels)}"
            )
        if self.info.settings["answers"] == "probabilities":
            return row / row.sum()
        chances = np.exp(row - row.max())
        return chances / chances.sum()

    def _tensor(self, images: Images) -> np.ndarray:
        from PIL import Image

        width, height = self.info.input_size
        settings = self.info.settings
        crop = settings["fit"] == "crop"
        out = np.empty((len(images), height, width, 3), np.float32)
        for number, image in enumerate(images):
            picture = Image.fromarray(image)
            box = _middle(picture.size, width, height) if crop else None
            resized = picture.resize((width, height), Image.Resampling.BILINEAR, box=box)
            out[number] = np.asarray(resized)
        scaled = (out / 255 - settings["mean"]) / settings["std"]
        ordered = scaled[..., ::-1] if settings["bgr"] else scaled
        return np.ascontiguousarray(ordered.transpose(0, 3, 1, 2), dtype=np.float32)


def _middle(size: tuple[int, int], width: int, height: int) -> tuple[float, float, float, float]:
    """The part of a picture that a centre crop keeps, xyxy pixels."""
    scale = _CROP * min(size[0] / width, size[1] / height)
    half_width, half_height = width * scale / 2, height * scale / 2
    x, y = size[0] / 2, size[1] / 2
    return x - half_width, y - half_height, x + half_width, y + half_height


def load_onnx_classifier(request: Request) -> OnnxClassifier:
    """A classifier from an ONNX file and a file with its labels. Raises InputError."""
    path, options = Path(request.location), request.options
    session = open_session(path, request.threads)
    entry = picture_input(session, path)
    side = int(number_option(request, "size", 224, 8, 4096))
    width, height = input_size(entry.shape, side)
    if not options.get("labels"):
        raise InputError(
            f"victim {request.spec!r}: wanted a file with the class names, one a line, as in "
            f"{path.name}?labels=labels.txt"
        )
    labels = read_labels(Path(options["labels"]))
    fit = options.get("fit", "stretch")
    if fit not in ("stretch", "crop"):
        raise InputError(f"victim {request.spec!r}: fit wants stretch or crop, found {fit!r}")
    noise = np.random.default_rng(0).normal(0, 1, (1, 3, height, width)).astype(np.float32)
    answer = np.asarray(session.run(None, {entry.name: noise})[0])
    if answer.size != len(labels):
        raise InputError(
            f"{path}: it answers {answer.size} numbers (shape {list(answer.shape)}), but "
            f"{options['labels']} names {len(labels)} classes"
        )
    shares = bool((answer >= 0).all() and abs(float(answer.sum()) - 1) < 1e-3)
    info = VictimInfo(
        name=request.spec,
        kind="classifier",
        licence="the file's own",
        source=path.name,
        input_size=(width, height),
        threshold=0.0,
        weights_hash=files_sha256(model_files(path)),
        labels=labels,
        settings={
            "fit": fit,
            "mean": _triple(request, "mean", _MEAN),
            "std": _triple(request, "std", _STD),
            "bgr": options.get("bgr", "no") in ("yes", "true", "1", ""),
            "answers": "probabilities" if shares else "logits",
            "labels_hash": files_sha256([Path(options["labels"])]),
        },
    )
    return OnnxClassifier(session, info)


def _triple(
    request: Request, name: str, default: tuple[float, float, float]
) -> tuple[float, float, float]:
    """Three numbers, or one for all channels, in shares of full brightness."""
    text = request.options.get(name)
    if text is None:
        return default
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    values = values * 3 if len(values) == 1 else values
    if len(values) != 3 or not all(np.isfinite(values)) or (name == "std" and 0 in values):
        raise InputError(
            f"victim {request.spec!r}: {name} wants three numbers such as "
            f"{','.join(map(str, default))}, found {text!r}"
        )
    return values[0], values[1], values[2]
