# SPDX-License-Identifier: Apache-2.0
"""Loaders that are interrupted, left alone or used from elsewhere: all end cleanly."""

import select
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from jobs import wait_until

import foreload

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench" / "engine"))

from slowfs import SlowFs, find_program, why_not


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("files")
    for number in range(40):
        (path / f"{number:02}.png").write_bytes(bytes([number]) * (number + 1))
    return path


def run(code: str, folder: Path) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", code, folder], capture_output=True, text=True, timeout=60
    )


def test_bytes_where_there_is_no_transform(folder):
    views, labels, indices = next(iter(foreload.DataLoader(folder, 4, return_index=True)))
    assert [bytes(view) for view in views] == [bytes([i]) * (i + 1) for i in range(4)]
    assert views[0].readonly
    assert indices.tolist() == [0, 1, 2, 3]
    assert labels.tolist() == [0] * 4


def test_the_interpreter_may_end_in_mid_epoch(folder):
    code = (
        "import sys, foreload\nloader = foreload.DataLoader(sys.argv[1], 4)\nnext(iter(loader))\n"
    )
    done = run(code, folder)
    assert (done.returncode, done.stderr) == (0, "")


def test_ctrl_c_is_seen_while_a_transform_is_slow(folder):
    code = """
import signal, sys, threading, foreload
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by jobs of a shell
from foreload.loader.dataloader import DataLoader
started = threading.Event()
class Data:
    def __len__(self): return 4
    def locate(self, index): return bytes(1)
    def decode(self, data, index):
        started.set()
        threading.Event().wait(1)
        return index
def press():
    started.wait()
    signal.raise_signal(signal.SIGINT)
threading.Thread(target=press).start()
try:
    next(iter(DataLoader(Data(), 4, num_workers=1)))
except KeyboardInterrupt:
    print("seen")
"""
    done = run(code, folder)
    assert done.stdout == "seen\n", done.stderr


def test_ctrl_c_is_seen_while_the_source_is_slow(folder):
    """Opening a file takes longer than anybody waits. The process can end only when the file system
    has answered, or is gone: that is the kernel's rule."""
    if reason := why_not(find_program()):
        pytest.skip(f"slowfs cannot run: {reason}")
    code = """
import signal, sys, foreload
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by jobs of a shell
try:
    next(iter(foreload.DataLoader(sys.argv[1], 4, deadline=300)))
except KeyboardInterrupt:
    print("seen", flush=True)
"""
    with (
        SlowFs(folder, open_ms=120_000) as slow,
        subprocess.Popen(
            [sys.executable, "-c", code, slow.path],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        try:
            wait_until(lambda: slow.counters()["opens"] > 0)
            process.send_signal(signal.SIGINT)
            seen, _, _ = select.select([process.stdout], [], [], 60)
        finally:
            slow.process.kill()  # the file system is gone
        out, errors = process.communicate(timeout=60)
        assert seen
    assert (out, process.returncode) == ("seen\n", 0), errors


def test_ctrl_c_is_seen_while_c_plus_plus_decodes(tmp_path):
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (4, 4)).save(tmp_path / "a.bmp")
    code = """
import signal, sys, threading, foreload
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by jobs of a shell
started = threading.Event()
def slow(data, mode, upright):  # in place of what Pillow does
    started.set()
    threading.Event().wait(1)
    raise ValueError
foreload.transforms.steps.decode_other = slow
def press():
    started.wait()
    signal.raise_signal(signal.SIGINT)
threading.Thread(target=press).start()
try:
    next(iter(foreload.DataLoader(sys.argv[1], transform=foreload.transforms.CenterCrop(4))))
except KeyboardInterrupt:
    print("seen")
"""
    done = run(code, tmp_path)
    assert done.stdout == "seen\n", done.stderr


def test_a_loader_may_be_collected_on_its_own_thread(tmp_path):
    """Python code that a decoding thread runs may drop the last reference to the loader."""
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (4, 4)).save(tmp_path / "a.bmp")
    code = """
import sys, threading, foreload
made, gone = threading.Event(), threading.Event()
held = []
def drop(data, mode, upright):
    made.wait()
    held.clear()
    gone.set()
    raise ValueError
foreload.transforms.steps.decode_other = drop
held.append(foreload.DataLoader(sys.argv[1], transform=foreload.transforms.CenterCrop(4)))
made.set()
print(gone.wait(60), held)
"""
    done = run(code, tmp_path)
    assert (done.stdout, done.returncode) == ("True []\n", 0), done.stderr


def test_an_exception_in_the_loop_is_the_loop_s_own(folder):
    loader = foreload.DataLoader(folder, 4, return_index=True)

    def loop():
        for _ in loader:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        loop()
    assert loader.state_dict()["consumed"] == 4
    assert sum(len(indices) for _, _, indices in loader) == 40


def test_a_loader_that_was_made_in_another_thread(folder):
    made = []
    thread = threading.Thread(target=lambda: made.append(foreload.DataLoader(folder, 4)))
    thread.start()
    thread.join()
    assert len(list(made[0])) == 10


def test_loaders_come_and_go_without_leaving_threads(folder):
    def threads():
        return len(list(Path("/proc/self/task").iterdir()))

    for _ in range(3):
        next(iter(foreload.DataLoader(folder, 4)))
    before = threads()
    for _ in range(10):
        next(iter(foreload.DataLoader(folder, 4)))
    assert threads() <= before


def test_two_loaders_in_two_threads(folder):
    seen = {}

    def loop(seed):
        loader = foreload.DataLoader(folder, 8, True, seed=seed, return_index=True)
        seen[seed] = [int(index) for batch in loader for index in batch[2]]

    threads = [threading.Thread(target=loop, args=(seed,)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed in (1, 2):
        np.testing.assert_array_equal(seen[seed], foreload.order(40, seed=seed))


def test_timeout_is_an_error_that_can_be_survived():
    ready = threading.Event()

    class Slow:
        def __len__(self):
            return 2

        def locate(self, index):
            return b"x"

        def decode(self, data, index):
            ready.wait()
            return index

    loader = foreload.DataLoader(Slow(), batch_size=2, timeout=0.05, num_workers=1)
    iterator = iter(loader)
    with pytest.raises(RuntimeError, match=r"the loop waited for the Python transform \(1 threads"):
        next(iterator)
    ready.set()
    loader.timeout = 30
    assert np.asarray(next(iterator)).tolist() == [0, 1]


def test_a_closed_loader_says_so(folder):
    loader = foreload.DataLoader(folder, 4)
    loader.close()
    with pytest.raises(RuntimeError, match="closed"):
        next(iter(loader))
