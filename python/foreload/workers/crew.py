# SPDX-License-Identifier: Apache-2.0
"""Worker processes: started once, they get tasks and send values back through shared memory."""

from __future__ import annotations

import contextlib
import gc
import math
import mmap
import multiprocessing
import multiprocessing.context
import multiprocessing.util
import os
import pickle
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from foreload import _core
from foreload._interrupts import Undisturbed
from foreload._lost import LostError
from foreload.workers.process import (
    END,
    ERROR,
    LARGEST_TASK,
    NUMBER,
    Ended,
    Job,
    Post,
    parents_ends,
    run,
)
from foreload.workers.shared_batches import Parcel, Receiver

_PATIENCE = 2.0  # seconds that a worker has to end by itself
_GLANCE = 0.05  # seconds after which whoever waits looks whether the loader was closed


def context_of(given: Any) -> Any:
    """The context that a start method, a context or None stands for, as in torch's DataLoader."""
    if given is None or isinstance(given, str):
        known = multiprocessing.get_all_start_methods()
        if given is not None and given not in known:
            raise ValueError(f"multiprocessing_context={given!r} is none of {', '.join(known)}")
        return multiprocessing.get_context(given)
    if not isinstance(given, multiprocessing.context.BaseContext):
        raise TypeError(
            "multiprocessing_context must be the name of a start method or a context of "
            f"multiprocessing, not {type(given).__name__}"
        )
    return given


class _Worker(NamedTuple):
    """One process, as its parent sees it."""

    process: Any
    ended: int  # becomes readable when the process has ended
    channel: socket.socket
    receiver: Receiver


