# SPDX-License-Identifier: Apache-2.0
"""Batches on their way to a device.

A batch is decoded into pinned memory that torch allocated, copied on a stream of its own while the
loop computes on the batches before it, and handed to the loop's stream by an event: nothing ever
waits for the whole device. Memory on both sides belongs to torch, which knows about copies in
flight and about batches that the user keeps.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from foreload import _core, transforms
from foreload._collate import HAVE_TORCH, each_tensor
from foreload.data.bad_samples import Skipped, substitutes
from foreload.data.samples import Samples
from foreload.device.gpu_decoding import ALL, GpuDecoding, agree_on, parse_decoder
from foreload.device.last_steps import Finish, split

# Steps that the loop may be ahead of the device. More keep memory and win nothing; the loop would
# be held up by the device's own queue a little later.
STEPS_AHEAD = 2
# Batches of pinned memory that torch is asked for before the loop begins: what is open in the
# engine, and what is being copied. Asking for it later would hold up everybody who talks to the
# device.
PINNED_BATCHES = 6


# A batch in host memory and the numbers of its samples, None at the end; TimeoutError where it
# takes longer than the seconds given.
Pull = Callable[[float | None], tuple[Any, Any] | None]


def find_device(device: Any) -> Any:
    """torch's device with its number; ValueError where there is none."""
    if not HAVE_TORCH:
        raise ValueError(f"device={device!r} needs torch, which is not installed: leave device out")
    import torch

    found = torch.device(device)
    if found.type != "cuda":
        raise ValueError(
            f"device={str(device)!r} is not supported: use 'cuda', or leave device out"
        )
    if not torch.cuda.is_available():
        raise ValueError(f"device={str(device)!r}: torch sees no GPU here; leave device out")
    if found.index is None:
        found = torch.device("cuda", torch.cuda.current_device())
    if found.index >= torch.cuda.device_count():
        raise ValueError(
            f"device={str(device)!r} does not exist: use cuda:0 to "
            f"cuda:{torch.cuda.device_count() - 1}"
        )
    return found


def find_streams() -> Any:
    """What has streams and events."""
    import torch

    return torch.cuda


def pinned_memory(bytes: int) -> Any:
    """Pinned memory of torch's own: its allocator then knows which copies still read it."""
    import torch

    return torch.empty(bytes, dtype=torch.uint8, pin_memory=True)


def tensor_of(batch: Any, form: _core.CompiledTransform) -> Any:
    """The decoded samples as a view of the tensor they were decoded into; None if that is none."""
    whole = getattr(batch, "tensor", None)
    if whole is None:
        return None
    import torch

    shape = (len(batch), *form.shape)
    dtype = getattr(torch, form.dtype)
    return whole[: math.prod(shape) * dtype.itemsize].view(dtype).view(shape)


@dataclass
class Sent:
    """A batch whose copy has been started."""

    value: Any  # on the device
    host: Any  # the images in host memory
    indices: Any  # numbers of the samples
    copied: Any  # event behind the copy
    job: _core.GpuJob | None  # where the GPU decodes
    bytes: int


