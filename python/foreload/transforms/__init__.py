# SPDX-License-Identifier: Apache-2.0
"""What is done to an image on its way into the batch, with torchvision's names and defaults.

A transform is data: `Compose([RandomResizedCrop(224), RandomHorizontalFlip(), Normalize(...)])`
says what to do, and C++ compiles it into as few passes over an image as possible, mostly one.
Without a `ToLayout` images are CHW, without `Normalize` or `ToDtype` they are uint8.

`MixUp` and `CutMix` are for whole batches: give them to the loader as `batch_transform=`.
"""

from typing import Any

from foreload._keywords import unknown_name
from foreload.transforms.chains import (
    from_torchvision,
    imagenet_eval,
    imagenet_train,
    native,
)
from foreload.transforms.mixing import CutMix, MixUp
from foreload.transforms.steps import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    AutoAugment,
    CenterCrop,
    ColorJitter,
    Compose,
    Decode,
    FiveCrop,
    GaussianBlur,
    Grayscale,
    Normalize,
    Pad,
    RandAugment,
    RandomAdjustSharpness,
    RandomAffine,
    RandomApply,
    RandomAutocontrast,
    RandomChoice,
    RandomCrop,
    RandomEqualize,
    RandomErasing,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomInvert,
    RandomOrder,
    RandomPerspective,
    RandomPosterize,
    RandomResizedCrop,
    RandomRotation,
    RandomSolarize,
    RandomVerticalFlip,
    Range,
    Resize,
    Size,
    Step,
    TenCrop,
    ToDtype,
    ToLayout,
    TrivialAugmentWide,
)

__all__ = [
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "AutoAugment",
    "CenterCrop",
    "ColorJitter",
    "Compose",
    "CutMix",
    "Decode",
    "FiveCrop",
    "GaussianBlur",
    "Grayscale",
    "MixUp",
    "Normalize",
    "Pad",
    "RandAugment",
    "RandomAdjustSharpness",
    "RandomAffine",
    "RandomApply",
    "RandomAutocontrast",
    "RandomChoice",
    "RandomCrop",
    "RandomEqualize",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomInvert",
    "RandomOrder",
    "RandomPerspective",
    "RandomPosterize",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomSolarize",
    "RandomVerticalFlip",
    "Range",
    "Resize",
    "Size",
    "Step",
    "TenCrop",
    "ToDtype",
    "ToLayout",
    "TrivialAugmentWide",
    "from_torchvision",
    "imagenet_eval",
    "imagenet_train",
    "native",
]

# What to use instead of names that people know from torchvision.
_INSTEAD = {
    "ToTensor": "images come as tensors; ToDtype('float32', scale=True) makes floats of them",
    "PILToTensor": "images come as tensors; leave it out",
    "ToImage": "images come as tensors; leave it out",
    "ToPILImage": "give a function as transform, it gets Pillow's images",
    "ConvertImageDtype": "use ToDtype(dtype, scale=True)",
    "Lambda": "give the DataLoader a function as transform",
}


def __getattr__(name: str) -> Any:
    raise AttributeError(unknown_name(__name__, name, __all__, _INSTEAD))
