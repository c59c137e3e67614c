"""What a victim is asked and what it answers, as plain values.

Pictures are batches (B, H, W, 3) uint8 sRGB, RGB order. Boxes come back as xyxy float pixels of
THAT picture, whatever the victim resized or letterboxed inside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from scene.errors import InputError

FloatArray = NDArray[np.floating]
Images = NDArray[np.uint8]
Kind = Literal["classifier", "detector", "grounder"]
Status = Literal["ok", "empty", "malformed", "refused"]

KEPT_CONFIDENCE = 0.05
"""Detectors answer with all boxes from this confidence up; no gamma may be lower, since what a
detector left out would be read as an omission."""


@dataclass(frozen=True)
class VictimInfo:
    """What a victim says about itself; stored with every score.

    name: the spec that loads it. kind: which protocol it follows.
    licence, source: of the weights. labels: its closed vocabulary, () when it takes any words.
    input_size: (width, height) in pixels that it works at.
    threshold: the confidence that is conventional for it, in [0, 1]; 0 for grounders.
    weights_hash: sha256 of the weights' file(s), hex.
    settings: everything else that can change an answer (preset, prompt, NMS, ...).
    extra: of pyproject that it needs, "" when the core installation is enough.
    command: what gets the weights, "" when nothing is to be got.
    coordinates: in what form the model itself gives boxes, and how that is known.
    seconds_per_picture: measured on the first call, None before it.
    """

    name: str
    kind: Kind
    licence: str
    source: str
    input_size: tuple[int, int]
    threshold: float
    weights_hash: str
    labels: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    extra: str = ""
    command: str = ""
    coordinates: str = ""
    seconds_per_picture: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", MappingProxyType(dict(self.settings)))


@dataclass(frozen=True, eq=False)
class Detections:
    """A detector's boxes in one picture, most confident first.

    xyxy: (n, 4) float32 pixels of the given picture. confidences: (n,) float32 in [0, 1].
    labels: n class names, in the victim's own spelling.
    """

    xyxy: FloatArray
    confidences: FloatArray
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        boxes = np.asarray(self.xyxy, dtype=np.float32).reshape(-1, 4)
        confidences = np.asarray(self.confidences, dtype=np.float32).reshape(-1)
        if not len(boxes) == len(confidences) == len(self.labels):
            raise ValueError(
                f"Detections: wanted as many boxes as confidences and labels, found {len(boxes)}, "
                f"{len(confidences)} and {len(self.labels)}"
            )
        if not (np.isfinite(boxes).all() and np.isfinite(confidences).all()):
            raise InputError("Detections: boxes or confidences are not finite numbers")
        order = np.argsort(-confidences, kind="stable")
        object.__setattr__(self, "xyxy", _frozen(boxes[order]))
        object.__setattr__(self, "confidences", _frozen(confidences[order]))
        object.__setattr__(self, "labels", tuple(self.labels[i] for i in order))

    def __len__(self) -> int:
        return len(self.labels)

    def of_label(self, label: str) -> Detections:
        """Only the boxes of one class, names compared in their normalised form."""
        from envelope.victims.names import same_class

        keep = [i for i, name in enumerate(self.labels) if same_class(name, label)]
        return Detections(
            self.xyxy[keep], self.confidences[keep], tuple(self.labels[i] for i in keep)
        )


@dataclass(frozen=True, eq=False)
class Classification:
    """A classifier's answer for one picture.

    labels: all class names in the model's order. probabilities: (n,) float32, sums to 1.
    """

    labels: tuple[str, ...]
    probabilities: FloatArray

    def __post_init__(self) -> None:
        probabilities = np.asarray(self.probabilities, dtype=np.float32).reshape(-1)
        if len(probabilities) != len(self.labels):
            raise ValueError(
                f"Classification: {len(self.labels)} labels but {len(probabilities)} probabilities"
            )
        if not np.isfinite(probabilities).all():
            raise InputError("Classification: probabilities are not finite numbers")
        object.__setattr__(self, "probabilities", _frozen(probabilities))

    @property
    def top(self) -> str:
        """The most probable label."""
        return self.labels[int(np.argmax(self.probabilities))]


@dataclass(frozen=True)
class Grounding:
    """A grounding model's answer for one picture.

    raw_text: what the model wrote, untouched (show it as text, never as HTML).
    box: xyxy pixels of the given picture, or None unless status is "ok".
    status: ok | empty | malformed | refused. notes: what the tolerant reading put right or missed.
    """

    raw_text: str
    box: tuple[float, float, float, float] | None
    status: Status
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.box is not None) != (self.status == "ok"):
            raise ValueError(f"Grounding: status {self.status!r} with box {self.box!r}")


@runtime_checkable
class Classifier(Protocol):
    """Names the whole picture."""

    info: VictimInfo

    def predict(self, images: Images) -> list[Classification]:
        """images: (B, H, W, 3) uint8 RGB -> B answers."""
        ...


@runtime_checkable
class Detector(Protocol):
    """Finds objects of a closed vocabulary."""

    info: VictimInfo

    def predict(self, images: Images) -> list[Detections]:
        """images: (B, H, W, 3) uint8 RGB -> B answers."""
        ...


@runtime_checkable
class Grounder(Protocol):
    """Answers a text prompt with one box."""

    info: VictimInfo

    def prompt_for(self, label: str) -> str:
        """The model's native grounding prompt for a class."""
        ...

    def predict(self, images: Images, prompt: str | Sequence[str]) -> list[Grounding]:
        """images: (B, H, W, 3) uint8 RGB; prompt: one for all, or B of them -> B answers."""
        ...


