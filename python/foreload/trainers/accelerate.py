# SPDX-License-Identifier: Apache-2.0
"""Accelerate: a loader that it prepares stays foreload's.

`Accelerator.prepare` and `skip_first_batches` make torch's DataLoader anew over `loader.dataset`.
Three functions of Accelerate are led past that for loaders of foreload and do for all others what
they did before. Nothing here imports Accelerate: it matters only to a program that uses it.
"""

from __future__ import annotations

import sys
import types
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foreload.loader.dataloader import DataLoader
    from foreload.loader.iterator import LoaderIterator
    from foreload.planning.reading_lists import Reading


@dataclass(frozen=True)
class Prepared:
    """What a loader does since Accelerate prepared it."""

    device: Any = None  # where batches go; None: they stay
    non_blocking: bool = False

    def placed(self, batch: Any) -> Any:
        """A batch where the model is."""
        if self.device is None or self.device.type == "cpu":
            return batch
        send: Any = sys.modules["accelerate.utils"].send_to_device
        return send(batch, self.device, non_blocking=self.non_blocking)


def adopt(loader: DataLoader, prepared: Prepared | None = None) -> None:
    """A loader is prepared; None: nobody said how."""
    if prepared is None:
        prepared = Prepared(sys.modules["accelerate.state"].PartialState().device)
    loader._prepared = prepared
    if loader._samples.stream:
        return
    # What loaders have that Accelerate made.
    order = loader._lists.order
    loader.total_dataset_length = order.entries
    if loader._lists.sampler is None and loader.batch_size is not None:
        loader.total_batch_size = loader.batch_size * order.num_replicas
        loader.batch_sampler.even_batches = order.pad != "none"


class Loop:
    """An iteration over a prepared loader, as Accelerate's GradientState sees it: that knows of the
    loops that are going on, and by the last batch of one it ends the accumulation of gradients."""

    end_of_dataloader = False

    def __init__(self, loader: DataLoader, reading: Reading) -> None:
        self.dataset = loader.dataset
        self.batch_sampler = loader.batch_sampler
        self._count = loader._ranks.count
        self._last, self._padded_from = last_batch(loader, reading)
        # Samples of all ranks in the last batch; Accelerate's name for it.
        self.remainder = -1
        if self._last is not None:
            self.remainder = self._last * self._count - (self._count - self._padded_from)
        weakref.finalize(self, _remove_the_dead).atexit = False
        _gradient_state()._add_dataloader(self)

    def gives(self, last: bool) -> None:
        """The loop gets a batch now."""
        self.end_of_dataloader = last
        state = _gradient_state()
        if state.active_dataloader is not self:  # another loop got a batch since
            state._remove_dataloader(self)
            state._add_dataloader(self)

    def end(self) -> None:
        """The loop is over."""
        _gradient_state()._remove_dataloader(self)

    def trimmed(self, gathered: Any) -> Any:
        """Rows that all ranks have gathered, one rank after the other, without those too much: the
        padding of the last batch, and what was not made for samples of it."""
        if self._last is None or not hasattr(gathered, "__len__") or not _rows(gathered):
            return gathered
        of_rank, odd = divmod(len(gathered), self._count)
        if odd or of_rank < self._last:  # these are no rows of samples
            return gathered
        kept = [
            gathered[rank * of_rank : rank * of_rank + self._last - (rank >= self._padded_from)]
            for rank in range(self._count)
        ]
        if isinstance(gathered, list):
            return [entry for part in kept for entry in part]
        return sys.modules["torch"].cat(kept)


def _rows(gathered: Any) -> bool:
    return getattr(gathered, "ndim", 1) > 0


def _gradient_state() -> Any:
    return sys.modules["accelerate.state"].GradientState()


def _remove_the_dead() -> None:
    state = _gradient_state()
    alive = [loop for loop in state.dataloader_references if loop is not None]
    state.dataloader_references = [None, *alive]


def last_batch(loader: DataLoader, reading: Reading) -> tuple[int | None, int]:
    """Samples in the last batch of every rank, and the rank from which on the last of them is
    padding; None where ranks have lists of their own."""
    order = loader._lists.order
    count = order.num_replicas
    if loader._lists.sampler is not None or order.pad == "none" or not reading.batches:
        return None, count
    length = order.length(reading.place.consumed)
    rest = (order.entries - reading.place.consumed) % count
    whole = reading.batches * loader._lists.batch_size
    if whole < length:  # drop_last leaves the end out
        return loader._lists.batch_size, count
    padded = order.pad == "repeat" and rest > 0
    return length - whole + loader._lists.batch_size, rest if padded else count


