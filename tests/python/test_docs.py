# SPDX-License-Identifier: Apache-2.0
"""What README.md and the guides show has been run: every Python block, and every foreload command.

A block runs with what the blocks before it left, on a small data set and with small budgets. One
that cannot run here begins with "# not run by the tests".
"""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import subprocess
import sys
import wave
from pathlib import Path

import numpy as np
import pytest

import foreload

ROOT = Path(__file__).parents[2]
GUIDES = ["README.md"] + [
    f"docs/{name}.md"
    for name in ("quickstart", "pytorch", "resume", "caches", "engine", "plan", "report")
]
RECIPES = "docs/recipes.md"
NOT_RUN = "# not run by the tests"
# What is large in the docs and small here.
SMALLER = [
    (r"\d+ ?[GT]iB", "8MiB"),
    (r"range\(90\)|range\(3\)", "range(2)"),
    (r"range\(first_epoch, 90\)", "range(first_epoch, 2)"),
    (r"max_epochs=90", "max_epochs=2"),
    (r"epochs=90", "epochs=2"),
    (r"num_workers=8", "num_workers=1"),
    (r"(imagenet_train|imagenet_eval|RandomResizedCrop)\(224\)", r"\1(8)"),
    (r"1_281_167", "1_281"),
    (r"/data/(imagenet/)?train", "train"),
    (r"/local/(nvme|cache)", "disk"),
]


