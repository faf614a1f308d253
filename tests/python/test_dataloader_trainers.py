# SPDX-License-Identifier: Apache-2.0
"""Lightning, Fabric, Accelerate and Hugging Face's Trainer, the real packages in one process: each
takes a loader of foreload for torch's, and every batch of it comes from foreload.

`stats()["delivered"]` counts the batches that foreload gave to loops. If a trainer had made a
loader of torch's, or had gone over batches to leave them out, the number would show it.
test_trainers_on_ranks.py has several processes.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import foreload

torch = pytest.importorskip("torch")

COUNT, BATCH, SEED = 50, 8, 9
BATCHES = 7
SIZE = 4
CHAIN = foreload.transforms.Compose(
    [foreload.transforms.Resize((SIZE, SIZE)), foreload.transforms.ToDtype("float32", scale=True)]
)


def make(folder, **more) -> foreload.DataLoader:
    # `epochs` keeps it from reading ahead thousands of epochs of so small a data set.
    settings = {"shuffle": True, "seed": SEED, "num_workers": 1, "return_index": True, "epochs": 9}
    return foreload.DataLoader(folder, BATCH, transform=CHAIN, **settings | more)


def order(epoch: int, first: int = 0) -> list[int]:
    """Samples of an epoch from a batch on."""
    return foreload.order(COUNT, epoch=epoch, seed=SEED).tolist()[first * BATCH :]


def delivered(loader: foreload.DataLoader) -> int:
    return loader.stats()["delivered"]


def samples(loader) -> list[int]:
    return [index for batch in loader for index in batch[2].tolist()]


# Lightning


@pytest.fixture(scope="module")
def lightning():
    return pytest.importorskip("lightning")


@pytest.fixture
def model(lightning):
    """Knows the samples that it was given, by stage."""

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3 * SIZE * SIZE, 1)
            self.seen = {"train": [], "val": [], "test": [], "predict": []}

        def step(self, stage, batch):
            self.seen[stage] += batch[2].tolist()
            return self.layer(batch[0].flatten(1)).mean()

        def training_step(self, batch, _):
            return self.step("train", batch)

        def validation_step(self, batch, _):
            self.step("val", batch)

        def test_step(self, batch):
            self.step("test", batch)

        def predict_step(self, batch, _):
            self.step("predict", batch)
            return batch[2]

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.01)

    return Model()


@pytest.fixture
def trainer(lightning, tmp_path):
    """Makes trainers that keep quiet."""

    def made(epochs=1, callbacks=(), **more):
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
            **more,
        )

    return made


pytestmark = pytest.mark.filterwarnings("ignore")  # of the trainers, about workers and loggers


def test_lightning_fits(trainer, model, images):
    train, validation = make(images), make(images, shuffle=False)
    trainer(2, num_sanity_val_steps=0).fit(model, train, validation)
    assert model.seen["train"] == order(0) + order(1)
    assert model.seen["val"] == list(range(COUNT)) * 2
    assert (delivered(train), delivered(validation)) == (2 * BATCHES, 2 * BATCHES)


@pytest.mark.parametrize(
    ("step", "epoch", "batch"),
    [(BATCHES + 2, 1, 2), (BATCHES, 1, 0), (2, 0, 2)],
    ids=["in the second epoch", "at the end of an epoch", "in the first epoch"],
)
def test_lightning_resumes(trainer, model, images, tmp_path, step, epoch, batch):
    from lightning.pytorch.callbacks import ModelCheckpoint

    keep = ModelCheckpoint(tmp_path, "{step}", every_n_train_steps=step, save_top_k=-1)
    trainer(2, [keep]).fit(model, make(images))
    model.seen["train"].clear()
    loader = make(images)
    trainer(3).fit(model, loader, ckpt_path=tmp_path / f"step={step}.ckpt")
    rest = order(epoch, batch) + [i for later in range(epoch + 1, 3) for i in order(later)]
    assert model.seen["train"] == rest
    assert delivered(loader) == 3 * BATCHES - step


def test_lightning_evaluates(trainer, model, images):
    loader = make(images, shuffle=False)
    trainer().validate(model, loader, verbose=False)
    trainer().test(model, loader, verbose=False)
    assert model.seen["val"] == model.seen["test"] == list(range(COUNT))
    assert delivered(loader) == 2 * BATCHES


def test_lightning_predicts_with_a_loader_that_it_makes_again(trainer, model, images):
    """It puts a batch sampler of its own into a new loader, to know the samples of each batch."""
    predicting = trainer()
    found = predicting.predict(model, make(images, shuffle=False))
    assert torch.cat(found).tolist() == list(range(COUNT))
    used = predicting.predict_dataloaders
    assert type(used) is foreload.DataLoader
    assert delivered(used) == BATCHES


class Numbered:
    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        return torch.zeros(3, SIZE, SIZE), 0, index


@pytest.mark.parametrize("workers", [0, 1])
def test_lightning_predicts_with_a_data_set_that_is_called(trainer, model, workers):
    """A loader without workers said that they were persistent: it could not be made again."""
    predicting = trainer()
    loader = foreload.DataLoader(Numbered(), BATCH, num_workers=workers)
    found = predicting.predict(model, loader)
    assert torch.cat(found).tolist() == list(range(COUNT))
    used = predicting.predict_dataloaders
    assert type(used) is foreload.DataLoader
    assert used is not loader
    assert delivered(used) == BATCHES
    assert used.persistent_workers is False


def test_a_loader_with_a_generator_is_made_again_with_its_seed(trainer, model, images):
    """It was an error: a seed and a generator exclude each other."""
    generator = torch.Generator().manual_seed(4)
    loader = make(images, shuffle=True, seed=None, generator=generator)
    predicting = trainer()
    found = torch.cat(predicting.predict(model, loader))
    assert sorted(found.tolist()) == list(range(COUNT))
    used = predicting.predict_dataloaders
    assert used is not loader
    assert used.seed == loader.seed
    assert used.generator is generator
    assert type(loader.state_dict()["seed"]) is int


@pytest.mark.parametrize("shuffle", [True, False])
def test_lightning_overfits(trainer, model, images, shuffle):
    """A loader with shuffle is made again without it."""
    overfitting, loader = trainer(3, overfit_batches=2), make(images, shuffle=shuffle)
    overfitting.fit(model, loader)
    assert model.seen["train"] == list(range(2 * BATCH)) * 3
    used = overfitting.train_dataloader
    assert type(used) is foreload.DataLoader
    assert (used is loader) == (not shuffle)
    assert delivered(used) == 3 * 2


def test_lightning_seeds_workers(lightning, trainer, model, images, monkeypatch):
    for name in ("PL_GLOBAL_SEED", "PL_SEED_WORKERS"):
        monkeypatch.setenv(name, "0")
    lightning.seed_everything(1, workers=True, verbose=False)
    loader = make(images)
    trainer().fit(model, loader)
    assert loader.worker_init_fn is not None
    assert model.seen["train"] == order(0)
    assert delivered(loader) == BATCHES


def test_fabric_keeps_the_state_and_goes_on_in_the_middle(lightning, images, tmp_path):
    """Its wrapper counts epochs from 0 after a restart; the loader knows better."""
    fabric = lightning.Fabric(accelerator="cpu", devices=1)
    loader = make(images)
    wrapper = fabric.setup_dataloaders(loader)
    seen = samples(wrapper)
    for _, batch in zip(range(2), wrapper, strict=False):
        seen += batch[2].tolist()
    assert seen == order(0) + order(1)[: 2 * BATCH]
    fabric.save(tmp_path / "state.ckpt", {"loader": wrapper})

    loader = make(images)
    wrapper = fabric.setup_dataloaders(loader)
    fabric.load(tmp_path / "state.ckpt", {"loader": wrapper})
    assert samples(wrapper) == order(1, 2)
    assert samples(wrapper) == order(2)
    assert delivered(loader) == BATCHES - 2 + BATCHES


# Accelerate


@pytest.fixture(scope="module")
def accelerate():
    return pytest.importorskip("accelerate")


@pytest.fixture
def accelerator(accelerate):
    return accelerate.Accelerator(cpu=True, gradient_accumulation_steps=3)


def training(accelerator, loader):
    """What a script prepares."""
    model = torch.nn.Linear(3 * SIZE * SIZE, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    return accelerator.prepare(model, optimizer, loader)


def test_accelerate_keeps_the_loader(accelerator, images):
    loader = make(images)
    _, _, prepared = training(accelerator, loader)
    assert prepared is loader
    assert accelerator.prepare(prepared) is loader
    assert accelerator._dataloaders == [loader]
    assert (loader.total_batch_size, loader.total_dataset_length) == (BATCH, COUNT)


def test_accelerate_places_batches(accelerate, images):
    from foreload.trainers.accelerate import Prepared

    loaders = [make(images) for _ in range(2)]
    staying = accelerate.Accelerator(cpu=True, device_placement=False)
    staying.prepare(loaders[0])
    staying.prepare(loaders[1], device_placement=[True])
    assert [loader._prepared.device for loader in loaders] == [None, staying.device]
    moved = Prepared(torch.device("meta")).placed([torch.ones(2), {"labels": torch.ones(1)}])
    assert (moved[0].device.type, moved[1]["labels"].device.type) == ("meta", "meta")


def test_accelerate_refuses_a_loader_for_fewer_ranks(accelerate, images):
    class Two(accelerate.Accelerator):
        num_processes = 2

    with pytest.raises(ValueError, match="made for 1 ranks, but Accelerate has 2 processes"):
        Two(cpu=True).prepare(make(images))
    shared = make(images, rank=1, world_size=3, transport="none")
    assert Two(cpu=True).prepare(shared) is shared


def test_accelerate_imported_after_the_loader_was_made(images):
    program = f"""
