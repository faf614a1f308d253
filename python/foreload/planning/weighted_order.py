# SPDX-License-Identifier: Apache-2.0
"""Orders that are more than a name."""

from __future__ import annotations

from typing import SupportsIndex

import numpy as np
import numpy.typing as npt

from foreload import _core
from foreload._arguments import whole


class WeightedOrder(_core.OrderSettings):
    """Samples drawn without replacement, each time with chances in proportion to the weights of
    those that are left, as torch's WeightedRandomSampler(replacement=False) does it; but decided by
    the seed alone, shared by all ranks, and known ahead. For the `order` of `DataLoader`, `Reader`,
    `plan`, `order` and `find`.

    Args:
        weights: One number for each sample, from 0 on; a sample of weight 0 is never drawn.
        draws: Samples of an epoch; None: all that have a weight, those of more weight sooner.
    """

    def __init__(self, weights: npt.ArrayLike, draws: SupportsIndex | None = None) -> None:
        numbers = np.ascontiguousarray(weights, dtype=np.float64)
        if numbers.ndim != 1:
            raise ValueError(f"weights has {numbers.ndim} dimensions: give one number a sample")
        self._text = f"<foreload.WeightedOrder: {len(numbers):,} weights>"
        super().__init__(numbers, 0 if draws is None else whole("draws", draws, 1))

    def __repr__(self) -> str:
        return self._text
