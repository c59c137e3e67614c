"""ONNX detectors as torch networks, so that gradients reach the pixels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from envelope.victims.letterbox import Letterbox
from envelope.victims.resampling import resampled_tensor
from envelope.victims.roster import install_command
from envelope.victims.torch_tools import frozen
from scene.errors import InputError

if TYPE_CHECKING:
    from envelope.victims.onnx import Preset

LARGEST_DIFFERENCE = 5e-3
"""Between onnxruntime and torch, relative to the largest output; more and it is another model."""

_SUPPRESSED_CELLS = 20
_ALMOST = 1e-6

Scores = Callable[[Sequence[torch.Tensor]], torch.Tensor]
"""A network's outputs -> (B, n, C) class scores in [0, 1]."""


def _yolox(outputs: Sequence[torch.Tensor]) -> torch.Tensor:
    return outputs[0][..., 4:5] * outputs[0][..., 5:]


def _nanodet(outputs: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.cat(list(outputs[: len(outputs) // 2]), dim=1)


def _fastestdet(outputs: Sequence[torch.Tensor]) -> torch.Tensor:
    cells = outputs[0].flatten(2).transpose(1, 2).clamp(_ALMOST, 1)
    return cells[..., :1] ** 0.6 * cells[..., 5:] ** 0.4


def _yolov8(outputs: Sequence[torch.Tensor]) -> torch.Tensor:
    return outputs[0][:, 4:].transpose(1, 2)


SCORES: dict[str, Scores] = {
    "yolox": _yolox,
    "yolox-decoded": _yolox,
    "nanodet": _nanodet,
    "fastestdet": _fastestdet,
    "yolov8": _yolov8,
}


class TorchTwin:
    """The same network in torch. difference: from onnxruntime, relative, on a picture of noise."""

    def __init__(self, network: torch.nn.Module, preset: Preset, scores: Scores) -> None:
        self.network: Any = frozen(network)
        self.difference = 0.0
        self._preset = preset
        self._scores = scores

    def outputs(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        """(1, 3, h, w), normalised -> the graph's outputs in its order."""
        found = self.network(tensor)
        return [found] if isinstance(found, torch.Tensor) else list(found)

    def suppression(self, images: torch.Tensor, index: int, box: Letterbox) -> torch.Tensor:
        """(B, 3, H, W) RGB in [0, 1] -> (B,): mean -log(1 - score) of the surest cells."""
        inputs = self.prepared(images, box)
        losses = []
        for number in range(len(inputs)):  # exports often fix the batch at one
            scores = self._scores(self.outputs(inputs[number : number + 1]))[0, :, index]
            sure = scores.topk(min(_SUPPRESSED_CELLS, len(scores))).values.clamp(0, 1 - _ALMOST)
            losses.append(-torch.log1p(-sure).mean())
        return torch.stack(losses)

    def prepared(self, images: torch.Tensor, box: Letterbox) -> torch.Tensor:
        """What the adapter does to pictures, with gradients: letterbox, channels, scale."""
        preset = self._preset
        placed = resampled_tensor(images, box, preset.fill / 255, preset.resampling) * 255
        if preset.bgr:
            placed = placed.flip(1)
        mean = torch.tensor(preset.mean).view(1, 3, 1, 1)
        deviation = torch.tensor(preset.deviation).view(1, 3, 1, 1)
        return (placed - mean) / deviation


def torch_twin(path: Path, session: Any, preset: Preset, name: str) -> TorchTwin:
    """Convert a file and compare it with the session on noise. Raises InputError."""
    try:
        import onnx2torch
    except ImportError as error:
        raise InputError(
            f"victim {path.name}: making patches against an ONNX file needs onnx2torch: "
            f"{install_command('whitebox')}"
        ) from error
    try:
        network = onnx2torch.convert(str(path))
    except (NotImplementedError, ValueError, RuntimeError, TypeError, KeyError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"victim {path.name}: it cannot be turned into a network with gradients ({first}); "
            f"quantised files cannot, export it in float32"
        ) from error
    twin = TorchTwin(network, preset, SCORES[name])
    entry = session.get_inputs()[0]
    height, width = entry.shape[2:]
    noise = np.random.default_rng(0).normal(0, 1, (1, 3, height, width)).astype(np.float32)
    wanted = session.run(None, {entry.name: noise})
    with torch.no_grad():
        found = twin.outputs(torch.from_numpy(noise))
    twin.difference = max(
        float(np.abs(a.numpy() - b).max() / max(np.abs(b).max(), 1))
        for a, b in zip(found, wanted, strict=True)
    )
    if twin.difference > LARGEST_DIFFERENCE:
        raise InputError(
            f"victim {path.name}: its torch version answers differently (by "
            f"{twin.difference:.1g} of the largest output), so no patch can be made against it"
        )
    return twin
