# SPDX-License-Identifier: Apache-2.0
"""Batches from one process to another: arrays and tensors lie in memory that both have mapped.

A block is a memfd. The process that makes batches owns its blocks, writes one or several for each
batch, and sends their numbers, with the descriptor of each that is new. The first byte of a block
says whether the receiver has arrays over it; when the last of them is gone, the receiver clears it,
and the owner may write there again. Blocks have no name, so nothing is left behind when either
process is killed, and they are not limited by the size of /dev/shm. Neither side keeps a descriptor
of a block that both have mapped, so a program may keep any number of batches.

What is small travels in the message itself.
"""

from __future__ import annotations

import array
import copyreg
import io
import itertools
import mmap
import os
import pickle
import resource
import socket
import struct
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from foreload import _core

# Number, kind, seconds, CPU seconds, block and offset of the table, parts, blocks, blocks gone.
_HEAD = struct.Struct("<qBddhqqHH")
_BLOCK = struct.Struct("<qQ?")  # number, bytes, whether its descriptor comes along
_PLACE = 3 * 8  # bytes of a row of the table: block or -1 for the message, offset, length
_ALIGN = 64  # of everything in a block; the first so many bytes hold the flag
INLINE = 32 * 1024  # bytes of a batch that travel in the message
_PACKET = INLINE + 4096  # the message at most
_MOST_BLOCKS = 64  # of one batch
_SPARE = 3  # blocks that are kept although nothing is in them
# Blocks of one sender from which on values are copied out of them: a program may keep any number of
# batches, but a process may not have any number of mappings.
_MOST_MAPPED = 1024
_EXTRA = socket.CMSG_SPACE(4 * (_MOST_BLOCKS + 1))

Bytes = npt.NDArray[np.uint8]


def _mapped(file: int, size: int) -> memoryview:
    """The memory of a block. A mapping of Python's own would keep a descriptor."""
    return memoryview(_core.MappedFile(file, size))


