# SPDX-License-Identifier: Apache-2.0
"""foreload.DataLoader: torch's DataLoader, with the future known."""

from __future__ import annotations

import atexit
import inspect
import json
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

from foreload import _core
from foreload._arguments import maybe_whole, path_of, whole
from foreload._collate import HAVE_TORCH, default_collate, default_convert
from foreload._keywords import takes_settings
from foreload._settings import LoaderSettings
from foreload._torch_base import LoaderBase, batches_by
from foreload.cluster.joining import meetings
from foreload.cluster.ranks import find_ranks
from foreload.data.iterable_style import StreamCore
from foreload.data.map_style import ListCore
from foreload.data.python_data import PythonData, core_of
from foreload.data.rows import RowMaker
from foreload.data.samples import samples_of
from foreload.data.stream_copy import has_state
from foreload.device.feed import DeviceFeed, pinned_memory
from foreload.engine.cache import Cache
from foreload.engine.opening import engine_settings, open_engine
from foreload.loader.batch_maker import BatchMaker
from foreload.loader.changes import Changes, Copies, look_of, watch_dataset
from foreload.loader.delivery import Delivery, Run
from foreload.loader.engine_feed import Core
from foreload.loader.folder_dataset import FolderDataset
from foreload.loader.iterator import LoaderIterator
from foreload.loader.state import Identity, load_state, read_state, save_state, write_state
from foreload.loader.torch_arguments import (
    DrawnSeed,
    batch_size_of,
    can_pin,
    check_choices,
    check_kind,
    check_workers,
    refuse_together,
    seed_of,
    workers_of,
)
from foreload.loader.transform_choice import (
    Chosen,
    Work,
    check_transform,
    choose_transform,
    compile_chain,
)
from foreload.loader.witness import Witness
from foreload.planning.place import Iteration, Place
from foreload.planning.reading_lists import ReadingLists
from foreload.planning.samplers import OrderSampler, batches_of, order_sampler
from foreload.planning.weighted_order import WeightedOrder
from foreload.python_transforms.makers import makers_of
from foreload.python_transforms.one_sample import OneSample
from foreload.python_transforms.pipeline import Pipeline
from foreload.python_transforms.sample_maker import SampleMaker, takes_generator
from foreload.reports.loop_times import WaitWatch
from foreload.reports.run_log import RunLog, output_file, run_file_of
from foreload.reports.verdict import Notices, judge
from foreload.trainers.accelerate import Prepared, adopt, lead_past
from foreload.trainers.fabric import lead_past_counting
from foreload.workers.crew import context_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

# Settings of the engine that a loader takes.
_DEFAULTS = {name: _core.setting_defaults()[name] for name in LoaderSettings.__annotations__}

# What may be set after a loader was made; everything else is part of how it was made.
_FREE = ("timeout", "worker_init_fn", "generator")

_PATIENCE = 2.0  # seconds that close() waits for a thread that is inside next()

_open: weakref.WeakSet[DataLoader] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Threads must not outlive the interpreter's data."""
    for loader in list(_open):
        loader.close()
    _core.wait_for_endings()
    meetings.close()


