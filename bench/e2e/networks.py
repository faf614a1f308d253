# SPDX-License-Identifier: Apache-2.0
"""The networks that are trained, and one step of training."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn


def tiny(classes: int) -> nn.Module:
    """Next to nothing to compute, so that the input is what limits."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 7, stride=8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, classes),
    )


class Block(nn.Module):
    """Two convolutions and a short cut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.short = nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
        )

    def forward(self, images: Any) -> Any:
        return torch.relu(self.path(images) + self.short(images))


def small_resnet(classes: int, width: int = 64) -> nn.Module:
    """Four blocks: learns in seconds, and needs nothing but torch."""
    return nn.Sequential(
        nn.Conv2d(3, width, 7, 2, 3, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        *(Block(width * max(1, n // 2), width * n, 1 if n == 1 else 2) for n in (1, 2, 4, 8)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(width * 8, classes),
    )


def resnet50(classes: int) -> nn.Module:
    import torchvision

    made: nn.Module = torchvision.models.resnet50(num_classes=classes)
    return made


NETWORKS: dict[str, Callable[[int], nn.Module]] = {
    "resnet50": resnet50,
    "tiny": tiny,
    "small": small_resnet,
    "smaller": partial(small_resnet, width=8),  # for dry runs
}


class Training:
    """A network and its optimiser, in bfloat16 and channels last; one step at a time."""

    def __init__(
        self, network: str, classes: int, device: str, compiled: bool = False, decay: float = 0.0
    ) -> None:
        self.device = device
        torch.manual_seed(0)
        torch.backends.cudnn.benchmark = True
        self.model: Any = NETWORKS[network](classes).to(device, torch.bfloat16)
        self.model.to(memory_format=torch.channels_last)
        self.forward = torch.compile(self.model) if compiled else self.model
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=0.01, momentum=0.9, weight_decay=decay
        )

    def step(self, images: Any, labels: Any) -> tuple[Any, Any]:
        """Loss and scores, both still on the device."""
        scores = self.forward(images).float()
        loss = nn.functional.cross_entropy(scores, labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.detach(), scores.detach()


def warm_up(network: str, classes: int, device: str, batch: int, size: int) -> None:
    """Let torch prepare whatever it does once, before somebody looks at the clock."""
    training = Training(network, classes, device)
    images = torch.zeros(batch, 3, size, size, dtype=torch.bfloat16)
    images = images.to(device, memory_format=torch.channels_last)
    labels = torch.zeros(batch, dtype=torch.int64, device=device)
    for _ in range(2):
        loss, _ = training.step(images, labels)
    loss.item()