import foreload
loader = foreload.DataLoader({str(images)!r}, 8, epochs=9)
import accelerate
accelerator = accelerate.Accelerator(cpu=True)
assert accelerator.prepare(loader) is loader
ends = [accelerator.gradient_state.end_of_dataloader for _ in loader]
assert ends == [False] * 6 + [True], ends
assert len(accelerate.skip_first_batches(loader, 2)) == 5
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_accelerate_prepares_others_as_before(accelerator):
    plain = torch.utils.data.DataLoader(torch.arange(10), 4)
    prepared = accelerator.prepare(plain)
    assert prepared is not plain
    skipping = accelerator.skip_first_batches(prepared, num_batches=1)
    assert [batch.tolist() for batch in skipping] == [[4, 5, 6, 7], [8, 9]]
    assert len(list(accelerator.skip_first_batches(plain))) == 3


def test_accelerate_ends_an_accumulation_with_the_epoch(accelerator, images):
    """7 batches in steps of 3: the seventh is a step of its own, as with torch's loader."""
    model, optimizer, loader = training(accelerator, make(images))
    plain = accelerator.prepare(torch.utils.data.DataLoader(torch.arange(COUNT), BATCH))
    steps = {}
    for name, batches in {"foreload": loader, "torch": plain}.items():
        steps[name] = []
        for _ in range(2):
            for batch in batches:
                with accelerator.accumulate(model):
                    steps[name].append(accelerator.sync_gradients)
                    if name == "foreload":
                        accelerator.backward(model(batch[0].flatten(1)).mean())
                    optimizer.step()
                    optimizer.zero_grad()
    assert steps["foreload"] == steps["torch"] == [False, False, True, False, False, True, True] * 2
    assert delivered(loader) == 2 * BATCHES
    assert not accelerator.gradient_state.in_dataloader


