"""A person's own model: `module:factory` or `path/to/file.py:factory`.

The factory is called without arguments, or with what stands behind the question mark as keyword
arguments (`my_models:make?weights=a.pt`), and returns something that follows one of the protocols
of `envelope.victims.protocols`. Its answers are checked, so that a mistake is a sentence and not a
number. `user_identity` says which edits make it another model.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from envelope.victims.protocols import (
    Classification,
    Detections,
    Grounding,
    Images,
    Prediction,
    Victim,
    VictimInfo,
    check_images,
)
from envelope.victims.roster import Request
from envelope.victims.spec_text import shown_spec
from envelope.victims.user_identity import identity
from scene.errors import InputError

_ANSWERS: dict[str, type] = {
    "classifier": Classification,
    "detector": Detections,
    "grounder": Grounding,
}
_SHARES = 1.05
"""No object ends within the first pixel: such boxes are shares of the picture."""
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$")
_NAME = re.compile(r"[A-Za-z_]\w*$")


def is_user_spec(name: str) -> bool:
    """Whether a spec without its options looks like `module:factory`."""
    head, colon, factory = name.rpartition(":")
    if not colon or not _NAME.match(factory):
        return False
    return head.endswith(".py") or _MODULE.match(head) is not None


class UserVictim:
    """Passes pictures on and checks what comes back."""

    def __init__(self, inner: Any, info: VictimInfo) -> None:
        self.inner = inner
        self.info = info
        if hasattr(inner, "prompt_for"):
            self.prompt_for = inner.prompt_for
        if hasattr(inner, "suppression_loss"):
            self.suppression_loss = inner.suppression_loss

    def predict(self, images: Images, *prompt: Any) -> list[Any]:
        """images: (B, H, W, 3) uint8 RGB -> B answers of the kind that the victim says."""
        images = check_images(images)
        answers = self.inner.predict(images, *prompt)
        wanted = _ANSWERS[self.info.kind]
        if not isinstance(answers, list | tuple):
            raise InputError(
                f"{self.info.name}: predict wants to return a list of {wanted.__name__}, found "
                f"{type(answers).__name__}"
            )
        if len(answers) != len(images):
            raise InputError(
                f"{self.info.name}: predict was given {len(images)} pictures and returned "
                f"{len(answers)} answers; return one for each"
            )
        for number, answer in enumerate(answers):
            self._check(number, answer, wanted, images)
        return list(answers)

    def _check(self, number: int, answer: Prediction, wanted: type, images: Images) -> None:
        where = f"{self.info.name}: answer {number}"
        if not isinstance(answer, wanted):
            raise InputError(
                f"{where} is a {type(answer).__name__}; a {self.info.kind} wants to return "
                f"envelope.victims.protocols.{wanted.__name__}"
            )
        unknown = set(getattr(answer, "labels", ())) - set(self.info.labels)
        if unknown and self.info.labels:
            raise InputError(
                f"{where} names the class {min(unknown)!r}, which info.labels does not hold"
            )
        if isinstance(answer, Detections):
            _check_boxes(where, answer.xyxy, images)
            if len(answer) and not (0 <= answer.confidences.min() <= answer.confidences.max() <= 1):
                low, high = answer.confidences.min(), answer.confidences.max()
                raise InputError(f"{where}: confidences want 0..1, found {low:g}..{high:g}")
        if isinstance(answer, Grounding) and answer.box is not None:
            _check_boxes(where, np.asarray([answer.box], np.float64), images)
        if isinstance(answer, Classification):
            total = float(answer.probabilities.sum())
            if not np.isfinite(total) or abs(total - 1) > 1e-2 or answer.probabilities.min() < 0:
                raise InputError(f"{where}: probabilities want to sum to 1, found {total:g}")


def _check_boxes(where: str, boxes: np.ndarray, images: Images) -> None:
    """Refuse (n, 4) boxes that are not xyxy pixels of the pictures."""
    swapped = (boxes[:, :2] > boxes[:, 2:]).any(axis=1)
    if swapped.any():
        found = ", ".join(f"{value:g}" for value in boxes[swapped][0])
        raise InputError(f"{where}: boxes want xyxy, x0 <= x1 and y0 <= y1, found [{found}]")
    if not np.isfinite(boxes).all():
        raise InputError(f"{where}: boxes want finite numbers")
    if boxes.size and boxes.max() <= _SHARES and boxes.max() > 0:
        height, width = images.shape[1:3]
        raise InputError(
            f"{where}: boxes want pixels of the {width} x {height} picture, found numbers up to "
            f"{boxes.max():g}, as shares of it"
        )


def load_user_model(request: Request) -> Victim:
    """The victim that a person's factory makes. Raises InputError in one sentence."""
    spec = shown_spec(request.spec)
    head, _, factory_name = request.spec.partition("?")[0].rpartition(":")
    module = _module(head, spec)
    factory = getattr(module, factory_name, None)
    if factory is None:
        there = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
        raise InputError(
            f"victim {spec!r}: {head} has no {factory_name!r}; it has: "
            f"{', '.join(sorted(there)[:8]) or 'nothing that can be called'}"
        )
    if not callable(factory):
        raise InputError(
            f"victim {spec!r}: wanted a function or class, found {factory_name} = "
            f"{type(factory).__name__}"
        )
    try:
        inspect.signature(factory).bind(**request.options)
    except TypeError as error:
        raise InputError(
            f"victim {spec!r}: {factory_name} cannot be called with these options: {error}"
        ) from error
    except ValueError:  # a callable without a signature: it says itself what is wrong
        pass
    return _checked(factory(**request.options), module, request)


