# SPDX-License-Identifier: Apache-2.0
"""foreload.DataLoader: torch's DataLoader, with the future known."""

from __future__ import annotations

import atexit
import json
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any, SupportsIndex

import numpy as np

from foreload import _core, transforms
from foreload._arguments import Bytes, maybe_whole, seed_word, size, whole
from foreload._cache import Cache
from foreload._collate import (
    HAVE_TORCH,
    channels_first,
    default_collate,
    default_convert,
    pinned,
    tensor,
)
from foreload._datasets import samples_of
from foreload._device import DeviceFeed, pinned_memory, tensor_of
from foreload._iteration import Iteration, Place
from foreload._memory_core import MemoryBatch, MemoryCore
from foreload._python_transform import Pipeline, SampleMaker
from foreload._ranks import find_ranks
from foreload._reader import Disk, _disks, _profile
from foreload._samplers import OrderSampler, batches_of, draw, draw_batches, ends_of
from foreload._state import Identity, load_state, read_state, save_state, write_state
from foreload._torch_arguments import check_torch_arguments, refuse_together, seed_from
from foreload._waiting import WaitWatch

Batch = _core.LoaderBatch | MemoryBatch
Core = _core.LoaderCore | MemoryCore

_open: weakref.WeakSet[DataLoader] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Threads must not outlive the interpreter's data."""
    for loader in list(_open):
        loader.close()