class DeviceFeed:
    """Keeps the next batches on their way to one GPU. For the loop's thread."""

    def __init__(self, device: Any, ahead: int, skip_bad_samples: bool = False) -> None:
        self.device = find_device(device)
        self._cuda = find_streams()
        self.decoding: GpuDecoding | None = None
        self._measures = False  # the share of the GPU is not known yet
        self.name_of: Callable[[int], bytes] | None = None
        self._skip = skip_bad_samples
        self._finish: Finish | None = None
        self._channels_at = 1
        self._ahead = ahead
        self._stream = self._cuda.Stream(self.device)
        self._sent: deque[Sent | None] = deque()  # None: the end of an epoch
        # Events of the loop's stream, one per step begun, and what the GPU worked on before it.
        self._handed: deque[tuple[Any, Any]] = deque()
        self._job: _core.GpuJob | None = None  # of the batch handed out last
        self._runs_on = False  # after the end of an epoch the next one's batches come
        self._over = False  # nothing more comes in this iteration
        self._failed: BaseException | None = None  # told when its turn comes, and from then on
        self._batches = self._bytes = self._most_bytes = self._late = self._idle = 0
        self._unpacked = 0
        self.skipped = Skipped()

    def take_over(self, chain: transforms.Compose) -> transforms.Compose:
        """Do the last steps of the chain on the device; returns the ones that are left."""
        left, self._finish = split(chain)
        last = any(
            isinstance(step, transforms.ToLayout) and step.to_dict()["layout"] == "hwc"
            for step in chain.transforms
        )
        self._channels_at = 3 if last and not chain.channels_last else 1
        if self._finish is not None:
            self._finish.prepare(self.device)
        return left

    def decode(
        self, decoder: str, form: _core.CompiledTransform, samples: Samples
    ) -> _core.CompiledTransform:
        """Let the GPU decode what `decoder` says; returns what is left for the CPU. Where that is
        to be measured, settle() must follow."""
        share = parse_decoder(decoder)
        if share == 0:
            return form
        if form.dtype != "uint8" or samples.blobs is not None:
            raise ValueError(
                f"decoder={decoder!r} needs image files, and a transform that decodes to uint8: "
                "use decoder='cpu'"
            )
        self.decoding = GpuDecoding(self.device, form)
        self._measures = share is None
        self.decoding.share = ALL if share is None else share
        return self.decoding.form

    def settle(self, core: _core.LoaderCore, threads: int) -> bool:
        """Measure what the GPU shall decode, if that is asked for, with samples that the engine
        reads. Whether it did so: what was decoded ahead went by another share then."""
        if not self._measures or self.decoding is None:
            return False
        self._measures = False
        self.decoding.share = agree_on(self.decoding.measure(core, threads), self.device)
        return True

    def reserve(
        self, make_tensor: Callable[[int], Any], form: _core.CompiledTransform, samples: int
    ) -> None:
        """Let torch have enough pinned memory in its pool for batches of so many samples."""
        import torch

        bytes = samples * math.prod(form.shape) * getattr(torch, form.dtype).itemsize
        _ = [make_tensor(bytes) for _ in range(PINNED_BATCHES)]  # given back all at once

    def restart(self) -> None:
        """Forget what is on its way."""
        self._sent.clear()
        self._over = False
        self._failed = None

    @property
    def ran_on(self) -> bool:
        """Whether batches of the epoch after the loop's are on their way."""
        return None in self._sent

    def begin(self, expected: bool, runs_on: bool) -> bool:
        """An iteration begins; whether what is on its way are its first batches.

        `expected`: it is the epoch after the one that was sent last. `runs_on`: pulling goes on to
        another epoch after this one's end.
        """
        self._runs_on = runs_on
        if expected and self._sent and self._sent[0] is None:
            self._sent.popleft()
            return True
        self.restart()
        return False

    def _to_device(self, tensor: Any) -> Any:
        return tensor.pin_memory().to(self.device, non_blocking=True)

    def _hand_to(self, stream: Any, tensor: Any) -> Any:
        tensor.record_stream(stream)
        return tensor

    def _send(self, batch: Any, indices: Any) -> None:
        moved = 0

        def send(tensor: Any) -> Any:
            nonlocal moved
            moved += tensor.numel() * tensor.element_size()
            return self._to_device(tensor)

        with self._cuda.stream(self._stream):
            value = each_tensor(batch, send)
            copied = self._cuda.Event()
            copied.record(self._stream)
        host, job = None, None
        if self.decoding is not None:
            host = batch[0]
            job = self.decoding.submit(host, value[0], self._stream)
        self._sent.append(Sent(value, host, indices, copied, job, moved))
        self._batches += 1
        self._bytes += moved
        ahead = sum(sent.bytes for sent in self._sent if sent is not None)
        self._most_bytes = max(self._most_bytes, ahead)

    def _fill(self, pull: Pull, seconds: float | None) -> None:
        """Send batches as far as they are there; wait for one if none is on its way."""
        while (
            not self._over and self._failed is None and len(self._sent) <= self._ahead + self.ran_on
        ):
            try:
                made = pull(0.0 if self._sent else seconds)
            except TimeoutError:
                if not self._sent:
                    raise
                return
            except Exception as error:
                if not self._sent:
                    raise
                self._failed = error
                return
            if made is not None:
                self._send(*made)
            elif self._runs_on and not self.ran_on:
                self._sent.append(None)
            else:
                self._over = True

    def next(self, pull: Pull, seconds: float | None) -> Any:
        """The next batch, for the current stream; None at the end."""
        loop = self._cuda.current_stream(self.device)
        begun = self._cuda.Event(blocking=True)
        begun.record(loop)
        self._handed.append((begun, self._job))
        self._job = None
        if len(self._handed) > STEPS_AHEAD:
            self._handed.popleft()[0].synchronize()
        late = not self._sent
        self._fill(pull, seconds)
        if not self._sent:
            if self._failed is not None:
                raise self._failed
            return None
        if late:
            self._late += 1
            self._idle += bool(begun.query())
        if self._sent[0] is None:
            return None  # begin() takes it away
        sent = self._sent.popleft()
        assert sent is not None
        loop.wait_event(sent.copied)
        each_tensor(sent.value, lambda tensor: self._hand_to(loop, tensor))
        if sent.job is not None:
            why = sent.job.hand_over(loop.cuda_stream)
            if why is not None:
                self._unpack(sent)
            self._job = sent.job
        return self._finished(sent.value)

    def _unpack(self, sent: Sent) -> None:
        """The CPU does what the GPU could not; a sample that is bad for both is an error."""
        assert self.decoding is not None
        self._unpacked += 1
        bad = self.decoding.unpack(sent.host)
        sent.value[0].copy_(sent.host, non_blocking=True)
        if not bad:
            return
        if not self._skip or len(bad) == len(sent.host):
            place, what = bad[0]
            self.restart()
            remedy = "remove them, or take larger batches" if self._skip else "set on_error='skip'"
            all_bad = "All samples of its batch are bad: " if self._skip else "Check the file, or "
            self._failed = ValueError(
                f"cannot decode sample {sent.indices[place]} ({self._name(sent, place)}): {what}. "
                f"{all_bad}{remedy}."
            )
            raise self._failed
        for place, good in substitutes(dict(bad), len(sent.host)).items():
            self.skipped.add(self._name(sent, place))
            for entry in sent.value:
                entry[place] = entry[good]

    def _name(self, sent: Sent, place: int) -> str:
        assert self.name_of is not None
        return os.fsdecode(self.name_of(int(sent.indices[place])))

    def _finished(self, value: Any) -> Any:
        if self._finish is None:
            return value
        return [self._finish(value[0], self._channels_at), *value[1:]]

    def stats(self) -> dict[str, Any]:
        """What went to the device, and how often the loop found nothing there."""
        found: dict[str, Any] = {
            "device": str(self.device),
            "batches": self._batches,
            "bytes": self._bytes,
            "most_bytes_ahead": self._most_bytes,
            "late": self._late,
            "idle": self._idle,
        }
        if self.decoding is not None:
            found["decoding"] = self.decoding.stats() | {"batches_left_to_cpu": self._unpacked}
        return found
