# SPDX-License-Identifier: Apache-2.0
"""The transforms of a NoPFS job by their names there, as steps of `foreload.transforms`.

Sizes are given as width and height there, not as height and width.
"""

from __future__ import annotations

from foreload import transforms
from foreload.transforms import Normalize, RandomHorizontalFlip, RandomResizedCrop

__all__ = [
    "CenterCrop",
    "HWCtoCHW",
    "ImgDecode",
    "Normalize",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "Resize",
    "ToTensor",
]


def ImgDecode() -> transforms.Decode:
    """Decode the image."""
    return transforms.Decode()


def Resize(w_out: int, h_out: int) -> transforms.Resize:
    """To this width and height."""
    return transforms.Resize((h_out, w_out))


def CenterCrop(w_out: int, h_out: int) -> transforms.CenterCrop:
    """This width and height out of the middle."""
    return transforms.CenterCrop((h_out, w_out))


def ToTensor() -> transforms.ToDtype:
    """Floats from 0 to 1."""
    return transforms.ToDtype("float32", scale=True)


def HWCtoCHW() -> transforms.ToLayout:
    """Channels first, as bytes."""
    return transforms.ToLayout("CHW")
