"""Drive one elastic job: start it, follow its ledger, kill, rescale, and check what it left."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from staves.engines.local import RunFolder, ask
from tests.training.launch import command, ended, started

SCRIPT = Path(__file__).parent / "scripts" / "worker.py"
_LOOK = 0.004  # seconds between two looks at a condition
PATIENCE = 120.0  # far beyond what a quiet machine needs


AT_ONCE = {"fixed": "1ms", "per_sample": "0ms"}


def cluster(folder: Path, devices: int, *, emulated: bool = False) -> Path:
    """Write a cluster file of nodes with one device each: a node's quarantine is its own."""
    kind = "emulated" if emulated else "local-cpu"
    nodes = [{"name": f"node{n}", "devices": {kind: 1}} for n in range(devices)]
    document: dict[str, Any] = {"nodes": nodes}
    if emulated:
        document["types"] = {kind: {"emulate": {"forward": AT_ONCE, "backward": AT_ONCE}}}
    path = folder / f"devices-{devices}.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


class Job:
    """A job under `staves run`; `folder` belongs to its script, `home` to Staves."""

    def __init__(self, folder: Path, process: subprocess.Popen[str], home: Path) -> None:
        self.folder, self.process, self.home = folder, process, home
        self.allowed = 0
        self.ledger_path: Path | None = None

    # -- its ledger

    def run_folder(self) -> RunFolder:
        return RunFolder.find(self.home, "latest")

    def rows(self, kind: str) -> list[dict[str, Any]]:
        path = self.ledger_path
        if path is None:
            kept = list((self.home / "runs").glob("*/ledger.json"))
            if not kept:
                return []
            with contextlib.suppress(ValueError):
                path = self.ledger_path = Path(json.loads(kept[-1].read_text())["path"])
        if path is None or not path.exists():
            return []
        lines = path.read_text().split("\n")[:-1]
        return [row for row in map(json.loads, lines) if row["kind"] == kind]

    def steps(self) -> int:
        """How many steps the newest generation has committed."""
        rows = self.rows("step")
        return 1 + rows[-1]["step"] if rows else 0

    def members(self) -> list[int]:
        rows = self.rows("generation")
        return list(rows[-1]["members"]) if rows else []

    # -- its pace

    def allow(self, steps: int) -> None:
        """Let the script begin steps below that."""
        self.allowed = steps
        part = self.folder / "allow.part"
        part.write_text(str(steps))
        part.rename(self.folder / "allow")

    def until(self, ready: Callable[[], bool], *, crawl: float = 0.2, what: str = "") -> None:
        """Let steps come slowly until `ready`."""
        start, due = time.monotonic(), 0.0
        end = start + PATIENCE
        while not ready():
            if self.process.poll() is not None:
                _, stderr = self.process.communicate()
                pytest.fail(f"it ended before {what} {self.rows('generation')}: {stderr[-6000:]}")
            now = time.monotonic()
            assert now < end, f"waited for {what or ready} in vain: {self.members()}"
            if now >= due:
                # A busy machine starts newcomers slowly: do not run out of steps meanwhile.
                due = now + (crawl if now - start < 10 else 2.0)
                self.allow(max(self.allowed, self.steps()) + 1)
            time.sleep(_LOOK)

    def until_step(self, step: int) -> None:
        """Train at full speed until that many steps are committed."""
        self.allow(max(self.allowed, step + 1))
        self.until(lambda: self.steps() >= step, what=f"step {step}")

    def until_world(self, size: int, *, without: int | None = None) -> None:
        """Train slowly until that many train together, and have committed a step together."""

        def formed() -> bool:
            rows = self.rows("generation")
            members = rows[-1]["members"] if rows else []
            if len(members) != size or without in members:
                return False
            steps = self.rows("step")
            return bool(steps) and steps[-1]["generation"] == rows[-1]["generation"]

        self.until(formed, what=f"{size} members, without {without}")

    # -- what is done to it

    def pid(self, member: int) -> int:
        path, end = self.folder / "pids" / str(member), time.monotonic() + 5
        while not path.read_text():  # made, and about to be written
            assert time.monotonic() < end
        return int(path.read_text())

    def alive(self, member: int) -> bool:
        return not ended(self.pid(member))

    def signal(self, member: int, number: int = signal.SIGKILL) -> None:
        os.kill(self.pid(member), number)

    def kill(self, member: int) -> float:
        """Kill a member; return the seconds until the others train on without it."""
        self.signal(member)
        return self.reform_seconds(member)

    def reform_seconds(self, member: int) -> float:
        """Seconds from now until a generation without the member has committed a step."""
        start = time.monotonic()

        def formed() -> bool:
            rows = self.rows("generation")
            steps = self.rows("step")
            number = rows[-1]["generation"]
            return member not in rows[-1]["members"] and steps[-1]["generation"] == number

        self.until(formed, crawl=0.02, what=f"a generation without {member}")
        return time.monotonic() - start

    def kill_store(self) -> None:
        """Kill the supervisor's rendezvous store."""
        stores = [
            pid
            for pid in map(int, _children(self.process.pid))
            if b"staves.training.store" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        os.kill(stores[-1], signal.SIGKILL)

    def kill_supervisor(self) -> None:
        """Kill the supervisor; its workers must follow within seconds."""
        workers = [self.pid(member) for member in self.members()]
        self.process.kill()
        self.process.wait(timeout=10)
        for pid in workers:
            assert ended(pid, timeout=10)

    def stall(self, member: int) -> Path:
        """Have a member wait in its loop, until the file is removed; it waits by now."""
        path, stuck = self.folder / f"stall-{member}", self.folder / f"stalled-{member}"
        path.touch()
        self.until(stuck.exists, crawl=0.02, what=f"{member} to stall")
        return path

    def scale(self, count: int) -> None:
        ask(self.run_folder(), scale=count)

    # -- how it ends

    def finish(self) -> dict[str, Any]:
        """Let it train to its end; return its figures, having proved that it left nothing."""
        with contextlib.suppress(FileNotFoundError):
            (self.folder / "allow").unlink()
        stdout, stderr = self.process.communicate(timeout=PATIENCE)
        (self.folder / "stderr").write_text(stderr)
        assert self.process.returncode == 0, stderr[-4000:]
        assert "Traceback" not in stderr, stderr[-4000:]
        for path in (self.folder / "pids").iterdir():
            assert ended(int(path.read_text()), timeout=5), f"member {path.name} lives on"
        figures: dict[str, Any] = json.loads(stdout)
        figures["stderr"] = stderr
        return figures

    def prove(self) -> dict[str, Any]:
        """Ask `staves doctor`; each sample must have been trained once an epoch."""
        done = command(["-m", "staves", "doctor", "--job", "latest", "--json"], self.home)
        proof: dict[str, Any] = json.loads(done.stdout)
        assert done.status == 0, proof["problems"]
        assert proof["exactly_once"] is True
        return proof


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


@contextlib.contextmanager
def job(
    folder: Path,
    devices: int,
    *options: object,
    faults: Sequence[dict[str, Any]] = (),
    script: Path = SCRIPT,
    paced: bool = True,
    emulated: bool = False,
    environ: Mapping[str, str] | None = None,
) -> Iterator[Job]:
    """Start a job on that many devices; it is ended when the block is left."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("result.pt", "allow"):
        (folder / name).unlink(missing_ok=True)
    (folder / "faults.json").write_text(json.dumps(list(faults)))
    if paced:
        (folder / "allow").write_text("2")
    home = folder / f"home-{time.monotonic_ns()}"
    file = cluster(folder, devices, emulated=emulated)
    words = ["-m", "staves", "run", "--json", "--devices", file, *options]
    with started([*words, script, folder], home, environ=environ) as process:
        yield Job(folder, process, home)


def alone(folder: Path) -> dict[str, Any]:
    """Return what one process without interruption ends with."""
    folder.mkdir(parents=True, exist_ok=True)
    done = command([SCRIPT, folder], folder / "home")
    assert done.status == 0, done.stderr
    return result(folder)


def result(folder: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = torch.load(folder / "result.pt", weights_only=True)
    return loaded


def largest_error(found: Any, wanted: Any) -> float:
    """Return the largest relative difference between two nested results of one shape."""
    if isinstance(wanted, torch.Tensor):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        scale = max(float(wanted.abs().max()), 1e-12) if wanted.numel() else 1.0
        return float((found - wanted).abs().max()) / scale if wanted.numel() else 0.0
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        return max((largest_error(found[k], wanted[k]) for k in wanted), default=0.0)
    if isinstance(wanted, (list, tuple)):
        assert len(found) == len(wanted)
        pairs = zip(found, wanted, strict=True)
        return max((largest_error(f, w) for f, w in pairs), default=0.0)
    if isinstance(wanted, float):
        return float(abs(found - wanted)) / max(abs(wanted), 1e-12)
    assert found == wanted, (found, wanted)
    return 0.0
