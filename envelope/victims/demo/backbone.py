"""torchvision's ResNet-18 topology at a narrow width, for the demo detector and classifier."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torchvision.models.resnet import BasicBlock, ResNet


class NarrowResNet(ResNet):
    """ResNet-18 whose first stage is `width` channels wide instead of 64."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__(BasicBlock, [2, 2, 2, 2], num_classes=classes)
        self.inplanes = width
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.layer1 = self._make_layer(BasicBlock, width, 2)
        self.layer2 = self._make_layer(BasicBlock, 2 * width, 2, 2)
        self.layer3 = self._make_layer(BasicBlock, 4 * width, 2, 2)
        self.layer4 = self._make_layer(BasicBlock, 8 * width, 2, 2)
        self.fc: nn.Module = nn.Linear(8 * width, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def pyramid(self, images: torch.Tensor) -> Sequence[torch.Tensor]:
        """Features at strides 8, 16 and 32 of (B, 3, H, W) normalised images."""
        features = self.maxpool(self.relu(self.bn1(self.conv1(images))))
        eighth = self.layer2(self.layer1(features))
        sixteenth = self.layer3(eighth)
        return eighth, sixteenth, self.layer4(sixteenth)


def normalised(images: torch.Tensor) -> torch.Tensor:
    """(B, 3, H, W) RGB in [0, 1] -> about zero mean and unit deviation."""
    return (images - 0.45) / 0.25
