# SPDX-License-Identifier: Apache-2.0
"""What torchvision's AutoAugment, RandAugment and TrivialAugmentWide choose from, as data.

Magnitudes are torch's to the last bit: they are made in single precision, by torch's rule. The two
generations of torchvision's transforms round some of them differently.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Operation = dict[str, Any]

_SHARE = 150.0 / 331.0  # of a side: how far images of 331 pixels are shifted at most


def linspace(start: float, end: float, count: int) -> list[float]:
    """torch.linspace in single precision: from both ends to the middle, products not rounded."""
    first, last = np.float32(start), np.float32(end)
    step = float((last - first) / np.float32(count - 1))
    exact = [
        float(first) + step * i if i < count // 2 else float(last) - step * (count - 1 - i)
        for i in range(count)
    ]
    return [float(np.float32(value)) for value in exact]


def torch_agrees(count: int) -> bool:
    """Whether torch comes to the same numbers: it may round products on an old CPU."""
    import torch

    ends = (
        (0.0, 0.3),
        (0.0, 0.9),
        (0.0, 0.99),
        (0.0, 30.0),
        (0.0, 135.0),
        (1.0, 0.0),
        (255.0, 0.0),
    )
    return all(torch.linspace(*pair, count).tolist() == linspace(*pair, count) for pair in ends)


def _bits(count: int, taken: int, first_generation: bool) -> list[int]:
    steps = np.arange(count, dtype=np.float32) / np.float32((count - 1) / taken)
    if first_generation:
        return [8 - int(step) for step in np.round(steps)]
    return [int(bits) for bits in np.round(np.float32(8) - steps)]


def _thresholds(count: int, first_generation: bool) -> list[float]:
    """Values from a threshold on are inverted; values are whole numbers."""
    if first_generation:
        levels = linspace(255.0, 0.0, count)
    else:
        levels = [255.0 * level for level in linspace(1.0, 0.0, count)]
    return [float(math.ceil(level)) for level in levels]


def _space(
    count: int,
    first_generation: bool,
    *,
    shear: float,
    shift: float | None,
    turn: float,
    change: float,
    bits: int,
) -> dict[str, Operation]:
    """Every operation with all its magnitudes; `shift` is in pixels, None: a share of the side."""

    def signed(most: float) -> Operation:
        return {"magnitudes": linspace(0.0, most, count), "either_sign": True}

    relative = {
        "magnitudes": [float(i) for i in range(count)],
        "either_sign": True,
        "share": _SHARE,
        "bins": count,
    }
    shifts = relative if shift is None else signed(shift)
    return {
        "ShearX": signed(shear),
        "ShearY": signed(shear),
        "TranslateX": shifts,
        "TranslateY": shifts,
        "Rotate": signed(turn),
        "Brightness": signed(change),
        "Color": signed(change),
        "Contrast": signed(change),
        "Sharpness": signed(change),
        "Posterize": {"magnitudes": _bits(count, bits, first_generation)},
        "Solarize": {"magnitudes": _thresholds(count, first_generation)},
        "AutoContrast": {},
        "Equalize": {},
    }


def rand_augment(count: int, magnitude: int, first_generation: bool) -> list[list[Operation]]:
    """Each operation with one magnitude, as a policy of its own."""
    space = _space(count, first_generation, shear=0.3, shift=None, turn=30.0, change=0.9, bits=4)
    return [[{"op": "Identity"}]] + [
        [{"op": name, **_only(operation, magnitude)}] for name, operation in space.items()
    ]


def trivial_augment(count: int, first_generation: bool) -> list[list[Operation]]:
    """Each operation with all magnitudes, as a policy of its own."""
    space = _space(count, first_generation, shear=0.99, shift=32.0, turn=135.0, change=0.99, bits=6)
    return [[{"op": "Identity"}]] + [[{"op": name, **made}] for name, made in space.items()]


def auto_augment(policy: str, first_generation: bool) -> list[list[Operation]]:
    """The pairs of a policy; operation, probability, magnitude of ten."""
    space = _space(10, first_generation, shear=0.3, shift=None, turn=30.0, change=0.9, bits=4)
    space["Invert"] = {}
    policies = []
    for line in POLICIES[policy].strip().splitlines():
        pair = []
        for words in line.split(","):
            name, p, *magnitude = words.split()
            made = _only(space[name], int(magnitude[0])) if magnitude else dict(space[name])
            pair.append({"op": name, "p": float(p), **made})
        policies.append(pair)
    return policies


def _only(operation: Operation, number: int) -> Operation:
    if "magnitudes" not in operation:
        return dict(operation)
    return {**operation, "magnitudes": [operation["magnitudes"][number]]}


POLICIES = {
    "imagenet": """