def _aligned(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN


# What is done to tensors.


def _rebuild(buffer: Any, dtype: str, shape: tuple[int, ...], order: tuple[int, ...] | None) -> Any:
    import torch

    flat = torch.frombuffer(buffer, dtype=getattr(torch, dtype))
    if order is None:
        return flat.view(shape)
    back = sorted(range(len(order)), key=order.__getitem__)
    return flat.view([shape[axis] for axis in order]).permute(back)


def _reduce_tensor(tensor: Any) -> Any:
    """Dense tensors on the CPU as their bytes; others as torch pickles them."""
    import torch

    order = None
    if (
        tensor.device.type != "cpu"
        or tensor.layout != torch.strided
        or tensor.requires_grad
        or tensor.is_quantized
        or tensor.is_conj()
        or tensor.is_neg()
        or tensor.numel() == 0
        or tensor.__dict__
    ):
        return tensor.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    dense = tensor
    if not tensor.is_contiguous():
        strides = tensor.stride()
        order = tuple(sorted(range(tensor.dim()), key=lambda axis: -strides[axis]))
        dense = tensor.permute(order)
        if not dense.is_contiguous():  # it has holes, or shows a number twice
            order, dense = None, tensor.contiguous()
    flat = dense.view(-1)
    if flat.stride(0) != 1:  # a single number, whose stride means nothing
        flat = flat.clone(memory_format=torch.contiguous_format)
    data = flat.view(torch.uint8).numpy()
    kind = str(tensor.dtype).removeprefix("torch.")
    return _rebuild, (pickle.PickleBuffer(data), kind, tuple(tensor.shape), order)


def _pickled(value: Any, buffers: list[pickle.PickleBuffer]) -> memoryview:
    stream = io.BytesIO()
    pickler = pickle.Pickler(stream, protocol=5, buffer_callback=buffers.append)
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        pickler.dispatch_table = copyreg.dispatch_table | {torch.Tensor: _reduce_tensor}
    pickler.dump(value)
    return stream.getbuffer()


# The side that makes batches.


class _Block:
    """Memory of the sender."""

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.size = size
        self.file: int | None = os.memfd_create("foreload")  # until the receiver has it
        os.ftruncate(self.file, size)
        self._mapping = _mapped(self.file, size)
        self._lent: weakref.ref[Bytes] | None = None

    @property
    def free(self) -> bool:
        """Nobody has arrays over it, here or there."""
        return self._mapping[0] == 0 and (self._lent is None or self._lent() is None)

    def lend(self) -> Bytes:
        """All of it, for one batch."""
        memory = np.frombuffer(self._mapping, dtype=np.uint8)
        self._lent = weakref.ref(memory)
        return memory

    def give(self) -> None:
        """From now on the receiver has it."""
        self._mapping[0] = 1

    def sent(self) -> None:
        """The receiver has its descriptor."""
        if self.file is not None:
            os.close(self.file)
            self.file = None


class _Open:
    """A block that is being filled."""

    def __init__(self, block: _Block) -> None:
        self.block = block
        self.memory = block.lend()
        self.address: int = self.memory.__array_interface__["data"][0]
        self.used = _ALIGN


class Sender:
    """Sends values over a SOCK_SEQPACKET socket. For one thread."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._blocks: list[_Block] = []  # least recently used first
        self._gone: list[int] = []  # numbers of blocks that the receiver may forget
        self._made = 0
        self._open: list[_Open] = []
        self._last = 0  # bytes of the last value that was in blocks

    def room(self, size: int) -> Bytes | None:
        """Memory for a part of the value that is sent next; None where it would be of no use."""
        if size < INLINE // 2 or len(self._open) == _MOST_BLOCKS:
            return None
        index, begin = self._room(size)
        return self._open[index].memory[begin : begin + size]

    def _room(self, size: int) -> tuple[int, int]:
        """An open block with so many bytes, and where they begin."""
        roomy = [n for n, o in enumerate(self._open) if o.block.size - o.used >= size]
        if not roomy:
            wanted = max(size, 0 if self._open else self._last)
            roomy = [len(self._open)]
            self._open.append(_Open(self._find(wanted + _ALIGN)))
        found = self._open[roomy[0]]
        begin = found.used
        found.used = begin + _aligned(size)
        return roomy[0], begin

    def _find(self, size: int) -> _Block:
        free = [block for block in self._blocks if block.free]
        fitting = [block for block in free if block.size >= size]
        if fitting:
            found = min(fitting, key=lambda block: block.size)
            self._blocks.remove(found)
            free.remove(found)
        else:
            self._made += 1
            # Batches of samples of different lengths differ a little: room for an eighth more.
            found = _Block(self._made, -(-(size + size // 8) // mmap.PAGESIZE) * mmap.PAGESIZE)
        for block in free[:-_SPARE]:
            self._blocks.remove(block)
            self._gone.append(block.number)
        self._blocks.append(found)
        return found

    def send(self, number: int, kind: int, value: Any, seconds: float, cpu: float) -> None:
        """Send a value. What cannot be pickled raises; nothing was sent then."""
        try:
            self._send(number, kind, value, seconds, cpu)
        finally:
            self._open.clear()

    def _send(self, number: int, kind: int, value: Any, seconds: float, cpu: float) -> None:
        buffers: list[pickle.PickleBuffer] = []
        parts = [_pickled(value, buffers), *(buffer.raw() for buffer in buffers)]
        places = [self._place_of(part) for part in parts]
        loose = [row for row, place in enumerate(places) if place is None]
        rest = sum(_aligned(len(parts[row])) for row in loose) + len(parts) * _PLACE
        block, at = -1, 0
        if rest <= INLINE:
            memory = memoryview(bytearray(rest))
        else:
            block, at = self._room(rest)
            memory = self._open[block].memory.data
        for row in loose:
            size = len(parts[row])
            memory[at : at + size] = parts[row]
            places[row] = (block, at, size)
            at += _aligned(size)
        table = array.array("q", itertools.chain.from_iterable(places))  # type: ignore[arg-type]
        memory[at : at + len(parts) * _PLACE] = memoryview(table).cast("B")
        if self._open:
            self._last = sum(opened.used for opened in self._open)
        gone, self._gone = self._gone[:_MOST_BLOCKS], self._gone[_MOST_BLOCKS:]
        blocks = [opened.block for opened in self._open]
        head = _HEAD.pack(number, kind, seconds, cpu, block, at, len(parts), len(blocks), len(gone))
        head += b"".join(_BLOCK.pack(b.number, b.size, b.file is not None) for b in blocks)
        head += array.array("q", gone).tobytes()
        for lent in blocks:
            lent.give()
        files = [lent.file for lent in blocks if lent.file is not None]
        message: list[Any] = [head, memory] if block < 0 else [head]
        extra = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))] if files else []
        self._channel.sendmsg(message, extra)
        for lent in blocks:
            lent.sent()

    def _place_of(self, part: memoryview) -> tuple[int, int, int] | None:
        """Where it is already in an open block."""
        if not self._open or len(part) < INLINE // 2:
            return None
        address = np.frombuffer(part, dtype=np.uint8).__array_interface__["data"][0]
        for index, opened in enumerate(self._open):
            offset = address - opened.address
            if offset >= 0 and offset + len(part) <= opened.block.size:
                return index, offset, len(part)
        return None


# The side that gets them.


class Parcel:
    """A value that has arrived. Without a reference to it or to what is in it, its memory is free
    again."""

    __slots__ = ("_parts", "cpu", "kind", "number", "seconds")

    def __init__(
        self, number: int, kind: int, seconds: float, cpu: float, parts: list[memoryview]
    ) -> None:
        self.number = number
        self.kind = kind
        self.seconds = seconds
        self.cpu = cpu
        self._parts = parts

    def open(self) -> Any:
        """The value, over the memory it came in."""
        return pickle.loads(self._parts[0], buffers=self._parts[1:])


class Receiver:
    """Gets what a Sender sends. For one thread; values may be let go of in any."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._blocks: dict[int, memoryview] = {}
        self._packet = bytearray(_PACKET)
        self._process = os.getpid()

    def receive(self) -> Parcel | None:
        """The next value; None where the sender has gone. BlockingIOError if there is nothing."""
        size, extra, flags, _ = self._channel.recvmsg_into(
            [self._packet], _EXTRA, socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
        )
        files = array.array("i")
        for _, _, data in extra:
            files.frombytes(data[: len(data) - len(data) % files.itemsize])
        if size == 0:
            return None
        if flags & (socket.MSG_CTRUNC | socket.MSG_TRUNC):
            for file in files:
                os.close(file)
            most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            raise OSError(
                f"this process has all {most:,} files open that it may have: close some, or raise "
                "the limit (ulimit -n), and make a new DataLoader"
            )
        return self._unpack(memoryview(self._packet)[:size], iter(files))

    def _unpack(self, packet: memoryview, files: Iterator[int]) -> Parcel:
        number, kind, seconds, cpu, where, table_at, parts, blocks, gone = _HEAD.unpack_from(packet)
        at = _HEAD.size
        memories: list[memoryview] = []
        for _ in range(blocks):
            block, size, new = _BLOCK.unpack_from(packet, at)
            at += _BLOCK.size
            if new:
                self._map(block, size, next(files))
            memories.append(self._lease(self._blocks[block]))
        for block in array.array("q", packet[at : at + 8 * gone].tobytes()):
            del self._blocks[block]
        at += 8 * gone
        memories.append(memoryview(bytearray(packet[at:])))  # number -1
        table = memories[where][table_at : table_at + parts * _PLACE].cast("q").tolist()
        views = [
            memories[table[row]][table[row + 1] : table[row + 1] + table[row + 2]]
            for row in range(0, len(table), 3)
        ]
        return Parcel(number, kind, seconds, cpu, views)

    def _map(self, block: int, size: int, file: int) -> None:
        try:
            self._blocks[block] = _mapped(file, size)
        finally:
            os.close(file)

    def _lease(self, block: memoryview) -> memoryview:
        memory = np.frombuffer(block, dtype=np.uint8)
        weakref.finalize(memory, _release, block, self._process).atexit = False
        if len(self._blocks) > _MOST_MAPPED:
            memory = memory.copy()
        return memory.data


def _release(block: memoryview, process: int) -> None:
    """The last array over it is gone. A process that was forked has the same memory, but the arrays
    are not its own."""
    if os.getpid() == process:
        block[0] = 0
