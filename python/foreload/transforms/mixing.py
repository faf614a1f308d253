# SPDX-License-Identifier: Apache-2.0
"""MixUp and CutMix: what is done to whole batches, after they were put together."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from foreload._keywords import suggests_keywords


class BatchTransform:
    """A function of a batch (images, labels), for `batch_transform=`.

    Random numbers come from `generator`; without one, they follow from torch's global random state,
    as torchvision's do. Labels are numbers of classes, or probabilities with one column for each
    class; probabilities come out.
    """

    @suggests_keywords
    def __init__(self, *, alpha: float = 1.0, num_classes: int | None = None) -> None:
        if not alpha > 0:
            raise ValueError(f"alpha must be above 0, but is {alpha}")
        self.alpha = float(alpha)
        self.num_classes = num_classes

    def __call__(self, batch: Any, generator: np.random.Generator | None = None) -> Any:
        """The batch, mixed: a tuple of images and labels."""
        if not isinstance(batch, tuple | list) or len(batch) != 2:
            raise ValueError(
                f"{type(self).__name__} takes batches of images and labels: leave return_index "
                "out, and give it as batch_transform="
            )
        images, labels = batch
        if images.ndim != 4 or labels.ndim not in (1, 2) or len(images) != len(labels):
            raise ValueError(
                f"{type(self).__name__} takes a batch of images and one label each, or one row of "
                f"probabilities; these are of shapes {tuple(images.shape)} and "
                f"{tuple(labels.shape)}"
            )
        if labels.ndim == 1 and self.num_classes is None:
            raise ValueError(f"{type(self).__name__} needs num_classes where labels are numbers")
        if labels.ndim == 2 and self.num_classes not in (None, labels.shape[-1]):
            raise ValueError(
                f"{type(self).__name__} has num_classes={self.num_classes}, but labels have "
                f"{labels.shape[-1]} columns: leave num_classes out"
            )
        if generator is None:
            import torch

            generator = np.random.default_rng(int(torch.randint(2**63 - 1, ())))
        mixed, share = self._mix(images, generator)
        return mixed, self._mix_labels(labels, share)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(alpha={self.alpha}, num_classes={self.num_classes})"

    def _mix(self, images: Any, generator: np.random.Generator) -> tuple[Any, float]:
        """Mixed images, and the share that each has of its own."""
        raise NotImplementedError

    def _mix_labels(self, labels: Any, share: float) -> Any:
        import torch

        if self.num_classes is not None and labels.ndim == 1:
            if (
                len(labels) > 0
                and not 0 <= int(labels.min()) <= int(labels.max()) < self.num_classes
            ):
                raise ValueError(
                    f"{type(self).__name__} has num_classes={self.num_classes}, but labels go from "
                    f"{int(labels.min())} to {int(labels.max())}: give the number of all classes"
                )
            labels = torch.nn.functional.one_hot(labels, num_classes=self.num_classes)
        if not labels.dtype.is_floating_point:
            labels = labels.float()
        return labels.roll(1, 0).mul_(1.0 - share).add_(labels.mul(share))


class MixUp(BatchTransform):
    """Each image is blended with the one before it in the batch, and so are the labels.

    Args:
        alpha: Of the Beta distribution that the share of the blend is drawn from.
        num_classes: Needed where labels are numbers of classes.
    """

    def _mix(self, images: Any, generator: np.random.Generator) -> tuple[Any, float]:
        if not images.dtype.is_floating_point:
            raise ValueError(
                f"MixUp blends floats, but images are {images.dtype}: add ToDtype or Normalize"
            )
        share = float(generator.beta(self.alpha, self.alpha))
        return images.roll(1, 0).mul_(1.0 - share).add_(images.mul(share)), share


class CutMix(BatchTransform):
    """A box of each image is replaced by that of the one before it in the batch.

    Labels are blended by area. Images are N x channels x height x width.

    Args:
        alpha: Of the Beta distribution that the area is drawn from.
        num_classes: Needed where labels are numbers of classes.
    """

    def _mix(self, images: Any, generator: np.random.Generator) -> tuple[Any, float]:
        height, width = images.shape[-2:]
        left = float(generator.beta(self.alpha, self.alpha))  # of the image itself
        x, y = int(generator.integers(width)), int(generator.integers(height))
        half = 0.5 * math.sqrt(1.0 - left)
        half_width, half_height = int(half * width), int(half * height)
        x1, x2 = max(x - half_width, 0), min(x + half_width, width)
        y1, y2 = max(y - half_height, 0), min(y + half_height, height)
        mixed = images.clone()
        mixed[..., y1:y2, x1:x2] = images.roll(1, 0)[..., y1:y2, x1:x2]
        return mixed, float(1.0 - (x2 - x1) * (y2 - y1) / (width * height))
