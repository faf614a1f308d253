# SPDX-License-Identifier: Apache-2.0
"""What a loader says about itself: warnings about waiting, a progress bar, statistics, repr."""

import io
import warnings

import pytest

import foreload
from foreload import transforms
from foreload._waiting import WaitWatch

CHAIN = transforms.Compose([transforms.Resize((8, 8))])


class Clock:
    """Time passes only when it is told to."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Loader:
    """As far as the watch looks at one."""

    def __init__(self):
        self.decode_seconds = 0.0

    def stats(self):
        return {"decode_seconds": self.decode_seconds}


def epoch(watch, clock, loader, computing, waiting, decoding):
    watch.begin(loader)
    with watch.waiting():
        clock.now += 100  # the start does not count
    clock.now += computing
    with watch.waiting():
        clock.now += waiting
    loader.decode_seconds += decoding
    watch.end(loader)


@pytest.mark.parametrize(
    ("decoding", "said"),
    [
        (18.0, "50% of the epoch for decoding.*all 2 threads"),
        (4.0, "50% of the epoch for I/O.*20%"),
    ],
)
def test_waiting_is_said_once_with_its_reason(decoding, said):
    clock, loader = Clock(), Loader()
    watch = WaitWatch(2, clock)
    with pytest.warns(RuntimeWarning, match=said):
        epoch(watch, clock, loader, 5, 5, decoding)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        epoch(watch, clock, loader, 5, 5, decoding)


@pytest.mark.parametrize(("computing", "waiting"), [(9.0, 1.0), (1.0, 2.0)])
def test_short_epochs_and_short_waits_are_not_worth_a_word(computing, waiting):
    clock, loader = Clock(), Loader()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        epoch(WaitWatch(2, clock), clock, loader, computing, waiting, 0)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_progress_bar(images):
    loader = foreload.DataLoader(images, 10, transform=CHAIN, memory="16MiB")
    out = io.StringIO()
    assert sum(len(labels) for _, labels in foreload.progress(loader, out)) == 50
    assert out.getvalue().startswith("epoch 0 [########################] 5/5  ")
    assert "source 100%" in out.getvalue()
    assert out.getvalue().endswith("\n")
    out = Terminal()
    assert len(list(foreload.progress(loader, out))) == 5
    assert out.getvalue().startswith("\r")
    last = out.getvalue().split("\r")[-1]
    assert last.startswith("epoch 1 ")
    assert "memory 100%" in last


def test_the_progress_bar_of_samples_in_memory():
    class Blobs:
        def __len__(self):
            return 4

        def locate(self, index):
            return b"x"

        def decode(self, data, index):
            return index

    out = io.StringIO()
    assert len(list(foreload.progress(foreload.DataLoader(Blobs()), out))) == 4
    assert "4/4" in out.getvalue()


def test_repr_says_what_it_is_and_where(images, tmp_path):
    loader = foreload.DataLoader(
        images,
        10,
        shuffle=True,
        seed=3,
        transform=CHAIN,
        memory="1MiB",
        disk=(tmp_path, 4 << 20),
        profile="none",
        num_workers=2,
    )
    next(iter(loader))
    text = repr(loader)
    for part in (
        str(images),
        "50 samples in batches of 10",
        "shuffled with seed 3",
        "rank 0 of 1",
        "2 threads",
        "1.0 MiB memory",
        f"4.0 MiB {tmp_path}",
        "epoch 0, 10 consumed",
    ):
        assert part in text
    loader.close()
    assert repr(loader) == "<foreload.DataLoader: closed>"
    assert "nothing kept" in repr(foreload.DataLoader(images, transform=CHAIN))
