"""Start `staves run` and its like as subprocesses, away from this machine's own Staves home."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import staves

ROOT = Path(__file__).parents[2]
SCRIPTS = Path(__file__).parent / "scripts"

Emulated = Mapping[str, Mapping[str, Any]]
"""Profiles by type name, as they stand under `emulate` in a cluster file."""


@dataclass(frozen=True, slots=True)
class Launched:
    """What a finished command left."""

    status: int
    stdout: str
    stderr: str

    @property
    def figures(self) -> dict[str, Any]:
        """The one line of JSON that `--json` prints."""
        assert self.status == 0, self.stderr
        (line,) = self.stdout.splitlines()
        figures: dict[str, Any] = json.loads(line)
        return figures


def cluster_file(
    folder: Path, devices: int | Mapping[str, int] = 1, emulate: Emulated | None = None
) -> Path:
    """Write a cluster file of one node: that many CPU workers, or devices of those types."""
    named = {"local-cpu": devices} if isinstance(devices, int) else dict(devices)
    document: dict[str, Any] = {"nodes": [{"name": "box", "devices": named}]}
    if emulate:
        document["types"] = {name: {"emulate": dict(each)} for name, each in emulate.items()}
    path = folder / "devices.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


def environment(home: Path) -> dict[str, str]:
    """Return this process's environment, without what a launcher may have left in it."""
    ours = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    environ = {
        name: value
        for name, value in os.environ.items()
        if name not in ours and not name.startswith("STAVES_")
    }
    paths = [str(Path(staves.__file__).parents[1]), str(ROOT), environ.get("PYTHONPATH", "")]
    environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    environ["STAVES_HOME"] = str(home)
    environ["GLOO_SOCKET_IFNAME"] = "lo"
    environ["COLUMNS"] = "200"
    return environ


def command(
    arguments: Sequence[object], home: Path, *, timeout: float = 120, cwd: Path | None = None
) -> Launched:
    """Run `python ARGUMENTS` to its end."""
    with started(arguments, home, cwd=cwd) as process:
        stdout, stderr = process.communicate(timeout=timeout)
        return Launched(process.returncode, stdout, stderr)


@contextlib.contextmanager
def started(
    arguments: Sequence[object],
    home: Path,
    *,
    cwd: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[str]]:
    """Run `python ARGUMENTS` meanwhile; it is ended when the block is left."""
    process = subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        env={**environment(home), **(environ or {})},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()


def staves_run(
    folder: Path,
    script: Path,
    *arguments: object,
    devices: int | Mapping[str, int] = 1,
    emulate: Emulated | None = None,
    options: Sequence[object] = ("--json",),
    timeout: float = 120,
) -> Launched:
    """Run SCRIPT under `staves run` on such devices, with staves' own `options`."""
    file = cluster_file(folder, devices, emulate)
    words = ["-m", "staves", "run", *options, "--devices", file, script, *arguments]
    return command(words, folder / "home", timeout=timeout, cwd=folder)


def free_port() -> int:
    """Return a port that is free on the loopback."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


class Roll:
    """A pipe on which processes announce themselves, so that a test needs no waiting loop."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        self._descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self._text = ""

    def lines(self, count: int, timeout: float = 60) -> list[str]:
        """Wait until `count` lines have come, and return them."""
        while self._text.count("\n") < count:
            ready, _, _ = select.select([self._descriptor], [], [], timeout)
            assert ready, f"only this came: {self._text!r}"
            self._text += os.read(self._descriptor, 1 << 16).decode()
        return self._text.splitlines()

    def close(self) -> None:
        os.close(self._descriptor)


def ended(pid: int, timeout: float = 0.0) -> bool:
    """Whether the process has ended (a zombie has), waiting for that up to `timeout` seconds."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], timeout)[0])
    finally:
        os.close(descriptor)
