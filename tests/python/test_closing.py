# SPDX-License-Identifier: Apache-2.0
"""close() while another thread is inside next(): that one gets an error, nobody waits for ever."""

from __future__ import annotations

import contextlib
import gc
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from jobs import wait_until
from torch.utils.data import IterableDataset

import foreload
from foreload.loader import dataloader


class Loop(threading.Thread):
    """Uses a loader, epoch after epoch, until there is an error."""

    def __init__(self, loader: Any) -> None:
        super().__init__(daemon=True)
        self.loader = loader
        self.batches = 0
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            while True:
                for _ in self.loader:
                    self.batches += 1
        except BaseException as error:
            self.error = error

    def ended(self) -> str:
        self.join(60)
        assert not self.is_alive()
        assert isinstance(self.error, RuntimeError), self.error
        return str(self.error)


class Stuck:
    """A sample that never comes."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> int:
        signal.pause()
        return index


class StuckStream(IterableDataset):
    def __iter__(self) -> Iterator[int]:
        signal.pause()
        yield 0


def never(_: Any) -> None:
    forever.wait()


forever = threading.Event()


@pytest.fixture
def blocked() -> Iterator[None]:
    """Lets threads go on after the test: they would hold up the end of this process."""
    yield
    forever.set()
    forever.clear()


STUCK: dict[str, Callable[[Path], Any]] = {
    "workers": lambda _: foreload.DataLoader(Stuck(), batch_size=2, num_workers=2),
    "a stream": lambda _: foreload.DataLoader(StuckStream(), batch_size=2, num_workers=1),
    "transform": lambda images: foreload.DataLoader(images, transform=never, num_workers=1),
}


@pytest.mark.usefixtures("blocked")
@pytest.mark.parametrize("kind", STUCK)
def test_a_thread_that_waits_for_a_batch_is_told(kind, images):
    """The thread waited for ever, or got an error of what close() had taken away."""
    loader = STUCK[kind](images)
    loop = Loop(loader)
    wait_until(loader._lock.locked)
    loader.close()
    assert loop.ended() == "this DataLoader was closed while a batch was on its way: make a new one"
    assert loader._ended


@pytest.mark.usefixtures("blocked")
def test_close_does_not_wait_for_a_sample_that_never_comes(monkeypatch):
    """Nobody can end a call of the data set: the thread that is inside ends the rest."""
    monkeypatch.setattr(dataloader, "_PATIENCE", 0.01)
    called = threading.Event()

    class Waits:
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> int:
            called.set()
            forever.wait()
            return index

    loader = foreload.DataLoader(Waits(), batch_size=2, num_workers=0)
    loop = Loop(loader)
    called.wait()
    loader.close()
    assert not loader._ended
    forever.set()
    assert "closed" in loop.ended()
    assert loader._ended


def test_a_loader_may_be_closed_by_what_it_calls():
    def closes(samples: list[Any]) -> Any:
        loader.close()
        return samples

    loader = foreload.DataLoader([1, 2, 3, 4], batch_size=2, num_workers=0, collate_fn=closes)
    iterator = iter(loader)
    with pytest.raises(RuntimeError, match="was closed while"):
        next(iterator)
    assert loader._ended
    with pytest.raises(RuntimeError, match="is closed"):
        next(iterator)


# Rows and files crashed: the engine was destroyed below the thread that waited for it.
MIDWAY = """
import sys, threading
import numpy as np, torch, foreload
from foreload import transforms
from torch.utils.data import IterableDataset

class Called:
    def __len__(self): return 400
    def __getitem__(self, index): return np.full(3000, index)

class Stream(IterableDataset):
    def __iter__(self): return iter(range(400))

images = sys.argv[1]
rows = torch.zeros(2000, 3000)
kinds = {
    "rows": lambda: foreload.DataLoader(rows, batch_size=2),
    "native": lambda: foreload.DataLoader(images, transform=transforms.Resize(64), num_workers=1),
    "bytes": lambda: foreload.DataLoader(images, batch_size=2),
    "transform": lambda: foreload.DataLoader(images, transform=np.asarray, num_workers=2),
    "called": lambda: foreload.DataLoader(Called(), batch_size=2, num_workers=0),
    "workers": lambda: foreload.DataLoader(Called(), batch_size=2, num_workers=1),
    "stream": lambda: foreload.DataLoader(Stream(), batch_size=2, num_workers=0),
}

def close_midway(loader, batches):
    errors, came = [], threading.Semaphore(0)
    def loop():
        try:
            while True:
                for batch in loader:
                    came.release()
        except BaseException as error:
            errors.append(error)
    def asks():
        try:
            while True:
                loader.stats()
        except (RuntimeError, ValueError) as error:
            assert "closed" in str(error), error
    threads = [threading.Thread(target=each) for each in (loop, loop, asks)]
    for thread in threads:
        thread.start()
    for _ in range(batches):
        came.acquire()
    closers = [threading.Thread(target=loader.close) for _ in range(2)]
    for thread in closers:
        thread.start()
    for thread in threads + closers:
        thread.join()
    for error in errors:
        assert type(error) is RuntimeError and "closed" in str(error), repr(error)
    assert loader._ended
    loader.close()

for kind, make in kinds.items():
    print(kind, flush=True)
    for number in range(5 if kind == "workers" else 20):
        close_midway(make(), number % 5)
"""


def test_any_thread_may_close_in_mid_epoch(images):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-X", "faulthandler", "-c", MIDWAY, images],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def _ask(dataset: Any, asked: threading.Semaphore, errors: list[Exception]) -> None:
    try:
        while True:
            dataset[0]
            asked.release()
    except Exception as error:
        errors.append(error)


def test_a_served_data_set_may_be_closed_while_it_is_asked(images):
    for number in range(10):
        dataset = foreload.open_dataset(images, transform=np.asarray)
        asked, errors = threading.Semaphore(0), []
        arguments = (dataset, asked, errors)
        threads = [threading.Thread(target=_ask, args=arguments) for _ in range(2)]
        for thread in threads:
            thread.start()
        for _ in range(number):
            asked.acquire()
        dataset.close()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        assert ["closed" in str(error) for error in errors] == [True, True], errors


def test_a_question_after_the_end_is_answered(images):
    """A question that came while the last one was answered was never answered."""
    dataset = foreload.open_dataset(images, transform=np.asarray)
    ahead = dataset._server._ahead
    (asked,) = ahead.ask([0])
    dataset.close()
    with contextlib.suppress(ValueError):  # it may have been there in time
        asked.take()
    with pytest.raises(ValueError, match="closed"):
        ahead.ask([0])


def test_what_is_collected_in_mid_epoch_ends(images):
    made = [
        foreload.DataLoader(torch.zeros(100, 3000), batch_size=2),
        foreload.DataLoader(images, batch_size=2),
        foreload.DataLoader(images, transform=lambda _: 0, num_workers=1),
    ]
    for loader in made:
        next(iter(loader))
    made.clear()
    loader.itself = loader
    del loader
    gc.collect()
