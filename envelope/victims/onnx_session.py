"""What ONNX victims share: opening a file, its picture input, a file of class names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scene.errors import InputError

_LOCATION = re.compile(rb"\n\x08location\x12([\x01-\x7f])", re.DOTALL)
"""How a tensor's entry {location: NAME} lies in the file; the last byte is the name's length."""


def open_session(path: Path, threads: int) -> Any:
    """An onnxruntime session on the CPU. Raises InputError when the file is none."""
    if not path.is_file():
        raise InputError(f"there is no file {path}; give the path of an ONNX model")
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as reasons

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.inter_op_num_threads = 1
    settings.log_severity_level = 3
    refusals = (
        reasons.Fail,
        reasons.InvalidArgument,
        reasons.InvalidGraph,
        reasons.InvalidProtobuf,
        reasons.NotImplemented,
        reasons.RuntimeException,
    )
    try:
        return onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    except refusals as error:
        raise InputError(
            f"{path} is not an ONNX model that onnxruntime can run; export the model as .onnx"
        ) from error


def one_by_one(session: Any, path: Path | None) -> bool:
    """Whether pictures are given singly: the input wants it, or an answer hangs on the others."""
    fixed = session.get_inputs()[0].shape[0] == 1
    return fixed or (path is not None and quantised_by_call(path))


def quantised_by_call(path: Path) -> bool:
    """Whether a file scales its activations anew for each call, by all the pictures in it."""
    return b"DynamicQuantize" in path.read_bytes()


def input_size(shape: Sequence[Any], side: int) -> tuple[int, int]:
    """(width, height) of the input; `side` where the file leaves it open."""
    height, width = (value if isinstance(value, int) and value > 0 else side for value in shape[2:])
    return width, height


def model_files(path: Path) -> list[Path]:
    """The file and those beside it that its tensors lie in (external data of large exports)."""
    content = path.read_bytes()
    names = {
        content[found.end() : found.end() + found.group(1)[0]].decode("utf-8", "replace")
        for found in _LOCATION.finditer(content)
    }
    return [path, *(path.parent / name for name in sorted(names) if (path.parent / name).is_file())]


def picture_input(session: Any, path: Path) -> Any:
    """The model's one picture input [B, 3, H, W]. Raises InputError when it has another."""
    inputs = session.get_inputs()
    if len(inputs) != 1 or len(inputs[0].shape) != 4 or inputs[0].shape[1] != 3:
        shapes = ", ".join(str(entry.shape) for entry in inputs)
        raise InputError(f"{path}: wanted one picture input [B, 3, H, W], found {shapes}")
    return inputs[0]


def read_labels(path: Path) -> tuple[str, ...]:
    """Class names, one a line. Raises InputError."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError as error:
        raise InputError(f"labels file {path}: no such file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"labels file {path} cannot be read: {error}") from error
    names = tuple(line.strip() for line in lines if line.strip())
    if not names:
        raise InputError(f"labels file {path} names no class; wanted one name a line")
    return names
