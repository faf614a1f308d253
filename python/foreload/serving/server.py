# SPDX-License-Identifier: Apache-2.0
"""Samples of this process's caches for other processes.

They are served at a Unix socket, in a folder that only this user can enter, by a thread for each
connection. A question is the number of samples and their numbers; the answer is a line of JSON
(names, labels and sizes of parts, or an error) and the bytes of all samples, one after another.
Lengths and numbers have 8 bytes, little endian.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shutil
import socket
import struct
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from foreload import _core
from foreload.serving.read_ahead import ReadAhead

LENGTH = struct.Struct("<Q")
# What is read ahead and was not asked for yet, about.
AHEAD_BYTES = 128 << 20

_open: weakref.WeakSet[Server] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for server in list(_open):
        server.close()


def receive(connection: socket.socket, length: int) -> bytearray:
    """So many bytes, EOFError if there are fewer."""
    data = bytearray(length)
    view = memoryview(data)
    while view:
        received = connection.recv_into(view)
        if received == 0:
            raise EOFError("the connection was closed")
        view = view[received:]
    return data


def receive_length(connection: socket.socket) -> int:
    """What stands in front of everything of variable length."""
    return int(LENGTH.unpack(receive(connection, LENGTH.size))[0])


class Server:
    """Serves the samples of an engine."""

    def __init__(self, core: _core.LoaderCore) -> None:
        self.core = core
        self.process = os.getpid()
        mean = max(1, core.bytes // core.samples)
        self._ahead = ReadAhead(core, max(1, AHEAD_BYTES // mean))
        self._folder = tempfile.mkdtemp(prefix="foreload-")
        self.address = str(Path(self._folder, "samples"))
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.address)
        self._listener.listen(64)
        self._connections: set[socket.socket] = set()
        self._lock = threading.RLock()  # a thread that holds it may be the one that collects us
        self._closed = False
        self._start_thread(self._accept)
        _open.add(self)

    def expect(self, samples: Iterable[int]) -> None:
        """The samples that will be asked for next, in order."""
        self._ahead.expect(samples)

    def close(self) -> None:
        """End connections, threads and the engine."""
        if os.getpid() != self.process:  # a child made by fork: all this is its parent's
            return
        with self._lock:
            if self._closed:
                return
            self._closed = True
            connections = list(self._connections)
        for each in (self._listener, *connections):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits for it
        shutil.rmtree(self._folder, ignore_errors=True)
        self.core.close()  # and whoever waits for a sample is told

    def _start_thread(self, function: Callable[..., None], *arguments: Any) -> None:
        threading.Thread(
            target=function, args=arguments, name="foreload-serve", daemon=True
        ).start()

    def _accept(self) -> None:
        with self._listener:
            while True:
                try:
                    connection, _ = self._listener.accept()
                except OSError:  # closed
                    return
                with self._lock:
                    if self._closed:
                        connection.close()
                        return
                    self._connections.add(connection)
                self._start_thread(self._converse, connection)

    def _converse(self, connection: socket.socket) -> None:
        """Answer one question after another until whoever asks is gone."""
        with connection, contextlib.suppress(OSError, EOFError):
            while True:
                data = receive(connection, 8 * receive_length(connection))
                self._answer(connection, np.frombuffer(data, dtype="<i8").tolist())
        with self._lock:
            self._connections.discard(connection)

    def _answer(self, connection: socket.socket, numbers: list[int]) -> None:
        head: dict[str, Any]
        data: list[memoryview] = []
        try:
            batches = [self._take(ticket) for ticket in self._ahead.ask(numbers)]
            data = [view for batch in batches for view in batch.data]
            head = {
                "names": [os.fsdecode(self.core.name_of(number)) for number in numbers],
                "labels": [label for batch in batches for label in batch.labels.tolist()],
                "sizes": [self.core.part_sizes(number) for number in numbers],
            }
        except Exception as error:  # told to whoever asked
            head = {"error": type(error).__name__, "message": str(error)}
        text = json.dumps(head).encode()
        connection.sendall(LENGTH.pack(len(text)) + text)
        for view in data:
            connection.sendall(view)

    def _take(self, ticket: _core.FetchTicket) -> _core.LoaderBatch:
        batch, errors = ticket.take()
        for error in errors.values():
            raise OSError(error)
        return batch


class Connection:
    """To the server, for each thread and process one of its own: what fork inherits is not ours."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._local = threading.local()

    def ask(self, numbers: list[int]) -> tuple[dict[str, Any], list[memoryview]]:
        """Names, labels and bytes of samples."""
        try:
            connection = self._connected()
            connection.sendall(LENGTH.pack(len(numbers)) + np.array(numbers, dtype="<i8").tobytes())
            head: dict[str, Any] = json.loads(receive(connection, receive_length(connection)))
            data = [memoryview(receive(connection, sum(size))) for size in head.get("sizes", [])]
        except (OSError, EOFError) as error:
            self._local.connection = None
            raise RuntimeError(
                "the data set is closed: the process that opened it called close() or has ended; "
                "open it again"
            ) from error
        except BaseException:  # Ctrl-C: what is on its way belongs to nobody
            self._local.connection = None
            raise
        if "error" in head:
            raise {"OSError": OSError, "ValueError": ValueError}.get(head["error"], RuntimeError)(
                head["message"]
            )
        return head, data

    def _connected(self) -> socket.socket:
        if getattr(self._local, "process", None) != os.getpid():
            self._local.connection = None
        if self._local.connection is None:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.connect(self._address)
            self._local.connection = connection
            self._local.process = os.getpid()
        found: socket.socket = self._local.connection
        return found
