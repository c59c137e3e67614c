"""A transformers checkpoint from a local folder: model, processor and hashes, or one clear refusal.

Nothing is looked up, downloaded or unpickled, and no code of a checkpoint's own is run.
"""

from __future__ import annotations

import logging
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from envelope.victims.hashes import files_sha256
from envelope.victims.torch_tools import frozen
from scene.errors import InputError

logger = logging.getLogger(__name__)

_PROCESSOR_FILES = (
    "config.json",
    "preprocessor_config.json",
    "processor_config.json",
    "tokenizer.json",
    "tokenizer.model",
    "added_tokens.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "chat_template.json",
    "generation_config.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
)


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """What a folder held, ready to run.

    model: in eval mode on `device`, float32, without gradients. processor: the model's own.
    weights_hash: sha256 of the weights' files. setup_hash: of what configures model and processor.
    """

    folder: Path
    model: Any
    processor: Any
    device: torch.device
    weights_hash: str
    setup_hash: str

    @property
    def image_processor(self) -> Any:
        """The part of the processor that takes pictures."""
        return getattr(self.processor, "image_processor", self.processor)

    @property
    def labels(self) -> tuple[str, ...]:
        """Class names of a closed vocabulary, in the order of the model's outputs."""
        names: Mapping[int, str] = self.model.config.id2label
        return tuple(str(names[index]) for index in sorted(names))


def load_checkpoint(
    folder: Path, spec: str, model_class: str, processor_class: str, device: str = "auto"
) -> Checkpoint:
    """Load a checkpoint through one of transformers' Auto classes, named.

    device: "auto" (a GPU where there is one), "cpu" or "cuda".
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    import transformers
    from transformers.utils import logging as transformers_logging

    weights = weight_files(folder, spec)
    chosen = torch_device(device, spec)
    transformers_logging.disable_progress_bar()
    try:
        model, report = getattr(transformers, model_class).from_pretrained(
            folder,
            local_files_only=True,
            trust_remote_code=False,
            dtype=torch.float32,
            output_loading_info=True,
        )
        processor = getattr(transformers, processor_class).from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    except ImportError as error:
        raise InputError(f"victim {spec!r} needs a package more: {_first_line(error)}") from error
    except UnpicklingError as error:
        raise InputError(
            f"victim {spec!r}: {folder} holds pickled objects instead of weights, which are not "
            "opened; convert the checkpoint to safetensors"
        ) from error
    except loading_errors() as error:
        reason = _first_line(error)
        raise InputError(f"victim {spec!r}: {folder} cannot be loaded: {reason}") from error
    _refuse_incomplete(report, folder, spec)
    setup = [folder / name for name in _PROCESSOR_FILES if (folder / name).is_file()]
    return Checkpoint(
        folder,
        frozen(model).to(chosen),
        processor,
        chosen,
        files_sha256(weights),
        files_sha256(setup),
    )


def weight_files(folder: Path, spec: str) -> list[Path]:
    """The weights in a checkpoint's folder: safetensors, else torch files (never unpickled)."""
    for pattern in ("*.safetensors", "pytorch_model*.bin"):
        found = sorted(folder.glob(pattern)) if folder.is_dir() else []
        if found and (folder / "config.json").is_file():
            return found
    raise InputError(
        f"victim {spec!r}: {folder} holds no checkpoint: wanted config.json, *.safetensors and the "
        "processor's files"
    )


def torch_device(name: str, spec: str) -> torch.device:
    """The device that a spec's option names."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name not in ("cpu", "cuda"):
        raise InputError(f"victim {spec!r}: device wants auto, cpu or cuda, found {name!r}")
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError(f"victim {spec!r}: device=cuda, but torch finds no GPU here")
    return torch.device(name)


def _refuse_incomplete(report: Mapping[str, Any], folder: Path, spec: str) -> None:
    """Weights that a checkpoint lacks would be random numbers that look like answers."""
    lacking = sorted(report["missing_keys"])
    if lacking:
        raise InputError(
            f"victim {spec!r}: {folder} lacks {len(lacking)} of the model's weights, such as "
            f"{lacking[0]}; a complete checkpoint of this family is wanted"
        )
    if report["unexpected_keys"]:
        logger.info("%s: weights that the model does not use: %s", spec, report["unexpected_keys"])


def loading_errors() -> tuple[type[Exception], ...]:
    """What loaders raise for files that are absent, damaged or of another family."""
    from safetensors import SafetensorError

    return (
        OSError, ValueError, LookupError, TypeError, RuntimeError, AttributeError, EOFError,
        struct.error, SafetensorError,
    )  # fmt: skip


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:200] if lines else type(error).__name__
