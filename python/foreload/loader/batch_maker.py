# SPDX-License-Identifier: Apache-2.0
"""From what the engine gives to what the loop gets."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from foreload import _core
from foreload._collate import channels_first, default_collate, default_convert, tensor
from foreload.cluster.ranks import Ranks
from foreload.data.bad_samples import Skipped, substitutes
from foreload.data.parts import PartsTransform, split
from foreload.data.samples import LeafDecoder, Samples
from foreload.device.feed import tensor_of
from foreload.loader.engine_feed import Batch, Core
from foreload.python_transforms.sample_maker import BadSampleError, Task
from foreload.transforms import Compose
from foreload.transforms.torchvision_steps import as_tv_image


class BatchMaker:
    """Makes batches of tensors, labels and numbers; for the loop's thread.

    Args:
        samples: The data set.
        chain: What C++ did to images, if anything, and
        compiled: the same, compiled.
        parts: The same, of samples of several parts.
        collate_fn: The user's, if there is one.
        single: Whether the loop gets samples instead of batches.
        return_index: Whether it gets their numbers too.
        skip: Whether the next good sample of a batch takes the place of a bad one.
        name_of: Gives the name of a sample.
    """

    def __init__(
        self,
        samples: Samples,
        chain: Compose | None,
        compiled: _core.CompiledTransform | None,
        parts: PartsTransform | None,
        collate_fn: Callable[[Any], Any] | None,
        single: bool,
        return_index: bool,
        skip: bool,
        name_of: Callable[[int], bytes],
    ) -> None:
        self._samples = samples
        self._chain = chain
        self._compiled = compiled
        self._parts = parts
        self._bfloat16 = compiled is not None and compiled.dtype == "bfloat16"
        self._collate_fn = collate_fn
        self._single = single
        self._return_index = return_index
        self._skip = skip
        self._name_of = name_of
        self.skipped = Skipped()

    def tasks(
        self,
        batch: Batch,
        ranks: Ranks,
        seed: int,
        start: int,
        count: int,
        core: Core,
    ) -> list[Task]:
        """What a Python transform needs of each sample. `start` samples of the epoch, of `count`,
        came before the list that the batch is of."""
        data: Sequence[Any] = batch.data or batch.apart
        first = start + batch.first * ranks.count + ranks.rank
        indices = batch.indices.tolist()
        if self._samples.parts and isinstance(core, _core.LoaderCore):
            data = [
                split(view, core.part_sizes(index))
                for view, index in zip(data, indices, strict=True)
            ]
        return [
            Task(
                view,
                os.fsdecode(core.name_of(index)),
                index,
                label,
                (seed, batch.epoch, (first + i * ranks.count) % max(count, 1)),
            )
            for i, (view, index, label) in enumerate(
                zip(data, indices, self._labels(batch, indices), strict=True)
            )
        ]

    def native(self, batch: Batch) -> Any:
        """A batch that C++ has made."""
        if self._parts is not None:
            return self._of_parts(self._parts, batch)
        images = self._images(batch)
        indices = batch.indices
        targets = self._samples.targets
        change = self._samples.target_transform
        plain = change is None and (targets is None or isinstance(targets, np.ndarray))
        labels: Any
        if plain and self._collate_fn is None and not self._single:
            labels = tensor(batch.labels if targets is None else np.asarray(targets)[indices])
        else:
            labels = self._labels(batch, indices.tolist())
            if change is not None:
                labels = [change(label) for label in labels]
            if self._single or self._collate_fn is not None:
                if self._chain is not None and self._chain._tv_image:
                    images = map(as_tv_image, images)
                return self.collated(list(zip(images, labels, strict=True)), indices.tolist())
            labels = default_collate(labels)
        if self._chain is not None:
            images = _stacked(images)
        return [images, labels, tensor(indices)] if self._return_index else [images, labels]

    def collated(self, samples: list[Any], indices: list[int]) -> Any:
        """A batch of single samples, or the one sample where nothing is batched."""
        if self._return_index:
            samples = [
                (*sample, index) if isinstance(sample, tuple | list) else (sample, index)
                for sample, index in zip(samples, indices, strict=True)
            ]
        if self._single:
            return (self._collate_fn or default_convert)(samples[0])
        return (self._collate_fn or default_collate)(samples)

    def _of_parts(self, parts: PartsTransform, batch: Batch) -> Any:
        assert isinstance(batch, _core.LoaderBatch)
        samples, made, indices = self._samples, batch.parts, batch.indices.tolist()
        others, instead = self._others_of(indices)
        columns = {
            name: parts.made_in_cpp(name, made[str(name)])
            if file
            else [entries[name] for entries in others]
            for name, file in samples.parts.items()
        }
        for place, good in instead.items():
            for column in (indices, *columns.values()):
                column[place] = column[good]
        if self._single or self._collate_fn is not None:
            all_parts = zip(*columns.values(), strict=True)
            return self.collated(
                [
                    dict(zip(columns, row, strict=True)) if samples.keyed else row
                    for row in all_parts
                ],
                indices,
            )
        for name, column in columns.items():
            if isinstance(column, list):  # of tuples and of dicts torch makes different things
                rows = [{name: entry} if samples.keyed else (entry,) for entry in column]
                columns[name] = default_collate(rows)[name if samples.keyed else 0]
        whole = [columns] if samples.keyed else [*columns.values()]
        if self._return_index:
            return [*whole, tensor(np.asarray(indices, dtype=np.int64))]
        return columns if samples.keyed else whole

    def _others_of(self, indices: list[int]) -> tuple[list[dict[Any, Any]], dict[int, int]]:
        """The entries of all samples that are no files, and for the places of bad samples those
        that are taken instead. locate() is called for the entries, and may fail."""
        if all(self._samples.parts.values()):
            return [], {}
        found: list[dict[Any, Any]] = []
        bad: dict[int, BadSampleError] = {}
        for place, index in enumerate(indices):
            try:
                found.append(self._others(index))
            except BadSampleError as error:
                if not self._skip:
                    raise
                bad[place] = error
                found.append(dict.fromkeys(self._samples.parts))
        if bad and len(bad) == len(indices):
            raise BadSampleError(f"all {len(bad)} samples of a batch are bad; {bad[0]}") from bad[0]
        for place in bad:
            self.skipped.add(os.fsdecode(self._name_of(indices[place])))
        return found, substitutes(bad, len(indices))

    def _others(self, index: int) -> dict[Any, Any]:
        assert isinstance(self._samples.decode, LeafDecoder)
        try:
            return self._samples.decode.others(index)
        except Exception as error:
            raise BadSampleError(
                f"cannot make sample {index}: {type(error).__name__}: {error}"
            ) from error

    def _labels(self, batch: Batch, indices: list[int]) -> list[Any]:
        targets = self._samples.targets
        if targets is None:
            labels: list[Any] = batch.labels.tolist()
            return labels
        if isinstance(targets, np.ndarray):
            found: list[Any] = targets[indices].tolist()
            return found
        return [targets[index] for index in indices]

    def _images(self, batch: Batch) -> Any:
        """Decoded images as one tensor, or a list where sizes differ; bytes as memoryviews."""
        if self._chain is None:
            return batch.data
        last = self._chain.channels_last
        if batch.pixels is not None:
            assert self._compiled is not None
            images = tensor_of(batch, self._compiled)
            if images is None:
                images = tensor(batch.pixels, self._bfloat16)
            return channels_first(images) if last else images
        images = [tensor(array, self._bfloat16) for array in batch.apart]
        return [channels_first(image) for image in images] if last else images


def _stacked(images: Any) -> Any:
    """Images of one size as one tensor, as torch's default_collate makes it."""
    if not isinstance(images, list) or len({one.shape for one in images}) > 1:
        return images
    return default_collate(images)