def test_accelerate_knows_the_loop_around_a_loop_that_was_left(accelerator, images):
    train, validation = accelerator.prepare(make(images), make(images, shuffle=False))
    ends = []
    for _ in train:
        for _ in validation:
            break
        ends.append(accelerator.gradient_state.end_of_dataloader)
    assert ends == [False] * (BATCHES - 1) + [True]


def test_accelerate_gathers_rows_of_the_last_batch(accelerator, images):
    """Also where more were made than it has samples, as Hugging Face's Trainer does."""
    loader = accelerator.prepare(make(images, shuffle=False))
    rows, losses, names = [], 0, []
    for _, _, indices in loader:
        gathered = accelerator.gather_for_metrics({"rows": indices, "loss": torch.ones(BATCH)})
        rows += gathered["rows"].tolist()
        losses += len(gathered["loss"])
        names += accelerator.gather_for_metrics([str(int(index)) for index in indices])
        assert accelerator.gather_for_metrics(torch.tensor(1.0)).shape == ()
    assert rows == list(range(COUNT))
    assert losses == COUNT
    assert names == [str(index) for index in rows]


@pytest.mark.parametrize("skips", [True, False])
@pytest.mark.parametrize(
    ("batches", "epoch", "batch"),
    [(BATCHES + 2, 1, 2), (BATCHES, 1, 0)],
    ids=["in the middle", "after the last batch"],
)
def test_accelerate_resumes(
    accelerate, accelerator, images, tmp_path, batches, epoch, batch, skips
):
    """save_state and load_state have the loader's state. A script that leaves out the batches that
    it knows were done does not leave out more."""
    _, _, loader = training(accelerator, make(images))
    seen = []
    while len(seen) < batches:
        for one in loader:
            seen.append(one)
            if len(seen) == batches:
                accelerator.save_state(tmp_path)
                break

    again = accelerate.Accelerator(cpu=True)
    _, _, loader = training(again, make(images))
    again.load_state(tmp_path)
    first = accelerate.skip_first_batches(loader, batch) if skips else loader
    assert len(first) == BATCHES - (batch if skips else 0)
    assert samples(first) == order(epoch, batch)
    assert samples(loader) == order(epoch + 1)
    assert delivered(loader) == 2 * BATCHES - batch


