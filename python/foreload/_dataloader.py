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

from foreload import _core
from foreload._arguments import Bytes, maybe_whole, one_of, seed_word, size, whole
from foreload._batches import BatchMaker
from foreload._cache import Cache
from foreload._collate import HAVE_TORCH, pinned
from foreload._datasets import samples_of
from foreload._device import DeviceFeed, pinned_memory
from foreload._engine_feed import Core, EngineFeed
from foreload._iteration import Iteration, Place
from foreload._iterator import LoaderIterator
from foreload._joining import meetings
from foreload._makers import Makers, ProcessMakers, ThreadMakers
from foreload._memory_core import MemoryCore
from foreload._pipeline import Pipeline
from foreload._python_transform import SampleMaker
from foreload._ranks import find_ranks
from foreload._reader import Disk, disks_of, profile_of
from foreload._samplers import OrderSampler, batches_of, draw, draw_batches, ends_of
from foreload._state import Identity, load_state, read_state, save_state, write_state
from foreload._torch_arguments import check_torch_arguments, refuse_together, seed_from
from foreload._transform_choice import choose_transform
from foreload._waiting import WaitWatch

_open: weakref.WeakSet[DataLoader] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Threads must not outlive the interpreter's data."""
    for loader in list(_open):
        loader.close()
    _core.wait_for_endings()
    meetings.close()


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
        num_workers: Threads (or processes, see `workers`) that decode; None or 0: the CPUs of
            this container, shared by the ranks on the machine, less one for a loop that feeds a
            device.
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
        image_type: What a function as transform gets: "pil" (an RGB image), "array" (uint8, HWC)
            or "unchanged" (Pillow's image as it is stored, with alpha or grey of 16 bits).
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
        workers: Who runs a function as transform: "thread", or "process" for spawned processes.
        on_error: "raise", or "skip": a bad sample's place takes a good one of its batch.
        device: "cuda", "cuda:1", ...: where batches are handed out; None: in host memory. See
            docs/gpu.md.
        prefetch_to_device: Batches that are on the device before the loop asks for them.
        decoder: "cpu", "gpu" (nvJPEG), or "hybrid": a share is decoded by each.
        transport: How ranks share what they keep: "ucx", "mpi", "none" (each is alone), or "auto";
            see docs/cluster.md. All ranks make their loaders in the same order.
        join_timeout: Seconds to wait for the other ranks.
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
        workers: str = "thread",
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
        transport: str = "auto",
        join_timeout: float = 60.0,
    ) -> None:
        self._core: Core | None = None
        self._pipeline: Pipeline | None = None
        self._engine: EngineFeed
        self._waits: WaitWatch
        check_torch_arguments(
            worker_init_fn, multiprocessing_context, pin_memory_device, in_order, timeout
        )
        refuse_together(batch_size, shuffle, sampler, batch_sampler, drop_last)
        one_of("on_error", on_error, "raise", "skip")
        one_of("pad", pad, "repeat", "truncate", "none")
        one_of("order", order, "torch", "feistel")
        one_of("workers", workers, "thread", "process")
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
        cpus = _core.available_cpus() // ranks.local
        if device is not None and cpus > 4:
            cpus -= 1  # for the loop, which feeds the device
        self.num_workers = whole("num_workers", num_workers or 0) or max(1, cpus)
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
        single = batch_size is None and batch_sampler is None  # samples, not batches
        self._feed: DeviceFeed | None = None
        if device is not None:
            ahead = whole("prefetch_to_device", prefetch_to_device, 1)
            self._feed = DeviceFeed(device, ahead, skip_bad_samples=on_error == "skip")

        samples = samples_of(dataset)
        if target_transform is not None:
            samples.target_transform = target_transform
        self._samples = samples
        chosen = choose_transform(samples, transform, image_type)
        chain = chosen.chain
        compiled = None if chain is None else chain.compile()
        # Whether batches are [images, labels] that nobody else puts together.
        plain = collate_fn is None and not single and not chosen.python
        if self._feed is not None and compiled is not None and compiled.fixed and plain:
            assert chain is not None
            chain = self._feed.take_over(chain)
            compiled = self._feed.decode(decoder, chain.compile(), samples, self.num_workers)
        elif decoder != "cpu":
            raise ValueError(
                f"decoder={decoder!r} needs device='cuda' and a transform of foreload.transforms "
                "that gives images of one size, without collate_fn"
            )
        if compiled is not None and compiled.dtype == "bfloat16" and not HAVE_TORCH:
            raise ValueError("bfloat16 needs torch, which is not installed: use float16 or float32")
        if workers == "process" and not chosen.python:
            raise ValueError(
                "workers='process' is for functions as transforms: C++ runs this one in threads"
            )
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
        self._iteration = Iteration()
        self._iterated_state: Any = None  # of a sampler that has one, before its last iteration
        self._batches = BatchMaker(samples, chain, compiled, collate_fn, single, self.return_index)
        if chosen.python:
            maker = SampleMaker(samples, chosen.function, chosen.unchanged)
            makers: Makers = (
                ProcessMakers(self.num_workers, maker)
                if workers == "process"
                else ThreadMakers(self.num_workers, maker)
            )
            self._pipeline = Pipeline(
                makers, 1 + (self.prefetch_factor or 2), skip=on_error == "skip"
            )
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
            "epochs": None if self._lists_are_given() else self._epochs,
            "batch_size": self._unit,
            "drop_last": self.drop_last,
            "given_lists": self._lists_are_given(),
            "memory": size("memory", memory) // ranks.local,
            "disks": [(folder, bytes // ranks.local) for folder, bytes in disks_of(disk)],
            "staging": 0,
            "transform": compiled,
            "threads": self.num_workers if compiled is not None else 0,
            "skip_bad_samples": on_error == "skip",
            "deadline": float(deadline),
            "profile": profile_of(profile),
        }
        if compiled is not None and compiled.fixed and (self._feed is not None or self.pin_memory):
            settings["make_tensor"] = pinned_memory
        self._core = self._open(settings, cache, transport, join_timeout)
        self._engine = EngineFeed(self._core)
        if self._feed is not None:
            self._feed.name_of = self._core.name_of
        self._waits = WaitWatch(self.num_workers)
        _open.add(self)

    def _lists_are_given(self) -> bool:
        """Whether Python makes the reading list of each epoch."""
        return self._drawn is not None or self._pad == "none"

    def _open(
        self, settings: dict[str, Any], cache: Cache | None, transport: str, join_timeout: float
    ) -> Core:
        samples = self._samples
        self._give_back: weakref.finalize[..., Any] | None = None
        if samples.blobs is not None:
            assert samples.count is not None
            self.sampler = self._sampler_for(samples.count)
            return MemoryCore(samples.blobs, self._order, samples.count, self._unit, self.drop_last)

        def open_joined(given: dict[str, Any]) -> _core.LoaderCore:
            keeps = given["memory"] > 0 or bool(given["disks"])
            meeting, number = meetings.join(self._ranks, transport, join_timeout, keeps)
            joint = {"meeting": meeting, "meeting_number": number, "join_timeout": join_timeout}
            return _core.open_loader(**given | joint)

        if cache is None:
            core = open_joined(settings)
        else:
            core, lane = cache._lend(
                self._ranks,
                lambda memory, disks, lane: open_joined(
                    settings | {"memory": memory, "disks": disks, "lane": lane}
                ),
            )
            self._give_back = weakref.finalize(self, cache._give_back, lane)
        self.sampler = self._sampler_for(core.samples)
        for warning in json.loads(core.start_json())["warnings"]:
            warnings.warn(warning, RuntimeWarning, stacklevel=4)
        return core

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
            self._engine.forget()  # what was decoded ahead went by another share
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
        found |= {"epoch": place.epoch, "consumed": place.consumed, "threads": self.num_workers}
        if self._pipeline is not None:
            found["transform_seconds"] = self._pipeline.seconds
            found["skipped"] = found.get("skipped", 0) + self._pipeline.skipped
            found["skipped_names"] = found.get("skipped_names", []) + self._pipeline.skipped_names
        if self._feed is not None:
            found["device"] = self._feed.stats()
        return found

    def epoch_stats(self) -> dict[str, Any]:
        """The current epoch as far as it has come, or the last one after its end."""
        core = self._check_usable()
        ran_on = self._feed is not None and self._feed.ran_on
        found: dict[str, Any] = json.loads(self._engine.ended if ran_on else core.epoch_json())
        return found

    def __repr__(self) -> str:
        if self._core is None:
            return "<foreload.DataLoader: closed>"
        name = self._samples.folder or type(self.dataset).__name__
        order = "in the order of a sampler" if self._drawn is not None else "in order"
        if self._drawn is None and self._kind != "sequential":
            order = f"shuffled with seed {self.seed}"
        tiers = ", ".join(
            f"{_core.format_bytes(tier['bytes'])} {tier['folder'] or 'memory'}"
            for tier in json.loads(self._core.start_json()).get("tiers", [])
            if tier["bytes"] > 0
        )
        place = self._iteration.place
        ranks = self._ranks
        return (
            f"<foreload.DataLoader: {name}, {self._count:,} samples in batches of {self._unit}, "
            f"{order}, rank {ranks.rank} of {ranks.count}, {self.num_workers} threads, "
            f"{'kept in ' + tiers if tiers else 'nothing kept'}; epoch {place.epoch}, "
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
        if self._give_back is not None:
            self._give_back()

    # How batches come to the iterator.

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
        """Start an iteration and bring the engine there; the number of its batches comes last."""
        if self._epochs is not None and self._iteration.upcoming.epoch >= self._epochs:
            raise RuntimeError(
                f"epoch {self._iteration.upcoming.epoch} is beyond epochs={self._epochs}: give "
                "more epochs, or leave epochs out"
            )
        lists = None
        if self._drawn is not None:
            if hasattr(self._drawn, "state_dict"):
                self._iterated_state = self._drawn.state_dict()
            lists = (
                draw_batches(self._drawn, self._count)
                if self.batch_sampler is not None
                else draw(self._drawn, self._unit, self.drop_last, self._count)
            )
        turn, place = self._iteration.begin()
        if self._pipeline is not None:
            self._pipeline.restart()
        skip = 0
        if self._drawn is not None:  # a sampler's list cannot be entered in the middle
            assert lists is not None
            skip = min(place.consumed, len(lists[1]))
        elif place.consumed >= self._count:
            return turn, place, 0
        elif self._pad == "none":
            indices = self._order.indices(place.epoch, place.consumed)
            ends = ends_of(len(indices), self._unit, self.drop_last)
            lists = indices[: int(ends[-1]) if len(ends) else 0], ends
        if self._feed is not None:
            expected = lists is None and self._engine.stands_in(place.epoch, place.consumed)
            last = self._epochs is not None and place.epoch + 1 >= self._epochs
            runs_on = not (last or self._lists_are_given() or self._pipeline is not None)
            if self._feed.begin(expected, runs_on):
                return turn, place, self._check_usable().batches_in(place.epoch)
        if lists is None:
            return turn, place, self._engine.begin(place.epoch, place.consumed)
        if len(lists[1]) == skip:
            return turn, place, 0
        return turn, place, self._engine.begin_list(place.epoch, lists, skip)

    def _in_host_memory(self, start: int, seconds: float | None) -> tuple[Any, Any] | None:
        """The next batch where it was made and the numbers of its samples, None at the end."""
        if self._pipeline is None:
            batch = self._engine.pull(seconds)
            return None if batch is None else (self._batches.native(batch), batch.indices)
        core = self._check_usable()
        made = self._pipeline.next(
            self._engine.pull,
            lambda batch: self._batches.tasks(
                batch, self._ranks, self.seed, start, self._count, core.name_of
            ),
            seconds,
        )
        if made is None:
            return None
        return self._batches.collated(made.samples, made.indices.tolist()), made.indices

    def _receive(self, consumed: int) -> tuple[Any] | None:
        """The next finished batch of an iteration that began after so many samples; None at the
        end."""
        seconds = self.timeout or None
        start = consumed if self._drawn is None else 0
        result: Any
        try:
            if self._feed is None:
                made = self._in_host_memory(start, seconds)
                if made is None:
                    return None
                result = made[0]
            else:
                result = self._feed.next(lambda wait: self._in_host_memory(start, wait), seconds)
                if result is None:
                    return None
        except TimeoutError:
            raise RuntimeError(
                f"no batch within timeout={self.timeout:g} seconds: the source or the transform is "
                "slower than that; loader.stats() says which"
            ) from None
        if self.pin_memory and self._feed is None:
            result = pinned(result)
        return (result if self.batch_transform is None else self.batch_transform(result),)

    def _consumed(self, place: Place, batches: int, last: bool) -> int:
        """How much of the epoch is done after that many batches of an iteration."""
        if self._drawn is not None:
            return place.consumed + batches
        if last:
            return self._count
        return min(self._count, place.consumed + batches * self._unit * self._ranks.count)


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