def blocks(document: str, language: str) -> list[tuple[int, str]]:
    """Line and text of each block of code."""
    text = (ROOT / document).read_text("utf-8")
    found = re.finditer(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [(text.count("\n", 0, match.start(1)), match[1]) for match in found]


def smaller(text: str) -> str:
    for pattern, small in SMALLER:
        text = re.sub(pattern, small, text)
    return text


@pytest.fixture
def place(images, tmp_path, monkeypatch) -> Path:
    """A folder with the data sets that the docs talk about."""
    for name in ("train", "val"):
        (tmp_path / name).symlink_to(images)
    (tmp_path / "disk").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names_of(document: str, monkeypatch) -> dict[str, object]:
    """What a user has before the first block of a guide."""
    torch = pytest.importorskip("torch")
    chain = foreload.transforms.Compose(
        [foreload.transforms.Resize((8, 8)), foreload.transforms.ToDtype("float32", scale=True)]
    )
    names: dict[str, object] = {"__name__": "guide", "foreload": foreload, "np": np, "torch": torch}
    names |= {"chain": chain, "transform": chain}
    if document == "docs/quickstart.md":
        import real_torchvision  # noqa: F401 - so that torchvision can be imported
    if document == "docs/resume.md":
        names["loader"] = foreload.DataLoader("train", 8, shuffle=True, transform=chain)
    if document == "docs/pytorch.md":
        for name, value in {"RANK": 0, "WORLD_SIZE": 1, "MASTER_PORT": 0}.items():
            monkeypatch.setenv(name, str(value))
        monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
        names |= training_names(torch, chain)
    return names


def training_names(torch, chain) -> dict[str, object]:
    lightning = pytest.importorskip("lightning")

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3 * 8 * 8, 3)

        def training_step(self, batch, _):
            images, labels = batch
            return torch.nn.functional.cross_entropy(self.layer(images.flatten(1)), labels)

        def validation_step(self, batch, step):
            self.training_step(batch, step)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    class Classifier(Model):
        def forward(self, pixel_values, labels):
            loss = self.training_step((pixel_values, labels), 0)
            return {"loss": loss, "logits": self.layer(pixel_values.flatten(1))}

    model = Model()
    return {
        "model": model,
        "classifier": Classifier(),
        "optimizer": model.configure_optimizers(),
        "train": foreload.DataLoader("train", 16, shuffle=True, transform=chain),
        "validation": foreload.DataLoader("val", 16, transform=chain),
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("document", GUIDES)
def test_python_blocks_run(document, place, monkeypatch):
    found = blocks(document, "python")
    assert found
    names = names_of(document, monkeypatch)
    model = names.get("model")
    for line, text in found:
        if text.startswith(NOT_RUN):
            continue
        code = compile("\n" * line + smaller(text), str(ROOT / document), "exec")
        exec(code, names)
        names["model"] = model  # each block about training begins with a fresh one
    if names["torch"].distributed.is_initialized():
        names["torch"].distributed.destroy_process_group()
    for value in names.values():
        if isinstance(value, foreload.DataLoader | foreload.ServedDataset):
            value.close()


def recipes() -> dict[str, list[tuple[int, str]]]:
    """The blocks of docs/recipes.md by heading."""
    text = (ROOT / RECIPES).read_text("utf-8")
    starts = [(m[1], text.count("\n", 0, m.start())) for m in re.finditer(r"(?m)^## (.*)$", text)]
    found: dict[str, list[tuple[int, str]]] = {}
    for line, block in blocks(RECIPES, "python"):
        name = [heading for heading, start in starts if start < line][-1]
        found.setdefault(name, []).append((line, block))
    return found


def save_photos(folder: Path, count: int) -> list[str]:
    image = pytest.importorskip("PIL.Image")
    folder.mkdir(parents=True)
    random = np.random.default_rng(count)
    names = [f"{number}.jpg" for number in range(count)]
    for name in names:
        image.fromarray(random.integers(0, 256, (24, 20, 3), dtype=np.uint8)).save(folder / name)
    return names


def save_table(file: Path, *rows: tuple[object, ...]) -> None:
    with file.open("w", newline="") as text:
        csv.writer(text).writerows(rows)


@pytest.fixture
def recipe_data(place) -> Path:
    """A folder with what the recipes read."""
    image = pytest.importorskip("PIL.Image")
    names = save_photos(place / "faces", 10)
    save_table(place / "faces.csv", ("file", "age"), *((name, 30.5) for name in names))
    points = [{"file": name, "points": [[3, 4], [9, 4]]} for name in names]
    (place / "faces.json").write_text(json.dumps(points))
    for name in save_photos(place / "cells" / "images", 10):
        mask = place / "cells" / "masks" / Path(name).with_suffix(".png")
        mask.parent.mkdir(exist_ok=True)
        image.fromarray(np.eye(24, 20, dtype=np.uint8)).save(mask)
    boxes = [
        {"file": name, "boxes": [[1, 2, 5, 6]] * number}
        for number, name in enumerate(save_photos(place / "street" / "images", 10))
    ]
    (place / "street" / "boxes.json").write_text(json.dumps(boxes))
    for number in range(10):
        review = place / "reviews" / f"class{number % 2}" / f"{number}.txt"
        review.parent.mkdir(parents=True, exist_ok=True)
        review.write_text("good " * (number + 1))
        spectrum = place / "spectra" / f"class{number % 2}" / f"{number}.npy"
        spectrum.parent.mkdir(parents=True, exist_ok=True)
        np.save(spectrum, np.full((20, 24), number, np.float32))
        sound = place / "sounds" / f"{number}.wav"
        sound.parent.mkdir(exist_ok=True)
        with wave.open(str(sound), "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            file.writeframes(np.arange(4000 * (number + 1), dtype=np.int16).tobytes())
    np.save(place / "tokens.npy", np.arange(1000, dtype=np.uint16))
    np.save(place / "features.npy", np.ones((100, 5), np.float32))
    np.save(place / "targets.npy", np.arange(100))
    for name, count in (("day", 20), ("night", 10)):
        rows = [(photo, 1) for photo in save_photos(place / name, count)]
        save_table(place / f"{name}.csv", ("file", "label"), *rows)
    return place


def run_blocks(found: list[tuple[int, str]]) -> dict[str, object]:
    """What the blocks of a recipe leave; they have nothing before they run."""
    names: dict[str, object] = {"__name__": "recipe"}
    try:
        for line, text in found:
            exec(compile("\n" * line + smaller(text), str(ROOT / RECIPES), "exec"), names)
    finally:
        for value in names.values():
            if isinstance(value, foreload.DataLoader | foreload.ServedDataset):
                value.close()
    return names


SHAPES = {  # of what the last batch leaves under a name, where a comment of the recipe says it
    "Your own Dataset": ("batch", {"image": (10, 64, 64, 3), "points": (10, 2, 2)}),
    "Image and mask": ("batch", {"image": (2, 3, 16, 16), "mask": (2, 1, 16, 16)}),
    "Albumentations": ("images", (50, 3, 32, 32)),
    "OpenCV": ("images", (50, 3, 32, 32)),
    "Text": ("targets", (7, 128)),
    "Arrays": ("arrays", (10, 1, 16, 16)),
    "Tabular data": ("rows", (36, 5)),
    "TensorDataset": ("batch", {"x": (36, 5), "y": (36,)}),
    "Hugging Face datasets": ("batch", {"input_ids": (4, 3), "labels": (4,)}),
    "IterableDataset": ("lengths", (1,)),
    "Audio": ("sounds", (2, 8000)),
    "Splitting a folder": ("images", (5, 3, 8, 8)),
    "MixUp and CutMix": ("labels", (2, 3)),
}


def shapes_of(value):
    if isinstance(value, dict):
        return {key: tuple(entry.shape) for key, entry in value.items()}
    return tuple(value.shape)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("recipe", recipes())
def test_recipe_gives_what_it_says(recipe, recipe_data, monkeypatch):
    monkeypatch.setenv("NO_ALBUMENTATIONS_UPDATE", "1")  # it would ask the network for a newer one
    for module in ("torch", "lightning", "accelerate", "albumentations", "cv2", "datasets"):
        pytest.importorskip(module)
    names = run_blocks(recipes()[recipe])
    if recipe in SHAPES:
        name, shapes = SHAPES[recipe]
        assert shapes_of(names[name]) == shapes


def test_recipe_for_resuming_goes_on_after_an_interruption(recipe_data, monkeypatch):
    torch = pytest.importorskip("torch")
    loop = recipes()["Resume in a trainer"][:1]
    replace = os.replace

    def interrupted(*arguments):
        replace(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_blocks(loop)
    monkeypatch.setattr(os, "replace", replace)
    assert torch.load("run.pt")["epoch"] == 0
    assert run_blocks(loop)["saved"]["loader"]["consumed"] == 32
    assert torch.load("run.pt")["epoch"] == 1


@pytest.mark.filterwarnings("ignore")
def test_recipe_for_lightning_goes_on_with_the_sixth_batch(recipe_data):
    pytest.importorskip("lightning")
    loop, (line, text) = recipes()["Resume in a trainer"][:2]
    unpacking = "        images, labels = batch\n"
    text = text.replace(unpacking, unpacking + "        seen.append(images.sum().item())\n")
    seen = run_blocks([loop, (0, "seen = []"), (line, text)])["seen"]
    assert len(seen) == 8 + 3
    assert seen[8:] == seen[5:8]


def test_recipe_for_a_job_array_gives_each_task_a_cache(recipe_data, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "3")
    run_blocks(recipes()["A job array on one node"])
    assert [path.name for path in (recipe_data / "disk").iterdir()] == ["task-3"]


def test_blocks_that_start_processes_run_as_a_script(place):
    """Those of the guide to transforms, in which processes import the script again."""
    found = blocks("docs/transforms.md", "python")
    last = found.pop()[1]
    assert last.startswith("if __name__")
    assert 'workers="process"' in last
    text = "\n".join(smaller(block) for _, block in found)
    text += smaller(last) + "    print(sum(len(labels) for _, labels in loader))\n"
    (place / "guide.py").write_text(text, "utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "guide.py"], capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "50\n", done.stderr


def test_every_page_is_in_the_index():
    text = (ROOT / "docs/README.md").read_text("utf-8")
    names = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert names <= set(re.findall(r"\]\(([\w.-]+\.md)", text))


def commands(document: str) -> list[str]:
    """Commands of foreload that are shown with a prompt."""
    text = (ROOT / document).read_text("utf-8")
    shown = re.findall(r"^\$ (?:\.venv/bin/)?foreload ((?:.*\\\n)*.*)$", text, re.MULTILINE)
    return [command.replace("\\\n", " ") for command in shown]


def test_commands_of_the_readme_run(program, place):
    found = commands("README.md")
    assert [command.split()[0] for command in found] == ["plan", "read", "launch"]
    for command in found:
        words = shlex.split(smaller(command).replace(".venv/bin/foreload", program))
        done = subprocess.run([program, *words], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, (command, done.stderr)
        assert done.stdout
