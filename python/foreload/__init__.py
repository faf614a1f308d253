# SPDX-License-Identifier: Apache-2.0
"""foreload: the data loader that knows the future.

foreload.order(...)   the samples a rank reads in an epoch, exactly those of torch
foreload.find(...)    who reads a sample, and when
foreload.plan(...)    what a training job reads, keeps where, and costs
foreload.Index        the samples of a folder: names, sizes, labels
foreload.Reader       batches of bytes, cached in memory and on disk
"""

from foreload._core import (
    NO_OWNER,
    CorruptError,
    Index,
    Plan,
    __version__,
    format_bytes,
    parse_bytes,
)
from foreload._dataset import list_folder, read_index
from foreload._order import batches, find, order
from foreload._plan import plan
from foreload._reader import Reader

__all__ = [
    "NO_OWNER",
    "CorruptError",
    "Index",
    "Plan",
    "Reader",
    "__version__",
    "batches",
    "find",
    "format_bytes",
    "list_folder",
    "order",
    "parse_bytes",
    "plan",
    "read_index",
]