def _module(head: str, spec: str) -> ModuleType:
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)
    if head.endswith(".py"):
        return _from_file(Path(head), spec)
    try:
        return importlib.import_module(head)
    except ModuleNotFoundError as error:
        if error.name and head.startswith(error.name):
            raise InputError(
                f"there is no victim {spec!r}: {head!r} is no family of `advscene victim list`, "
                f"and no Python module of that name is in {folder} or on PYTHONPATH"
            ) from error
        raise InputError(
            f"victim {spec!r}: {head} needs the module {error.name!r}, which is not installed"
        ) from error
    except (ImportError, SyntaxError) as error:
        raise InputError(f"victim {spec!r}: {head} cannot be imported: {error}") from error


def _from_file(path: Path, spec: str) -> ModuleType:
    """The file as a module; modules beside it can be imported, as when Python runs the file."""
    if not path.is_file():
        raise InputError(f"victim {spec!r}: there is no file {path}")
    if (folder := str(path.resolve().parent)) not in sys.path:
        sys.path.append(folder)
    found = importlib.util.spec_from_file_location(f"advscene_user_{path.stem}", path)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module
    try:
        found.loader.exec_module(module)
    except (ImportError, SyntaxError) as error:
        raise InputError(f"victim {spec!r}: {path} cannot be imported: {error}") from error
    return module


def _checked(made: Any, module: ModuleType, request: Request) -> Victim:
    """The factory's result with its kind, protocol and description checked."""
    spec = shown_spec(request.spec)
    info = getattr(made, "info", None)
    if not isinstance(info, VictimInfo):
        raise InputError(
            f"victim {spec!r}: the factory returned a {type(made).__name__} without `info`; wanted "
            f"`predict(images)` and `info = VictimInfo(...)` (envelope.victims.protocols)"
        )
    if not callable(getattr(made, "predict", None)):
        raise InputError(f"victim {spec!r}: {type(made).__name__} has no predict(images)")
    if info.kind not in _ANSWERS:
        kinds = ", ".join(_ANSWERS)
        raise InputError(f"victim {spec!r}: info.kind wants one of {kinds}, found {info.kind!r}")
    if info.kind == "grounder" and not hasattr(made, "prompt_for"):
        raise InputError(f"victim {spec!r}: a grounder wants prompt_for(label), found none")
    if info.kind == "classifier" and not info.labels:
        raise InputError(f"victim {spec!r}: a classifier wants info.labels, found none")
    if info.kind == "detector" and not info.labels and not hasattr(made, "prompt_for"):
        raise InputError(
            f"victim {spec!r}: a detector wants info.labels, or prompt_for(label) when it takes "
            f"any words, found neither"
        )
    width, height = info.input_size
    if not (width > 0 and height > 0):
        raise InputError(f"victim {spec!r}: info.input_size wants pixels, found {width}x{height}")
    victim: Victim = UserVictim(
        made, replace(info, name=spec, weights_hash=identity(made, module, info, request.options))
    )
    return victim
