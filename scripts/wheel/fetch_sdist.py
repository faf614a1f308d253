#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fetches a source distribution from the index that pip is set up for, and checks its hash.

    fetch_sdist.py NAME-VERSION.tar.gz SHA256 FOLDER

`pip download` would run the distribution's build system first; nothing of it is run here. Needs pip
in the interpreter that runs this, for its settings.
"""

import hashlib
import re
import subprocess
import sys
import urllib.parse
import urllib.request
from pathlib import Path

from pip._internal.models.index import PyPI  # the address pip falls back to


def settings() -> dict[str, str]:
    """What pip is told by its files and the environment, environment last."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    return {
        name.rpartition(".")[2]: value
        for name, value in re.findall(r"^([\w.:-]+)='(.*)'$", listed, re.MULTILINE)
    }


def links(index: str, project: str) -> list[str]:
    page = f"{index.rstrip('/')}/{project}/"
    with urllib.request.urlopen(page, timeout=60) as answer:
        found = re.findall(r'href="([^"]+)"', answer.read().decode())
    return [urllib.parse.urljoin(page, link) for link in found]


def main(file: str, sha256: str, folder: str) -> None:
    into = Path(folder) / file
    if into.exists() and hashlib.sha256(into.read_bytes()).hexdigest() == sha256:
        return
    told = settings()
    indexes = [told.get("index-url", PyPI.simple_url), *told.get("extra-index-url", "").split()]
    for index in indexes:
        try:
            found = links(index, file.rpartition("-")[0])
        except OSError:
            continue
        for link in found:
            if urllib.parse.urldefrag(link).url.endswith("/" + file):
                with urllib.request.urlopen(link, timeout=180) as answer:
                    data = answer.read()
                if hashlib.sha256(data).hexdigest() != sha256:
                    sys.exit(f"[wheel] {file} is not the one with the SHA-256 {sha256}: not used")
                into.parent.mkdir(parents=True, exist_ok=True)
                into.write_bytes(data)
                return
    sys.exit(f"[wheel] no package index that pip knows has {file}; put it into {folder} by hand")


if __name__ == "__main__":
    main(*sys.argv[1:])
