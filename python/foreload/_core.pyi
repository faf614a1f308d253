# SPDX-License-Identifier: Apache-2.0
"""The C++ side of foreload; import foreload instead."""

import builtins
import os
from collections.abc import Callable, Sequence
from typing import Any, final, overload

import numpy as np
import numpy.typing as npt

__version__: str

NO_OWNER: int
"""Stands in `Plan.owners` for a sample that nobody keeps."""

class CorruptError(ValueError):
    """Bytes were read but are not what was written."""

def parse_bytes(text: str) -> int:
    """Bytes of a size with a unit: "2GiB" or "2G", "2GB", "512MiB", "12345B"."""

def format_bytes(bytes: int) -> str:
    """A number of bytes for people: "134.4 GiB"."""

def judge(figures: str) -> str:
    """The verdict on the figures of an epoch or a run, both as JSON."""

def nearest(name: str, names: Sequence[str]) -> str: ...
def check_output_file(what: str, file: str | os.PathLike[str]) -> None: ...

@final
class Index:
    """Which samples a data set has, how large they are, and their labels.

    Made by Index.from_folder(), Index.from_list() or Index.load(); never changes.
    """

    @staticmethod
    def from_folder(
        path: str | os.PathLike[str], extensions: str | Sequence[str] | None = None
    ) -> Index:
        """The samples of a folder; see foreload.list_folder()."""
    @staticmethod
    def from_list(path: str | os.PathLike[str]) -> Index:
        """The samples of a file list: one path per line, relative to the list's folder or
        absolute, and a tab and a label where there are labels."""
    @staticmethod
    def open(path: str | os.PathLike[str], extensions: str | Sequence[str] | None = None) -> Index:
        """The samples of a folder, a file list or an index file, whichever it is."""
    @staticmethod
    def load(path: str | os.PathLike[str]) -> Index:
        """Open an index that was saved; reads neither folders nor samples."""
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to a file, whole or not at all."""
    def sample(self, number: int) -> tuple[str, int, list[tuple[str, int, int]]]:
        """Name and label of a sample, and object, first byte and length of each of its parts."""
    @property
    def plain(self) -> bool:
        """Whether each sample is a whole file."""
    def read(self, number: int, store: str | os.PathLike[str]) -> bytes:
        """The bytes of a sample, from the store that its objects are in: a folder or an address."""
    def __len__(self) -> int: ...
    @property
    def names(self) -> list[str]:
        """Name of each sample's file, relative to the folder."""
    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Bytes of each sample, -1 where nobody knows."""
    @property
    def labels(self) -> npt.NDArray[np.int64]:
        """Label of each sample, an index into `classes`."""
    @property
    def classes(self) -> list[str]:
        """Name of each label; empty for a flat folder."""
    @property
    def fingerprint(self) -> str:
        """Says which samples these are; equal for equal names in equal order."""

class OrderSettings:
    """Which order samples come in."""

    @overload
    def __init__(self, name: str) -> None: ...
    @overload
    def __init__(self, weights: npt.NDArray[np.float64], draws: int) -> None: ...
    def as_given(self) -> OrderSettings: ...
    @property
    def kind(self) -> str:
        """Its name, or that of what it is like."""
    @property
    def given(self) -> bool:
        """Whether lists of one rank alone are given, epoch by epoch."""
    def entries(self, samples: int) -> int:
        """How many samples an epoch has."""
    def identity(self, samples: int) -> str:
        """What must be the same for it to be the same order, the seed apart."""

@final
class Epoch:
    """The order in which one epoch visits samples."""

    def __init__(self, order: OrderSettings | str, samples: int, seed: int, epoch: int) -> None: ...
    @staticmethod
    def given(samples: int, ids: npt.NDArray[np.int64]) -> Epoch: ...
    def __len__(self) -> int: ...
    def reading_list(
        self, ranks: int, rank: int | None, pad: str, start: int, limit: int | None
    ) -> npt.NDArray[np.int64]: ...
    def find(self, sample: int, ranks: int, pad: str, start: int) -> tuple[int, int] | None: ...

@final
class Sizes:
    """Bytes of every sample."""

    @staticmethod
    def normal(samples: int, mean: int, sigma: int, seed: int) -> Sizes: ...
    @staticmethod
    def of(bytes: npt.NDArray[np.int64]) -> Sizes: ...
    @staticmethod
    def of_index(index: Index) -> Sizes: ...
    def __len__(self) -> int: ...

@final
class Plan:
    """What a training job reads, keeps where, and costs; made by foreload.plan()."""

    @property
    def samples(self) -> int:
        """Number of samples."""
    @property
    def ranks(self) -> int:
        """Number of ranks."""
    @property
    def epochs(self) -> int:
        """Number of epochs planned for, also where nobody said how many there will be."""
    @property
    def placement(self) -> str:
        """Placement used; a data set too large to count reads gets 'computed'."""
    @property
    def dataset_bytes(self) -> int:
        """Bytes of all samples."""
    @property
    def cache_bytes(self) -> int:
        """Bytes that all ranks together can keep."""
    @property
    def source_bytes(self) -> int:
        """Bytes read from the source over the whole job."""
    @property
    def source_bytes_lower_bound(self) -> int:
        """The least that any cache of this size could read from the source."""
    @property
    def coverage(self) -> float:
        """Share of samples that somebody keeps."""
    @property
    def local_read_fraction(self) -> float:
        """Share of reads served by the reader's own memory or disk."""
    @property
    def peer_read_fraction(self) -> float:
        """Share of reads served by another rank."""
    @property
    def source_read_fraction(self) -> float:
        """Share of reads served by the source."""
    @property
    def plan_seconds(self) -> float:
        """Time it took to plan."""
    @property
    def peak_rss_bytes(self) -> int:
        """Most memory this process has used so far."""
    @property
    def digest(self) -> str:
        """Equal for equal plans, on every rank and machine."""
    @property
    def access_histogram(self) -> npt.NDArray[np.float64]:
        """Entry c: samples that a rank reads c times, mean over ranks.

        Empty for a computed placement.
        """
    @property
    def owners(self) -> npt.NDArray[np.uint32]:
        """Owner of each sample, NO_OWNER where nobody keeps it: a read-only view."""
    @property
    def tiers(self) -> npt.NDArray[np.uint8]:
        """Tier of each sample at its owner, 0 memory (also without owner), 1 disk: read-only."""
    def reading_list(self, rank: int, epoch: int) -> npt.NDArray[np.int64]:
        """Samples that a rank reads in an epoch, in order."""
    def global_list(self, epoch: int) -> npt.NDArray[np.int64]:
        """Samples that all ranks read in an epoch, rank 0 first in every step."""
    def access_counts(self, rank: int) -> npt.NDArray[np.uint32]:
        """How often a rank reads each sample in the epochs that were counted."""
    def owned_by(
        self, rank: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """What a rank owns, as arrays (samples, tiers, offsets); each tier is packed from 0."""
    def owner_of(self, sample: int) -> tuple[int, int] | None:
        """(rank, tier) that keeps a sample, None if nobody does; for any placement."""
    def to_dict(self) -> dict[str, Any]:
        """All figures, as `foreload plan --json` prints them."""

def make_plan(
    settings: Settings,
    *,
    sizes: Sizes,
    placement: str,
    budgets: Sequence[tuple[int, int]],
    held: npt.NDArray[np.int64] | None,
    threads: int,
) -> Plan: ...

@final
class CompiledTransform:
    """A chain of steps, ready to run."""

    @property
    def random(self) -> bool:
        """Whether two runs with different keys may differ."""
    @property
    def fixed(self) -> bool:
        """Whether all samples get one size."""
    @property
    def dtype(self) -> str:
        """uint8, float32, ...: as torch names it."""
    @property
    def shape(self) -> tuple[int, ...]:
        """Of one sample, as it lies in memory; sides are 0 where sizes differ."""
    def for_masks(self, fill: int = 0, dtype: str = "uint8") -> CompiledTransform:
        """The same transform for masks of the images: what moves pixels is done as to the image of
        the same seed, epoch and position, with nearest pixels; colours are left alone."""
    def run(
        self, data: bytes | memoryview, seed: int, epoch: int, position: int
    ) -> npt.NDArray[Any]:
        """One sample; bfloat16 as uint16."""
    def run_sized(
        self,
        data: bytes | memoryview,
        seed: int,
        epoch: int,
        position: int,
        picture: tuple[int, int] | None = None,
    ) -> tuple[npt.NDArray[Any], tuple[int, int]]:
        """The same, and width and height of the image in the file. ValueError if it is not of the
        size of the `picture` that it is a mask of."""

def compile_transform(
    json: str,
    other: Callable[[bytes, str, bool], npt.NDArray[np.uint8]] | None = None,
    other_name: str = "",
) -> CompiledTransform: ...
def available_cpus() -> int: ...
def wait_for_endings() -> None:
    """Until loaders are gone that were dropped on a thread of their own."""

@final
class LoaderBatch:
    """Samples of one batch, decoded or as bytes."""

    @property
    def epoch(self) -> int:
        """The epoch the batch belongs to."""
    @property
    def first(self) -> int:
        """Position of its first sample in the rank's list of the epoch."""
    @property
    def last(self) -> bool:
        """Whether it is the last one of its epoch."""
    @property
    def indices(self) -> npt.NDArray[np.int64]:
        """Numbers of the samples; a fresh array."""
    @property
    def labels(self) -> npt.NDArray[np.int64]:
        """The class of each sample; a fresh array."""
    @property
    def pixels(self) -> npt.NDArray[Any] | None:
        """All decoded samples, writable, over the batch's memory; bfloat16 as uint16."""
    @property
    def tensor(self) -> Any:
        """The tensor of bytes that begins with the decoded samples, where `make_tensor` made it."""
    @property
    def apart(self) -> list[npt.NDArray[Any]]:
        """Decoded samples one by one, where sizes differ."""
    @property
    def data(self) -> list[memoryview]:
        """The bytes of each sample, read-only, where nothing is decoded."""
    @property
    def parts(self) -> dict[str, Any]:
        """Named parts: all samples in one array, a list of arrays, or of read-only bytes."""
    def __len__(self) -> int: ...

@final
class RunRecord:
    """What a run file says, while the run goes on. Lines are as docs/formats.md says."""

    def __init__(self, file: str, header: str) -> None: ...
    def begin_epoch(self, epoch: int, batches: int, stats: str, ago: float) -> None: ...
    def batch(self, waited: float, samples: int) -> int: ...
    def tell(self, epoch: str, stats: str) -> None: ...
    def moment(self, epoch: str, stats: str) -> None: ...
    def end_epoch(self, epoch: str, stats: str) -> None: ...
    def close(self) -> None: ...
    @property
    def text(self) -> str: ...

class Cache:
    """Memory and disks of this process, for several engines."""

    def __init__(self, budgets: Settings, member: int, members: int) -> None: ...
    @property
    def memory_left(self) -> int: ...
    @property
    def disks_left(self) -> list[int]: ...
    def write_blob(self, name: str, data: bytes | bytearray | memoryview) -> None: ...
    def read_blob(self, name: str) -> bytes | None: ...

class FetchTicket:
    """Samples that were asked for out of order; whoever lets go of it does not want them any more.

    `take` waits for them and also says by place why some cannot be had. ValueError: cancelled, or
    the engine was closed before.
    """

    def take(self) -> tuple[LoaderBatch, dict[int, str]]: ...
    def cancel(self) -> None: ...

class LoaderCore:
    """The engine behind foreload.DataLoader."""

    def next(self, seconds: float | None = None) -> LoaderBatch | None: ...
    def seek(self, epoch: int, start: int) -> None: ...
    def give_list(
        self, samples: npt.NDArray[np.int64], batch_ends: npt.NDArray[np.int64]
    ) -> None: ...
    def fetch(self, samples: npt.NDArray[np.int64], as_bytes: bool = False) -> FetchTicket: ...
    def batches_in(self, epoch: int) -> int: ...
    def close(self) -> None: ...
    @property
    def samples(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def classes(self) -> list[builtins.bytes]: ...
    @property
    def root(self) -> builtins.bytes: ...
    @property
    def index(self) -> Index: ...
    def part_sizes(self, sample: int) -> list[int]: ...
    def name_of(self, sample: int) -> builtins.bytes: ...
    def stats_json(self) -> str: ...
    def start_json(self) -> str: ...
    def epoch_json(self) -> str: ...
    def epoch_figures_json(self) -> str: ...
    def run_figures_json(self) -> str: ...

class Settings:
    """What an engine is opened with: every setting of C++'s table by its name, checked."""

    def __init__(self, **settings: Any) -> None: ...
    def set(self, **settings: Any) -> None:
        """Change some."""
    def set_files(
        self,
        files: list[str],
        ranges: list[list[tuple[int, int, int | None]]],
        part_names: list[str] = ...,
    ) -> None:
        """The files of the data set, what of them samples are made of, and how that is called."""
    def share_folders(self, lane: int, lanes: int) -> None:
        """Which part of the folders of disk caches is its own; budgets are cut to what it needs."""
    @property
    def recorded_json(self) -> str:
        """What the header of a run file says of them."""
    def __getattr__(self, name: str) -> Any: ...

def setting_defaults() -> dict[str, Any]: ...
def open_loader(
    settings: Settings,
    *,
    transform: CompiledTransform | None = None,
    parts: list[tuple[str, CompiledTransform | None, int | None]] = ...,
    make_tensor: Callable[[int], Any] | None = None,
    cache: Cache | None = None,
    meeting: Meeting | None = None,
    meeting_number: int = 0,
    **more: Any,
) -> LoaderCore: ...

class Meeting: ...

def ranks_from_environment(environment: dict[str, str]) -> tuple[int, int, int, int, str]: ...
def arrange_meeting(
    settings: Settings,
    *,
    local_rank: int,
    said_by: str,
    store: tuple[Callable[[str, bytes], object], Callable[[str, float], bytes | None]] | None,
    ucx_package: str,
) -> tuple[Meeting | None, str]: ...

@final
class PackingRule:
    """Which samples are left to a GPU: `share` of 256, by their position in the epoch."""

    def __init__(self, share: int) -> None: ...
    share: int
    def chooses(self, position: int) -> bool: ...

def with_packing(transform: CompiledTransform, rule: PackingRule) -> CompiledTransform:
    """The transform that leaves the samples the rule chooses in their files."""

def pack(files: list[bytes], transform: CompiledTransform, rule: PackingRule, host: Any) -> int:
    """Fill a batch with these files, over and over; how many were left in their files."""

def unpack(host: Any, transform: CompiledTransform, rule: PackingRule) -> list[tuple[int, str]]:
    """Decode on the CPU what was left in its file; what is wrong with which place."""

def decode_rate(
    files: list[bytes], transform: CompiledTransform, threads: int, seconds: float
) -> float:
    """Images per second that so many threads decode."""

@final
class GpuJob:
    """A batch that a GPU decodes; keeps its memory until the GPU is done."""

    def hand_over(self, stream: int) -> str | None:
        """Make the stream wait for it; returns why the GPU cannot do it, if so."""

@final
class GpuDecoder:
    """nvJPEG and resizing on one GPU."""

    def submit(
        self, host: Any, device: Any, transform: CompiledTransform, copies: int
    ) -> GpuJob: ...
    @property
    def in_hardware(self) -> bool: ...
    @property
    def images(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def device_bytes(self) -> int: ...

def open_gpu_decoder(device: int, nvjpeg: str, nvrtc: str, rule: PackingRule) -> GpuDecoder:
    """OSError where the GPU or a library is missing, with what to install."""

@final
class RowColumn:
    """Rows of equal size, somewhere in memory; whoever makes it keeps that memory.

    Args:
        stretches: First row, address of it and bytes to the next row, for consecutive rows at
            equal distances.
        rows: Number of rows.
        item_bytes: Of one item of a row.
        dimensions: How many items and bytes between them, the outermost dimension first.
    """

    def __init__(
        self,
        stretches: npt.NDArray[np.int64],
        rows: int,
        item_bytes: int,
        dimensions: Sequence[tuple[int, int]],
    ) -> None: ...
    def __len__(self) -> int: ...
    @property
    def row_bytes(self) -> int: ...

@final
class BatchMemory:
    """Memory of batches that is used again when nobody has the batch any more.

    Args:
        budget: Bytes in use and kept together; what is beyond is not kept.
    """

    def __init__(self, budget: int) -> None: ...
    def empty(self, dtype: np.dtype[Any], shape: Sequence[int]) -> npt.NDArray[Any]:
        """An array whose content is arbitrary."""

@final
class GatheredRows:
    """A batch whose rows are being gathered."""

    def take(self, seconds: float | None = None) -> Any:
        """The batch, once all its rows are there; TimeoutError if that takes longer."""
    def drop(self) -> None:
        """Nothing more is copied when this returns."""

@final
class MappedFile:
    """Bytes of a file that processes share; it keeps no descriptor."""

    def __init__(self, file: int, bytes: int) -> None: ...
    def __buffer__(self, flags: int) -> memoryview: ...

@final
class RowGatherer:
    """Threads that gather rows of columns into batches.

    Args:
        columns: All have rows with the same numbers.
        memory: Python objects that have the columns' memory.
        threads: None: as many as help.
    """

    def __init__(
        self, columns: Sequence[RowColumn], memory: Any, threads: int | None = None
    ) -> None: ...
    def submit(self, rows: npt.NDArray[np.int64], to: Sequence[int], batch: Any) -> GatheredRows:
        """Begin to copy rows of each column to an address, which is in the memory of `batch`."""
    def times(self) -> tuple[float, float]:
        """Seconds that gathering took so far, of all threads together, and CPU seconds of that."""
    def close(self) -> None:
        """End the threads."""