class DataLoader(LoaderBase):  # type: ignore[misc]
    """Gives the batches of a data set, epoch after epoch; torch's DataLoader with one line changed.

    `for images, labels in loader` is one epoch. With `shuffle` the order is that of torch's
    `DistributedSampler` for (seed, epoch, rank, world size), also with one rank.

    Args:
        dataset: A folder with one sub-folder per class, a text file with one path per line, a data
            set of torchvision's or of your own, rows in memory, or an IterableDataset; see
            docs/pytorch.md.
        batch_size: Samples in a batch; None gives single samples.
        shuffle: Whether each epoch has an order of its own.
        sampler: Gives the samples of an epoch. It is iterated when an iteration starts, not before.
        batch_sampler: The same, batch by batch.
        num_workers: Threads that decode; None or 0: the CPUs of this container, shared by the ranks
            on the machine, less one for a loop that feeds a device. For a data set that is called:
            processes; None: as many, 0: the loop's own process, which is also what a stream gets.
        collate_fn: Makes a batch of a list of samples; called in order, in the loop's thread, or in
            worker processes where there are some.
        pin_memory: Give tensors in pinned memory, where there is CUDA; images are decoded into it.
        drop_last: Whether a last batch that is not full is left out.
        timeout: Seconds to wait for a batch until RuntimeError; 0 waits for as long as it takes.
        worker_init_fn, multiprocessing_context: As in torch, for worker processes.
        generator: torch generator; the seed is drawn from it when the loader is made.
        prefetch_factor: Batches that each worker process, or a Python transform, works ahead.
        persistent_workers: Accepted; workers live as long as the loader. With False they are
            replaced when an iteration begins and the data set is not what it was.
        pin_memory_device, in_order: Only torch's defaults.
        transform: `foreload.transforms`, torchvision's (they are translated), or a function; by
            default the data set's own. See docs/transforms.md.
        target_transform: Function of the class; by default the data set's own.
        batch_transform: Function of the whole batch, applied last; `foreload.transforms.MixUp` and
            `CutMix` are such. One with a parameter `generator` gets numpy's, seeded for the batch.
        image_type: What a function as transform gets: "pil" (an RGB image), "array" (uint8, HWC)
            or "unchanged" (Pillow's image as it is stored, with alpha or grey of 16 bits).
        epochs: Number of epochs; None goes on for as long as the loop does.
        seed: Seed of order and transform.
        order: "torch", "feistel" for sets too large to shuffle, or a `foreload.WeightedOrder`;
            needs `shuffle`.
        pad: What happens if ranks cannot share samples evenly: "repeat" some, "truncate", or
            "none": some ranks get one sample more (for evaluation).
        return_index: Whether a batch has the numbers of its samples as a third entry.
        rank: The number of this process; by default what torch.distributed or the environment says.
        world_size: How many processes there are; by default the same.
        memory: Memory of this machine to keep samples in, like "64GiB"; "auto" is half of what the
            machine, or the control group of this process, has left.
        disk: "FOLDER:SIZE" of a disk cache, or several; the size "auto" is half of what is free.
        per_rank: Whether `memory` and `disk` are for each rank, instead of for all on the machine.
        cache: A `foreload.Cache` to take memory and disk from, instead.
        form: What is kept of samples: "encoded", the files, or "finished", what a transform without
            random steps gives, so that later epochs decode nothing; see docs/caches.md.
        index, revalidate, extensions, deadline, profile: As for `foreload.Reader`.
        workers: Who runs a function as transform: "thread", or "process" for spawned processes.
        objective: What reading saves. "time": where the loop would wait for a copy and the source
            is faster, the source is read. "traffic": never while there is a copy.
        on_error: "raise", or "skip": a good sample of the batch replaces a bad one.
        device: "cuda", "cuda:1", ...: where batches are when the loop gets them; None: in host
            memory. See docs/gpu.md.
        prefetch_to_device: Batches that are on the device before the loop asks for them.
        decoder: "cpu", "gpu" (nvJPEG), or "hybrid": a share is decoded by each.
        transport: How ranks share what they keep: "ucx", "mpi", "host" (all are on one), "none"
            (each is alone), or "auto"; see docs/cluster.md. All ranks make their loaders in the
            same order.
        join_timeout: Seconds to wait for the other ranks at the start.
        peer_timeout: Seconds of silence until another rank is given up.
        run_file: Write a record of the run there, for `foreload report` and `foreload watch`; of
            several ranks each to RUN_FILE.RANK.
    """

    @takes_settings(LoaderSettings)
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
        order: str | WeightedOrder = "torch",
        pad: str = "repeat",
        return_index: bool = False,
        rank: SupportsIndex | None = None,
        world_size: SupportsIndex | None = None,
        cache: Cache | None = None,
        device: Any = None,
        prefetch_to_device: SupportsIndex = 2,
        decoder: str = "cpu",
        run_file: str | os.PathLike[str] | None = None,
        **settings: Unpack[LoaderSettings],
    ) -> None:
        self._core: Core | None = None
        given = {
            name: value for name, value in locals().items() if name not in ("self", "settings")
        }
        given |= _DEFAULTS | settings
        check_choices(given)
        refuse_together(batch_size, shuffle, sampler, batch_sampler, drop_last, order)
        self._begin(given)
        self._read_torch_arguments(given)
        work = self._choose_work(given)
        own = self._open(given, work)
        self._put_together(given, work, own)
        self._observe(given["workers"] == "thread")
        self._show_folder(given, work)
        self._keep_arguments(given)
        _open.add(self)
        lead_past(DataLoader)

    # How it is made, in this order.

    def _begin(self, given: dict[str, Any]) -> None:
        """Who this is, and what it reads."""
        self._process = os.getpid()
        self._lock = threading.Lock()  # held by whoever is inside next()
        self._inside: int | None = None  # that thread
        self._closing = threading.Lock()  # taken once, and for good
        self._ended = False
        ranks = self._ranks = find_ranks(given["rank"], given["world_size"])
        self._record_file = run_file_of(given["run_file"], ranks.rank, ranks.count)
        samples = self._samples = samples_of(given["dataset"])
        if given["target_transform"] is not None:
            samples.target_transform = given["target_transform"]
        self._name = samples.folder or type(given["dataset"]).__name__
        check_kind(samples, given)
        self._settings = engine_settings(
            samples, ranks, given["cache"], {name: given[name] for name in _DEFAULTS}
        )

    def _read_torch_arguments(self, given: dict[str, Any]) -> None:
        """What torch's DataLoader has, as it is meant here."""
        samples = self._samples
        self.seed = seed_of(given["seed"], given["generator"])
        self.num_workers = workers_of(
            given["num_workers"], self._ranks.local, given["device"] is not None, samples
        )
        check_workers(samples, self.num_workers, given)
        self.prefetch_factor = maybe_whole("prefetch_factor", given["prefetch_factor"], 1)
        if samples.makes_itself and self.num_workers > 0 and self.prefetch_factor is None:
            self.prefetch_factor = 2  # as torch says it
        self.pin_memory = bool(given["pin_memory"]) and can_pin()
        self.batch_size: int | None = None
        if given["batch_sampler"] is None and given["batch_size"] is not None:
            self.batch_size = batch_size_of(given["batch_size"])
        # Samples, not batches.
        self._single = given["batch_size"] is None and given["batch_sampler"] is None
        self.drop_last = bool(given["drop_last"])
        self._last_epoch = maybe_whole("epochs", given["epochs"], 1)
        self._iteration = Iteration()

    def _choose_work(self, given: dict[str, Any]) -> Work:
        """Who decodes and transforms: C++, a device, or Python."""
        samples, skips = self._samples, given["on_error"] == "skip"
        self._feed: DeviceFeed | None = None
        if given["device"] is not None:
            ahead = whole("prefetch_to_device", given["prefetch_to_device"], 1)
            self._feed = DeviceFeed(given["device"], ahead, skip_bad_samples=skips)
        chosen = Chosen(None, None, python=False)
        if not samples.makes_itself:
            chosen = choose_transform(
                samples, given["transform"], given["image_type"], given["workers"] == "thread"
            )
        # Whether batches are [images, labels] that nobody else puts together.
        plain = given["collate_fn"] is None and not self._single and not chosen.python
        chain, compiled = compile_chain(
            chosen, self._feed if plain else None, given["decoder"], samples
        )
        check_transform(chosen, compiled, samples, given)
        self._pipeline: Pipeline | None = None
        maker: SampleMaker | None = None
        if chosen.python:
            maker = SampleMaker(samples, chosen.function, chosen.unchanged)
            self._pipeline = Pipeline(
                makers_of(given["workers"], self.num_workers, maker),
                1 + (self.prefetch_factor or 2),
                skip=skips,
            )
        return Work(chosen, chain, compiled, maker)

    def _open(self, given: dict[str, Any], work: Work) -> OrderSampler:
        """The engine, or what stands in its place; gives the order of samples."""
        samples, ranks = self._samples, self._ranks
        order: _core.OrderSettings | str = given["order"] if given["shuffle"] else "sequential"
        if isinstance(order, str):
            order = _core.OrderSettings(order)
        pad = given["pad"] if ranks.count > 1 else "repeat"
        if given["sampler"] is not None or given["batch_sampler"] is not None or pad == "none":
            order = order.as_given()
        self._settings.set(
            order=order,
            seed=self.seed,
            pad="repeat" if pad == "none" else pad,
            epochs=self._last_epoch,
            batch_size=self.batch_size or 1,
            drop_last=self.drop_last,
            threads=self.num_workers if work.native else 0,
        )
        self._recorded: dict[str, Any] = json.loads(self._settings.recorded_json)
        if samples.blobs is not None or samples.makes_itself:
            own = order_sampler(samples.count or 0, order, self.seed, ranks, pad, self._iteration)
            self._core = core_of(
                PythonData(
                    samples,
                    given["collate_fn"],
                    self._single,
                    self.seed,
                    self.num_workers,
                    self.prefetch_factor or 2,
                    given["worker_init_fn"],
                    given["multiprocessing_context"],
                ),
                own,
                self.batch_size,
                self.drop_last,
                self._last_epoch,
            )
        else:
            if order.given:
                self._settings.set(epochs=None)
            self._core = open_engine(
                self._settings,
                ranks,
                given["cache"],
                joins=True,
                transform=work.compiled,
                parts=[] if work.parts is None else work.parts.in_cpp(),
                make_tensor=self._pinned_memory(work),
            )
            count = self._core.samples
            own = order_sampler(count, order, self.seed, ranks, pad, self._iteration)
        return own

    def _pinned_memory(self, work: Work) -> Callable[[int], Any] | None:
        """Where images are decoded to that go on to a device; None: memory as it comes."""
        compiled = work.compiled
        if compiled is None or not compiled.fixed or not (self._feed or self.pin_memory):
            return None
        if self._feed is not None:
            self._feed.reserve(pinned_memory, compiled, self.batch_size or 1)
        return pinned_memory

    def _put_together(self, given: dict[str, Any], work: Work, own: OrderSampler) -> None:
        """What takes a batch from the core to the loop."""
        core, samples, maker = self._check_usable(), self._samples, work.maker
        batch_transform, in_threads = given["batch_transform"], given["workers"] == "thread"
        # Whether C++ gathers rows.
        self._rows = isinstance(core, ListCore) and isinstance(core.maker, RowMaker)
        self._changes = Changes()
        self._watch(work.chosen, given["transform"], copied=not in_threads)
        # What worker processes have a copy of that torch's DataLoader would make anew each time.
        self._copies: Copies | None = None
        apart = samples.makes_itself and not self._rows and self.num_workers > 0
        if apart and not given["persistent_workers"]:
            self._copies = Copies(samples.dataset, given["collate_fn"])
        if self._feed is not None:
            self._feed.name_of = core.name_of
        self._lists = ReadingLists(
            own,
            given["sampler"],
            given["batch_sampler"],
            self.batch_size or 1,
            self.drop_last,
            None if samples.makes_itself else own.samples,
            samples.stream,
        )
        # Whether random numbers of samples or batches may follow from the seed.
        self._uses_seed = (
            work.random
            or (maker is not None and (maker.random or not in_threads))
            or (batch_transform is not None and takes_generator(batch_transform))
            or (samples.makes_itself and not self._rows)
        )
        self._delivery = Delivery(
            core,
            self._lists,
            BatchMaker(
                samples,
                work.chain,
                work.compiled,
                work.parts,
                given["collate_fn"],
                self._single,
                bool(given["return_index"]),
                given["on_error"] == "skip",
                core.name_of,
            ),
            self._pipeline,
            self._feed,
            batch_transform,
            self.pin_memory,
            self._ranks,
            self.seed,
            self._last_epoch,
        )
        feed = self._feed
        if (
            feed is not None
            and isinstance(core, _core.LoaderCore)
            and feed.settle(core, self.num_workers)
        ):
            self._delivery.forget()
        drawn = given["generator"] is not None
        self._seed_is_fresh = drawn and not isinstance(given["seed"], DrawnSeed)
        self._stream_length: int | None = None  # as the loop was told
        self._latest: Run | None = None  # the iteration that was started last
        self._prepared: Prepared | None = None  # by Accelerate

    def _observe(self, in_threads: bool) -> None:
        """What counts, judges and tells."""
        self._failed_batches = 0
        self._delivered = 0  # batches that loops got
        self._waits = WaitWatch()
        self._witness = Witness(
            self._check_usable(),
            self._delivery,
            self._waits,
            self._pipeline,
            self.num_workers,
            in_threads,
            self._feed,
        )
        self._notices = Notices()
        self._log = RunLog(self._record_file, self._about())

    def _show_folder(self, given: dict[str, Any], work: Work) -> None:
        """`loader.dataset` of a folder: what torchvision's would be."""
        core, samples, maker = self._core, self._samples, work.maker
        if isinstance(core, _core.LoaderCore) and samples.folder is not None:
            given["dataset"] = FolderDataset(
                samples.folder,
                os.fsdecode(core.root),
                core.index,
                OneSample(work.chosen.chain, maker, samples.target_transform),
                given["transform"],
                samples.target_transform,
                given["image_type"],
            )

    def _watch(self, chosen: Chosen, transform: Any, copied: bool) -> None:
        """Remember what was read of the data set and of the transform. What is called as it is, in
        this process, may change."""
        samples, changes = self._samples, self._changes
        translated = not samples.makes_itself and not chosen.python
        if samples.called:
            if self._rows or self.num_workers > 0:
                watch_dataset(changes, samples.dataset, copied=not self._rows)
        elif samples.folder is None and not samples.stream:
            watch_dataset(changes, samples.dataset, translated)
        if transform is not None and (translated or copied):
            changes.watch("the transform", lambda: look_of(transform))
        elif chosen.python and copied:
            changes.watch("the transform", lambda: look_of(samples.transform))

    def _keep_arguments(self, given: dict[str, Any]) -> None:
        """What trainers look at, and make a loader from again."""
        context = given.pop("multiprocessing_context")
        self._context = context_of(context) if isinstance(context, str) else context
        for name in ("seed", "num_workers", "prefetch_factor", "pin_memory", "batch_size"):
            del given[name]  # set already, as they were understood
        if given["sampler"] is None:
            given["sampler"] = self._lists.order
        if given["batch_sampler"] is None:
            given["batch_sampler"] = batches_by(
                given["sampler"], self.batch_size, bool(given["drop_last"])
            )
        usual = default_convert if self._single else default_collate
        given["collate_fn"] = given["collate_fn"] or usual
        if not self._samples.makes_itself:  # threads live as long as the loader
            given["persistent_workers"] = True
        self.__dict__.update(given)
        if self.generator is not None:
            self.seed = DrawnSeed(self.seed)
        self._iterator = None  # as torch's loader has it
        self._initialized = True

    # How the loop sees it.

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and getattr(self, "_initialized", False):
            raise ValueError(
                f"{name} cannot be set after the {type(self).__name__} is made: make a new one"
            )
        if name == "worker_init_fn" and isinstance(self._core, ListCore | StreamCore):
            self._core.set_init_fn(value)
        object.__setattr__(self, name, value)

    @property
    def multiprocessing_context(self) -> Any:
        """How worker processes are started: a context of multiprocessing, or None."""
        return self._context

    @property
    def use_stateful_dataloader(self) -> bool:
        """Whether Accelerate keeps the state in its checkpoints: if one is good for all ranks."""
        return not self._samples.stream or self._ranks.count == 1

    @property
    def _is_accelerate_prepared(self) -> bool:
        """Accelerate keeps a loader as it is that says so, and says so to what it has prepared."""
        return True

    @_is_accelerate_prepared.setter
    def _is_accelerate_prepared(self, value: bool) -> None:
        if self._prepared is None:
            adopt(self)
        lead_past(DataLoader)

    def __len__(self) -> int:
        if not self._samples.stream:
            return len(self._lists)
        length = self._stream_length = len(self._samples.dataset)
        return batches_of(length, self._lists.batch_size, self.drop_last)

    def __iter__(self) -> LoaderIterator:
        lead_past(DataLoader)
        return self._iterate()

    def _iterate(self, skip: int = 0) -> LoaderIterator:
        """An iteration that leaves so many batches out."""
        return LoaderIterator(self, skip)

    def _check_beginning(self) -> None:
        """Whether an iteration can begin."""
        self._changes.refuse()
        if self._lists.sampler is None:
            self._samples.check_count()
        if self.timeout and self._samples.makes_itself and self.num_workers == 0 and not self._rows:
            raise ValueError(
                f"timeout={self.timeout:g} is for worker processes: nobody can end a call in the "
                "loop's own process; give num_workers from 1 on, or timeout=0"
            )
        if self._copies is not None and self._copies.outdated():
            core = self._check_usable()
            assert isinstance(core, ListCore | StreamCore)
            core.renew()
            self._delivery.forget()
            self._copies.renew()

    def _draw_as_torch(self) -> None:
        """torch's DataLoader draws a seed for its workers when an iteration begins. A sampler that
        uses the same generator has the same order only if that is drawn here, too. What goes on in
        the middle of an epoch puts generators back to where they were."""
        if self._lists.sampler is None or self._iteration.upcoming.consumed > 0 or not HAVE_TORCH:
            return
        if self._seed_is_fresh:  # drawn from the generator when the loader was made
            self._seed_is_fresh = False
            return
        import torch

        seed_of(None, torch.default_generator if self.generator is None else self.generator)

    def set_epoch(self, epoch: SupportsIndex) -> None:
        """The next iteration is of this epoch."""
        number = whole("epoch", epoch)
        self._iteration.set_epoch(number)
        self._lists.set_epoch(number)

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        raise TypeError(
            "a foreload.DataLoader cannot be pickled or copied: it has threads or processes of its "
            "own; make a loader where it is used, and send state_dict() for its place"
        )

    # What a checkpoint keeps.

    def _identity(self) -> Identity:
        order = self._lists.order
        kind = "sampler"
        if self._lists.sampler is None:
            kind = order.settings.identity(order.samples) if order.samples else order.kind
        seeded = self._uses_seed or order.kind != "sequential"
        fingerprint = self._check_usable().fingerprint
        counted = kind != "sampler" and not self._samples.stream
        seed = int(self.seed) if seeded else None  # no class of foreload's in a checkpoint
        return Identity(fingerprint, order.samples, kind, seed, counted)

    def state_dict(self) -> dict[str, Any]:
        """Where the iteration is that was started last: a small dict for a checkpoint. It is the
        same on every rank, unless there is a sampler that gives each rank a list of its own."""
        run = None if self._iteration.fresh else self._latest
        return self._state_at(self._iteration.place, run)

    def _state_at(self, place: Place, run: Run | None) -> dict[str, Any]:
        """The state at a place of an iteration; None: before one begins."""
        note = self._lists.upcoming_note() if run is None else run.reading.note
        state = write_state(self._identity(), place, note)
        if isinstance(self._core, StreamCore):
            state["stream"] = self._core.state()
        elif self._keeps_state:
            self._check_alone()
            state["data"] = self._samples.dataset.state_dict()
        if self._feed is not None and self._feed.decoding is not None:
            state["gpu_share"] = self._feed.decoding.share
        return state

    @property
    def _keeps_state(self) -> bool:
        """Whether a map-style data set has a state of its own."""
        return self._samples.called and has_state(self._samples.dataset)

    def _check_alone(self) -> None:
        """Whether there is only one copy of a data set that has a state."""
        if self.num_workers > 0:
            raise ValueError(
                f"{self._name} has a state of its own (state_dict), of which each worker process "
                "has another one: give num_workers=0, or let samples depend on their index alone"
            )

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next iteration goes on where the state was taken, on any number of ranks."""
        lead_past_counting(DataLoader)
        place = read_state(self._identity(), state)
        if self._keeps_state:
            self._check_alone()
            if "data" not in state:
                raise ValueError(
                    f"the state has no entry 'data', but {self._name} has a state of its own "
                    "(load_state_dict): use a state that was taken with this class"
                )
        share = state.get("gpu_share", 0)
        if self._feed is not None and self._feed.decoding is not None:
            self._feed.decoding.share = share
            self._delivery.forget()  # what was decoded ahead went by another share
        elif share:
            warnings.warn(
                f"the state was written by a run in which the GPU decoded {share} of 256 samples; "
                "images will differ by a few levels: give decoder='hybrid' to go on as before",
                stacklevel=2,
            )
        if isinstance(self._core, StreamCore):
            self._core.load(state.get("stream"))
            self._delivery.forget()
        self._lists.load_note(state.get("sampler"))
        if self._keeps_state:
            self._samples.dataset.load_state_dict(state["data"])
        self._iteration.load(place)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write state_dict() to a file, whole or not at all."""
        file = output_file("save()", path)
        save_state(file, self.state_dict())

    def restore(self, path: str | os.PathLike[str]) -> None:
        """load_state_dict() of a file that save() wrote."""
        self.load_state_dict(load_state(path_of(path)))

    # What happened.

    def stats(self) -> dict[str, Any]:
        """Where bytes came from and where time went, over the whole run, with the verdict on it."""
        core = self._check_usable()
        place = self._iteration.place
        found: dict[str, Any] = json.loads(core.stats_json())
        found |= json.loads(core.start_json())
        found |= {"epoch": place.epoch, "consumed": place.consumed, "threads": self.num_workers}
        found["delivered"], found["failed_batches"] = self._delivered, self._failed_batches
        if self._pipeline is not None:
            found["transform_seconds"] = self._pipeline.seconds
        if isinstance(core, _core.LoaderCore) or self._pipeline or self._feed:
            found["skipped"] = found.get("skipped", 0) + self._witness.skipped
            found["skipped_names"] = found.get("skipped_names", []) + self._witness.skipped_names()
        if self._feed is not None:
            found["device"] = self._feed.stats()
        found["verdict"] = judge(self._witness.run())
        return found

    def epoch_stats(self) -> dict[str, Any]:
        """The current epoch as far as it has come, or the last one after its end; times are those
        of the loop's thread."""
        core = self._check_usable()
        ran_on = self._feed is not None and self._feed.ran_on
        found = self._log.uncounted()
        found |= json.loads(self._delivery.engine.ended if ran_on else core.epoch_json())
        found["seconds"] = self._waits.seconds
        found["wait_fraction"] = self._waits.fraction
        found["batch_wait_ms"] = self._waits.batch_wait_ms()
        found["verdict"] = judge(self._witness.epoch())
        return found

    def _tell(self, stacklevel: int) -> None:
        """At the end of an epoch: warn of what a loop should know and was not told yet."""
        figures = self._witness.epoch()
        self._notices.waiting(figures, judge(figures), stacklevel)
        self._notices.losses(self._witness.run(), stacklevel)

    def report(
        self, path: str | os.PathLike[str], beside: Sequence[str | os.PathLike[str]] = ()
    ) -> None:
        """Write a page about the run so far; needs matplotlib. docs/report.md says what it shows.

        Args:
            path: The page, like "page.html".
            beside: Run files to compare with, those of `foreload.record()` for instance.
        """
        file = output_file("report()", path)
        from foreload.report import write_page

        write_page(file, self._log.text(self), "this run", beside)

    def _about(self) -> dict[str, Any]:
        """The first line of a run file."""
        core = self._check_usable()
        return {
            "made_by": "foreload.DataLoader",
            "dataset": self._name,
            "samples": core.samples,
            "bytes": core.bytes,
            **self._recorded,
            "threads": self.num_workers,
            "tiers": json.loads(core.start_json()).get("tiers", []),
        }

    def __repr__(self) -> str:
        if self._core is None:
            return "<foreload.DataLoader: closed>"
        lists = self._lists
        name = self._name
        order = "in the order of a sampler" if lists.sampler is not None else "in order"
        if lists.sampler is None and lists.order.kind != "sequential":
            order = f"shuffled with seed {self.seed}"
        start = json.loads(self._core.start_json())
        listing = f"{start['listing']['text']}; " if "listing" in start else ""
        tiers = ", ".join(
            f"{_core.format_bytes(tier['bytes'])} {tier['folder'] or 'memory'}"
            + (f" ({tier['budget_from']})" if tier["budget_from"] else "")
            for tier in start.get("tiers", [])
            if tier["bytes"] > 0
        )
        place = self._iteration.place
        ranks = self._ranks
        who = "worker processes" if self._samples.makes_itself else "threads"
        count = "a stream" if self._samples.stream else f"{lists.order.samples:,} samples"
        return (
            f"<foreload.DataLoader: {name}, {count} in batches of "
            f"{lists.batch_size}, {order}, rank {ranks.rank} of {ranks.count}, "
            f"{self.num_workers} {who}, {'kept in ' + tiers if tiers else 'nothing kept'}; "
            f"{listing}"
            f"epoch {place.epoch}, {place.consumed:,} consumed>"
        )

    def close(self) -> None:
        """End its threads. The loader cannot be used after that; its batches can. Any thread may
        call it: one that is inside next() gets a RuntimeError."""
        core, self._core = self._core, None
        if core is None or os.getpid() != self._process or not self._closing.acquire(False):
            return
        self._delivery.wake()
        self._end(0.0 if self._inside == threading.get_ident() else _PATIENCE)

    def _end(self, patience: float) -> None:
        """End what it consists of, once it is closed, if nobody is inside. Otherwise whoever is
        does that on the way out: a data set may take any time for a sample."""
        if not self._lock.acquire(timeout=patience):
            return
        try:
            if not self._ended:
                self._ended = True
                self._delivery.close()
                self._log.close()
        finally:
            self._lock.release()

    def _check_usable(self) -> Core:
        if os.getpid() != self._process:
            raise RuntimeError(
                "this DataLoader was made before fork(), so its threads do not exist in this "
                "process: make a loader in each process"
            )
        if self._core is None:
            raise RuntimeError("this DataLoader is closed: make a new one")
        return self._core


# Names of arguments that are part of how a loader was made.
_FIXED = frozenset(inspect.signature(DataLoader.__init__).parameters) - {"self", *_FREE}
