# SPDX-License-Identifier: Apache-2.0
"""What a loader says about itself: warnings about waiting, a progress bar, statistics, repr."""

import functools
import io
import shutil
import time
import warnings

import numpy as np
import pytest
from folders import remove_unseen

import foreload
from foreload import _core, transforms
from foreload.reports.loop_times import WaitWatch
from foreload.reports.progress import line
from foreload.reports.verdict import Notices, judge

CHAIN = transforms.Compose([transforms.Resize((8, 8))])


class Clock:
    """Time passes only when it is told to."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_the_loop_thread_measures_its_waits():
    clock = Clock()
    watch = WaitWatch(clock)
    for epoch in range(2):
        asked = clock.now
        clock.now += 1  # an iteration is begun
        watch.begin(asked)
        for waiting, computing in ((3, 2), (1, 2)):
            with watch.waiting():
                clock.now += waiting
            clock.now += computing
        watch.end()
        clock.now += 1000  # between epochs nobody counts
        assert (watch.seconds, watch.waited, watch.first_wait) == (9, 5, 4)
        assert watch.fraction == 5 / 9
        assert (watch.run_seconds, watch.run_waited) == (9 * (epoch + 1), 5 * (epoch + 1))
        waits = watch.batch_wait_ms()
        assert waits["max"] == 3000
        assert 1000 <= waits["p50"] < 1100


FIGURES = {
    "seconds": 10.0,
    "waited": 5.0,
    "first_wait": 0.0,
    "stages": {"source": {"busy_seconds": 10.0, "bytes": 500_000_000}},
}


def said(seen):
    assert all(warning.category is RuntimeWarning for warning in seen)
    return [str(warning.message) for warning in seen]


def test_the_verdict_is_said_once():
    notices = Notices()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        notices.waiting(FIGURES, judge(FIGURES), stacklevel=1)
        notices.waiting(FIGURES, judge(FIGURES), stacklevel=1)
    assert said(seen) == ["the loop waited 50 % for the source (50 MB/s)"]
    assert seen[0].filename == __file__


@pytest.mark.parametrize(
    "change", [{"seconds": 4.0, "waited": 4.0}, {"waited": 2.0}, {"first_wait": 4.0}]
)
def test_short_epochs_and_short_waits_are_not_worth_a_word(change):
    figures = FIGURES | change
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Notices().waiting(figures, judge(figures), stacklevel=1)


def test_each_kind_of_loss_is_said_once():
    notices = Notices()
    lost = {"skipped": 2, "skipped_names": ["a.jpg", "b.jpg"], "dead_peers": [3]}
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        notices.losses(lost, stacklevel=1)
        notices.losses(lost | {"skipped": 3, "lost_tiers": ["the disk cache x is off"]}, 1)
    assert said(seen) == [
        "2 samples skipped (a.jpg, b.jpg)",
        "rank 3 lost",
        "the disk cache x is off",
    ]


def test_figures_that_make_no_sense_are_an_error():
    with pytest.raises(ValueError, match="'second'"):
        judge({"second": 1.0})


@pytest.fixture
def warm(images):
    """What the first loader of a process imports takes its time, and is not what is measured."""
    list(foreload.DataLoader(images, 10, transform=lambda image: np.array(image.resize((8, 8)))))
    list(foreload.DataLoader(images, 10, transform=CHAIN))


def slow_image(image):
    time.sleep(0.02)
    return np.array(image.resize((8, 8)))


@pytest.mark.usefixtures("warm")
def test_a_python_transform_is_what_the_loop_waits_for(images):
    loader = foreload.DataLoader(images, 10, transform=slow_image, num_workers=2)
    list(loader)  # the start counts in the first epoch, and is told apart
    out = io.StringIO()
    for _ in foreload.progress(loader, out):
        pass
    epoch = loader.epoch_stats()
    # 50 samples of 20 ms in two threads, and a loop that does nothing.
    assert epoch["seconds"] >= 0.5
    assert epoch["wait_fraction"] > 0.8
    verdict = epoch["verdict"]
    assert verdict["limit"] == "transform"
    assert verdict["waited"] == pytest.approx(epoch["wait_fraction"])
    assert out.getvalue().endswith(f"  {verdict['text']}\n")
    assert f"  waited {verdict['waited']:.0%} (transform)" in line(loader, 1, 5, 5, 1.0)
    assert loader.stats()["verdict"]["limit"] == "transform"


@pytest.mark.usefixtures("warm")
def test_a_collate_function_is_what_the_loop_waits_for(images):
    def collate(samples):
        time.sleep(0.2)
        return samples

    loader = foreload.DataLoader(images, 10, transform=CHAIN, collate_fn=collate)
    list(loader)
    list(loader)
    verdict = loader.epoch_stats()["verdict"]
    assert verdict["limit"] == "transform"
    assert "in the loop's own thread" in verdict["text"]


@pytest.mark.usefixtures("warm")
def test_a_slow_source_is_what_the_loop_waits_for(images, monkeypatch):
    size = sum(file.stat().st_size for file in images.rglob("*.*"))
    opened = functools.partial(_core.open_loader, source_bandwidth=size // 2)
    monkeypatch.setattr(_core, "open_loader", opened)
    loader = foreload.DataLoader(images, 10, transform=CHAIN, profile="none")
    list(loader)
    verdict = loader.epoch_stats()["verdict"]
    assert verdict["limit"] == "source"
    assert " for the source (" in verdict["text"]


@pytest.mark.usefixtures("warm")
def test_a_slow_loop_is_its_own_limit(images):
    loader = foreload.DataLoader(images, 10, transform=CHAIN)
    for _ in loader:
        time.sleep(0.3)
    verdict = loader.epoch_stats()["verdict"]
    assert verdict["limit"] == "loop"
    assert verdict["text"].endswith("the loop itself is the limit")
    assert verdict["helps"] == []


def test_skipped_samples_are_said_once_and_in_every_epoch(images, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(images, data)
    (data / "class0" / "0000.png").write_bytes(b"no image")
    loader = foreload.DataLoader(data, 10, transform=CHAIN, on_error="skip")
    out = io.StringIO()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(2):
            list(foreload.progress(loader, out))
            assert len(loader.epoch_stats()["verdict"]["losses"]) == 1
    assert said(seen) == ["1 sample skipped (class0/0000.png)"]
    assert seen[0].filename.endswith("reports/progress.py")  # its loop
    assert out.getvalue().count("lost: 1 sample skipped (class0/0000.png)\n") == 2
    assert loader.stats()["verdict"]["losses"][0].startswith("2 samples skipped")


def test_a_reader_warns_of_losses(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for number in range(10):
        (data / f"{number}.jpg").write_bytes(bytes(100))
    index = tmp_path / "index"
    foreload.Reader(data, index=index)
    remove_unseen(data / "3.jpg")
    reader = foreload.Reader(data, index=index, on_error="skip")
    with pytest.warns(RuntimeWarning, match=r"1 sample skipped \(3.jpg\)") as seen:
        assert len(list(reader)) == 1
    assert seen[0].filename == __file__
    assert reader.epoch_stats()["verdict"]["losses"] == ["1 sample skipped (3.jpg)"]
    assert reader.stats()["verdict"]["losses"] == ["1 sample skipped (3.jpg)"]


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


class Called:
    """A data set that is called."""

    def __len__(self):
        return 10

    def __getitem__(self, index):
        return index


@pytest.mark.parametrize("kind", ["called", "rows", "stream", "blobs"])
def test_epoch_stats_have_the_same_keys_for_all_data(images, kind):
    """ "from" was a KeyError where foreload reads no files."""
    torch = pytest.importorskip("torch")

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(range(10))

    class Blobs:
        def __len__(self):
            return 10

        def locate(self, index):
            return b"x"

        def decode(self, data, index):
            return index

    data = {
        "called": Called,
        "rows": lambda: torch.utils.data.TensorDataset(torch.arange(10)),
        "stream": Stream,
        "blobs": Blobs,
    }[kind]()
    files = foreload.DataLoader(images, 4, transform=CHAIN)
    loader = foreload.DataLoader(data, 4, num_workers=0)
    assert loader.epoch_stats().keys() == files.epoch_stats().keys()
    for number in range(2):
        for epoch in (files, loader):
            list(epoch)
        stats = loader.epoch_stats()
        assert stats.keys() == files.epoch_stats().keys()
        assert (stats["epoch"], stats["samples"], stats["bytes"]) == (number, 10, 0)
        assert stats["from"] == dict.fromkeys(files.epoch_stats()["from"], 0)
    files.close()
    loader.close()


def test_a_wait_that_ends_with_an_error_is_no_first_batch():
    """After a timeout the verdict said that the loop itself was the limit."""
    clock = Clock()
    watch = WaitWatch(clock)
    watch.begin(0.0)

    def fail():
        with watch.waiting():
            clock.now += 3
            raise TimeoutError

    with pytest.raises(TimeoutError):
        fail()
    assert (watch.waited, watch.first_wait) == (3, 0)
    with watch.waiting():
        clock.now += 2
    assert (watch.waited, watch.first_wait) == (5, 5)


def test_a_timeout_and_the_verdict_after_it_name_the_data_set(tmp_path):
    """The message sent its reader to stats(), which named the loop."""
    ready = tmp_path / "ready"
    loader = foreload.DataLoader(Waits(ready), timeout=0.3, num_workers=1)
    iterator = iter(loader)
    with pytest.raises(RuntimeError, match="waited for the data set, which makes the batch in a"):
        next(iterator)
    assert loader.stats()["verdict"]["limit"] == "transform"
    ready.touch()
    loader.close()


class Waits(Called):
    """Makes a sample only after a file is there."""

    def __init__(self, file):
        self.file = file

    def __getitem__(self, index):
        while not self.file.exists():
            time.sleep(0.01)
        return index


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