def test_accelerate_skips_without_reading(accelerate, accelerator, images):
    """By the name under which a program has the function, whenever it was imported."""
    loader = accelerator.prepare(make(images))
    loader.set_epoch(3)
    view = accelerate.skip_first_batches(loader, num_batches=4)
    assert isinstance(view, torch.utils.data.DataLoader)
    assert view.dataset is loader.dataset
    assert len(view) == 3
    assert samples(view) == order(3, 4)
    assert loader.epoch_stats()["samples"] == COUNT - 4 * BATCH
    assert samples(accelerate.skip_first_batches(view, 2)) == order(4, 6)
    assert samples(accelerate.skip_first_batches(loader, BATCHES + 1)) == []
    assert delivered(loader) == 3 + 1


def test_accelerate_skips_batches_of_a_sampler(accelerate, accelerator, images):
    drawn = list(range(COUNT - 1, -1, -1))
    batches = [drawn[:5], drawn[5:20], drawn[20:]]
    loaders = {
        "sampler": make(images, shuffle=None, sampler=drawn),
        "batch_sampler": foreload.DataLoader(
            images, batch_sampler=batches, transform=CHAIN, return_index=True, epochs=9
        ),
    }
    for loader in loaders.values():
        view = accelerate.skip_first_batches(accelerator.prepare(loader), 1)
        assert samples(view) == drawn[BATCH if loader is loaders["sampler"] else 5 :]
        assert samples(loader) == drawn


