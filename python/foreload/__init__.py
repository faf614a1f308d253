# SPDX-License-Identifier: Apache-2.0
"""foreload: the data loader that knows the future.

foreload.order(...)   the samples a rank reads in an epoch, exactly those of torch
foreload.find(...)    who reads a sample, and when
foreload.plan(...)    what a training job reads, keeps where, and costs
foreload.Index        the samples of a folder: names, sizes, labels
foreload.Reader       batches of bytes, cached in memory and on disk
foreload.DataLoader   batches of images for a training loop, as torch's DataLoader gives them
foreload.transforms   what is done to images on their way
foreload.Part, MaskOf  samples of several parts: ranges of files, masks of pictures
foreload.Cache        memory and disk that several loaders share
foreload.progress     a progress bar around a loader
foreload.record       a record of how another loader does, to compare
foreload.open_dataset the samples of the caches, for torch's own DataLoader
foreload.compat       the ways in which other loaders are used
"""

from typing import TYPE_CHECKING, Any

from foreload import transforms
from foreload._core import (
    NO_OWNER,
    CorruptError,
    Index,
    Plan,
    __version__,
    format_bytes,
    parse_bytes,
)
from foreload._keywords import unknown_name
from foreload.data.listing import list_folder, read_index
from foreload.data.parts import MaskOf, Part
from foreload.engine.cache import Cache
from foreload.engine.reader import Reader
from foreload.planning.order import batches, find, order
from foreload.planning.plan import plan
from foreload.planning.weighted_order import WeightedOrder
from foreload.python_transforms.sample_maker import BadSampleError, TransformError
from foreload.reports.progress import progress
from foreload.reports.run_log import record
from foreload.serving.served_dataset import ServedDataset, open_dataset

if TYPE_CHECKING:
    from foreload.loader.dataloader import DataLoader

__all__ = [
    "NO_OWNER",
    "BadSampleError",
    "Cache",
    "CorruptError",
    "DataLoader",
    "Index",
    "MaskOf",
    "Part",
    "Plan",
    "Reader",
    "ServedDataset",
    "TransformError",
    "WeightedOrder",
    "__version__",
    "batches",
    "find",
    "format_bytes",
    "list_folder",
    "open_dataset",
    "order",
    "parse_bytes",
    "plan",
    "progress",
    "read_index",
    "record",
    "transforms",
]


_INSTEAD = {
    "make_images": "it is a command, 'foreload make-images FOLDER --help'",
    "read": "it is a command, 'foreload read --help'; foreload.Reader gives bytes in Python",
    "simulate": "it is a command, 'foreload simulate --help'",
    "ImageFolder": "give the folder itself to foreload.DataLoader",
    "Dataset": "give your own class, or torch's, to foreload.DataLoader",
}


def __getattr__(name: str) -> Any:
    """DataLoader is torch's where torch is installed, which is imported when it is asked for."""
    if name == "DataLoader":
        from foreload.loader.dataloader import DataLoader

        globals()[name] = DataLoader
        return DataLoader
    raise AttributeError(unknown_name("foreload", name, __all__, _INSTEAD))
