# SPDX-License-Identifier: Apache-2.0
"""Every example runs and says something, and what they promise is true."""

import pathlib
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_example_runs(example: pathlib.Path, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # what it generates goes when the test does
    done = subprocess.run(
        [sys.executable, example], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert "NOT" not in done.stdout


def test_losses_are_those_of_torch_to_the_last_digit(tmp_path, monkeypatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(FOLDER)
    import small_images
    import train

    folder = small_images.make_images(tmp_path)
    ours = train.train(train.foreload_loader(folder))
    theirs = train.train(train.torch_loader(folder))
    assert ours == theirs
    assert len(ours) == 18
    assert ours[-1] < ours[0]
