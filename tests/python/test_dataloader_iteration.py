# SPDX-License-Identifier: Apache-2.0
"""The loader's iterations against a small model: whatever a loop does, in whatever order."""

from pathlib import Path

import hypothesis
import hypothesis.stateful
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import foreload

COUNT, BATCH, SEED = 10, 4, 5
BATCHES = 3


class Blobs:
    """Samples in memory, so that the loader itself is all that is tested."""

    def __len__(self):
        return COUNT

    def locate(self, index):
        return bytes([index])

    def decode(self, data, index):
        assert data == bytes([index])
        return index


def make(folder: Path | None) -> foreload.DataLoader:
    if folder is None:
        return foreload.DataLoader(Blobs(), BATCH, shuffle=True, seed=SEED, num_workers=1)
    return foreload.DataLoader(folder, BATCH, True, seed=SEED, return_index=True, num_workers=1)


class Loop(RuleBasedStateMachine):
    """The model: `upcoming` is where a new iteration starts, `place` where a restart goes on."""

    folder: Path | None = None

    def __init__(self):
        super().__init__()
        self.loader = make(self.folder)
        self.upcoming = (0, 0)
        self.place = None  # while nothing of an epoch was asked for, `upcoming` stands for it
        self.loaded = False
        self.iterators = []  # [iterator, epoch, batches received, newest]
        self.states = []

    def teardown(self):
        self.loader.close()

    @rule()
    def new_iterator(self):
        self.iterators.append([iter(self.loader), None, 0, False])

    @precondition(lambda self: self.iterators)
    @rule(data=st.data())
    def step(self, data):
        self.advance(data.draw(st.sampled_from(self.iterators)))

    @precondition(lambda self: self.iterators)
    @rule()
    def finish(self):
        entry = self.iterators[-1]
        while entry[2] != "over":
            self.advance(entry)

    @precondition(lambda self: self.iterators)
    @rule()
    def leave_after_the_last_batch(self):
        """As trainers do that know the length: they never see the end."""
        entry = self.iterators[-1]
        while entry[2] not in ("over", BATCHES):
            self.advance(entry)

    @precondition(lambda self: self.iterators)
    @rule()
    def look_ahead(self):
        """As wrappers do that fetch a batch before they give out the one before: what they have
        taken counts as received, whatever becomes of it."""
        entry = self.iterators[-1]
        for _ in range(2):
            self.advance(entry)

    def advance(self, entry):
        iterator, epoch, batch, _ = entry
        if epoch is None:
            for other in self.iterators:
                other[3] = False
            entry[3] = True
            epoch, batch = self.upcoming
            self.upcoming = (epoch + 1, 0)
            self.loaded = False
            self.place = (epoch, batch)
            entry[1] = epoch
        elif batch == "over":
            with pytest.raises(StopIteration):
                next(iterator)
            return
        if batch == BATCHES:
            with pytest.raises(StopIteration):
                next(iterator)
            entry[2] = "over"
            if entry[3]:
                self.place = None  # a full new epoch
            return
        order = foreload.order(COUNT, epoch=epoch, seed=SEED)
        received = next(iterator)
        received = received[-1] if self.folder is not None else received
        assert np.asarray(received).tolist() == order[batch * BATCH :][:BATCH].tolist()
        entry[2] = batch + 1
        if entry[3]:
            self.place = (epoch, batch + 1)
        state = iterator.state_dict()
        assert (state["epoch"], state["consumed"]) == (epoch, min(COUNT, (batch + 1) * BATCH))

    def where(self):
        return self.upcoming if self.place is None else self.place

    @rule(by_sampler=st.booleans())
    def set_same_epoch(self, by_sampler):
        self.set_epoch(self.upcoming[0], by_sampler)

    @rule(epoch=st.integers(0, 4), by_sampler=st.booleans())
    def set_other_epoch(self, epoch, by_sampler):
        self.set_epoch(epoch, by_sampler)

    def set_epoch(self, epoch, by_sampler):
        (self.loader.sampler if by_sampler else self.loader).set_epoch(epoch)
        if not (self.loaded and epoch == self.upcoming[0]):
            self.upcoming = (epoch, 0)
            self.loaded = False

    @rule()
    def keep_state(self):
        self.states.append((self.loader.state_dict(), self.where()))

    @precondition(lambda self: self.states)
    @rule(data=st.data(), elsewhere=st.booleans())
    def load(self, data, elsewhere):
        self.load_state(*data.draw(st.sampled_from(self.states)), elsewhere)

    @rule(elsewhere=st.booleans())
    def restart(self, elsewhere):
        self.load_state(self.loader.state_dict(), self.where(), elsewhere)

    def load_state(self, state, place, elsewhere):
        if elsewhere:
            self.loader.close()
            self.loader = make(self.folder)
            self.iterators = []
        self.loader.load_state_dict(state)
        for entry in self.iterators:
            entry[3] = False
        self.upcoming, self.place, self.loaded = place, None, True

    @invariant()
    def look(self):
        assert len(self.loader) == BATCHES
        state = self.loader.state_dict()
        epoch, batches = self.where()
        assert (state["epoch"], state["consumed"]) == (epoch, min(COUNT, batches * BATCH))


@pytest.mark.parametrize("engine", [False, True])
def test_whatever_a_loop_does(engine, tmp_path):
    class Machine(Loop):
        folder = tmp_path if engine else None

    for number in range(COUNT if engine else 0):
        (tmp_path / f"{number}.png").write_bytes(bytes([number]))
    settings = hypothesis.settings(
        max_examples=15 if engine else 80, stateful_step_count=25, deadline=None, database=None
    )
    hypothesis.stateful.run_state_machine_as_test(Machine, settings=settings)


def test_trainers_name_the_epoch_after_loading():
    loader = make(None)
    next(iter(loader))
    state = loader.state_dict()
    loader.load_state_dict(state)
    loader.set_epoch(0)
    assert len(list(loader)) == BATCHES - 1
    loader.load_state_dict(state)
    loader.set_epoch(1)
    assert len(list(loader)) == BATCHES
