# SPDX-License-Identifier: Apache-2.0
"""What a checkpoint keeps of a loader: a small dict, the same on every rank."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foreload.planning.place import Place

FORMAT = 2


@dataclass(frozen=True)
class Identity:
    """What must be the same for a place in the run to mean the same."""

    dataset: str  # fingerprint
    samples: int
    order: str
    seed: int | None  # None where it changes nothing
    counted: bool = True  # whether an epoch has just these samples

    @property
    def shuffled(self) -> bool:
        """Whether the seed decides the order."""
        return self.order not in ("sequential", "sampler")


# What is told of it where it differs.
_REMEDIES = {
    "dataset": "it was written for other data: use the same data set, or start anew",
    "samples": "it was written for another number of samples: use the same data set",
    "order": "it was written for another order: use the same shuffle=, order= and sampler=",
    "seed": "it was written for another seed: give the seed it was written with",
}


def write_state(identity: Identity, place: Place, sampler: Any = None) -> dict[str, Any]:
    """The dict for a checkpoint."""
    state: dict[str, Any] = {
        "foreload": FORMAT,
        "epoch": place.epoch,
        "consumed": place.consumed,
        **{name: getattr(identity, name) for name in _REMEDIES},
    }
    if sampler is not None:
        state["sampler"] = sampler
    return state


def read_state(identity: Identity, state: Mapping[str, Any]) -> Place:
    """The place that a checkpoint names; ValueError if it belongs to something else."""
    if not isinstance(state, Mapping) or "foreload" not in state:
        raise ValueError(
            "the state has no entry 'foreload': give what state_dict() of a DataLoader gave"
        )
    if state["foreload"] != FORMAT:
        raise ValueError(
            f"the state has format {state['foreload']!r}, this foreload reads format {FORMAT}: "
            "use the version that wrote it"
        )
    for name, remedy in _REMEDIES.items():
        mine = getattr(identity, name)
        if name == "seed" and not identity.shuffled and None in (mine, state.get(name)):
            continue  # one of both uses no random numbers
        if state.get(name) != mine:
            raise ValueError(
                f"the state does not fit this loader, {remedy} ({name} is {state.get(name)!r} in "
                f"the state and {mine!r} here)"
            )
    epoch: Any = state.get("epoch")
    consumed: Any = state.get("consumed")
    if not all(type(number) is int and number >= 0 for number in (epoch, consumed)):
        raise ValueError(
            f"the state is damaged: epoch is {epoch!r} and consumed is {consumed!r}, but both must "
            "be whole numbers from 0 on; use another state"
        )
    if identity.counted and consumed > identity.samples:
        raise ValueError(
            f"the state is damaged: {consumed:,} samples of an epoch are consumed, but an epoch "
            f"has {identity.samples:,}; use another state"
        )
    return Place(epoch, consumed)


def save_state(path: str | os.PathLike[str], state: Mapping[str, Any]) -> None:
    """Write the file, whole or not at all."""
    target = Path(path)
    beside = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    try:
        with open(beside, "w", encoding="utf-8") as file:
            json.dump(state, file)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)


def load_state(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what save_state() wrote."""
    try:
        state = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(
            f"cannot read state {os.fspath(path)}: it is not JSON ({error}); give a file that "
            "save() wrote"
        ) from error
    if not isinstance(state, dict):
        raise ValueError(
            f"cannot read state {os.fspath(path)}: it is not a JSON object; give a file that "
            "save() wrote"
        )
    return state
