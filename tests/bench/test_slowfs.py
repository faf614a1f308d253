# SPDX-License-Identifier: Apache-2.0
"""The slow file system of the benchmarks: the bytes are right, the counters exact, the costs paid.

Times are those of a real clock. Nothing comes too early; how late it may come says the machine.
"""

from __future__ import annotations

import mmap
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench" / "engine"))

from data import Recipe, make
from slowfs import CONTROL, SlowFs, find_program, why_not

RECIPE = Recipe("fixed", files=40, classes=4)
CHEAP = {"open-ms": 0, "read-ms": 0, "stat-ms": 0, "list-ms": 0, "lookup-ms": 0, "bandwidth": 0}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = os.environ.get("SLOWFS")
    if reason := why_not(Path(program) if program else find_program()):
        pytest.skip(f"slowfs cannot run: {reason}")
    return make(tmp_path_factory.mktemp("data"), RECIPE).root


@pytest.fixture(scope="module")
def mounted(source: Path) -> Iterator[SlowFs]:
    program = os.environ.get("SLOWFS")
    with SlowFs(source, Path(program) if program else None) as slow:
        yield slow


@pytest.fixture
def slow(mounted: SlowFs) -> SlowFs:
    """Mounted, costing nothing, with all counters at zero."""
    mounted.set(**CHEAP, stall_share=0, curve="", burst_ms=0)
    mounted.reset()
    return mounted


def counted(slow: SlowFs, *names: str) -> list[int]:
    counters = slow.counters()
    return [counters[name] for name in names]


