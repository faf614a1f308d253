# SPDX-License-Identifier: Apache-2.0
"""Lightning and Accelerate, the real packages: what they call, and what the loop gets.

The sequences of calls that they make are written down here. They are compared with what the
installed versions do, and played to a loader without them, so that either side's change is seen.
"""

import itertools
import warnings

import pytest

import foreload

torch = pytest.importorskip("torch")

COUNT, BATCH, SEED = 12, 4, 9
BATCHES = 3


class Blobs:
    def __len__(self):
        return COUNT

    def locate(self, index):
        return bytes([index])

    def decode(self, data, index):
        return torch.full((2,), float(index)), index


class Recording(foreload.DataLoader):
    """Writes down what is called."""

    def __init__(self):
        super().__init__(Blobs(), BATCH, shuffle=True, seed=SEED, num_workers=1)
        self.calls = []
        set_epoch = self.sampler.set_epoch
        self.sampler.set_epoch = lambda epoch: (
            self.calls.append(f"set_epoch {epoch}"),
            set_epoch(epoch),
        )

    def __iter__(self):
        self.calls.append("iter")
        return RecordingIterator(super().__iter__(), self.calls)

    def state_dict(self):
        self.calls.append("state_dict")
        return super().state_dict()

    def load_state_dict(self, state):
        self.calls.append("load_state_dict")
        super().load_state_dict(state)


class RecordingIterator:
    def __init__(self, iterator, calls):
        self._iterator = iterator
        self._calls = calls

    def __iter__(self):
        return self

    def __next__(self):
        try:
            batch = next(self._iterator)
        except StopIteration:
            self._calls.append("end")
            raise
        self._calls.append("next")
        return batch


def order(epoch: int) -> list[int]:
    return foreload.order(COUNT, epoch=epoch, seed=SEED).tolist()


def in_short(calls: list[str]) -> str:
    """`next` three times is `next*3`."""
    groups = ((name, len(list(group))) for name, group in itertools.groupby(calls))
    return ", ".join(name if count == 1 else f"{name}*{count}" for name, count in groups)


LIGHTNING = "iter*2, set_epoch 0, next*3, set_epoch 1, iter, next*3"
LIGHTNING_MID_EPOCH = "iter*2, set_epoch 0, next*3, set_epoch 1, iter, next*2, state_dict, next"
LIGHTNING_RESUMED = "iter, load_state_dict, iter, set_epoch 1, next, set_epoch 2, iter, next*3"
LIGHTNING_NEXT_EPOCH = "iter, load_state_dict, iter, set_epoch 1, next*3"
ACCELERATE = "iter, next*3, end, iter, next, state_dict"
ACCELERATE_RESUMED = "load_state_dict, iter, next*2, end, iter, next*3, end"


def played(sequence: str, loader: foreload.DataLoader, state=None) -> tuple[list[int], dict]:
    """What a loop gets that makes these calls, and the last state it took."""
    seen, iterator = [], None
    for call in sequence.split(", "):
        name, _, times = call.partition("*")
        for _ in range(int(times or 1)):
            if name == "iter":
                iterator = iter(loader)
            elif name == "next":
                seen += next(iterator)[1].tolist()
            elif name == "end":
                with pytest.raises(StopIteration):
                    next(iterator)
            elif name == "state_dict":
                state = loader.state_dict()
            elif name == "load_state_dict":
                loader.load_state_dict(state)
            else:
                loader.sampler.set_epoch(int(name.removeprefix("set_epoch ")))
    return seen, state


def plain() -> foreload.DataLoader:
    return foreload.DataLoader(Blobs(), BATCH, shuffle=True, seed=SEED, num_workers=1)


def test_the_calls_of_lightning_played():
    assert played(LIGHTNING, plain())[0] == order(0) + order(1)
    seen, state = played(LIGHTNING_MID_EPOCH, plain())
    assert seen == order(0) + order(1)
    assert played(LIGHTNING_RESUMED, plain(), state)[0] == order(1)[8:] + order(2)
    _, state = played("iter, set_epoch 0, next*3, state_dict", plain())
    assert played(LIGHTNING_NEXT_EPOCH, plain(), state)[0] == order(1)


def test_the_calls_of_accelerate_played():
    seen, state = played(ACCELERATE, plain())
    assert seen == order(0) + order(1)[:4]
    assert played(ACCELERATE_RESUMED, plain(), state)[0] == order(1)[4:] + order(2)


def lightning_model(seen):
    import lightning

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 1)

        def training_step(self, batch, _):
            samples, indices = batch
            seen.extend(indices.tolist())
            return self.layer(samples).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.01)

    return Model()


def trainer_of(tmp_path, epochs, callbacks=()):
    import lightning

    return lightning.Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=epochs,
        callbacks=list(callbacks),
        logger=False,
        enable_checkpointing=bool(callbacks),
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
    )


@pytest.fixture
def lightning_package():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own, about workers and loggers
        yield pytest.importorskip("lightning")


def test_lightning(lightning_package, tmp_path):
    loader, seen = Recording(), []
    trainer_of(tmp_path, 2).fit(lightning_model(seen), loader)
    assert seen == order(0) + order(1)
    assert in_short(loader.calls) == LIGHTNING


@pytest.mark.parametrize(
    ("step", "calls"), [(5, LIGHTNING_RESUMED), (3, LIGHTNING_NEXT_EPOCH)], ids=["middle", "end"]
)
def test_lightning_resumes(lightning_package, tmp_path, step, calls):
    """From a checkpoint in the middle of an epoch, and from one after its last batch."""
    from lightning.pytorch.callbacks import ModelCheckpoint

    keep = ModelCheckpoint(tmp_path, "{step}", every_n_train_steps=step, save_top_k=-1)
    loader = Recording()
    trainer_of(tmp_path, 2, [keep]).fit(lightning_model([]), loader)
    if step == 5:
        assert in_short(loader.calls) == LIGHTNING_MID_EPOCH
    resumed, seen = Recording(), []
    trainer_of(tmp_path, 3 if step == 5 else 2).fit(
        lightning_model(seen), resumed, ckpt_path=tmp_path / f"step={step}.ckpt"
    )
    assert seen == (order(1)[8:] + order(2) if step == 5 else order(1))
    assert in_short(resumed.calls) == calls


def test_accelerate(tmp_path):
    accelerate = pytest.importorskip("accelerate")

    def started():
        accelerator = accelerate.Accelerator(cpu=True)
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        loader = Recording()
        model, optimizer, same = accelerator.prepare(model, optimizer, loader)
        assert same is loader  # it is not wrapped
        accelerator.register_for_checkpointing(loader)
        return accelerator, model, optimizer, loader

    def step(accelerator, model, optimizer, batch):
        samples, indices = batch
        loss = model(samples.to(accelerator.device)).mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        return indices.tolist()

    accelerator, model, optimizer, loader = started()
    seen = []
    for epoch in range(2):
        for batch in loader:
            seen += step(accelerator, model, optimizer, batch)
            if epoch == 1:
                break
    accelerator.save_state(tmp_path)
    assert seen == order(0) + order(1)[:4]
    assert in_short(loader.calls) == ACCELERATE

    accelerator, model, optimizer, loader = started()
    accelerator.load_state(tmp_path)
    seen = []
    for _ in range(2):
        for batch in loader:
            seen += step(accelerator, model, optimizer, batch)
    assert seen == order(1)[4:] + order(2)
    assert in_short(loader.calls) == ACCELERATE_RESUMED
