# SPDX-License-Identifier: Apache-2.0
"""What trainers look for: where torch is installed, foreload's loader and sampler are torch's.

This imports torch. Only the modules behind `foreload.DataLoader` import it, so that `import
foreload`, Reader and the program never do.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from foreload._collate import HAVE_TORCH

Sample = TypeVar("Sample", covariant=True)

LoaderBase: Any = Generic[Sample]  # type: ignore[index]
DatasetBase: Any = object
# What torch's loader has as its sampler: with several ranks, with shuffle, without.
RankSampler: Any = object
ShuffleSampler: Any = object
InOrderSampler: Any = object

if HAVE_TORCH:
    from torch.utils.data import DataLoader, Dataset, RandomSampler, SequentialSampler
    from torch.utils.data.distributed import DistributedSampler

    LoaderBase = DataLoader[Sample]
    DatasetBase = Dataset
    RankSampler, ShuffleSampler = DistributedSampler, RandomSampler
    InOrderSampler = SequentialSampler


def batches_by(sampler: Any, batch_size: int | None, drop_last: bool) -> Any:
    """torch's BatchSampler over a sampler, for those who ask a loader for it."""
    if not HAVE_TORCH or batch_size is None:
        return None
    from torch.utils.data import BatchSampler

    return BatchSampler(sampler, batch_size, drop_last)