@runtime_checkable
class OpenDetector(Protocol):
    """Finds objects of any words: `info.kind` is "detector" and `info.labels` is empty."""

    info: VictimInfo

    def prompt_for(self, label: str) -> str:
        """The words that the model is given for a class."""
        ...

    def predict(self, images: Images, prompt: str) -> list[Detections]:
        """images: (B, H, W, 3) uint8 RGB; prompt: for all of them -> B answers."""
        ...


class PicturesFailed(RuntimeError):
    """Some pictures of a call got no answer although the victim itself tried as often as helps.

    answers: one per picture, its prediction or what went wrong with it.
    """

    answers: Sequence[Prediction | Exception] = ()


@runtime_checkable
class OwnLimit(Protocol):
    """A victim whose calls end by themselves, so that no other limit is set on them."""

    def call_limit_s(self, pictures: int) -> float:
        """Seconds by which a call about so many pictures has ended."""
        ...


Victim = Classifier | Detector | Grounder | OpenDetector
Prediction = Detections | Classification | Grounding


def takes_prompt(victim: Victim) -> TypeGuard[Grounder | OpenDetector]:
    """Whether the victim wants words with the pictures."""
    return hasattr(victim, "prompt_for")


def ask(
    victim: Victim, images: Images, label: str, prompt: str | None = None
) -> Sequence[Prediction]:
    """One batch to any victim. prompt: instead of the native one, where prompts are taken.

    An open-vocabulary detector's boxes carry the words of the prompt, and count by them: a prompt
    without the class would lose every one of them. Raises InputError.
    """
    if takes_prompt(victim):
        if prompt and victim.info.kind == "detector":
            _check_words(victim.info.name, prompt, label)
        return victim.predict(images, prompt or victim.prompt_for(label))
    return victim.predict(images)  # type: ignore[call-arg]


def _check_words(name: str, prompt: str, label: str) -> None:
    from envelope.victims.names import phrase_has_class

    if not phrase_has_class(prompt, label):
        raise InputError(f"{name}: wanted a prompt that names {label!r}, found {prompt!r}")


def check_images(images: Any) -> Images:
    """The batch itself when it is (B, H, W, 3) uint8, else an InputError that says what it is."""
    array = np.asarray(images)
    if array.ndim != 4 or array.shape[3] != 3 or array.dtype != np.uint8:
        span = f", values {array.min():g}..{array.max():g}" if array.size else ""
        raise InputError(
            f"pictures for a victim: wanted a (B, H, W, 3) uint8 RGB batch in 0..255, found shape "
            f"{array.shape} {array.dtype}{span}"
        )
    return array


def _frozen(array: FloatArray) -> FloatArray:
    array = np.array(array, dtype=np.float32)
    array.flags.writeable = False
    return array
