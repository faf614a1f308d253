# SPDX-License-Identifier: Apache-2.0
"""File systems that others wrote, each serving a folder over loopback at a temporary mount point.

Each is a context manager that yields the folder to read. Everything that it starts ends with it,
and nothing listens on anything but 127.0.0.1. Needs root, for mounting and for GlusterFS.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "engine"))

from slowfs import SlowFs

PATIENCE = 40.0  # seconds until something that was started is there
ADDRESS = "127.0.0.1"
Mount = Callable[[Path, Path], AbstractContextManager[Path]]


def until(there: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not there():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} is not there after {PATIENCE:.0f} s")
        time.sleep(0.05)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind((ADDRESS, 0))
        return int(listener.getsockname()[1])


def answers(port: int) -> bool:
    with socket.socket() as client:
        client.settimeout(1)
        return client.connect_ex((ADDRESS, port)) == 0


def call(*command: object) -> None:
    subprocess.run(
        [str(word) for word in command], check=True, stdout=subprocess.DEVNULL, timeout=120
    )


@contextmanager
def running(log: Path, *command: object) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen([str(word) for word in command], stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def mount_point(folder: Path) -> Iterator[Path]:
    """An empty folder, unmounted at the end whatever happened."""
    folder.mkdir()
    try:
        yield folder
    finally:
        if os.path.ismount(folder):
            subprocess.run(["umount", "-l", str(folder)], check=False)


def fill(source: Path, target: Path) -> None:
    for folder in filter(Path.is_dir, sorted(source.iterdir())):
        shutil.copytree(folder, target / folder.name)


@contextmanager
def glusterfs(data: Path, work: Path) -> Iterator[Path]:
    """One brick and its mount, with a daemon of their own."""
    state, brick, sock = work / "state", work / "brick", work / "glusterd.socket"
    state.mkdir()
    volfile = work / "glusterd.vol"
    volfile.write_text(
        f"""volume management
    type mgmt/glusterd
    option working-directory {state}
    option run-directory {work}
    option glusterd-sockfile {sock}
    option transport-type socket
    option transport.socket.bind-address {ADDRESS}
    option transport.address-family inet
