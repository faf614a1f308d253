# SPDX-License-Identifier: Apache-2.0
"""docs/api.md says what the docstrings say."""

import subprocess
import sys
from pathlib import Path

import foreload

ROOT = Path(__file__).parents[2]


def test_the_reference_is_up_to_date():
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "make_api_docs.py", "--check"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def test_everything_offered_is_in_it():
    text = (ROOT / "docs" / "api.md").read_text("utf-8")
    constants = {"NO_OWNER", "__version__", "transforms"}
    for name in set(foreload.__all__) - constants:
        assert f"\n### {name}\n" in text
