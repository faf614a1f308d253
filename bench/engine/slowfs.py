# SPDX-License-Identifier: Apache-2.0
"""slowfs from Python: mounts a folder at a temporary mount point, shaped and counted.

with SlowFs(folder, bandwidth="60MB", open_ms=4) as slow:
    ...  # read below slow.path
    slow.set(bandwidth="600MB")
    print(slow.counters()["read_bytes"])

Leaving the block unmounts and ends the process, also after an error; the process ends by itself if
this one is killed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from programs import built_program

CONTROL = ".slowfs-stats"


def find_program() -> Path | None:
    """The program as the project's builds leave it, or one on PATH."""
    found = built_program("slowfs/slowfs", "release", "dev") or shutil.which("slowfs")
    return Path(found) if found else None


def why_not(program: Path | None) -> str | None:
    """Why slowfs cannot run here, or None if it can."""
    if program is None:
        return "slowfs is not built: install libfuse3-dev and fuse3, then make build-release"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "/dev/fuse cannot be opened"
    return None


class SlowFs:
    def __init__(self, source: Path, program: Path | None = None, **settings: object) -> None:
        self.source = Path(source)
        self.settings = settings
        program = program or find_program()
        if reason := why_not(program):
            raise RuntimeError(reason)
        self.program = program
        self.path = Path()
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> SlowFs:
        self.path = Path(tempfile.mkdtemp(prefix="slowfs-"))
        command = [str(self.program), str(self.source), str(self.path), "--end-with-parent"]
        for name, value in self.settings.items():
            command += [f"--{name.replace('_', '-')}", str(value)]
        try:
            self.process = subprocess.Popen(command)
            self._wait_until_mounted(self.process)
            self.reset()
        except BaseException:
            self.close()
            raise
        return self

    def _wait_until_mounted(self, process: subprocess.Popen[bytes], limit: float = 10) -> None:
        stop = time.monotonic() + limit
        while not (self.path / CONTROL).exists():
            if process.poll() is not None:
                raise RuntimeError(f"slowfs ended with status {process.returncode}")
            if time.monotonic() > stop:
                raise TimeoutError(f"slowfs did not mount within {limit} s")
            time.sleep(0.01)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if os.path.ismount(self.path) or not os.access(self.path, os.F_OK):
            # Only after slowfs was killed: the kernel keeps a mount that nobody serves.
            subprocess.run(["umount", "-l", str(self.path)], check=False, capture_output=True)
        if self.path.is_dir():
            self.path.rmdir()

    def counters(self) -> dict[str, Any]:
        result: dict[str, Any] = json.loads((self.path / CONTROL).read_text("utf-8"))
        return result

    def reset(self) -> None:
        self._command("reset")

    def set(self, **settings: object) -> None:
        """Changes settings, the bandwidth also for the rest of reads under way."""
        for name, value in settings.items():
            self._command(f"{name.replace('_', '-')}={value}")

    def _command(self, line: str) -> None:
        control = os.open(self.path / CONTROL, os.O_WRONLY)
        try:
            os.write(control, line.encode())
        except OSError as error:
            raise ValueError(f"slowfs does not accept {line!r}") from error
        finally:
            os.close(control)
