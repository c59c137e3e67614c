"""The demo detector's network: narrow ResNet-18, feature pyramid, anchor-free heads (as in FCOS).

Each cell of strides 8, 16 and 32 predicts class logits and the four distances from its centre to
a box's sides. Scores are plain sigmoids; training targets are the boxes' own overlaps, so that a
confidence can be read as "how well is this box placed".
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import torch
from torch import nn
from torchvision.ops import FeaturePyramidNetwork

from envelope.victims.demo.backbone import NarrowResNet, normalised

STRIDES = (8, 16, 32)


@dataclass(frozen=True, eq=False)
class Raw:
    """Dense predictions for a batch, A cells over all strides.

    logits: (B, A, C). boxes: (B, A, 4) xyxy pixels. centers: (A, 2) pixels. strides: (A,) pixels.
    """

    logits: torch.Tensor
    boxes: torch.Tensor
    centers: torch.Tensor
    strides: torch.Tensor


class SignDetector(nn.Module):
    """images (B, 3, H, W) RGB in [0, 1], H and W multiples of 32 -> Raw."""

    def __init__(self, classes: int, width: int = 24, channels: int = 64) -> None:
        super().__init__()
        self.settings = {"classes": classes, "width": width, "channels": channels}
        self.backbone = NarrowResNet(width, classes)
        self.backbone.fc = nn.Identity()
        levels = [2 * width, 4 * width, 8 * width]
        self.pyramid = FeaturePyramidNetwork(levels, channels)
        self.class_heads = nn.ModuleList(_head(channels, classes) for _ in STRIDES)
        self.box_heads = nn.ModuleList(_head(channels, 4) for _ in STRIDES)
        for head in self.class_heads:
            nn.init.constant_(head[-1].bias, -4.6)  # type: ignore[index]

    def forward(self, images: torch.Tensor) -> Raw:
        """Dense predictions of every cell."""
        features = self.backbone.pyramid(normalised(images))
        named = OrderedDict((str(level), feature) for level, feature in enumerate(features))
        logits, boxes, centers, strides = [], [], [], []
        merged = self.pyramid(named).values()
        parts = zip(STRIDES, merged, self.class_heads, self.box_heads, strict=True)
        for stride, feature, class_head, box_head in parts:
            points = _cell_centers(feature, stride)
            reach = box_head(feature).flatten(2).transpose(1, 2)
            reach = torch.exp(reach.clamp(-4.0, 4.5)) * stride
            boxes.append(torch.cat([points - reach[..., :2], points + reach[..., 2:]], dim=-1))
            logits.append(class_head(feature).flatten(2).transpose(1, 2))
            centers.append(points)
            strides.append(points.new_full((len(points),), float(stride)))
        return Raw(
            torch.cat(logits, 1), torch.cat(boxes, 1), torch.cat(centers), torch.cat(strides)
        )


def _head(channels: int, outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for _ in range(2):
        layers += [nn.Conv2d(channels, channels, 3, padding=1, bias=False)]
        layers += [nn.BatchNorm2d(channels), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.Conv2d(channels, outputs, 1))


def _cell_centers(feature: torch.Tensor, stride: int) -> torch.Tensor:
    height, width = feature.shape[-2:]
    rows = (torch.arange(height, device=feature.device) + 0.5) * stride
    columns = (torch.arange(width, device=feature.device) + 0.5) * stride
    y, x = torch.meshgrid(rows, columns, indexing="ij")
    return torch.stack([x, y], dim=-1).reshape(-1, 2)
