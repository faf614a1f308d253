# SPDX-License-Identifier: Apache-2.0
"""Programs of several processes for test_trainers_on_ranks.py: `trainer_jobs.py NAME FOLDER OUT`.

Each rank writes what it saw to OUT.RANK as JSON. Accelerate's ranks are started by the test, as a
launcher does; Lightning starts its second one itself.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import real_torchvision  # noqa: F401 - Lightning imports torchvision
import torch

import foreload

BATCH, SEED, SIZE = 4, 9, 4
CHAIN = foreload.transforms.Compose(
    [foreload.transforms.Resize((SIZE, SIZE)), foreload.transforms.ToDtype("float32", scale=True)]
)

warnings.simplefilter("ignore")


def make(folder: str, **more: Any) -> foreload.DataLoader:
    settings = {"shuffle": True, "seed": SEED, "num_workers": 1, "return_index": True, "epochs": 9}
    # On a busy machine one rank may be minutes behind the other.
    return foreload.DataLoader(folder, BATCH, transform=CHAIN, join_timeout=600, **settings | more)


def linear() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Linear(3 * SIZE * SIZE, 1)


def with_accelerate(folder: str, out: str) -> dict[str, Any]:
    import accelerate
    from accelerate import skip_first_batches

    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=3)
    found: dict[str, Any] = {"ranks": accelerator.num_processes}
    loader = make(folder)
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model, optimizer, prepared = accelerator.prepare(model, optimizer, loader)
    found["kept"] = prepared is loader

    def train(batches: Any, stop: int | None = None) -> list[int]:
        seen: list[int] = []
        for images, _, indices in batches:
            with accelerator.accumulate(model):
                found.setdefault("steps", []).append(accelerator.sync_gradients)
                accelerator.backward(model(images.flatten(1)).mean())
                optimizer.step()
                optimizer.zero_grad()
            seen += indices.tolist()
            if len(seen) == stop:
                break
        return seen

    found["train"] = [train(loader), train(loader, stop=2 * BATCH)]
    accelerator.save_state(out + ".state")
    accelerator.wait_for_everyone()
    found["weights"] = [value.sum().item() for value in model.parameters()]
    found["delivered"] = loader.stats()["delivered"]

    again = accelerate.Accelerator(cpu=True)
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model, optimizer, loader = again.prepare(model, optimizer, make(folder))
    again.load_state(out + ".state")
    rest = skip_first_batches(loader, 2)
    found["resumed"] = [batch[2].tolist() for batch in rest]
    found["resumed_delivered"] = loader.stats()["delivered"]

    def evaluated(batches: Any, index_of: Any) -> dict[str, Any]:
        rows: list[int] = []
        names: list[str] = []
        losses = 0
        for batch in batches:
            indices = index_of(batch)
            gathered = accelerator.gather_for_metrics((indices, torch.ones(BATCH)))
            rows += gathered[0].tolist()
            losses += len(gathered[1])
            names += accelerator.gather_for_metrics([str(one) for one in indices.tolist()])
        return {"rows": rows, "losses": losses, "names": names}

    loader = accelerator.prepare(make(folder, shuffle=False))
    found["evaluated"] = evaluated(loader, lambda batch: batch[2])
    plain = torch.utils.data.DataLoader(torch.arange(len(loader.dataset)), BATCH)
    found["evaluated_by_torch"] = evaluated(accelerator.prepare(plain), lambda batch: batch)
    with accelerator.join_uneven_inputs([model], even_batches=True):
        found["joined"] = sum(1 for _ in loader)
    return found


def with_lightning(folder: str, out: str) -> dict[str, Any]:
    import lightning
    from lightning.pytorch.callbacks import ModelCheckpoint

    class Model(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = linear()
            self.seen: list[int] = []

        def training_step(self, batch: Any, _: int) -> Any:
            self.seen += batch[2].tolist()
            return self.layer(batch[0].flatten(1)).mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    class Making(Model):
        """Makes its loader when it is asked for, after torch.distributed is ready."""

        def train_dataloader(self) -> Any:
            return make(folder)

    def trainer(*callbacks: Any, epochs: int = 2) -> Any:
        return lightning.Trainer(
            accelerator="cpu",
            devices=2,
            strategy="ddp",
            max_epochs=epochs,
            callbacks=list(callbacks),
            logger=False,
            enable_checkpointing=bool(callbacks),
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=Path(out).parent,
        )

    def fitted(model: Any, fitting: Any, *given: Any, **more: Any) -> dict[str, Any]:
        fitting.fit(model, *given, **more)
        used = fitting.train_dataloader
        return {
            "seen": model.seen,
            "class": f"{type(used).__module__}.{type(used).__qualname__}",
            "sampler": type(used.sampler).__module__,
            "delivered": used.stats()["delivered"],
        }

    found: dict[str, Any] = {}
    # Made by a process that does not know of the other one yet.
    found["early"] = fitted(Model(), trainer(), make(folder))
    keep = ModelCheckpoint(f"{out}.kept", "{step}", every_n_train_steps=9, save_top_k=-1)
    found["late"] = fitted(Making(), trainer(keep))
    found["resumed"] = fitted(Making(), trainer(), ckpt_path=f"{out}.kept/step=9.ckpt")

    fabric = lightning.Fabric(accelerator="cpu", devices=2, strategy="ddp")
    fabric.launch()
    loader = make(folder)
    batches = fabric.setup_dataloaders(loader)
    found["fabric"] = [[i for batch in batches for i in batch[2].tolist()] for _ in range(2)]
    found["fabric_delivered"] = loader.stats()["delivered"]
    return found


if __name__ == "__main__":
    name, folder, out = sys.argv[1:]
    found = {"accelerate": with_accelerate, "lightning": with_lightning}[name](folder, out)
    rank = torch.distributed.get_rank()
    Path(f"{out}.{rank}").write_text(json.dumps(found), "utf-8")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
