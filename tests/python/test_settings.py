# SPDX-License-Identifier: Apache-2.0
"""Settings travel as one mapping: what Python lists is what C++ knows, and each is checked."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest

import foreload
from foreload import _core
from foreload import _settings as typed

TAKERS = {
    foreload.DataLoader: typed.LoaderSettings,
    foreload.Reader: typed.ReaderSettings,
    foreload.open_dataset: typed.StorageSettings,
    foreload.plan: typed.PlanSettings,
}
MIB = 2**20


@pytest.mark.parametrize("taker", TAKERS)
def test_every_setting_is_an_argument_with_the_default_of_the_engine(taker) -> None:
    defaults = _core.setting_defaults()
    parameters = inspect.signature(taker).parameters
    for name in TAKERS[taker].__annotations__:
        assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
        assert parameters[name].default == defaults[name]
    assert not any(entry.kind is entry.VAR_KEYWORD for entry in parameters.values())


@pytest.mark.parametrize("taker", TAKERS)
def test_every_argument_is_described(taker) -> None:
    described = inspect.getdoc(taker)
    for name in inspect.signature(taker).parameters:
        assert f"{name}:" in described or f"{name}," in described, name


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"batch_size": "4"}, TypeError, "batch_size must be a whole number, not '4'"),
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1, not 0"),
        (
            {"ranks": 2**40},
            ValueError,
            "ranks must be at most 4,294,967,295, not 1,099,511,627,776",
        ),
        ({"deadline": 0}, ValueError, "deadline is 0: give seconds above 0"),
        ({"deadline": "soon"}, TypeError, "deadline must be a number of seconds, not 'soon'"),
        ({"revalidate": "yes"}, TypeError, "revalidate must be True or False, not 'yes'"),
        ({"on_error": "ask"}, ValueError, "on_error is 'ask': use 'raise' or 'skip'"),
        ({"order": "random"}, ValueError, "unknown order 'random'"),
        ({"index": 5}, TypeError, "index must be a path, not 5"),
        ({"memory": None}, TypeError, "memory must be a whole number, not None"),
        ({"disk": "/local/nvme"}, ValueError, "disk is '/local/nvme': give a folder and a size"),
        ({"disk": 5}, TypeError, "disk must be 'FOLDER:SIZE', not 5"),
        ({"extensions": [5]}, TypeError, "extensions must be texts like '.jpg', not [5]"),
        ({"seed": 2**64}, ValueError, "seed must be at most 18,446,744,073,709,551,615"),
    ],
)
def test_a_wrong_value_is_named_in_one_line(given, error, said) -> None:
    with pytest.raises(error) as caught:
        _core.Settings(**given)
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


def test_values_come_back_as_they_are_meant(tmp_path: Path) -> None:
    settings = _core.Settings(
        memory="8MiB", disk=(tmp_path, "4MiB"), seed=-1, deadline=float("inf")
    )
    assert settings.memory == 8 * MIB
    assert settings.disk == [(str(tmp_path), 4 * MIB)]
    assert settings.seed == 2**64 - 1
    assert settings.deadline > 1e8
    assert settings.epochs is None
    settings.set(epochs=3)
    assert settings.epochs == 3
    with pytest.raises(AttributeError, match="no setting frobnicate"):
        settings.frobnicate  # noqa: B018


# Budgets.


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(8):
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / "data" / f"{number}.jpg").write_bytes(bytes([number]) * 1000)
    return tmp_path / "data"


def two_ranks_here(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "RANK": 0,
        "WORLD_SIZE": 2,
        "LOCAL_RANK": 0,
        "LOCAL_WORLD_SIZE": 2,
    }.items():
        monkeypatch.setenv(name, str(value))


@pytest.mark.parametrize("per_rank", [False, True])
def test_a_budget_is_the_nodes_and_shared_by_its_ranks(folder, monkeypatch, per_rank) -> None:
    two_ranks_here(monkeypatch)
    expected = 8 * MIB if per_rank else 4 * MIB
    reader = foreload.Reader(folder, rank=0, ranks=2, memory="8MiB", per_rank=per_rank)
    assert reader.stats()["tiers"][0]["bytes"] == expected
    loader = foreload.DataLoader(folder, memory="8MiB", transport="none", per_rank=per_rank)
    assert loader.stats()["tiers"][0]["bytes"] == expected
    loader.close()


def test_ranks_that_are_alone_on_their_node_have_all_of_it(folder) -> None:
    reader = foreload.Reader(folder, rank=1, ranks=2, memory="8MiB")
    assert reader.stats()["tiers"][0]["bytes"] == 8 * MIB


def test_a_plan_shares_a_nodes_budget_among_its_ranks() -> None:
    job = {"samples": 1000, "mean_size": 1000, "ranks": 4, "epochs": 3}
    shared = foreload.plan(**job, ranks_per_node=2, memory="8MiB", disk="4MiB")
    assert shared.cache_bytes == 2 * 12 * MIB
    each = foreload.plan(**job, ranks_per_node=2, per_rank=True, memory="8MiB", disk="4MiB")
    assert each.cache_bytes == 4 * 12 * MIB
    uneven = foreload.plan(**job, ranks_per_node=2, memory=["8MiB", "4MiB"])
    assert uneven.cache_bytes == 12 * MIB
    with pytest.raises(ValueError, match=r"memory has 4 entries for 2 nodes: .* one per node"):
        foreload.plan(**job, ranks_per_node=2, memory=["1MiB"] * 4)


def test_the_program_shares_it_in_the_same_way(run) -> None:
    job = ["plan", "--samples", "1000", "--mean-size", "1000B", "--ranks", "4", "--json"]
    job += ["--ranks-per-node", "2", "--memory", "8MiB"]
    assert json.loads(run(*job).stdout)["cache_bytes"] == 16 * MIB
    assert json.loads(run(*job, "--per-rank").stdout)["cache_bytes"] == 32 * MIB


# Counters.


def test_an_epoch_has_the_counters_of_the_run(folder) -> None:
    reader = foreload.Reader(folder, epochs=2, batch_size=4, memory="8MiB")
    sums = {}
    for _ in range(2):
        list(reader)
        for name, value in reader.epoch_stats()["counters"].items():
            sums[name] = sums.get(name, 0) + value
    stats = reader.stats()
    assert sums["source_bytes"] == 8000
    assert sums == {name: stats[name] for name in sums}
    assert "read_along_bytes" in sums
