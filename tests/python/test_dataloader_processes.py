# SPDX-License-Identifier: Apache-2.0
"""workers="process": a Python transform in processes of its own."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import foreload

# torch is imported where it is needed only: each process would import it.


def who(image):
    return os.getpid()


def from_global_state(image):
    import torch

    return random.random(), float(np.random.rand()), float(torch.rand(()))  # noqa: NPY002


def fails(image):
    deep()


def deep():
    raise KeyError("a key that is not there")


def dies(image):
    os.kill(os.getpid(), signal.SIGKILL)


def loader_of(folder: Path, transform, **given) -> foreload.DataLoader:
    given = {"batch_size": 10, "num_workers": 1, "workers": "process"} | given
    return foreload.DataLoader(folder, transform=transform, collate_fn=list, **given)


def test_samples_are_made_elsewhere(images):
    loader = loader_of(images, who, num_workers=2)
    processes = {made for batch in loader for made, _ in batch}
    assert 1 <= len(processes) <= 2
    assert os.getpid() not in processes
    loader.close()
    wait_for_the_end_of(processes)


def wait_for_the_end_of(processes):
    until = time.monotonic() + 60
    while any(Path(f"/proc/{process}").exists() for process in processes):
        assert time.monotonic() < until, "processes are left"
        time.sleep(0.05)


def test_global_random_state_is_seeded_for_each_sample(images):
    pytest.importorskip("torch")
    runs = []
    for count in (1, 2):
        loader = loader_of(images, from_global_state, num_workers=count, shuffle=True)
        runs.append([made for batch in loader for made, _ in batch])
        loader.close()
    assert runs[0] == runs[1]
    assert all(len(set(column)) == 50 for column in zip(*runs[0], strict=True))


def test_an_exception_names_the_file_and_keeps_its_traceback(images):
    loader = loader_of(images, fails)
    with pytest.raises(foreload.TransformError, match=r"class0/0000\.png.*KeyError") as caught:
        next(iter(loader))
    assert "in deep" in str(caught.value.__cause__)
    loader.close()


def test_a_process_that_dies_is_one_clear_error(images):
    loader = loader_of(images, dies)
    for _ in range(2):  # a new iteration begins with new processes
        iterator = iter(loader)
        with pytest.raises(RuntimeError, match="worker process ended"):
            next(iterator)
    loader.close()


def test_what_cannot_be_sent_is_refused_at_once(images):
    with pytest.raises(TypeError, match="top level of a module"):
        loader_of(images, lambda image: image)


def test_native_transforms_need_no_processes(images):
    with pytest.raises(ValueError, match="workers='process'"):
        loader_of(images, foreload.transforms.imagenet_eval(32))


def test_processes_end_with_a_program_that_was_killed(images, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        f"""
import os
import foreload
def who(image):
    return os.getpid()
if __name__ == "__main__":
    loader = foreload.DataLoader(
        {os.fspath(images)!r}, 50, transform=who, num_workers=2, workers="process",
        collate_fn=list,
    )
    print(*{{made for made, _ in next(iter(loader))}}, flush=True)
    os.kill(os.getpid(), 9)
"""
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert done.returncode == -signal.SIGKILL, done.stderr
    wait_for_the_end_of([int(process) for process in done.stdout.split()])


def test_a_program_may_end_in_mid_epoch(images, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        f"""
import foreload
def size(image):
    return image.width
if __name__ == "__main__":
    loader = foreload.DataLoader(
        {os.fspath(images)!r}, 5, transform=size, num_workers=1, workers="process",
        collate_fn=list,
    )
    next(iter(loader))
"""
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
