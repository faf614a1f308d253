# SPDX-License-Identifier: Apache-2.0
"""What README.md and the guides show has been run: every Python block, and every foreload command.

A block runs with what the blocks before it left, on a small data set and with small budgets. One
that cannot run here begins with "# not run by the tests".
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import foreload

ROOT = Path(__file__).parents[2]
GUIDES = ["README.md"] + [
    f"docs/{name}.md"
    for name in ("quickstart", "pytorch", "resume", "caches", "engine", "plan", "report")
]
NOT_RUN = "# not run by the tests"
# What is large in the docs and small here.
SMALLER = [
    (r"\d+ ?[GT]iB", "8MiB"),
    (r"range\(90\)|range\(3\)", "range(2)"),
    (r"max_epochs=90", "max_epochs=2"),
    (r"epochs=90", "epochs=2"),
    (r"num_workers=8", "num_workers=1"),
    (r"(imagenet_train|RandomResizedCrop)\(224\)", r"\1(8)"),
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


class ImageFolder:
    """torchvision's, as far as the docs use it."""

    def __init__(self, root, transform=None):
        index = foreload.list_folder(root)
        files = sorted(Path(root).rglob("*.*"))
        self.samples = list(zip(map(str, files), index.labels.tolist(), strict=True))
        self.transform = transform

    def __len__(self):
        return len(self.samples)


def names_of(document: str, monkeypatch) -> dict[str, object]:
    """What a user has before the first block of a guide."""
    torch = pytest.importorskip("torch")
    chain = foreload.transforms.Compose(
        [foreload.transforms.Resize((8, 8)), foreload.transforms.ToDtype("float32", scale=True)]
    )
    names: dict[str, object] = {"__name__": "guide", "foreload": foreload, "np": np, "torch": torch}
    names |= {"chain": chain, "transform": chain}
    if document == "docs/quickstart.md":
        vision = types.ModuleType("torchvision")
        vision.datasets = types.SimpleNamespace(ImageFolder=ImageFolder)
        monkeypatch.setitem(sys.modules, "torchvision", vision)
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

    model = Model()
    return {
        "model": model,
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