def test_accelerate_state_in_a_loop_that_skips(accelerate, accelerator, images):
    loader = accelerator.prepare(make(images))
    loop = iter(accelerate.skip_first_batches(loader, 3))
    next(loop)
    again = make(images)
    again.load_state_dict(loader.state_dict())
    assert samples(again) == order(0, 4)


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(range(10))


def test_accelerate_prepares_a_stream(accelerate, accelerator, tmp_path):
    loader = accelerator.prepare(foreload.DataLoader(Stream(), 4, num_workers=0))
    assert accelerator._dataloaders == [loader]
    assert [batch.tolist() for batch in loader] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert delivered(loader) == 3
    next(iter(loader))
    accelerator.save_state(tmp_path)
    again = accelerate.Accelerator(cpu=True)
    loader = again.prepare(foreload.DataLoader(Stream(), 4, num_workers=0))
    again.load_state(tmp_path)
    assert [batch.tolist() for batch in loader] == [[4, 5, 6, 7], [8, 9]]


def test_a_loader_that_nobody_prepared_leaves_accelerate_alone(accelerator, images):
    loader = make(images)
    for _ in loader:
        assert not accelerator.gradient_state.in_dataloader
    loop = iter(loader)
    for _ in range(BATCHES):
        next(loop)
    assert loader.state_dict()["epoch"] == 1  # the loop has not come to its end


# Hugging Face's Trainer


@pytest.fixture(scope="module")
def hugging_face():
    transformers = pytest.importorskip("transformers")

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3 * SIZE * SIZE, 2)
            self.seen = []

        def forward(self, pixel_values, labels, indices):
            if self.training:
                self.seen += indices.tolist()
            scores = self.layer(pixel_values.flatten(1))
            return {"loss": scores.mean(), "logits": indices}

    class Trainer(transformers.Trainer):
        def __init__(self, folder, output, **more):
            self.loaders = {
                "train": make(folder, batch_transform=named),
                "eval": make(folder, batch_transform=named, shuffle=False),
            }
            arguments = transformers.TrainingArguments(
                output_dir=str(output),
                num_train_epochs=2,
                per_device_eval_batch_size=BATCH,
                use_cpu=True,
                report_to=[],
                disable_tqdm=True,
                **more,
            )
            super().__init__(
                Model(),
                arguments,
                train_dataset=self.loaders["train"].dataset,
                eval_dataset=self.loaders["eval"].dataset,
                compute_metrics=self.note_metrics,
            )

        def get_train_dataloader(self):
            return self.accelerator.prepare(self.loaders["train"])

        def get_eval_dataloader(self, eval_dataset=None):
            return self.accelerator.prepare(self.loaders["eval"])

        def note_metrics(self, found):
            self.predicted = found.predictions.tolist()
            return {}

    return Trainer


def named(batch):
    images, labels, indices = batch
    return {"pixel_values": images, "labels": labels % 2, "indices": indices}


def test_hugging_face_resumes_with_the_next_batch(hugging_face, images, tmp_path):
    whole = hugging_face(images, tmp_path, save_steps=BATCHES + 2)
    whole.train()
    assert whole.model.seen == order(0) + order(1)
    assert delivered(whole.loaders["train"]) == 2 * BATCHES

    rest = hugging_face(images, tmp_path)
    rest.train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{BATCHES + 2}"))
    assert rest.model.seen == order(1, 2)
    assert delivered(rest.loaders["train"]) == BATCHES - 2
    last = [json.dumps(one.state.log_history[-1]["step"]) for one in (whole, rest)]
    assert last == [str(2 * BATCHES)] * 2


def test_hugging_face_accumulates_and_evaluates(hugging_face, images, tmp_path):
    trainer = hugging_face(images, tmp_path, gradient_accumulation_steps=3, eval_strategy="epoch")
    trainer.train()
    assert trainer.model.seen == order(0) + order(1)
    assert trainer.state.global_step == 2 * 3
    assert trainer.predicted == list(range(COUNT))
    assert delivered(trainer.loaders["eval"]) == 2 * BATCHES
