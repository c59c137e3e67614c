"""Training loss of the demo detector: task-aligned assignment (Feng et al. 2021, TOOD).

A sign is assigned to the ten cells inside it whose score and overlap agree best; their class
target is the overlap itself, the loss on the boxes is 1 - generalized IoU.
"""

from __future__ import annotations

import torch
from torch.nn import functional
from torchvision.ops import generalized_box_iou_loss

from envelope.victims.demo.detector_net import Raw

_TOP = 10
_SCORE_POWER, _OVERLAP_POWER = 0.5, 6.0
_BOX_WEIGHT = 5.0


def detection_loss(raw: Raw, boxes: torch.Tensor) -> torch.Tensor:
    """Loss of a batch; boxes: (B, M, 5) rows of class, x0, y0, x1, y1, class -1 where unused."""
    target_scores, target_boxes = assign(raw, boxes)
    total = target_scores.sum().clamp(min=1.0)
    class_loss = functional.binary_cross_entropy_with_logits(
        raw.logits, target_scores, reduction="sum"
    )
    weights = target_scores.sum(dim=-1)
    chosen = weights > 0
    box_loss = raw.boxes.sum() * 0.0
    if chosen.any():
        overlap_loss = generalized_box_iou_loss(raw.boxes[chosen], target_boxes[chosen])
        box_loss = (overlap_loss * weights[chosen]).sum()
    return (class_loss + _BOX_WEIGHT * box_loss) / total


@torch.no_grad()
def assign(raw: Raw, boxes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Soft class targets (B, A, C) and box targets (B, A, 4) of every cell."""
    used = boxes[..., 0] >= 0  # (B, M)
    classes = boxes[..., 0].clamp(min=0).long()
    corners = boxes[..., 1:]
    overlap = pairwise_iou(corners, raw.boxes)  # (B, M, A)
    index = classes[..., None].expand(-1, -1, raw.logits.shape[1])
    scores = raw.logits.sigmoid().transpose(1, 2).gather(1, index)  # (B, M, A)
    inside = _inside(raw, corners) & used[..., None]
    metric = scores**_SCORE_POWER * overlap**_OVERLAP_POWER * inside
    best = metric.topk(min(_TOP, metric.shape[-1]), dim=-1)
    chosen = torch.zeros_like(inside).scatter(2, best.indices, best.values > 0)
    # a cell wanted by several signs goes to the one it overlaps most
    owner = torch.where(chosen, overlap, overlap.new_tensor(-1.0)).argmax(dim=1)  # (B, A)
    taken = chosen.any(dim=1)
    chosen &= torch.arange(boxes.shape[1], device=boxes.device)[None, :, None] == owner[:, None]
    metric = metric * chosen
    peak = metric.amax(dim=-1, keepdim=True).clamp(min=1e-30)
    reach = (overlap * chosen).amax(dim=-1, keepdim=True)
    strength = (metric / peak * reach).amax(dim=1) * taken  # (B, A)
    target_scores = torch.zeros_like(raw.logits)
    owner_class = classes.gather(1, owner)
    target_scores.scatter_(2, owner_class[..., None], strength[..., None])
    target_boxes = corners.gather(1, owner[..., None].expand(-1, -1, 4))
    return target_scores, target_boxes


def pairwise_iou(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """IoU of (B, M, 4) with (B, A, 4) boxes -> (B, M, A)."""
    low = torch.maximum(first[:, :, None, :2], second[:, None, :, :2])
    high = torch.minimum(first[:, :, None, 2:], second[:, None, :, 2:])
    shared = (high - low).clamp(min=0).prod(dim=-1)
    areas = [(b[..., 2:] - b[..., :2]).clamp(min=0).prod(dim=-1) for b in (first, second)]
    return shared / (areas[0][:, :, None] + areas[1][:, None] - shared + 1e-9)


def _inside(raw: Raw, corners: torch.Tensor) -> torch.Tensor:
    """Cells whose centre lies in a box; boxes smaller than a cell count as one cell large."""
    middle = (corners[..., :2] + corners[..., 2:]) / 2
    half = (corners[..., 2:] - corners[..., :2]) / 2
    reach = torch.maximum(half[:, :, None], raw.strides[None, None, :, None] / 2)
    away = (raw.centers[None, None] - middle[:, :, None]).abs()
    return (away <= reach).all(dim=-1)
