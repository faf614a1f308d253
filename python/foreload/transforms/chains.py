# SPDX-License-Identifier: Apache-2.0
"""Whole chains of steps: the usual ones, and those that torchvision's transforms stand for."""

from __future__ import annotations

from typing import Any

from foreload.transforms.steps import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    CenterCrop,
    Compose,
    Normalize,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
    Size,
    Step,
    ToDtype,
)
from foreload.transforms.torchvision_steps import is_torchvision, translate


def imagenet_train(size: Size = 224, dtype: Any = "float32") -> Compose:
    """The usual training transform: random resized crop, flip, normalise."""
    return Compose(
        [
            RandomResizedCrop(size),
            RandomHorizontalFlip(),
            Normalize(IMAGENET_MEAN, IMAGENET_STD),
            ToDtype(dtype, scale=True),
        ]
    )


def imagenet_eval(size: int = 224, resize: int | None = None, dtype: Any = "float32") -> Compose:
    """The usual evaluation transform: shorter side to 256 (for 224), centre crop, normalise."""
    return Compose(
        [
            Resize(resize if resize is not None else round(size * 256 / 224)),
            CenterCrop(size),
            Normalize(IMAGENET_MEAN, IMAGENET_STD),
            ToDtype(dtype, scale=True),
        ]
    )


def from_torchvision(transform: object) -> Compose:
    """Translate a transform of torchvision into steps of this module that give the same, bit for
    bit, for the same random parameters.

    ValueError names the step that cannot be translated and why.
    """
    if isinstance(transform, Compose):
        return transform
    if isinstance(transform, Step):
        return Compose([transform])
    return translate(transform)


def native(transform: object) -> Compose | None:
    """A chain that C++ can run, or None if the transform is a Python function.

    ValueError for a transform of torchvision that cannot be translated.
    """
    if isinstance(transform, Compose | Step) or is_torchvision(transform):
        return from_torchvision(transform)
    return None