def read_once(path: Path) -> bytes:
    """One open and one read, nothing else."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 1 << 20)
    finally:
        os.close(descriptor)


def seconds_of(action) -> float:
    begin = time.monotonic()
    action()
    return time.monotonic() - begin


def test_bytes_and_names(slow: SlowFs, source: Path):
    expected = {RECIPE.path(sample): RECIPE.contents(sample) for sample in range(RECIPE.files)}
    found = {
        str(path.relative_to(slow.path)): path.read_bytes()
        for path in slow.path.rglob("*")
        if path.is_file()
    }
    assert found == expected
    path = RECIPE.path(7)
    assert (slow.path / path).stat().st_size == (source / path).stat().st_size
    assert (slow.path / path).stat().st_mtime_ns == (source / path).stat().st_mtime_ns


def test_parts_of_a_file(slow: SlowFs):
    contents = RECIPE.contents(3)
    with open(slow.path / RECIPE.path(3), "rb", buffering=0) as file:
        for offset, length in ((0, 1), (4095, 2), (50_000, 10_000), (len(contents) - 5, 100)):
            assert os.pread(file.fileno(), length, offset) == contents[offset : offset + length]
        assert os.pread(file.fileno(), 10, len(contents)) == b""


def test_counters_are_exact(slow: SlowFs):
    for sample in range(RECIPE.files):
        read_once(slow.path / RECIPE.path(sample))
    assert counted(slow, "opens", "reads", "read_bytes", "stats", "listings", "in_flight") == [
        RECIPE.files,
        RECIPE.files,
        RECIPE.bytes,
        0,
        0,
        0,
    ]


def test_stats_and_listings_are_counted(slow: SlowFs):
    for _ in range(5):
        os.stat(slow.path / RECIPE.path(0))
    assert counted(slow, "stats", "listings", "opens", "reads") == [5, 0, 0, 0]
    names = os.listdir(slow.path / "class0001")
    assert len(names) == RECIPE.files // RECIPE.classes
    assert counted(slow, "listings", "list_requests", "opens", "reads") == [1, 1, 0, 0]


def test_names_are_looked_up_once(slow: SlowFs):
    for sample in range(3):
        read_once(slow.path / RECIPE.path(sample))
    slow.reset()
    for sample in range(3):
        read_once(slow.path / RECIPE.path(sample))
    assert counted(slow, "opens", "lookups") == [3, 0]


def test_names_may_be_looked_up_each_time(tmp_path: Path, slow: SlowFs):
    folder = tmp_path / "source" / "a" / "b"
    folder.mkdir(parents=True)
    (folder / "x").write_bytes(b"x")
    with SlowFs(tmp_path / "source", slow.program, name_seconds=0) as other:
        for _ in range(2):
            read_once(other.path / "a" / "b" / "x")
        assert counted(other, "opens", "lookups") == [2, 6]
        other.set(lookup_ms=20)
        assert seconds_of(lambda: read_once(other.path / "a" / "b" / "x")) >= 3 * 0.02


def test_attributes_may_be_kept(source: Path, slow: SlowFs):
    with SlowFs(source, slow.program, attr_seconds=1000) as other:
        for _ in range(5):
            os.stat(other.path / RECIPE.path(0))
        assert counted(other, "stats") == [0]  # each lookup had brought them


def test_contents_may_be_kept_while_a_file_is_open(source: Path, slow: SlowFs):
    with SlowFs(source, slow.program, page_cache=1) as other:
        with open(other.path / RECIPE.path(0), "rb", buffering=0) as file:
            for _ in range(5):
                file.seek(0)
                assert file.read() == RECIPE.contents(0)
        assert counted(other, "read_bytes") == [int(RECIPE.sizes[0])]


def test_server_threads_bound_what_is_served_at_once(source: Path, slow: SlowFs):
    path = RECIPE.path(1)
    with SlowFs(source, slow.program, server_threads=2) as other:
        read_once(other.path / path)
        other.set(read_ms=50)
        assert seconds_of(lambda: in_parallel(8, lambda _: read_once(other.path / path))) >= 0.2
        assert counted(other, "most_in_flight")[0] <= 2


def test_a_number_draws_a_file_system(source: Path, slow: SlowFs):
    def settings(**given: object) -> dict[str, object]:
        with SlowFs(source, slow.program, **given) as other:
            return other.counters()["settings"]

    drawn = settings(draw=7)
    assert settings(draw=7) == drawn
    assert settings(draw=8) != drawn
    assert settings(draw=7, open_ms=3) == drawn | {"open-ms": 3}


def test_nothing_is_cached(slow: SlowFs):
    for _ in range(10):
        read_once(slow.path / RECIPE.path(0))
    assert counted(slow, "reads", "read_bytes") == [10, 10 * int(RECIPE.sizes[0])]


def test_reads_at_the_end_are_free(slow: SlowFs):
    slow.set(read_ms=1000)
    with open(slow.path / RECIPE.path(0), "rb", buffering=0) as file:
        file.read(1 << 20)
        taken = seconds_of(lambda: [file.read(1 << 20) for _ in range(5)])
    assert counted(slow, "reads", "reads_at_end") == [1, 5]
    assert taken < 5 * 1


def test_read_of_a_megabyte_is_one_request(tmp_path: Path, slow: SlowFs):
    source, contents = tmp_path / "source", os.urandom(3 << 20)
    source.mkdir()
    (source / "x").write_bytes(contents)
    with SlowFs(source, slow.program) as other:
        with open(other.path / "x", "rb", buffering=0) as file:
            aligned = mmap.mmap(-1, 3 << 20)  # to a page; otherwise there is one request more
            assert os.readv(file.fileno(), [aligned]) == 3 << 20
        assert aligned[:] == contents
        assert counted(other, "reads", "read_bytes") == [3, 3 << 20]


def test_each_request_costs_its_latency(slow: SlowFs):
    path = slow.path / RECIPE.path(1)
    read_once(path)
    slow.set(open_ms=30)
    assert seconds_of(lambda: os.close(os.open(path, os.O_RDONLY))) >= 0.03
    slow.set(open_ms=0, read_ms=40)
    assert seconds_of(lambda: read_once(path)) >= 0.04
    slow.set(read_ms=0, stat_ms=20)
    assert seconds_of(lambda: os.stat(path)) >= 0.02
    slow.set(stat_ms=0, list_ms=25)
    assert seconds_of(lambda: os.listdir(path.parent)) >= 0.025


def in_parallel(threads: int, action) -> None:
    running = [threading.Thread(target=action, args=(i,)) for i in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def test_latencies_of_300_requests_pass_together(slow: SlowFs):
    path = slow.path / RECIPE.path(1)
    for seconds in (1, 2, 4, 8, 16):  # until all have begun before the first one ends
        slow.reset()
        slow.set(read_ms=1000 * seconds)
        taken = seconds_of(lambda: in_parallel(300, lambda _: read_once(path)))
        assert seconds <= taken < 100 * seconds
        if counted(slow, "reads", "most_in_flight") == [300, 300]:
            return
    pytest.fail("300 reads were never under way at the same time")


BURST = 0.5  # seconds


def follows(slow: SlowFs, threads: int, bandwidth: float) -> bool:
    """Whether so many readers together get what the channel gives. Never more; a busy machine may
    take time away, so that one of a few tries counts."""
    path = slow.path / RECIPE.path(1)
    size = 100 << 10

    def rate_is_right() -> bool:
        stop = time.monotonic() + 2.0
        done = [0] * threads

        def read(reader: int) -> None:
            descriptor = os.open(path, os.O_RDONLY)
            while time.monotonic() < stop:
                done[reader] += len(os.pread(descriptor, size, 0))
            os.close(descriptor)

        taken = seconds_of(lambda: in_parallel(threads, read))
        assert sum(done) <= bandwidth * (taken + BURST) + size
        return sum(done) >= 0.9 * bandwidth * taken

    return any(rate_is_right() for _ in range(10))


@pytest.mark.parametrize("threads", [8, 32])
def test_bandwidth_is_shared(slow: SlowFs, threads: int):
    slow.set(bandwidth="8MB")
    assert follows(slow, threads, 8e6)


def test_burst_makes_up_for_the_time_between_reads(slow: SlowFs):
    slow.set(bandwidth="4MB", burst_ms=1000 * BURST)
    assert follows(slow, 1, 4e6)


def test_bandwidth_changes_while_reads_are_under_way(slow: SlowFs):
    slow.set(bandwidth="1KB")  # a read takes 100 seconds
    change = threading.Timer(0.2, lambda: slow.set(bandwidth="100MB"))
    change.start()
    taken = seconds_of(lambda: read_once(slow.path / RECIPE.path(1)))
    change.join()
    assert 0.2 <= taken < 90


def test_small_reads_get_past_a_large_one(slow: SlowFs):
    slow.set(bandwidth="1KB")  # 100 KiB take 100 seconds
    path = slow.path / RECIPE.path(1)
    large = threading.Thread(target=lambda: read_once(path))
    descriptor = os.open(path, os.O_RDONLY)
    large.start()
    while counted(slow, "in_flight") == [0]:
        time.sleep(0.001)
    os.pread(descriptor, 1, 0)
    os.close(descriptor)
    assert large.is_alive()
    slow.set(bandwidth=0)
    large.join()


def test_curve_follows_the_streams(slow: SlowFs):
    # So slow that readers are hardly ever between two reads, however busy the machine is.
    slow.set(curve="1:400KB,4:1200KB,8:600KB", burst_ms=1000 * BURST)
    assert follows(slow, 1, 400e3)
    assert follows(slow, 4, 1200e3)
    assert follows(slow, 8, 600e3)


def test_stalls_follow_the_seed(slow: SlowFs):
    slow.set(stall_share=1, stall_ms="30:40")
    assert seconds_of(lambda: read_once(slow.path / RECIPE.path(1))) >= 0.03
    slow.set(stall_share=0.25, stall_ms="0.001:0.002")
    counts = []
    for seed in (1, 1, 2):
        slow.set(seed=seed)
        slow.reset()
        for _ in range(1000):
            read_once(slow.path / RECIPE.path(0))
        counts += counted(slow, "stalls")
    assert counts[0] == counts[1] != counts[2]
    assert all(150 < count < 350 for count in counts)


def test_wrong_commands_are_refused(slow: SlowFs):
    before = slow.counters()
    for line in ({"speed": 3}, {"bandwidth": "60"}, {"stall-ms": "5:3"}, {"curve": "4:1MB,2:1MB"}):
        with pytest.raises(ValueError, match="does not accept"):
            slow.set(**line)
    assert slow.counters() == before


def test_it_is_read_only(slow: SlowFs, source: Path):
    before = sorted(source.rglob("*"))
    for attempt in (
        lambda: (slow.path / "new").write_bytes(b"x"),
        lambda: (slow.path / RECIPE.path(0)).write_bytes(b"x"),
        lambda: (slow.path / RECIPE.path(0)).unlink(),
        lambda: (slow.path / "folder").mkdir(),
        lambda: (slow.path / RECIPE.path(0)).rename(slow.path / "y"),
    ):
        with pytest.raises(OSError, match="Read-only"):
            attempt()
    assert sorted(source.rglob("*")) == before


def test_control_file_is_not_listed(slow: SlowFs):
    assert (slow.path / CONTROL).exists()
    assert CONTROL not in os.listdir(slow.path)


def test_leaves_nothing_behind(slow: SlowFs, source: Path, tmp_path: Path):
    stats = tmp_path / "stats.json"
    with SlowFs(source, slow.program, stats=stats) as other:
        path, process = other.path, other.process
        held = os.open(path / RECIPE.path(0), os.O_RDONLY)  # a busy mount must go, too
        assert str(path) in Path("/proc/mounts").read_text("utf-8")
    os.close(held)
    assert str(path) not in Path("/proc/mounts").read_text("utf-8")
    assert not path.exists()
    assert process.returncode == 0
    assert '"opens": 1' in stats.read_text("utf-8")


def test_leaves_nothing_behind_after_a_crash(slow: SlowFs, source: Path):
    with SlowFs(source, slow.program) as other:
        path = other.path
        other.process.kill()
        other.process.wait()
    assert str(path) not in Path("/proc/mounts").read_text("utf-8")
    assert not path.exists()