end-volume
"""
    )
    daemon = ["glusterd", "-N", "-f", volfile, "-l", work / "glusterd.log"]
    cli = ["gluster", "--mode=script", f"--glusterd-sock={sock}", "volume"]
    with ExitStack() as stack:
        mounted = stack.enter_context(mount_point(work / "mnt"))
        stack.enter_context(running(work / "daemon.log", *daemon, "-p", work / "glusterd.pid"))
        until(sock.exists, "glusterd")
        time.sleep(2)
        host = socket.gethostname()
        call(*cli, "create", "bench", f"{host}:{brick}", "force")
        call(*cli, "start", "bench")
        stack.callback(lambda: call(*cli, "stop", "bench", "force"))
        client = ["glusterfs", "-N", f"--volfile-server={host}", "--volfile-id=bench"]
        stack.enter_context(running(work / "client.log", *client, "-l", work / "fuse.log", mounted))
        until(lambda: os.path.ismount(mounted), "GlusterFS")
        fill(data, mounted)
        yield mounted
        subprocess.run(["umount", str(mounted)], check=False)


@contextmanager
def seaweedfs(data: Path, work: Path) -> Iterator[Path]:
    """Master, volume server and filer in one process, and the FUSE mount."""
    weed = os.environ.get("WEED") or shutil.which("weed") or "weed"
    master, volume, filer = free_port(), free_port(), free_port()
    store = work / "store"
    store.mkdir()
    server = [weed, "server", f"-dir={store}", "-filer", f"-ip={ADDRESS}", f"-ip.bind={ADDRESS}"]
    server += [f"-master.port={master}", f"-volume.port={volume}", f"-filer.port={filer}"]
    server += [f"-master.port.grpc={free_port()}", f"-volume.port.grpc={free_port()}"]
    server += [f"-filer.port.grpc={(grpc := free_port())}", "-master.volumeSizeLimitMB=64"]
    server += ["-volume.max=40"]
    with ExitStack() as stack:
        mounted = stack.enter_context(mount_point(work / "mnt"))
        stack.enter_context(running(work / "server.log", *server))
        until(lambda: answers(filer) and answers(volume) and answers(grpc), "SeaweedFS's server")
        time.sleep(3)
        client = [weed, "mount", f"-filer={ADDRESS}:{filer}.{grpc}", f"-dir={mounted}"]
        client += ["-filer.path=/", "-dirAutoCreate", f"-cacheDir={work / 'cache'}"]
        client += ["-cacheCapacityMB=0"]
        stack.enter_context(running(work / "client.log", *client))
        until(lambda: os.path.ismount(mounted), "SeaweedFS")
        fill(data, mounted)
        yield mounted
        subprocess.run(["umount", str(mounted)], check=False)


@contextmanager
def rclone(data: Path, work: Path) -> Iterator[Path]:
    """Its web server and its mount of that."""
    program = os.environ.get("RCLONE") or shutil.which("rclone") or "rclone"
    port = free_port()
    server = [program, "serve", "webdav", data, "--addr", f"{ADDRESS}:{port}", "--read-only"]
    with ExitStack() as stack:
        mounted = stack.enter_context(mount_point(work / "mnt"))
        stack.enter_context(running(work / "server.log", *server))
        until(lambda: answers(port), "rclone's server")
        client = [program, "mount", ":webdav:", mounted, "--webdav-url", f"http://{ADDRESS}:{port}"]
        client += ["--read-only", "--vfs-cache-mode", "off", "--config", work / "none"]
        stack.enter_context(running(work / "client.log", *client))
        until(lambda: os.path.ismount(mounted), "rclone's mount")
        yield mounted
        subprocess.run(["umount", str(mounted)], check=False)


@contextmanager
def sshfs(data: Path, work: Path) -> Iterator[Path]:
    """An SSH server with keys of its own, and sshfs."""
    port = free_port()
    for name in ("host", "user"):
        call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", work / name)
    (work / "authorized").write_bytes((work / "user.pub").read_bytes())
    Path("/run/sshd").mkdir(exist_ok=True)
    settings = {
        "ListenAddress": f"{ADDRESS}:{port}",
        "HostKey": work / "host",
        "AuthorizedKeysFile": work / "authorized",
        "StrictModes": "no",
        "UsePAM": "no",
        "PermitRootLogin": "yes",
        "PidFile": "none",
        "Subsystem": "sftp internal-sftp",
    }
    config = work / "sshd_config"
    config.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    known = work / "known_hosts"
    known.write_text(f"[{ADDRESS}]:{port} {(work / 'host.pub').read_text()}")
    user = os.environ.get("USER") or "root"
    client = ["sshfs", "-f", "-p", port, f"{user}@{ADDRESS}:{data}", work / "mnt"]
    client += ["-o", f"IdentityFile={work / 'user'},UserKnownHostsFile={known},ro"]
    with ExitStack() as stack:
        mounted = stack.enter_context(mount_point(work / "mnt"))
        stack.enter_context(running(work / "sshd.log", "/usr/sbin/sshd", "-D", "-e", "-f", config))
        until(lambda: answers(port), "sshd")
        stack.enter_context(running(work / "client.log", *client))
        until(lambda: os.path.ismount(mounted), "sshfs")
        yield mounted
        subprocess.run(["umount", str(mounted)], check=False)


def drawn(number: int) -> Mount:
    """slowfs with settings drawn from a number."""

    @contextmanager
    def slow(data: Path, work: Path) -> Iterator[Path]:
        with SlowFs(data, draw=number) as mounted:
            yield mounted.path

    return slow


@contextmanager
def ten_threads(data: Path, work: Path) -> Iterator[Path]:
    """slowfs with ten threads that keeps no names and no attributes."""
    costs = {"open_ms": 4, "read_ms": 1, "stat_ms": 0.5, "lookup_ms": 0.5, "bandwidth": "60MB"}
    with SlowFs(data, server_threads=10, name_seconds=0, page_cache=1, **costs) as mounted:
        yield mounted.path