class Crew:
    """Processes that do the tasks of one job. For the loop's thread.

    Args:
        job: What they do.
        workers: How many there are.
        seed: `get_worker_info().seed` of the first of them.
        init_fn: Called in each of them, with its number.
        context: As `multiprocessing_context` of torch's DataLoader.
        torch: Whether torch is used even if the program has not imported it.
        apart: Whether tasks are for certain workers. Otherwise whoever is free takes the next one.
    """

    def __init__(
        self,
        job: Job,
        workers: int,
        seed: int,
        init_fn: Callable[[int], Any] | None,
        context: Any,
        torch: bool,
        apart: bool,
    ) -> None:
        self._job = job
        self._count = workers
        self._seed = seed & (2**62 - 1)
        self._init_fn = init_fn
        self._context = context_of(context)
        self._torch = torch
        self._apart = apart
        self._started = False
        self._collects = True  # garbage
        self._broken: str | None = None  # what is wrong for good
        self._workers: list[_Worker] = []
        self._tasks: list[socket.socket] = []
        self._backlog: list[tuple[socket.socket, bytes, int | None]] = []  # tasks not sent yet
        self._waiting = select.poll()
        self._by_file: dict[int, int] = {}
        self._next = 0
        self._expected: dict[int, Parcel | None] = {}  # by number, in order
        self._file = os.memfd_create("foreload")
        os.ftruncate(self._file, mmap.PAGESIZE)
        # The first task somebody waits for.
        self._oldest = memoryview(_core.MappedFile(self._file, mmap.PAGESIZE))
        self.seconds = 0.0
        self.cpu_seconds = 0.0
        self._end = multiprocessing.util.Finalize(
            self, _end_all, (self._workers, self._tasks, self._file), exitpriority=100
        )

    def set_init_fn(self, init_fn: Callable[[int], Any] | None, apart: bool) -> None:
        """Another worker_init_fn. ValueError once there are workers."""
        if self._started:
            raise ValueError(
                "worker_init_fn cannot be set after the worker processes were started: set it "
                "before the first iteration, or make a new DataLoader"
            )
        self._init_fn, self._apart = init_fn, apart

    # Tasks and values.

    def ask(self, body: bytes, worker: int = 0) -> int:
        """Begin a task; `worker` counts if they are apart. Its number is the ticket."""
        if not self._started and self._broken is None:
            with Undisturbed():  # half of the processes would be of no use
                self._start()
        number, self._next = self._next, self._next + 1
        self._expected[number] = None
        if self._broken is None:
            message, file = NUMBER.pack(number) + body, None
            if len(body) > LARGEST_TASK:
                file = os.memfd_create("foreload")
                with open(file, "wb", closefd=False) as whole:
                    whole.write(message)
                os.lseek(file, 0, os.SEEK_SET)
                message = message[: NUMBER.size]
            tasks = self._tasks[worker % len(self._tasks)]
            self._backlog.append((tasks, message, file))
            self._send()
        return number

    def take(self, number: int, seconds: float | None) -> Any:
        """What a task gives or raises; TimeoutError if it takes longer than that. After that, and
        after an interrupt, it can be asked for again. Ended is raised at the end of a stream."""
        self._wait(number, seconds)
        if self._broken is not None:
            raise LostError(self._broken)
        parcel = self._forget(number)
        assert parcel is not None
        self.seconds += parcel.seconds
        self.cpu_seconds += parcel.cpu
        value = parcel.open()
        if parcel.kind == END:
            raise Ended(value)
        if parcel.kind == ERROR:
            raise value.error()
        return value

    def _wait(self, number: int, seconds: float | None) -> None:
        until = None if seconds is None else time.monotonic() + seconds
        self._receive(0)
        while self._broken is None and self._expected[number] is None:
            left = _GLANCE if until is None else until - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._receive(min(left, _GLANCE))

    def drop(self, number: int) -> None:
        """Nobody waits for it any more."""
        self._forget(number)

    def _forget(self, number: int) -> Parcel | None:
        parcel = self._expected.pop(number, None)  # an interrupt may have come after this
        NUMBER.pack_into(self._oldest, 0, next(iter(self._expected), self._next))
        return parcel

    def wake(self) -> None:
        """Whoever waits gives up within a glance; close() follows. Any thread may call it."""
        self._broken = "the loader is closed"

    def close(self) -> None:
        """End all processes."""
        self.wake()
        self._end()

    def renewed(self) -> Crew:
        """Another crew, whose processes get the job as it is now, and the end of this one. What was
        asked for is gone. One that is broken stays as it is."""
        if not self._started or self._broken is not None:
            return self
        self.close()
        made = Crew(
            self._job,
            self._count,
            self._seed,
            self._init_fn,
            self._context,
            self._torch,
            self._apart,
        )
        made.seconds, made.cpu_seconds = self.seconds, self.cpu_seconds
        return made

    # Processes.

    def _start(self) -> None:
        self._started = True
        theirs: list[socket.socket] = []
        forkserver = self._context.get_start_method() == "forkserver"
        # The server would keep what is blocked, and hand it on to processes that are not ours.
        blocked = [] if forkserver else [signal.SIGINT]
        before = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
        self._collects = gc.isenabled()
        gc.disable()  # a forked worker must not collect what the program has left
        try:
            for _ in range(self._count if self._apart else 1):
                here, there = _pair()
                self._tasks.append(here)
                self._waiting.register(here, 0)
                theirs.append(there)
            for worker in range(self._count):
                self._start_one(worker, theirs[worker % len(theirs)])
        except BaseException as error:
            why = str(error) or type(error).__name__
            self._broken = f"worker processes could not be started: {why}"
            self._end()
            raise
        finally:
            if self._collects:
                gc.enable()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            for there in theirs:
                there.close()

    def _start_one(self, worker: int, tasks: socket.socket) -> None:
        here, there = _pair()
        torch = self._torch or "torch" in sys.modules
        post = Post(
            worker, self._count, self._seed, self._init_fn, torch, self._collects, os.getpid()
        )
        process = self._context.Process(
            target=run, args=(post, self._job, there, tasks), daemon=True
        )
        try:
            process.start()
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise TypeError(
                "cannot send the data set to worker processes: define its class, collate_fn and "
                "worker_init_fn at the top level of a module, or give multiprocessing_context="
                f"'fork' ({error})"
            ) from error
        finally:
            there.close()
        ended = _ended(process)
        self._workers.append(_Worker(process, ended, here, Receiver(here)))
        self._by_file |= {here.fileno(): worker, ended: worker}
        self._waiting.register(here, select.POLLIN)
        self._waiting.register(ended, select.POLLIN)
        with contextlib.suppress(ConnectionError):  # it has ended already, which will be noticed
            socket.send_fds(here, [b"\0"], [self._file])

    def _send(self) -> None:
        """Send as many tasks as the channels take now."""
        left = []
        # After an interrupt nobody waits for these: the loop asks anew.
        backlog, self._backlog = self._backlog, []
        for tasks, message, file in backlog:
            files = [] if file is None else [file]
            try:
                socket.send_fds(tasks, [message], files, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            except BlockingIOError:
                left.append((tasks, message, file))
                continue
            except ConnectionError:
                pass  # its process has ended, which will be noticed
            if file is not None:
                os.close(file)
        self._backlog = left
        full = {tasks for tasks, _, _ in left}
        for tasks in self._tasks:
            self._waiting.modify(tasks, select.POLLOUT if tasks in full else 0)

    def _receive(self, seconds: float) -> None:
        """Take in what has come, or wait so long for something."""
        if self._broken is not None:
            return
        events = self._waiting.poll(math.ceil(seconds * 1e3))
        if events:
            with Undisturbed():  # what has come would be lost
                self._take_in(events)

    def _take_in(self, events: list[tuple[int, int]]) -> None:
        ended = []
        for file, _ in events:
            worker = self._by_file.get(file)
            if worker is None:
                self._send()
            elif file == self._workers[worker].ended:
                ended.append(worker)
            elif not self._read(self._workers[worker]):
                self._waiting.unregister(file)  # the process is about to end
        if ended and self._broken is None:
            self._read(self._workers[ended[0]])
            self._broken = _epitaph(ended[0], self._workers[ended[0]].process)
            self._end()

    def _read(self, worker: _Worker) -> bool:
        """Take in everything from one worker; False where it has closed its channel."""
        while True:
            try:
                parcel = worker.receiver.receive()
            except BlockingIOError:
                return True
            except ConnectionError:
                return False
            except OSError as error:
                self._broken = f"cannot get a batch from a worker process: {error}"
                return False
            except BaseException:  # nobody knows whether something was received
                self._broken = (
                    "an interrupt came while a batch was received from a worker process: make a "
                    "new DataLoader, and load the state of this one"
                )
                raise
            if parcel is None:
                return False
            if parcel.number in self._expected:
                self._expected[parcel.number] = parcel


def _pair() -> tuple[socket.socket, socket.socket]:
    """A channel: the parent's end and the worker's."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    parents_ends.add(here)
    return here, there


def _ended(process: Any) -> int:
    """A descriptor that becomes readable when the process ends. The one that multiprocessing has is
    kept open by whatever the process has forked."""
    try:
        return os.pidfd_open(process.pid)
    except OSError:
        return os.dup(process.sentinel)


def _epitaph(worker: int, process: Any) -> str:
    process.join(_PATIENCE)
    code = process.exitcode
    who = f"worker process {worker} ({process.pid})"
    if code is not None and code < 0:
        memory = " (is there enough memory?)" if code == -signal.SIGKILL else ""
        return f"{who} was killed by signal {-code}{memory}"
    return (
        f"{who} ended with exit code {code}: see its output above; a script that starts processes "
        "needs `if __name__ == '__main__':`"
    )


def _end_all(workers: list[_Worker], tasks: list[socket.socket], file: int) -> None:
    """Ends processes that nobody can ask any more."""
    for end in [*tasks, *(worker.channel for worker in workers)]:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)  # whoever else has inherited it
        end.close()
    until = time.monotonic() + _PATIENCE
    for worker in workers:
        worker.process.join(max(0.0, until - time.monotonic()))
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()
        worker.process.close()
        os.close(worker.ended)
    os.close(file)
