# SPDX-License-Identifier: Apache-2.0
"""Plans: figures that can be recomputed, views that stay alive, errors that say what to do."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from program_answers import JOB

import foreload

KIB = 1 << 10


def small(**changes: object) -> foreload.Plan:
    """A plan of a job with too little cache for everything, unless `changes` say otherwise."""
    return foreload.plan(**(JOB | changes))


def test_parse_and_format_bytes() -> None:
    assert foreload.parse_bytes("2GiB") == 2 << 30
    assert foreload.parse_bytes("2GB") == 2 * 10**9
    assert foreload.format_bytes(3 << 29) == "1.5 GiB"
    with pytest.raises(ValueError, match="2XB"):
        foreload.parse_bytes("2XB")


def test_version_is_that_of_the_library() -> None:
    assert foreload.__version__.count(".") == 2


def test_source_bytes_reach_the_lower_bound() -> None:
    plan = small()
    cached = 4 * 1_500 * KIB
    assert plan.cache_bytes == cached
    bound = plan.dataset_bytes + (plan.epochs - 1) * (plan.dataset_bytes - cached)
    assert plan.source_bytes_lower_bound == bound
    largest = plan.to_dict()["largest_sample_bytes"]
    assert bound <= plan.source_bytes <= bound + largest * plan.ranks * 2 * plan.epochs


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 300),
    st.integers(1, 9),
    st.integers(1, 7),
    st.integers(0, 3_000),
    st.integers(0, 3_000),
    st.sampled_from(["cover", "independent"]),
    st.sampled_from(["repeat", "truncate"]),
    st.integers(0, 2**64 - 1),
)
def test_figures_follow_from_lists_and_owners(
    samples: int,
    ranks: int,
    epochs: int,
    memory: int,
    disk: int,
    placement: str,
    pad: str,
    seed: int,
) -> None:
    sizes = np.random.default_rng(seed).integers(0, 100, samples)
    plan = foreload.plan(
        sizes=sizes,
        ranks=ranks,
        epochs=epochs,
        memory=f"{memory}B",
        disk=f"{disk}B",
        placement=placement,
        pad=pad,
        seed=seed,
    )
    reads = np.zeros((ranks, samples), dtype=np.int64)
    for rank in range(ranks):
        for epoch in range(epochs):
            mine = plan.reading_list(rank, epoch)
            np.testing.assert_array_equal(
                mine,
                foreload.order(samples, ranks=ranks, rank=rank, epoch=epoch, seed=seed, pad=pad),
            )
            np.add.at(reads[rank], mine, 1)
        np.testing.assert_array_equal(plan.access_counts(rank), reads[rank])
    histogram = np.bincount(reads.reshape(-1), minlength=len(plan.access_histogram)) / ranks
    np.testing.assert_allclose(plan.access_histogram, histogram)

    kept = plan.owners != foreload.NO_OWNER
    assert plan.dataset_bytes == sizes.sum()
    assert plan.coverage == pytest.approx(kept.mean())
    for rank in range(ranks):
        for tier, capacity in enumerate((memory, disk)):
            here = (plan.owners == rank) & (plan.tiers == tier)
            assert sizes[here].sum() <= capacity
    shares = plan.local_read_fraction, plan.peer_read_fraction, plan.source_read_fraction
    assert sum(shares) == pytest.approx(1 if reads.any() else 0)
    if not reads.any():
        return
    # The first read of a kept sample and all reads of the others come from the source.
    total = reads.sum(axis=0)
    from_source = np.where(kept, np.minimum(total, 1), total)
    assert plan.source_bytes == (from_source * sizes).sum()
    assert plan.source_read_fraction == pytest.approx(from_source.sum() / total.sum())
    assert plan.source_bytes >= plan.source_bytes_lower_bound


def test_lists_of_a_plan_start_where_the_job_resumes() -> None:
    plan = small(first_epoch=3, start=400, epochs=2, seed=-1)
    rest = foreload.order(1_000, ranks=4, rank=2, epoch=3, start=400, seed=-1)
    np.testing.assert_array_equal(plan.reading_list(2, 3), rest)
    np.testing.assert_array_equal(plan.global_list(3)[2::4], rest)
    assert len(plan.reading_list(2, 4)) == 250
    with pytest.raises(ValueError, match=r"epoch 5 is outside 3 \.\. 4"):
        plan.reading_list(0, 5)
    with pytest.raises(ValueError, match=r"rank 4 is outside 0 \.\. 3"):
        plan.reading_list(4, 3)


@pytest.mark.parametrize("name", ["owners", "tiers"])
def test_views_are_read_only_and_copy_nothing(name: str) -> None:
    plan = small()
    view = getattr(plan, name)
    assert len(view) == plan.samples
    assert np.shares_memory(view, getattr(plan, name))
    assert not view.flags.owndata
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        view.setflags(write=True)


def test_views_keep_the_plan_alive() -> None:
    plan = small(samples=200_000)
    view, copy = plan.owners, plan.owners.copy()
    del plan
    gc.collect()
    more = [small(samples=200_000, seed=seed) for seed in range(3)]  # would reuse freed memory
    np.testing.assert_array_equal(view, copy)
    del more


@pytest.mark.parametrize("placement", ["cover", "independent", "computed"])
def test_owners_agree_however_they_are_asked(placement: str) -> None:
    plan = small(placement=placement)
    assert plan.placement == placement
    owners = [plan.owner_of(sample) for sample in range(plan.samples)]
    for rank in range(plan.ranks):
        samples, tiers, offsets = plan.owned_by(rank)
        expected = [(s, o[1]) for s, o in enumerate(owners) if o is not None and o[0] == rank]
        assert list(zip(samples.tolist(), tiers.tolist(), strict=True)) == expected
        for tier in (0, 1):
            packed = offsets[tiers == tier]
            assert len(packed) == 0 or packed[0] == 0
            assert (np.diff(packed) > 0).all()
    kept = sum(owner is not None for owner in owners)
    assert plan.coverage == pytest.approx(kept / plan.samples)
    if placement != "computed":
        assert [None if o is None else o[0] for o in owners] == [
            None if o == foreload.NO_OWNER else o for o in plan.owners.tolist()
        ]


def test_computed_placement_has_no_tables() -> None:
    plan = small(placement="computed")
    with pytest.raises(ValueError, match="owner_of"):
        plan.owners  # noqa: B018
    with pytest.raises(ValueError, match="cover"):
        plan.access_counts(0)
    assert len(plan.access_histogram) == 0


def test_billions_of_samples_need_no_table() -> None:
    plan = foreload.plan(
        samples=10**12, mean_size=1_000, ranks=64, epochs=3, memory="1TiB", order="feistel"
    )
    assert plan.placement == "computed"
    assert plan.owner_of(10**12 - 1) is None or plan.owner_of(10**12 - 1)[0] < 64


def test_held_samples_keep_their_owner() -> None:
    sizes = np.random.default_rng(1).integers(5_000, 15_000, 1_000)
    fixed = {"samples": None, "mean_size": None, "sizes": sizes}
    before = small(**fixed)
    on_disk = (before.owners != foreload.NO_OWNER) & (before.tiers == 1)
    held = np.where(on_disk, before.owners.astype(np.int64), -1)
    warm = small(**fixed, seed=99, held=held)
    np.testing.assert_array_equal(warm.owners[on_disk], before.owners[on_disk])
    assert (warm.tiers[on_disk] == 1).all()
    cold = small(**fixed, seed=99)
    spared = sizes[on_disk].sum()
    assert cold.source_bytes_lower_bound - warm.source_bytes_lower_bound == spared
    assert cold.source_bytes - warm.source_bytes == pytest.approx(spared, rel=0.02)


def test_ranks_with_different_capacities() -> None:
    memory = ["2000KiB", 0, 500 * KIB, 0]
    disk = np.array([0, 300, 0, 0]) * KIB
    plan = small(memory=memory, disk=disk, size_sigma=0)
    assert plan.cache_bytes == 2_800 * KIB
    owned = [
        [int(((plan.owners == r) & (plan.tiers == t)).sum()) for t in (0, 1)] for r in range(4)
    ]
    assert owned == [[200, 0], [0, 30], [50, 0], [0, 0]]


def test_no_capacity_reads_everything_from_the_source() -> None:
    plan = small(memory=0, disk=0)
    assert plan.coverage == 0
    assert plan.source_read_fraction == 1
    assert plan.source_bytes == plan.source_bytes_lower_bound == 6 * plan.dataset_bytes
    assert (plan.owners == foreload.NO_OWNER).all()
    assert plan.owner_of(0) is None


def test_enough_capacity_reads_everything_once() -> None:
    plan = small(memory="1GiB")
    assert plan.coverage == 1
    assert plan.source_bytes == plan.source_bytes_lower_bound == plan.dataset_bytes


def test_unknown_sizes_are_planned_with_the_mean() -> None:
    plan = foreload.plan(sizes=[100, -1, 300, -1], epochs=1)
    assert plan.dataset_bytes == 800
    assert plan.to_dict()["unknown_sizes"] == 2
    with pytest.raises(ValueError, match="no sample's size is known"):
        foreload.plan(sizes=[-1, -1])


def test_one_sample() -> None:
    plan = foreload.plan(samples=1, mean_size=10, epochs=3, memory="10B")
    assert plan.owners.tolist() == [0]
    assert plan.source_bytes == 10
    assert plan.reading_list(0, 2).tolist() == [0]


def test_more_ranks_than_samples() -> None:
    plan = foreload.plan(samples=3, mean_size=10, ranks=8, epochs=2, memory="10B")
    assert plan.coverage == 1
    assert plan.source_bytes == 30
    assert len(plan.global_list(1)) == 8
    none = foreload.plan(samples=3, mean_size=10, ranks=8, epochs=2, memory="10B", pad="truncate")
    assert none.source_bytes == 0
    assert len(none.global_list(1)) == 0


def test_number_of_epochs_may_be_unknown() -> None:
    plan = small(epochs=None)
    assert plan.epochs > 1
    assert plan.to_dict()["epochs_known"] is False
    assert len(plan.reading_list(0, 10_000)) == 250


def test_equal_jobs_have_equal_digests() -> None:
    digest = small().digest
    assert len(digest) == 32
    assert small(threads=1).digest == small(threads=3).digest == digest
    assert small(memory=[500 * KIB] * 4).digest == digest
    assert small(seed=2**64 - 1).digest == small(seed=-1).digest != digest
    assert small(disk="1001KiB").digest != digest


def test_plan_of_a_folder_and_of_its_index(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    for i in range(20):
        path = folder / f"class{i % 3}" / f"{i}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * (100 + i))
    (folder / "class0" / "notes.txt").write_bytes(b"x" * 1_000)
    index = foreload.list_folder(folder)
    index.save(tmp_path / "images.index")
    plans = [
        foreload.plan(dataset, ranks=2, epochs=3, memory="500B")
        for dataset in (folder, str(folder), tmp_path / "images.index", index)
    ]
    assert len({plan.digest for plan in plans}) == 1
    assert plans[0].samples == 20
    assert plans[0].dataset_bytes == sum(range(100, 120))
    assert foreload.plan(folder, epochs=1, extensions="any").samples == 21
    assert foreload.plan(folder, epochs=1, extensions=[".txt", ".jpg"]).samples == 21


def test_figures_are_those_of_the_json() -> None:
    plan = small()
    figures = plan.to_dict()
    json.dumps(figures)
    for name in (
        "samples",
        "ranks",
        "epochs",
        "placement",
        "dataset_bytes",
        "cache_bytes",
        "source_bytes",
        "source_bytes_lower_bound",
        "coverage",
        "local_read_fraction",
        "peer_read_fraction",
        "source_read_fraction",
        "plan_seconds",
        "digest",
    ):
        assert figures[name] == getattr(plan, name), name
    np.testing.assert_allclose(figures["access_histogram"], plan.access_histogram)
    assert plan.plan_seconds > 0
    assert 1 << 20 < plan.peak_rss_bytes < 1 << 40


def test_text_is_a_table_and_repr_one_line() -> None:
    plan = small()
    assert "1,000 samples" in str(plan)
    assert plan.digest in str(plan)
    assert not str(plan).endswith("\n")
    assert repr(plan).startswith("<foreload.Plan: 1,000 samples (")
    assert "\n" not in repr(plan)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"samples": 0}, ValueError, "no samples"),
        ({"samples": None}, ValueError, "give one of dataset, samples"),
        ({"mean_size": None}, ValueError, "samples and mean_size go together"),
        ({"dataset": "x"}, ValueError, "give one of dataset, samples"),
        ({"samples": None, "mean_size": None, "sizes": []}, ValueError, "no samples"),
        ({"samples": None, "mean_size": None, "sizes": [-2]}, ValueError, "below -1: -2"),
        ({"samples": None, "mean_size": None, "sizes": [1.5]}, TypeError, "whole numbers"),
        ({"mean_size": "10"}, ValueError, "10"),
        ({"mean_size": "10XiB"}, ValueError, "10XiB"),
        ({"mean_size": 1.5}, TypeError, "mean_size must be a whole number"),
        ({"mean_size": -1}, ValueError, "mean_size must be at least 0"),
        ({"memory": "-1GiB"}, ValueError, "-1GiB"),
        ({"memory": -1}, ValueError, "memory must be at least 0"),
        ({"memory": [1, 2, 3]}, ValueError, "memory has 3 entries for 4 ranks"),
        ({"memory": 2**63, "disk": 2**63}, ValueError, "2^64"),
        ({"ranks": 0}, ValueError, "ranks must be at least 1"),
        ({"ranks": 2**32}, ValueError, "ranks must be at most"),
        ({"epochs": 0}, ValueError, "epochs must be at least 1, not 0"),
        ({"epochs": -1}, ValueError, "epochs must be at least 1, not -1"),
        ({"epochs": 2**62}, ValueError, "64 bits"),
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1, not 0"),
        ({"start": 1_001}, ValueError, "1001"),
        ({"seed": 2**64}, ValueError, "seed must be at most"),
        ({"order": "random"}, ValueError, "unknown order 'random'"),
        ({"pad": "zero"}, ValueError, "unknown pad 'zero'"),
        ({"placement": "best"}, ValueError, "unknown placement 'best'"),
        ({"held": [0]}, ValueError, "held has 1 entries for 1,000 samples"),
        ({"held": np.full(1_000, 4)}, ValueError, "held has an entry above 3: 4"),
        ({"held": np.zeros(1_000, int), "placement": "independent"}, ValueError, "cover"),
        ({"threads": -1}, ValueError, "threads must be at least 0"),
    ],
)
def test_bad_arguments_are_named_in_one_line(
    arguments: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        small(**arguments)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_and_corrupt_data_sets(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        foreload.plan(tmp_path / "nowhere")
    (tmp_path / "bad.index").write_bytes(b"FLINDEX\n" + b"this is no index" * 100)
    with pytest.raises(foreload.CorruptError, match=r"bad\.index"):
        foreload.plan(tmp_path / "bad.index")
    # Without an index's first bytes it is taken for a list of files.
    (tmp_path / "some.txt").write_bytes(b"this is no file\n")
    with pytest.raises(OSError, match=r"some\.txt, line 1"):
        foreload.plan(tmp_path / "some.txt")


# The second thread never gets the GIL by force, so it runs only while plan() has released it: at
# that moment the plan is being made.
INTERRUPTED = """
import os, signal, sys, threading, time
import foreload

# Whoever started the tests in the background may have let us ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)

def interrupt(main):
    while sys._current_frames()[main].f_code.co_name != "plan":
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGINT)

sys.setswitchinterval(1000)
threading.Thread(target=interrupt, args=[threading.get_ident()], daemon=True).start()
try:
    foreload.plan(samples=3_000_000, mean_size=1000, ranks=64, epochs=200, memory="10MiB")
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_stops_planning() -> None:
    child = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=300
    )
    assert child.returncode == 0, child.stderr
    assert child.stdout == "interrupted\n", "the plan was finished in spite of the signal"