class DataLoader:
    """Gives the batches of a data set, epoch after epoch; torch's DataLoader with one line changed.

    `for images, labels in loader` is one epoch. With `shuffle` the order is that of torch's
    `DistributedSampler` for (seed, epoch, rank, world size), also with one rank.

    Args:
        dataset: A folder with one sub-folder per class, or a data set object with `.samples`; see
            docs/pytorch.md.
        batch_size: Samples in a batch; None gives single samples.
        shuffle: Whether each epoch has an order of its own.
        sampler: Gives the samples of an epoch. It is iterated when an iteration starts, not before.
        batch_sampler: The same, batch by batch.
        num_workers: Threads that decode; None or 0: the CPUs of this container, shared by the
            ranks on the machine.
        collate_fn: Makes a batch of a list of samples; called in order, in the loop's thread.
        pin_memory: Give tensors in pinned memory, where there is CUDA; images are decoded into it.
        drop_last: Whether a last batch that is not full is left out.
        timeout: Seconds to wait for a batch until RuntimeError; 0 waits for as long as it takes.
        generator: torch generator that one seed is drawn from, now.
        prefetch_factor: Batches that a Python transform works ahead; others need no such number.
        transform: `foreload.transforms`, torchvision's (they are translated), or a function; by
            default the data set's own. See docs/transforms.md.
        target_transform: Function of the class; by default the data set's own.
        batch_transform: Function of the whole batch, applied last.
        image_type: What a function as transform gets: "pil" or "array" (uint8, HWC).
        epochs: Number of epochs; None goes on for as long as the loop does.
        seed: Seed of order and transform.
        order: "torch", or "feistel" for sets too large to shuffle; needs `shuffle`.
        pad: What happens if ranks cannot share samples evenly: "repeat" some, "truncate", or
            "none": some ranks get one sample more (for evaluation).
        return_index: Whether a batch has the numbers of its samples as a third entry.
        rank: This process's number, and
        world_size: how many there are; by default what torch.distributed or the environment says.
        memory: Memory of this machine to keep samples in.
        disk: "FOLDER:SIZE" of a disk cache, or several.
        cache: A `foreload.Cache` to take memory and disk from, instead.
        index, revalidate, extensions, deadline, profile: As for `foreload.Reader`.
        on_error: "raise", or "skip": a bad sample's place takes a good one of its batch.
        device: "cuda", "cuda:1", ...: where batches are handed out; None: in host memory. See
            docs/gpu.md.
        prefetch_to_device: Batches that are on the device before the loop asks for them.
        decoder: "cpu", "gpu" (nvJPEG), or "hybrid": a share is decoded by each.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: SupportsIndex | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Sequence[Any]] | None = None,
        num_workers: SupportsIndex | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Any = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: SupportsIndex | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        transform: Any = None,
        target_transform: Callable[[Any], Any] | None = None,
        batch_transform: Callable[[Any], Any] | None = None,
        image_type: str | None = None,
        epochs: SupportsIndex | None = None,
        seed: SupportsIndex | None = None,
        order: str = "torch",
        pad: str = "repeat",
        return_index: bool = False,
        rank: SupportsIndex | None = None,
        world_size: SupportsIndex | None = None,
        memory: Bytes = 0,
        disk: Disk | Sequence[Disk] | None = None,
        cache: Cache | None = None,
        index: str | os.PathLike[str] | None = None,
        revalidate: bool = False,
        extensions: Sequence[str] | None = None,
        on_error: str = "raise",
        deadline: float = 30.0,
        profile: str | os.PathLike[str] | None = None,
        device: Any = None,
        prefetch_to_device: SupportsIndex = 2,
        decoder: str = "cpu",
    ) -> None:
        self._core: Core | None = None
        self._pipeline: Pipeline | None = None
        self._maker: SampleMaker
        self._python: bool  # makes the samples
        self._waits: WaitWatch
        check_torch_arguments(
            worker_init_fn, multiprocessing_context, pin_memory_device, in_order, timeout
        )
        refuse_together(batch_size, shuffle, sampler, batch_sampler, drop_last)
        if on_error not in ("raise", "skip"):
            raise ValueError(f"on_error is {on_error!r}: use 'raise' or 'skip'")
        if pad not in ("repeat", "truncate", "none"):
            raise ValueError(f"pad is {pad!r}: use 'repeat', 'truncate' or 'none'")
        if order not in ("torch", "feistel"):
            raise ValueError(f"order is {order!r}: use 'torch' or 'feistel'; shuffle says whether")
        if not deadline > 0:
            raise ValueError(f"deadline is {deadline!r}: give seconds above 0")
        if cache is not None and (memory != 0 or disk is not None):
            raise ValueError("cache= and memory= or disk= exclude each other: give one of them")
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._ranks = find_ranks(rank, world_size)
        ranks = self._ranks
        self.dataset = dataset
        self.generator = generator
        self.seed = seed_from(generator) if generator is not None else seed_word(seed or 0)
        if generator is not None and seed is not None:
            raise ValueError("seed= and generator= exclude each other: give one of them")
        self.num_workers = whole("num_workers", num_workers or 0) or max(
            1, _core.available_cpus() // ranks.local
        )
        self.collate_fn = collate_fn
        self.timeout = timeout
        self.drop_last = bool(drop_last)
        self.prefetch_factor = maybe_whole("prefetch_factor", prefetch_factor, 1)
        self.persistent_workers = True
        self.pin_memory = bool(pin_memory) and _can_pin()
        self.return_index = bool(return_index)
        self.batch_transform = batch_transform
        self._epochs = maybe_whole("epochs", epochs, 1)
        self.batch_size: int | None = None
        if batch_sampler is None and batch_size is not None:
            self.batch_size = whole("batch_size", batch_size, 1)
        self._unit = self.batch_size or 1
        self.batch_sampler = batch_sampler
        self._single = batch_size is None and batch_sampler is None  # samples, not batches
        self._feed: DeviceFeed | None = None
        if device is not None:
            ahead = whole("prefetch_to_device", prefetch_to_device, 1)
            self._feed = DeviceFeed(device, ahead, skip_bad_samples=on_error == "skip")

        samples = samples_of(dataset)
        if target_transform is not None:
            samples.target_transform = target_transform
        self._samples = samples
        self._chain: transforms.Compose | None = None
        function = self._choose_transform(transform, image_type)
        compiled = None if self._chain is None else self._chain.compile()
        if self._feed is not None and compiled is not None and compiled.fixed and self._plain():
            assert self._chain is not None
            self._chain = self._feed.take_over(self._chain)
            compiled = self._feed.decode(decoder, self._chain.compile(), samples, self.num_workers)
        elif decoder != "cpu":
            raise ValueError(
                f"decoder={decoder!r} needs device='cuda' and a transform of foreload.transforms "
                "that gives images of one size, without collate_fn"
            )
        self._compiled = compiled
        self._bfloat16 = compiled is not None and compiled.dtype == "bfloat16"
        if self._bfloat16 and not HAVE_TORCH:
            raise ValueError("bfloat16 needs torch, which is not installed: use float16 or float32")
        self._random = compiled is not None and compiled.random
        if self._random and shuffle is None and sampler is None and batch_sampler is None:
            warnings.warn(
                "the transform is random, but shuffle is not set, so samples come in the order of "
                "the data set: give shuffle=True for training, or shuffle=False to say so",
                stacklevel=2,
            )

        self._drawn: Any = sampler if batch_sampler is None else batch_sampler
        self._kind = order if shuffle else "sequential"
        self._pad = pad if ranks.count > 1 else "repeat"
        self._given = self._drawn is not None or self._pad == "none"
        self._iteration = Iteration()
        self._iterated_state: Any = None  # of a sampler that has one, before its last iteration
        settings: dict[str, Any] = {
            "dataset": samples.folder or "",
            "files": samples.files or [],
            "extensions": None if extensions is None else list(extensions),
            "index": "" if index is None else os.fspath(index),
            "revalidate": revalidate,
            "rank": ranks.rank,
            "ranks": ranks.count,
            "order": self._kind,
            "seed": self.seed,
            "pad": "repeat" if self._pad == "none" else self._pad,
            "epochs": None if self._given else self._epochs,
            "batch_size": self._unit,
            "drop_last": self.drop_last,
            "given_lists": self._given,
            "memory": size("memory", memory) // ranks.local,
            "disks": [(folder, bytes // ranks.local) for folder, bytes in _disks(disk)],
            "staging": 0,
            "transform": compiled,
            "threads": self.num_workers if compiled is not None else 0,
            "skip_bad_samples": on_error == "skip",
            "deadline": float(deadline),
            "profile": _profile(profile),
        }
        if compiled is not None and compiled.fixed and (self._feed is not None or self.pin_memory):
            settings["make_tensor"] = pinned_memory
        self._open(settings, cache)
        assert self._core is not None
        if self._feed is not None:
            self._feed.name_of = self._core.name_of
        self._maker = SampleMaker(samples, function, self.seed, self._core.name_of)
        self._python = function is not None or not self._native_samples()
        if self._python:
            self._pipeline = Pipeline(self.num_workers, 1 + (self.prefetch_factor or 2))
        self._waits = WaitWatch(self.num_workers)
        _open.add(self)

    def _plain(self) -> bool:
        """Whether batches are [images, labels] that nobody else puts together."""
        return self.collate_fn is None and not self._single and self._native_samples()

    def _native_samples(self) -> bool:
        """Whether C++ makes the samples, or hands out bytes, all by itself."""
        if self._samples.decode is not None or self._samples.loader is not None:
            return False
        return self._chain is not None or self._samples.folder is not None

    def _choose_transform(self, transform: Any, image_type: str | None) -> Any:
        """Sets what C++ does; returns the function that Python does, if there is one."""
        samples = self._samples
        if image_type not in (None, "pil", "array"):
            raise ValueError(f"image_type is {image_type!r}: use 'pil' or 'array'")
        chosen = samples.transform if transform is None else transform
        if chosen is None:
            return None
        chain = None
        try:
            chain = transforms.native(chosen)
        except ValueError as error:
            warnings.warn(
                f"{error}; the transform runs as it is, in Python threads, which is slower",
                stacklevel=3,
            )
        makes_images = samples.decode is None and samples.loader is None
        if chain is not None:
            if not makes_images:
                raise ValueError(
                    "a transform of foreload.transforms needs images, but the data set makes its "
                    "samples itself, by decode() or a loader of its own: give a function"
                )
            self._chain = chain
            return None
        if not callable(chosen):
            raise TypeError(f"transform is {chosen!r}: give foreload.transforms or a function")
        if makes_images and image_type == "array":
            self._chain = transforms.Compose([transforms.Decode(), transforms.ToLayout("HWC")])
        return chosen

    def _open(self, settings: dict[str, Any], cache: Cache | None) -> None:
        samples = self._samples
        if samples.blobs is not None:
            assert samples.count is not None
            self.sampler = self._sampler_for(samples.count)
            self._core = MemoryCore(
                samples.blobs,
                self._order,
                samples.count,
                self._unit,
                self.drop_last,
                self._given,
            )
        else:
            local = self._ranks.local
            if cache is not None:
                settings["memory"] = cache.memory_left // local
                settings["disks"] = [
                    (folder, left // local) for folder, left in cache.disks_left if left > 0
                ]
            core = _core.open_loader(**settings)
            self._core = core
            if cache is not None:
                taken, _ = cache.take(core.bytes)
                weakref.finalize(self, cache.give_back, taken)
            self.sampler = self._sampler_for(core.samples)
        self._at: tuple[int, int, int] | None = (0, 0, 0)  # where the core is
        self._memory = settings["memory"]
        for warning in json.loads(self._core.start_json())["warnings"]:
            warnings.warn(warning, RuntimeWarning, stacklevel=4)

    def _sampler_for(self, count: int) -> Any:
        self._count = count
        iteration = self._iteration  # the sampler must not keep the loader alive
        self._order = OrderSampler(
            count,
            self._kind,
            self.seed,
            self._ranks.rank,
            self._ranks.count,
            self._pad,
            lambda: iteration.upcoming.epoch,
            iteration.set_epoch,
        )
        return self._order if self._drawn is None else self._drawn

    # How the loop sees it.

    def __len__(self) -> int:
        if self._drawn is None:
            return batches_of(len(self._order), self._unit, self.drop_last)
        if not isinstance(self._drawn, Sized):
            raise TypeError(f"the length of {type(self._drawn).__name__} is not known")
        if self.batch_sampler is not None:
            return len(self._drawn)
        return batches_of(len(self._drawn), self._unit, self.drop_last)

    def __iter__(self) -> Iterator[Any]:
        return LoaderIterator(self)

    def set_epoch(self, epoch: SupportsIndex) -> None:
        """The next iteration is of this epoch."""
        number = whole("epoch", epoch)
        self._iteration.set_epoch(number)
        if self._drawn is not None and hasattr(self._drawn, "set_epoch"):
            self._drawn.set_epoch(number)

    # What a checkpoint keeps.

    def _identity(self) -> Identity:
        assert self._core is not None
        order = "sampler" if self._drawn is not None else self._kind
        seeded = self._random or self._kind != "sequential"
        return Identity(self._core.fingerprint, self._count, order, self.seed if seeded else None)

    def state_dict(self) -> dict[str, Any]:
        """Where the loop is: a small dict for a checkpoint, the same on every rank."""
        self._check_usable()
        sampler = None
        if hasattr(self._drawn, "state_dict"):
            fresh = self._iteration.place is self._iteration.upcoming
            sampler = self._drawn.state_dict() if fresh else self._iterated_state
        state = write_state(self._identity(), self._iteration.place, sampler)
        if self._feed is not None and self._feed.decoding is not None:
            state["gpu_share"] = self._feed.decoding.share
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next iteration goes on where the state was taken, on any number of ranks."""
        self._check_usable()
        place = read_state(self._identity(), state)
        share = state.get("gpu_share", 0)
        if self._feed is not None and self._feed.decoding is not None:
            self._feed.decoding.share = share
            self._at = None  # what was decoded ahead went by another share
        elif share:
            warnings.warn(
                f"the state was written by a run in which the GPU decoded {share} of 256 samples; "
                "images will differ by a few levels: give decoder='hybrid' to go on as before",
                stacklevel=2,
            )
        if self._drawn is not None:
            if "sampler" in state and hasattr(self._drawn, "load_state_dict"):
                self._drawn.load_state_dict(state["sampler"])
            elif hasattr(self._drawn, "set_epoch"):
                self._drawn.set_epoch(place.epoch)
        self._iteration.load(place)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write state_dict() to a file, whole or not at all."""
        save_state(path, self.state_dict())

    def restore(self, path: str | os.PathLike[str]) -> None:
        """load_state_dict() of a file that save() wrote."""
        self.load_state_dict(load_state(path))

    # What happened.

    def stats(self) -> dict[str, Any]:
        """Where bytes came from and where time went, over the whole run."""
        core = self._check_usable()
        place = self._iteration.place
        found: dict[str, Any] = json.loads(core.stats_json())
        found |= json.loads(core.start_json())
        found |= {"epoch": place.epoch, "consumed": place.consumed}
        if self._python:
            found["transform_seconds"] = self._maker.seconds
        found["threads"] = self.num_workers
        if self._feed is not None:
            found["device"] = self._feed.stats()
        return found

    def epoch_stats(self) -> dict[str, Any]:
        """The current epoch as far as it has come, or the last one after its end."""
        found: dict[str, Any] = json.loads(self._check_usable().epoch_json())
        return found

    def __repr__(self) -> str:
        if self._core is None:
            return "<foreload.DataLoader: closed>"
        name = self._samples.folder or type(self.dataset).__name__
        order = "a sampler's order" if self._drawn is not None else "in order"
        if self._drawn is None and self._kind != "sequential":
            order = f"shuffled with seed {self.seed}"
        place = self._iteration.place
        ranks = self._ranks
        return (
            f"<foreload.DataLoader: {name}, {self._count:,} samples in batches of {self._unit}, "
            f"{order}, rank {ranks.rank} of {ranks.count}, {self.num_workers} threads, "
            f"{_core.format_bytes(self._memory)} memory; epoch {place.epoch}, "
            f"{place.consumed:,} consumed>"
        )

    def close(self) -> None:
        """End its threads; it cannot be used any more. Batches stay good."""
        core, self._core = self._core, None
        if core is None or os.getpid() != self._process:
            return
        if self._pipeline is not None:
            self._pipeline.close()
        if self._feed is not None:
            self._feed.restart()
        core.close()

    # How batches are made.

    def _check_usable(self) -> Core:
        if os.getpid() != self._process:
            raise RuntimeError(
                "this DataLoader was made before fork(): its threads are not here; make a loader "
                "of its own in each process, or start processes with spawn"
            )
        if self._core is None:
            raise RuntimeError("this DataLoader is closed: make a new one")
        return self._core

    def _begin(self) -> tuple[int, Place, int]:
        """Start an iteration and bring the core there; the batches of it come last."""
        core = self._check_usable()
        if self._epochs is not None and self._iteration.upcoming.epoch >= self._epochs:
            raise RuntimeError(
                f"epoch {self._iteration.upcoming.epoch} is beyond epochs={self._epochs}: give "
                "more epochs, or leave epochs out"
            )
        drawn = None
        if self._drawn is not None:
            if hasattr(self._drawn, "state_dict"):
                self._iterated_state = self._drawn.state_dict()
            drawn = (
                draw_batches(self._drawn, self._count)
                if self.batch_sampler is not None
                else draw(self._drawn, self._unit, self.drop_last, self._count)
            )
        turn, place = self._iteration.begin()
        if self._pipeline is not None:
            self._pipeline.restart()
        if self._feed is not None:
            self._feed.restart()
        start = 0 if self._drawn is not None else place.consumed
        if self._drawn is None and place.consumed >= self._count:
            return turn, place, 0
        if self._given and drawn is None:
            indices = self._order.indices(place.epoch, start)
            ends = ends_of(len(indices), self._unit, self.drop_last)
            drawn = indices[: int(ends[-1]) if len(ends) else 0], ends
        if drawn is not None and len(drawn[1]) == 0:
            return turn, place, 0
        self._bring_to(core, place.epoch, 0 if self._given else start, drawn is not None)
        if drawn is not None:
            core.give_list(*drawn)
            batches = len(drawn[1])
            if self._drawn is not None:  # a sampler's list cannot be entered in the middle
                for _ in range(min(place.consumed, batches)):
                    self._pull(None)
                batches -= min(place.consumed, batches)
            return turn, place, batches
        return turn, place, core.batches_in(place.epoch)

    def _bring_to(self, core: Core, epoch: int, start: int, given: bool) -> None:
        if self._at is not None and not given and start == 0:
            before, _, received = self._at
            done = received > 0 and received == core.batches_in(before)
            if before + 1 == epoch and done and core.next(None) is None:
                self._at = (epoch, 0, 0)  # the loop left after the last batch, before StopIteration
        if self._at != (epoch, start, 0):
            core.seek(epoch, start)
            self._at = (epoch, start, 0)

    def _pull(self, seconds: float | None) -> Batch | None:
        """The next batch of the core, None at the end of its epoch."""
        core = self._check_usable()
        at, self._at = self._at, None  # nobody knows where it is if this fails
        try:
            batch = core.next(seconds)
        except TimeoutError:
            self._at = at
            raise
        if at is not None:
            epoch, start, received = at
            self._at = (epoch + 1, 0, 0) if batch is None else (epoch, start, received + 1)
        return batch

    def _tasks(self, batch: Batch, start: int) -> list[tuple[Any, ...]]:
        """What the threads need to make each sample."""
        data: Sequence[Any] = batch.data or batch.apart
        count = self._ranks.count
        first = (0 if self._given else start) + batch.first * count + self._ranks.rank
        indices = batch.indices.tolist()
        labels = self._labels(batch, indices)
        return [
            (view, index, label, batch.epoch, (first + i * count) % max(self._count, 1))
            for i, (view, index, label) in enumerate(zip(data, indices, labels, strict=True))
        ]

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

    def _native_batch(self, batch: Batch) -> Any:
        images = self._images(batch)
        indices = batch.indices
        targets = self._samples.targets
        change = self._samples.target_transform
        plain = change is None and (targets is None or isinstance(targets, np.ndarray))
        labels: Any
        if plain and self.collate_fn is None and not self._single:
            labels = tensor(batch.labels if targets is None else np.asarray(targets)[indices])
        else:
            labels = self._labels(batch, indices.tolist())
            if change is not None:
                labels = [change(label) for label in labels]
            if self._single or self.collate_fn is not None:
                return self._collated(list(zip(images, labels, strict=True)), indices.tolist())
            labels = default_collate(labels)
        return [images, labels, tensor(indices)] if self.return_index else [images, labels]

    def _collated(self, samples: list[Any], indices: list[int]) -> Any:
        """A batch of single samples, or the one sample where nothing is batched."""
        if self.return_index:
            samples = [
                (*sample, index) if isinstance(sample, tuple | list) else (sample, index)
                for sample, index in zip(samples, indices, strict=True)
            ]
        if self._single:
            return (self.collate_fn or default_convert)(samples[0])
        return (self.collate_fn or default_collate)(samples)

    def _in_host_memory(self, start: int, seconds: float | None) -> tuple[Any, Any] | None:
        """The next batch where it was made and the numbers of its samples, None at the end."""
        if self._pipeline is None:
            batch = self._pull(seconds)
            return None if batch is None else (self._native_batch(batch), batch.indices)
        made = self._pipeline.next(
            self._pull, lambda batch: self._tasks(batch, start), self._maker, seconds
        )
        if made is None:
            return None
        indices = made[0].indices
        return self._collated(made[1], indices.tolist()), indices

    def _receive(self, start: int) -> Any:
        """The next finished batch, None at the end."""
        seconds = self.timeout or None
        try:
            result: Any
            if self._feed is None:
                made = self._in_host_memory(start, seconds)
                result = None if made is None else made[0]
            else:
                result = self._feed.next(lambda wait: self._in_host_memory(start, wait), seconds)
        except TimeoutError:
            raise RuntimeError(
                f"no batch within timeout={self.timeout:g} seconds: the source or the transform is "
                "slower than that; loader.stats() says which"
            ) from None
        if result is None:
            return None
        if self.pin_memory and self._feed is None:
            result = pinned(result)
        return result if self.batch_transform is None else self.batch_transform(result)

    def _consumed(self, place: Place, batches: int, last: bool) -> int:
        """How much of the epoch is done after that many batches of an iteration."""
        if self._drawn is not None:
            return place.consumed + batches
        if last:
            return self._count
        return min(self._count, place.consumed + batches * self._unit * self._ranks.count)


class LoaderIterator:
    """One iteration over a loader. It begins with the first next(), not before."""

    def __init__(self, loader: DataLoader) -> None:
        self._loader = loader
        self._turn: int | None = None
        self._place = Place(0)
        self._batches = 0
        self._received = 0
        self._over = False

    def __iter__(self) -> LoaderIterator:
        return self

    def __next__(self) -> Any:
        if self._over:
            raise StopIteration
        loader = self._loader
        loader._check_usable()
        with loader._lock:
            if self._turn is None:
                self._turn, self._place, self._batches = loader._begin()
                loader._waits.begin(loader)
            elif not loader._iteration.counts(self._turn):
                raise RuntimeError(
                    "a newer iteration over this DataLoader has begun, which ends this one: use "
                    "one iterator at a time, or a loader for each"
                )
            batch = None
            if self._received < self._batches:
                with loader._waits.waiting():
                    batch = loader._receive(self._place.consumed)
            if batch is None:
                self._end()
                raise StopIteration
            self._received += 1
            last = self._received == self._batches
            consumed = loader._consumed(self._place, self._received, last)
            loader._iteration.received(self._turn, consumed)
            return batch

    def _end(self) -> None:
        """Tell everybody that the epoch is over."""
        loader = self._loader
        self._over = True
        if self._received == self._batches and loader._at is not None and loader._at[2] > 0:
            loader._pull(None)  # the core goes on to the next epoch
        assert self._turn is not None
        loader._iteration.ended(self._turn)
        loader._waits.end(loader)

    def __len__(self) -> int:
        return len(self._loader)


def _can_pin() -> bool:
    """Whether there is anything to pin memory for; warns as torch does."""
    if HAVE_TORCH:
        import torch

        if torch.cuda.is_available():
            return True
    warnings.warn(
        "pin_memory=True is ignored: there is no accelerator to pin memory for", stacklevel=3
    )
    return False
