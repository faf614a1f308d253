# SPDX-License-Identifier: Apache-2.0
"""What runs in a worker process: tasks come, values go.

A worker uses nothing of the loader that started it. It ends with os._exit, so that nothing runs
that the program has prepared for its own end, and it ends as soon as its channel or its parent is
gone, also in the middle of a task.
"""

from __future__ import annotations

import contextlib
import gc
import mmap
import os
import pickle
import random
import select
import signal
import socket
import struct
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from foreload.workers.shared_batches import Sender

VALUE, ERROR, END = range(3)  # kinds of answers

NUMBER = struct.Struct("<q")
LARGEST_TASK = 16 * 1024  # bytes that are sent as they are; larger ones lie in a file

# The parent's ends of channels, which forked workers must not keep.
parents_ends: weakref.WeakSet[socket.socket] = weakref.WeakSet()


class Job(Protocol):
    """What a worker does; it is sent to the worker once."""

    @property
    def dataset(self) -> Any:
        """For get_worker_info()."""

    def begin(self, worker: int, workers: int) -> Callable[[bytes], Any]:
        """Gives the function that does a task. It raises Ended where there is nothing more."""


class Ended(Exception):
    """A stream is at its end; the value says how it ended."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


@dataclass(frozen=True)
class Post:
    """Who a worker is."""

    worker: int
    workers: int
    seed: int
    init_fn: Callable[[int], Any] | None
    torch: bool  # whether torch is used
    collects: bool  # garbage
    parent: int  # process


def run(post: Post, job: Job, channel: socket.socket, tasks: socket.socket) -> None:
    """Work until the channel ends. Does not return."""
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the loop
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        # What the parent has left to the collector may hold threads that are not here.
        gc.freeze()
        if post.collects:
            gc.enable()
        for end in list(parents_ends):
            end.close()
        _, files, _, _ = socket.recv_fds(channel, 1, 1)
        wanted = mmap.mmap(files[0], mmap.PAGESIZE, prot=mmap.PROT_READ)
        os.close(files[0])
        threading.Thread(target=_end_with, args=(channel, post.parent), daemon=True).start()
        _work(post, job, Sender(channel), tasks, wanted)
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 1
    except (EOFError, ConnectionError):
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        _flush()
        os._exit(status)


def _end_with(channel: socket.socket, parent: int) -> None:
    """End when the parent closes the channel, or when the parent ends and others have the channel
    open still."""
    waiting = select.poll()
    waiting.register(channel, select.POLLRDHUP)
    try:
        waiting.register(os.pidfd_open(parent), select.POLLIN)
    except ProcessLookupError:
        os._exit(0)
    except OSError:
        pass  # the system has no pidfd_open: the channel has to do
    waiting.poll()
    os._exit(0)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError, OSError):
            stream.flush()


def _work(post: Post, job: Job, sender: Sender, tasks: socket.socket, wanted: mmap.mmap) -> None:
    failed: Failure | None = None
    try:
        _prepare(post, job.dataset, sender)
        if post.init_fn is not None:
            post.init_fn(post.worker)
        do = job.begin(post.worker, post.workers)
    except Exception as error:
        failed = failure_of(error, post.worker)
    while True:
        number, body = _next(tasks)
        if number < NUMBER.unpack_from(wanted)[0]:
            continue  # nobody waits for it any more
        begin, cpu_begin = time.perf_counter(), time.thread_time()
        kind, value = ERROR, failed
        if failed is None:
            try:
                kind, value = VALUE, do(body)
            except Ended as end:
                kind, value = END, end.value
            except Exception as error:
                kind, value = ERROR, failure_of(error, post.worker)
        seconds, cpu = time.perf_counter() - begin, time.thread_time() - cpu_begin
        try:
            sender.send(number, kind, value, seconds, cpu)
        except ConnectionError:
            raise
        except Exception as error:  # the value cannot be pickled
            sender.send(number, ERROR, failure_of(error, post.worker), seconds, cpu)
        del value, body
        _flush()


def _next(tasks: socket.socket) -> tuple[int, bytes]:
    message, files, _, _ = socket.recv_fds(tasks, LARGEST_TASK + NUMBER.size, 1)
    if not message:
        raise EOFError
    if files:
        with open(files[0], "rb") as file:
            message = file.read()
    return NUMBER.unpack_from(message)[0], message[NUMBER.size :]


# Before the first task.


def _prepare(post: Post, dataset: Any, sender: Sender) -> None:
    seed = post.seed + post.worker
    random.seed(seed)
    if not post.torch:
        np.random.seed([post.worker, post.seed & 0xFFFFFFFF, post.seed >> 32 & 0xFFFFFFFF])  # noqa: NPY002
        return
    import torch
    from torch.utils.data._utils import worker as torchs_worker

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    words: Any = torchs_worker._generate_state  # type: ignore[no-untyped-call,unused-ignore]
    np.random.seed(words(post.seed, post.worker))  # noqa: NPY002
    set_worker_info(post.worker, post.workers, seed, dataset)
    _collate_into(sender)


def set_worker_info(worker: int, workers: int, seed: int, dataset: Any) -> None:
    """What torch.utils.data.get_worker_info() says."""
    from torch.utils.data._utils import worker as torchs_worker

    torchs_worker._worker_info = torchs_worker.WorkerInfo(
        id=worker, num_workers=workers, seed=seed, dataset=dataset
    )


def _collate_into(sender: Sender) -> None:
    """Let torch's default_collate put tensors where they are sent from, also when a collate_fn of
    the user's calls it. Torch's own way takes a new piece of /dev/shm for each."""
    import torch
    from torch.utils.data._utils import collate

    torchs_own = collate.default_collate_fn_map.get(torch.Tensor)
    if torchs_own is not collate.collate_tensor_fn:
        return  # the user has put something else there

    def stacked(batch: Any, *, collate_fn_map: Any = None) -> Any:
        first = batch[0]
        if first.is_nested or first.layout != torch.strided:
            return torchs_own(batch, collate_fn_map=collate_fn_map)
        memory = None
        if type(first) is torch.Tensor and first.device.type == "cpu" and not first.requires_grad:
            memory = sender.room(first.numel() * first.element_size() * len(batch))
        if memory is None:
            return torch.stack(batch, 0)
        out = torch.frombuffer(memory, dtype=first.dtype).view(len(batch), *first.shape)
        return torch.stack(batch, 0, out=out)

    collate.default_collate_fn_map[torch.Tensor] = stacked


# What went wrong.


@dataclass(frozen=True)
class Failure:
    """An exception on its way to the parent."""

    kind: bytes | None  # its pickled type, where it can be pickled
    name: str
    where: str
    text: str  # its traceback

    def error(self) -> BaseException:
        """The same type again, if it can be made from one message: what torch's DataLoader does."""
        message = f"Caught {self.name} {self.where}.\nOriginal {self.text}"
        try:
            kind: Any = RuntimeError if self.kind is None else pickle.loads(self.kind)
            if kind is KeyError:
                return KeyError(_Message(message))
            made = kind(message=message) if getattr(kind, "message", None) else kind(message)
        except Exception:
            return RuntimeError(message)
        # TimeoutError would say that the batch has not come yet.
        if isinstance(made, BaseException) and not isinstance(made, TimeoutError):
            return made
        return RuntimeError(message)


class _Message(str):
    """KeyError shows its message with repr(), in which no line ends."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def failure_of(error: Exception, worker: int) -> Failure:
    """What the parent is told of an exception."""
    try:
        kind = pickle.dumps(type(error))
    except Exception:
        kind = None
    text = "".join(traceback.format_exception(error))
    return Failure(kind, type(error).__name__, f"in DataLoader worker process {worker}", text)
