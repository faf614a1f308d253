# SPDX-License-Identifier: Apache-2.0
"""Steps between which no interrupt (Ctrl-C) may come.

Python raises KeyboardInterrupt between any two steps of the main thread: after a lock was taken and
before anybody knows that, or after a message was received and before it is kept. The lock is never
released then, and the message is lost. In other threads there are no interrupts.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

_SIGINT = int(signal.SIGINT)  # numbers are taken faster than names


class Undisturbed:
    """A `with` block in which an interrupt waits until the end. What is inside must not take longer
    than a user is patient."""

    __slots__ = ("_before", "_heard", "_process")

    def __init__(self) -> None:
        self._before: Any = None  # whoever hears interrupts outside
        self._heard: tuple[int, Any] | None = None
        self._process = os.getpid()

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        before = signal.getsignal(_SIGINT)
        if callable(before):  # otherwise Python does not hear them
            self._before = before
            signal.signal(_SIGINT, self._hear)

    def __exit__(self, *_: object) -> None:
        before = self._before
        if before is None:
            return
        mine = signal.signal(_SIGINT, before)
        if mine != self._hear:  # somebody has set another one meanwhile
            signal.signal(_SIGINT, mine)
        if self._heard is not None:
            before(*self._heard)

    def _hear(self, signum: int, frame: Any) -> None:
        if os.getpid() != self._process:  # of a child that another thread has forked meanwhile
            self._before(signum, frame)
        self._heard = signum, frame
