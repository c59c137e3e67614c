"""Teaches tiny checkpoints one object in two pictures that are not square.

The object lies off both axes of symmetry and is not square either, so that swapped axes, a wrong
scale or wrong padding move the box. Two pictures, so that a model that ignores them cannot pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from envelope.victims.torch_tools import torch_threads

HEIGHT, WIDTH = 60, 110
BOXES = ((62.0, 6.0, 104.0, 24.0), (10.0, 22.0, 30.0, 56.0))
"""xyxy pixels of the object in each picture."""


def pictures() -> np.ndarray:
    """(2, HEIGHT, WIDTH, 3) uint8: a red rectangle on a noisy, bluish ground."""
    rng = np.random.default_rng(5)
    images = rng.integers(20, 90, (2, HEIGHT, WIDTH, 3))
    images[..., 2] += 60
    for image, (x0, y0, x1, y1) in zip(images, BOXES, strict=True):
        image[int(y0) : int(y1), int(x0) : int(x1)] = (230, 30, 40)
    return images.astype(np.uint8)


def centered(boxes: Any, width: float, height: float) -> torch.Tensor:
    """xyxy pixels -> cx, cy, w, h as shares of width and height."""
    x0, y0, x1, y1 = torch.tensor(boxes).unbind(-1)
    parts = [(x0 + x1) / 2 / width, (y0 + y1) / 2 / height, (x1 - x0) / width, (y1 - y0) / height]
    return torch.stack(parts, dim=-1)


def train(model: Any, loss_of: Callable[[], torch.Tensor], steps: int, rate: float) -> float:
    """Adam with a falling rate; the last loss. Leaves the model in eval mode."""
    torch.manual_seed(0)
    model.train().requires_grad_(True)
    for module in model.modules():
        if "BatchNorm" in type(module).__name__:
            module.eval()
    optimizer = torch.optim.AdamW(model.parameters(), rate, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    with torch_threads(1):
        for _ in range(steps):
            optimizer.zero_grad()
            loss = loss_of()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
    model.eval()
    return float(loss.detach())


def detr_loss(
    model: Any, inputs: dict[str, torch.Tensor], class_index: int, chosen: Sequence[int]
) -> Callable[[], torch.Tensor]:
    """transformers' own loss of the family, for the chosen pictures of a batch of them."""
    targets = centered(BOXES, WIDTH, HEIGHT)
    labels = [
        {"class_labels": torch.tensor([class_index]), "boxes": targets[number : number + 1]}
        for number in chosen
    ]
    return lambda: model(**inputs, labels=labels).loss


def owlv2_loss(model: Any, inputs: dict[str, torch.Tensor], side: int) -> Callable[[], Any]:
    """Each object belongs to the patch that its centre lies in; boxes are shares of the square."""
    longer = max(HEIGHT, WIDTH)
    targets = centered(BOXES, longer, longer)
    columns, rows = (targets[:, :2] * side).long().unbind(-1)
    places = rows * side + columns
    wanted = torch.zeros(len(BOXES), side * side)
    wanted[torch.arange(len(BOXES)), places] = 1

    def loss() -> torch.Tensor:
        outputs = model(**inputs)
        boxes = outputs.pred_boxes[torch.arange(len(BOXES)), places]
        scores = torch.nn.functional.binary_cross_entropy_with_logits(
            outputs.logits[..., 0], wanted, pos_weight=torch.tensor(20.0)
        )
        return scores + 10 * (boxes - targets).abs().mean()

    return loss


def hand_set(model: Any, inputs: dict[str, torch.Tensor], column: int, bias: torch.Tensor) -> None:
    """Move the last box head's bias so that the most confident query's box is the first object.

    inputs: of the first picture alone. column: of the logits that stand for the object's class.
    """
    with torch.no_grad():
        outputs = model(**inputs)
        query = int(outputs.logits[0, :, column].argmax())
        wanted = torch.logit(centered(BOXES[0], WIDTH, HEIGHT))
        bias += wanted - torch.logit(outputs.pred_boxes[0, query])
