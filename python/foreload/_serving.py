# SPDX-License-Identifier: Apache-2.0
"""Samples of this process's caches for other processes.

A thread serves them at a Unix socket, in a folder that only this user can enter. A question is the
number of samples and their numbers; the answer is a line of JSON (names, labels and sizes, or an
error) and the bytes of all samples, one after another. Lengths and numbers have 8 bytes, little
endian.
"""

from __future__ import annotations

import atexit
import json
import os
import selectors
import shutil
import socket
import struct
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foreload import _core

LENGTH = struct.Struct("<Q")
# Seconds that the engine is waited for until the sockets are looked at again.
_GLANCE = 0.002

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
    """Serves the samples of an engine that is given its lists, one for each question."""

    def __init__(self, core: _core.LoaderCore, closed: Callable[[], None]) -> None:
        self.core = core
        self._closed = closed
        self.process = os.getpid()
        self._folder = tempfile.mkdtemp(prefix="foreload-")
        self.address = str(Path(self._folder, "samples"))
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.address)
        self._listener.listen(64)
        self._wake, self._woken = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        for each in (self._listener, self._woken):
            self._selector.register(each, selectors.EVENT_READ)
        # Questions that the engine has, in order, and how many were answered before.
        self._asked: deque[tuple[socket.socket, npt.NDArray[np.int64]]] = deque()
        self._answered = 0
        self._stopping = False
        self._thread = threading.Thread(target=self._serve, name="foreload-serve", daemon=True)
        self._thread.start()
        _open.add(self)

    def close(self) -> None:
        """End the thread and the engine."""
        if self._stopping or os.getpid() != self.process:
            return
        self._stopping = True
        self._wake.send(b"x")
        if threading.current_thread() is not self._thread:  # it may be the one that collects us
            self._thread.join()

    def _serve(self) -> None:
        while not self._stopping:
            for key, _ in self._selector.select(0 if self._asked else None):
                found = key.fileobj
                assert isinstance(found, socket.socket)
                if found is self._listener:
                    self._selector.register(found.accept()[0], selectors.EVENT_READ)
                elif found is not self._woken:
                    self._ask(found)
            if self._asked:
                self._answer()
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()
        self._wake.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        self.core.close()
        self._closed()

    def _ask(self, connection: socket.socket) -> None:
        try:
            data = receive(connection, 8 * receive_length(connection))
        except (OSError, EOFError):
            self._selector.unregister(connection)
            connection.close()
            return
        samples = np.frombuffer(data, dtype="<i8").astype(np.int64)
        self._asked.append((connection, samples))
        self.core.give_list(samples, np.array([len(samples)]))

    def _answer(self) -> None:
        """Send what the first question is about, if it is there within a glance."""
        try:
            batch = self.core.next(_GLANCE)
        except TimeoutError:
            return
        except Exception as error:  # told to whoever asked
            self._fail(error)
            return
        assert batch is not None
        connection, _ = self._asked.popleft()
        self._answered += 1
        self.core.next(None)  # the end of this list
        data = batch.data
        head = {
            "names": [os.fsdecode(self.core.name_of(i)) for i in batch.indices.tolist()],
            "labels": batch.labels.tolist(),
            "sizes": [view.nbytes for view in data],
        }
        self._send(connection, head, data)

    def _fail(self, error: Exception) -> None:
        """The engine goes on failing until it is told to go elsewhere: ask the rest again."""
        connection, _ = self._asked.popleft()
        self._answered += 1
        self.core.seek(self._answered, 0)
        for _, samples in self._asked:
            self.core.give_list(samples, np.array([len(samples)]))
        self._send(connection, {"error": type(error).__name__, "message": str(error)}, [])

    def _send(
        self, connection: socket.socket, head: dict[str, Any], data: Sequence[memoryview]
    ) -> None:
        text = json.dumps(head).encode()
        try:
            connection.sendall(LENGTH.pack(len(text)) + text)
            for view in data:
                connection.sendall(view)
        except OSError:
            pass  # whoever asked is gone; the next look at its socket says so


class Connection:
    """To the server, for each thread and process one of its own: what fork inherits is not ours."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._local = threading.local()

    def ask(self, numbers: list[int]) -> tuple[dict[str, Any], list[memoryview]]:
        """Names, labels and bytes of samples."""
        connection = self._connected()
        try:
            connection.sendall(LENGTH.pack(len(numbers)) + np.array(numbers, dtype="<i8").tobytes())
            head: dict[str, Any] = json.loads(receive(connection, receive_length(connection)))
            data = [memoryview(receive(connection, size)) for size in head.get("sizes", [])]
        except (OSError, EOFError) as error:
            self._local.connection = None
            raise RuntimeError(
                "the data set is closed: the process that opened it has ended it, or is gone"
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
            try:
                connection.connect(self._address)
            except OSError as error:
                raise RuntimeError(
                    "the data set is closed: the process that opened it has ended it, or is gone"
                ) from error
            self._local.connection = connection
            self._local.process = os.getpid()
        found: socket.socket = self._local.connection
        return found
