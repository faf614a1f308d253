# SPDX-License-Identifier: Apache-2.0
"""The usage of NoPFS: a job, a folder of images, a loader.

    job = Job(folder, batch_size, epochs, "uniform", drop_last_batch=True, seed=0, memory="8GiB")
    dataset = NoPFSImageFolder(folder, job, transform)
    loader = NoPFSDataLoader(dataset)
    for epoch in range(epochs):
        for samples, labels in loader:
            ...

Arguments and their order are those of NoPFS (of its published research version, where the classes
are called hdmlp.Job, HDMLPImageFolder and HDMLPDataLoader; HDMLPImageFolder and HDMLPDataLoader are
names for the same classes here). As there, `batch_size` is that of all ranks together, and
`transforms` of a job (foreload.compat.nopfs.transforms) are done by C++, before a folder's own
transform, which then gets whole batches. Storage is not described by a configuration file but by
`memory=` and `disk=`. The order is that of torch's DistributedSampler.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, SupportsIndex

import numpy as np

from foreload import transforms as foreload_transforms
from foreload._arguments import Bytes, one_of, whole
from foreload._settings import Disk
from foreload.cluster.ranks import find_ranks
from foreload.compat import nopfs_transforms as transforms
from foreload.data.listing import list_folder
from foreload.loader.dataloader import DataLoader

__all__ = [
    "HDMLPDataLoader",
    "HDMLPImageFolder",
    "Job",
    "NoPFSDataLoader",
    "NoPFSImageFolder",
    "transforms",
]

Path = str | os.PathLike[str]


class Job:
    """What is to be read, how often, and in which batches.

    Args:
        dataset_path: The folder.
        batch_size: Samples in a batch of all ranks together.
        epochs: How often the data set is read.
        distr_scheme: "uniform", there is no other.
        drop_last_batch: Whether a last batch that is not full is left out.
        transforms: Steps of `foreload.transforms` for images, done by C++.
        seed: Seed of the order; None for 0.
        config_path: Of NoPFS's storage description; not read, `memory` and `disk` say that here.
        libhdmlp_path: Of NoPFS's library; there is none here.
        filesystem_backend: "filesystem", there is no other here.
        hdf5_data_name, hdf5_target_name: For the other backend.
        collate_data: Whether C++ puts batches together; it always does where it can.
        memory: Memory of this machine to keep samples in.
        disk: "FOLDER:SIZE" of a disk cache, or several.
    """

    def __init__(
        self,
        dataset_path: Path,
        batch_size: SupportsIndex,
        epochs: SupportsIndex,
        distr_scheme: str,
        drop_last_batch: bool,
        transforms: Sequence[Any] | None = None,
        seed: SupportsIndex | None = None,
        config_path: Path | None = None,
        libhdmlp_path: Path | None = None,
        filesystem_backend: str = "filesystem",
        hdf5_data_name: str | None = None,
        hdf5_target_name: str | None = None,
        collate_data: bool = False,
        *,
        memory: Bytes = 0,
        disk: Disk | Sequence[Disk] | None = None,
    ) -> None:
        one_of("distr_scheme", distr_scheme, "uniform")
        if filesystem_backend != "filesystem" or hdf5_data_name or hdf5_target_name:
            raise ValueError(
                f"filesystem_backend is {filesystem_backend!r}: foreload reads files, one sample "
                "each; use 'filesystem'"
            )
        del libhdmlp_path, collate_data
        if config_path is not None:
            warnings.warn(
                f"{os.fspath(config_path)} is not read: memory= and disk= say what a job may use",
                stacklevel=2,
            )
        self.dataset_path = os.fspath(dataset_path)
        self.batch_size = whole("batch_size", batch_size, 1)
        self.epochs = whole("epochs", epochs, 1)
        self.distr_scheme = distr_scheme
        self.drop_last_batch = bool(drop_last_batch)
        self.transforms = list(transforms or [])
        self.seed = 0 if seed is None else seed
        self.memory = memory
        self.disk = disk
        self.ranks = find_ranks()
        if self.batch_size % self.ranks.count:
            raise ValueError(
                f"batch_size {self.batch_size} cannot be shared evenly by {self.ranks.count} "
                "ranks: it is that of all ranks together, give a multiple of their number"
            )

    def setup(self) -> None:
        """Nothing to do: the loader opens what it needs."""

    def destroy(self) -> None:
        """Nothing to do: the loader closes itself."""

    def get_batch_size(self) -> int:
        """Samples in a batch of all ranks together."""
        return self.batch_size

    def get_num_epochs(self) -> int:
        """How often the data set is read."""
        return self.epochs

    def get_drop_last_batch(self) -> bool:
        """Whether a last batch that is not full is left out."""
        return self.drop_last_batch

    def get_transforms(self) -> list[Any]:
        """Steps that C++ does."""
        return self.transforms

    def get_node_id(self) -> int:
        """The rank of this process."""
        return self.ranks.rank

    def get_no_nodes(self) -> int:
        """How many ranks there are."""
        return self.ranks.count


class NoPFSImageFolder:
    """A folder with one sub-folder per class.

    Args:
        root: The folder.
        hdmlp_job: The job that reads it.
        transform: What is done to an image, or to a batch of them if the job has transforms.
        target_transform: What is done to a class.
        filelist: Of NoPFS's listing; not read.
    """

    def __init__(
        self,
        root: Path,
        hdmlp_job: Job,
        transform: Any = None,
        target_transform: Callable[[Any], Any] | None = None,
        filelist: Path | None = None,
    ) -> None:
        del filelist
        self.root = os.fspath(root)
        self.job = hdmlp_job
        self.transform = transform
        self.target_transform = target_transform
        index = list_folder(self.root)
        self.classes = index.classes
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}
        self._count = len(index)

    def __len__(self) -> int:
        return self._count

    def get_job(self) -> Job:
        """The job that reads it."""
        return self.job


class NoPFSDataLoader:
    """Batches (samples, labels) of an epoch for each iteration.

    Args:
        dataset: The folder.
        collate_fn: Makes a batch of a list of (sample, label).
        label_type: torch's type of labels, torch.int64 if None.
    """

    def __init__(
        self,
        dataset: NoPFSImageFolder,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        label_type: Any = None,
    ) -> None:
        job = dataset.job
        self.dataset = dataset
        self.job = job
        self._label_type = label_type
        self._collated = collate_fn is not None
        transform, self._batch_transform = dataset.transform, None
        if job.transforms or transform is None:
            transform = foreload_transforms.Compose(job.transforms)
            self._batch_transform = dataset.transform
        self.loader = DataLoader(
            dataset.root,
            batch_size=job.batch_size // job.ranks.count,
            shuffle=True,
            drop_last=job.drop_last_batch,
            collate_fn=collate_fn,
            transform=transform,
            target_transform=dataset.target_transform,
            epochs=job.epochs,
            seed=job.seed,
            rank=job.ranks.rank,
            world_size=job.ranks.count,
            memory=job.memory,
            disk=job.disk,
        )

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        for batch in self.loader:
            if self._collated:
                yield batch
                continue
            samples, labels = batch
            if self._batch_transform is not None:
                samples = self._batch_transform(samples)
            if self._label_type is not None:
                labels = (
                    labels.astype(self._label_type)
                    if isinstance(labels, np.ndarray)
                    else labels.to(self._label_type)
                )
            yield samples, labels


HDMLPImageFolder = NoPFSImageFolder
HDMLPDataLoader = NoPFSDataLoader