Posterize 0.4 8, Rotate 0.6 9
Solarize 0.6 5, AutoContrast 0.6
Equalize 0.8, Equalize 0.6
Posterize 0.6 7, Posterize 0.6 6
Equalize 0.4, Solarize 0.2 4
Equalize 0.4, Rotate 0.8 8
Solarize 0.6 3, Equalize 0.6
Posterize 0.8 5, Equalize 1.0
Rotate 0.2 3, Solarize 0.6 8
Equalize 0.6, Posterize 0.4 6
Rotate 0.8 8, Color 0.4 0
Rotate 0.4 9, Equalize 0.6
Equalize 0.0, Equalize 0.8
Invert 0.6, Equalize 1.0
Color 0.6 4, Contrast 1.0 8
Rotate 0.8 8, Color 1.0 2
Color 0.8 8, Solarize 0.8 7
Sharpness 0.4 7, Invert 0.6
ShearX 0.6 5, Equalize 1.0
Color 0.4 0, Equalize 0.6
Equalize 0.4, Solarize 0.2 4
Solarize 0.6 5, AutoContrast 0.6
Invert 0.6, Equalize 1.0
Color 0.6 4, Contrast 1.0 8
Equalize 0.8, Equalize 0.6
""",
    "cifar10": """
Invert 0.1, Contrast 0.2 6
Rotate 0.7 2, TranslateX 0.3 9
Sharpness 0.8 1, Sharpness 0.9 3
ShearY 0.5 8, TranslateY 0.7 9
AutoContrast 0.5, Equalize 0.9
ShearY 0.2 7, Posterize 0.3 7
Color 0.4 3, Brightness 0.6 7
Sharpness 0.3 9, Brightness 0.7 9
Equalize 0.6, Equalize 0.5
Contrast 0.6 7, Sharpness 0.6 5
Color 0.7 7, TranslateX 0.5 8
Equalize 0.3, AutoContrast 0.4
TranslateY 0.4 3, Sharpness 0.2 6
Brightness 0.9 6, Color 0.2 8
Solarize 0.5 2, Invert 0.0
Equalize 0.2, AutoContrast 0.6
Equalize 0.2, Equalize 0.6
Color 0.9 9, Equalize 0.6
AutoContrast 0.8, Solarize 0.2 8
Brightness 0.1 3, Color 0.7 0
Solarize 0.4 5, AutoContrast 0.9
TranslateY 0.9 9, TranslateY 0.7 9
AutoContrast 0.9, Solarize 0.8 3
Equalize 0.8, Invert 0.1
TranslateY 0.7 9, AutoContrast 0.9
""",
    "svhn": """
ShearX 0.9 4, Invert 0.2
ShearY 0.9 8, Invert 0.7
Equalize 0.6, Solarize 0.6 6
Invert 0.9, Equalize 0.6
Equalize 0.6, Rotate 0.9 3
ShearX 0.9 4, AutoContrast 0.8
ShearY 0.9 8, Invert 0.4
ShearY 0.9 5, Solarize 0.2 6
Invert 0.9, AutoContrast 0.8
Equalize 0.6, Rotate 0.9 3
ShearX 0.9 4, Solarize 0.3 3
ShearY 0.8 8, Invert 0.7
Equalize 0.9, TranslateY 0.6 6
Invert 0.9, Equalize 0.6
Contrast 0.3 3, Rotate 0.8 4
Invert 0.8, TranslateY 0.0 2
ShearY 0.7 6, Solarize 0.4 8
Invert 0.6, Rotate 0.8 4
ShearY 0.3 7, TranslateX 0.9 3
ShearX 0.1 6, Invert 0.6
Solarize 0.7 2, TranslateY 0.6 7
ShearY 0.8 4, Invert 0.8
ShearX 0.7 9, TranslateY 0.8 3
ShearY 0.8 5, AutoContrast 0.7
ShearX 0.7 2, Invert 0.1
""",
}