class Skipping:
    """A loader whose next epoch begins after some batches. A state that was loaded says where in
    the epoch to go on, and says it better: then nothing is skipped besides."""

    def __init__(self, loader: DataLoader, batches: int) -> None:
        self._loader = loader
        self._batches = batches

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # a loader to whoever asks, as Accelerate's own wrappers are
        return type(self._loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def __len__(self) -> int:
        return max(0, len(self._loader) - self._batches)

    def __iter__(self) -> LoaderIterator:
        return self._loader._iterate(self._batches)


def lead_past(own: type[DataLoader]) -> None:
    """Let Accelerate keep loaders of this class as they are, if the program uses Accelerate."""
    accelerator: Any = getattr(sys.modules.get("accelerate.accelerator"), "Accelerator", None)
    if accelerator is None or hasattr(accelerator.prepare_data_loader, "_by_foreload"):
        return
    prepare, gather = accelerator.prepare_data_loader, accelerator.gather_for_metrics

    def prepare_data_loader(
        self: Any, data_loader: Any, device_placement: Any = None, *more: Any, **named: Any
    ) -> Any:
        if not isinstance(data_loader, own):
            return prepare(self, data_loader, device_placement, *more, **named)
        _check_ranks(data_loader, self.num_processes)
        placed = self.device_placement if device_placement is None else device_placement
        device = self.device if placed else None
        adopt(data_loader, Prepared(device, bool(self.non_blocking)))
        if all(one is not data_loader for one in self._dataloaders):
            self._dataloaders.append(data_loader)
        return data_loader

    def gather_for_metrics(
        self: Any, input_data: Any, use_gather_object: bool = False, **named: Any
    ) -> Any:
        loop = self.gradient_state.active_dataloader
        if not isinstance(loop, Loop) or loop._count != self.num_processes:
            return gather(self, input_data, use_gather_object, **named)
        remainder, loop.remainder = loop.remainder, 0  # so that all rows are given
        try:
            gathered = gather(self, input_data, use_gather_object, **named)
        finally:
            loop.remainder = remainder
        if not loop.end_of_dataloader:
            return gathered
        if isinstance(gathered, list) and (use_gather_object or not _tensors_only(input_data)):
            return loop.trimmed(gathered)
        return _applied(loop.trimmed, gathered)

    accelerator.prepare_data_loader = _like(prepare_data_loader, prepare)
    accelerator.gather_for_metrics = _like(gather_for_metrics, gather)
    _lead_past_skipping(sys.modules["accelerate.data_loader"].skip_first_batches, own)


def _check_ranks(loader: DataLoader, processes: int) -> None:
    ranks = loader._ranks
    if ranks.count != processes and ranks.found != "arguments" and loader._lists.sampler is None:
        raise ValueError(
            f"this DataLoader was made for {ranks.count} ranks, but Accelerate has {processes} "
            "processes: make the loader after the Accelerator, or give rank= and world_size="
        )


def _like(function: Any, original: Any) -> Any:
    function.__doc__, function._by_foreload = original.__doc__, True
    return function


def _applied(function: Any, data: Any, **named: Any) -> Any:
    """A function of every tensor in lists and dicts."""
    return sys.modules["accelerate.utils"].recursively_apply(function, data, **named)


def _tensors_only(data: Any) -> bool:
    try:
        _applied(lambda tensor: tensor, data, error_on_other_type=True)
    except TypeError:
        return False
    return True


def _lead_past_skipping(function: Any, own: type[DataLoader]) -> None:
    """Programs import this function by its name, so it stays the same object with other code."""
    original = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__
    )

    def skipping(dataloader: Any, num_batches: int = 0, *more: Any, **named: Any) -> Any:
        if type(dataloader) is Skipping:
            return Skipping(dataloader._loader, dataloader._batches + num_batches)
        if isinstance(dataloader, own):
            return Skipping(dataloader, num_batches)
        return original(dataloader, num_batches, *more, **named)

    function.__globals__["_skipping_by_foreload"] = skipping
    function.__code__ = _other_code.__code__
    function.__defaults__ = None


def _other_code(*arguments: Any, **named: Any) -> Any:
    return _skipping_by_foreload(*arguments, **named)  # type: ignore[name-defined]  # noqa: F821
