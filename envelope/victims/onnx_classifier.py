"""Classifiers in ONNX files, through onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from envelope.victims.boxes import require_finite
from envelope.victims.hashes import files_sha256
from envelope.victims.onnx_session import (
    input_size,
    model_files,
    one_by_one,
    open_session,
    picture_input,
    read_labels,
)
from envelope.victims.protocols import Classification, Images, VictimInfo, check_images
from envelope.victims.roster import Request, number_option
from scene.errors import InputError

_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
OUTPUTS = ("logits", "probabilities")
_SUMS = 1e-3
_ROUNDED = 1e-2
"""How far sums of probabilities may be from 1: to be recognised, and in half precision later."""
_CROP = 0.875  # torchvision's share of the resized picture that the middle square keeps


class OnnxClassifier:
    """Follows the Classifier protocol."""

    def __init__(self, session: Any, info: VictimInfo, singly: bool = True) -> None:
        self.session = session
        self.info = info
        self._input_name = session.get_inputs()[0].name
        self._one_by_one = singly

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
        require_finite(self.info.name, row)
        if self.info.settings["answers"] == "probabilities":
            if not _shares(row[None], _ROUNDED):
                raise InputError(
                    f"{self.info.name}: its answers were taken for probabilities, but these sum "
                    f"to {row.sum():g}; say what they are: ?output=logits"
                )
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
    answers = [
        np.asarray(session.run(None, {entry.name: picture})[0])
        for picture in _trial_pictures(height, width)
    ]
    if answers[0].size != len(labels):
        raise InputError(
            f"{path}: it answers {answers[0].size} numbers (shape {list(answers[0].shape)}), but "
            f"{options['labels']} names {len(labels)} classes"
        )
    output = _output(request, np.stack([answer.reshape(-1) for answer in answers]))
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
            "answers": output,
            "labels_hash": files_sha256([Path(options["labels"])]),
        },
    )
    return OnnxClassifier(session, info, one_by_one(session, path))


def _trial_pictures(height: int, width: int) -> list[np.ndarray]:
    """(1, 3, height, width) inputs that differ much: noise weak and strong, gray, a ramp."""
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 1, (1, 3, height, width)).astype(np.float32)
    ramp = np.tile(np.linspace(-2, 2, width, dtype=np.float32), (1, 3, height, 1))
    return [noise, 2 * rng.permuted(noise, axis=1), np.zeros_like(noise), ramp]


def _output(request: Request, answers: np.ndarray) -> str:
    """What a file's answers are: as the user says, else as those to several pictures look.

    answers: (pictures, classes). Raises InputError for independent chances, which a softmax would
    turn into something else, and for what is not as the user says.
    """
    said = request.options.get("output")
    if said is not None and said not in OUTPUTS:
        raise InputError(
            f"victim {request.spec!r}: output wants {' or '.join(OUTPUTS)}, found {said!r}"
        )
    require_finite(request.spec, answers)
    sums = answers.sum(axis=1)
    if said == "probabilities" and not _shares(answers, _ROUNDED):
        raise InputError(
            f"victim {request.spec!r}: output=probabilities, but its answers are in "
            f"{answers.min():g}..{answers.max():g} and sum to {sums.min():g}..{sums.max():g}"
        )
    if said is not None:
        return said
    if _shares(answers, _SUMS):
        return "probabilities"
    if (answers >= 0).all() and (answers <= 1).all():
        raise InputError(
            f"victim {request.spec!r}: its answers lie in 0-1 but sum to {sums.min():g}.."
            f"{sums.max():g}, as chances of classes that do not exclude each other (sigmoids), "
            "which name no one class; if they are logits all the same, say ?output=logits"
        )
    return "logits"


def _shares(answers: np.ndarray, tolerance: float) -> bool:
    """Whether each row lies in [0, 1] and sums to 1."""
    inside = (answers >= -tolerance).all() and (answers <= 1 + tolerance).all()
    return bool(inside and (np.abs(answers.sum(axis=-1) - 1) <= tolerance).all())


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
